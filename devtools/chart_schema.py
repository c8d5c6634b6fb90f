"""Writes the schema of the configuration into that of the chart's values.

Run as `python -m devtools.chart_schema`. A test demands that the file in the repository is what
`complete` returns. The rest of the file is written by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
CONFIGURATION: Final = ROOT / "docs" / "kubestow.schema.json"
VALUES: Final = ROOT / "charts" / "kubestow" / "values.schema.json"


def complete(values: dict[str, Any], configuration: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the values with the definitions of the configuration's schema.

    Nothing is required of the value `config`: it is merged into the configuration of the base. A
    null means for Helm that a value is left out, so none is allowed, which shortens messages.
    """
    definitions = _without_null(configuration["$defs"])
    del definitions["KubeSchedulerConfiguration"]["required"]
    return {**values, "$defs": definitions}


def _without_null(schema: Any) -> Any:
    """Return a schema in which a choice between something and null is the former."""
    if isinstance(schema, list):
        return [_without_null(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _without_null(below) for name, below in schema.items()}
    choices = found.get("anyOf")
    if isinstance(choices, list) and {"type": "null"} in choices:
        choices.remove({"type": "null"})
        if len(choices) == 1:
            del found["anyOf"]
            found |= choices[0]
    return found


def main() -> None:
    """Write the file."""
    values = json.loads(VALUES.read_text(encoding="utf-8"))
    configuration = json.loads(CONFIGURATION.read_text(encoding="utf-8"))
    text = json.dumps(complete(values, configuration), indent=2)
    VALUES.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
