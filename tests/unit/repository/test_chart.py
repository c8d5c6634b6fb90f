"""The text of the Helm chart: versions, documented values, and a schema that knows them all.

What Helm renders from it is tested in tests/chart (`make chart`).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from devtools.chart_schema import complete
from tests.unit.repository.tree import ROOT

CHART: Final = ROOT / "charts" / "kubestow"
MANIFESTS: Final = ROOT / "manifests"
SCHEMA: Final[dict[str, Any]] = json.loads((CHART / "values.schema.json").read_text())
VALUES_TEXT: Final = (CHART / "values.yaml").read_text()
VALUES: Final[dict[str, Any]] = yaml.safe_load(VALUES_TEXT)
OPEN: Final = {
    "config", "plugins", "resources.requests", "resources.limits", "nodeSelector", "affinity",
    "podAnnotations", "monitoring.serviceMonitor.labels", "monitoring.prometheusRule.labels",
    "monitoring.dashboard.labels",
}  # fmt: skip
"""Maps whose keys the user chooses."""


def walk(
    values: dict[str, Any], schema: dict[str, Any], path: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield path, value and schema of every value."""
    for name, value in values.items():
        below = schema["properties"][name]
        yield f"{path}{name}", value, below
        if isinstance(value, dict) and f"{path}{name}" not in OPEN:
            yield from walk(value, below, f"{path}{name}.")


ALL: Final = list(walk(VALUES, SCHEMA))
TYPES: Final = {
    str: "string", bool: "boolean", int: "integer", list: "array", dict: "object",
}  # fmt: skip


def test_the_versions_are_those_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["version"] == chart["appVersion"] == project["version"]
    (image,) = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["images"]
    assert image["newTag"] == project["version"]


def test_the_chart_reads_the_manifests_themselves() -> None:
    assert (CHART / "manifests").is_symlink()
    assert (CHART / "manifests").resolve() == MANIFESTS
    read = re.findall(
        r'Files\.Get "(manifests/[^"]+)"',
        "".join(path.read_text() for path in (CHART / "templates").rglob("*.*")),
    )
    assert read
    assert not [name for name in read if not (CHART / name).is_file()]


def test_every_file_of_the_base_is_used() -> None:
    text = "".join(path.read_text() for path in (CHART / "templates").rglob("*.*"))
    base = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["resources"]
    missing = {name for name in base if f'"manifests/{name}"' not in text}
    assert missing == {"namespace.yaml"}, "Helm makes the namespace"
    folders = {path.name for path in (MANIFESTS / "components").iterdir()}
    assert not [name for name in folders if f"{name}/" not in text]


@pytest.mark.parametrize(("path", "value", "schema"), ALL, ids=[path for path, _, _ in ALL])
def test_a_value_meets_its_schema(path: str, value: Any, schema: dict[str, Any]) -> None:
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    assert TYPES[type(value)] in types
    assert value in schema.get("enum", [value])
    if isinstance(value, str):
        assert re.search(schema.get("pattern", ""), value)


def closed(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the path of every described object, and of those that items of a list are."""
    for name, below in schema.get("properties", {}).items():
        here = f"{path}{name}"
        if here in {*OPEN, "global"}:
            continue
        if below.get("type") == "object":
            assert below["additionalProperties"] is False, here
            yield here
        yield from closed(below, f"{here}.")
        yield from closed(below.get("items", {}), f"{here}[].")


def test_the_schema_knows_the_configuration() -> None:
    configuration = json.loads((ROOT / "docs" / "kubestow.schema.json").read_text())
    assert complete(SCHEMA, configuration) == SCHEMA, "run: make references"
    whole = SCHEMA["$defs"]["KubeSchedulerConfiguration"]
    assert SCHEMA["properties"]["config"]["$ref"] == "#/$defs/KubeSchedulerConfiguration"
    assert whole["additionalProperties"] is False
    assert "required" not in whole


def test_a_choice_with_null_is_the_other_choice() -> None:
    number, null = {"type": "integer"}, {"type": "null"}
    properties = {"a": {"anyOf": [number, null], "title": "A"}, "b": {"anyOf": [number, {}, null]}}
    whole = {"properties": properties, "required": ["a"]}
    found = complete({}, {"$defs": {"KubeSchedulerConfiguration": whole}})["$defs"]
    assert found["KubeSchedulerConfiguration"]["properties"] == {
        "a": {"type": "integer", "title": "A"},
        "b": {"anyOf": [number, {}]},
    }


def test_the_schema_refuses_unknown_values_and_has_no_more_than_there_are() -> None:
    assert SCHEMA["additionalProperties"] is False
    assert {"image", "networkPolicy.egress"} <= set(closed(SCHEMA))
    assert SCHEMA["properties"]["plugins"]["additionalProperties"] is False
    assert set(SCHEMA["properties"]) - {"global"} == set(VALUES)
    for path, value, schema in ALL:
        if isinstance(value, dict) and path not in OPEN:
            assert set(schema["properties"]) == set(value), path


def test_every_value_has_a_comment_above_it() -> None:
    lines = VALUES_TEXT.splitlines()
    keys = [n for n, line in enumerate(lines) if re.match(r" *(- )?[a-zA-Z]+:", line)]
    # A map of switches is described by what it contains.
    described = [n for n in keys if not re.fullmatch(r" *[a-zA-Z]+:", lines[n])]
    assert described
    assert not [lines[n] for n in described if not lines[n - 1].lstrip().startswith("#")]


def test_the_defaults_are_those_of_the_base() -> None:
    deployment = yaml.safe_load((MANIFESTS / "deployment.yaml").read_text())["spec"]
    pod = deployment["template"]["spec"]
    assert VALUES["replicas"] == deployment["replicas"]
    assert VALUES["resources"] == pod["containers"][0]["resources"]
    assert VALUES["priorityClassName"] == pod["priorityClassName"]
    spread = [
        {name: value for name, value in each.items() if name != "labelSelector"}
        for each in pod["topologySpreadConstraints"]
    ]
    assert VALUES["topologySpreadConstraints"] == spread
    budget = yaml.safe_load((MANIFESTS / "poddisruptionbudget.yaml").read_text())["spec"]
    assert VALUES["podDisruptionBudget"]["maxUnavailable"] == budget["maxUnavailable"]


def test_the_readme_names_every_value() -> None:
    text = (CHART / "README.md").read_text()
    top = [path for path, _, _ in ALL if "." not in path]
    assert not [name for name in top if f"`{name}" not in text]
