"""The layers in CONTRIBUTING.md: those of the import contract in pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_BLOCK: Final = re.compile(r"(?<=<!-- layers -->\n```\n).*?(?=\n```$)", re.DOTALL | re.MULTILINE)


def page() -> str:
    """Return CONTRIBUTING.md with the layers as they are checked."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return _BLOCK.sub(lambda _: "\n".join(_layers()), text, count=1)


def _layers() -> Iterator[str]:
    """Yield a line for each layer, the uppermost first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in settings["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            # Modules separated by a bar do not import each other; those with a colon may.
            yield from (re.sub(r" ([|:]) ", r"  \1  ", layer) for layer in contract["layers"])
