"""The badges of the README: pictures in docs/badges, each a fact that this repository states.

They are drawn here, since a picture of another host would be about a package or a repository there.
"""

from __future__ import annotations

import gzip
import tomllib
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any, Final

from scheduler.build_info import COMPATIBLE_MAJOR, COMPATIBLE_MINOR

ROOT: Final = Path(__file__).resolve().parents[2]
VECTORS: Final = ROOT / "tests" / "conformance" / "vectors"

GREEN: Final = "#2d7d46"
BLUE: Final = "#3a5fc8"
GREY: Final = "#5b6472"

CHARACTER: Final = 6.6
"""Width of a character of 11 px, as browsers draw Verdana or DejaVu Sans, on average."""
MARGIN: Final = 12

_SVG: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{label}: {value}">
<title>{label}: {value}</title>
<clipPath id="r"><rect width="{width}" height="20" rx="4"/></clipPath>
<g clip-path="url(#r)">
<rect width="{left}" height="20" fill="#3b3f46"/>
<rect x="{left}" width="{right}" height="20" fill="{colour}"/>
</g>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{middle}" y="14" textLength="{label_length}">{label}</text>
<text x="{centre}" y="14" textLength="{value_length}">{value}</text>
</g>
</svg>
"""  # noqa: E501 - one element


def badge(label: str, value: str, colour: str) -> str:
    """Return a badge as SVG."""
    label_length, value_length = (round(len(each) * CHARACTER) for each in (label, value))
    left, right = label_length + MARGIN, value_length + MARGIN
    return _SVG.format(
        label=escape(label),
        value=escape(value),
        colour=colour,
        width=left + right,
        left=left,
        right=right,
        middle=left / 2,
        centre=left + right / 2,
        label_length=label_length,
        value_length=value_length,
    )


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project


def _status() -> str:
    (status,) = (each for each in _project()["classifiers"] if each.startswith("Development"))
    version = _project()["version"]
    return badge("status", f"{status.rpartition(' - ')[2].lower()}, {version}", GREY)


def _kubernetes() -> str:
    return badge("Kubernetes", f"v{COMPATIBLE_MAJOR}.{COMPATIBLE_MINOR}", BLUE)


def _conformance() -> str:
    """Count the recorded decisions that tests/conformance compares."""
    count = 0
    for file in sorted(VECTORS.glob("*.jsonl.gz")):
        with gzip.open(file, "rb") as lines:
            count += sum(1 for line in lines if line.strip())
    return badge("compared with kube-scheduler", f"{count:,} recorded decisions", GREEN)


def _python() -> str:
    return badge("Python", _project()["requires-python"].replace(">=", "") + "+", BLUE)


def _licence() -> str:
    return badge("licence", _project()["license"], GREEN)


BADGES: Final[Mapping[str, Callable[[], str]]] = {
    "status": _status,
    "kubernetes": _kubernetes,
    "conformance": _conformance,
    "python": _python,
    "licence": _licence,
}

FILES: Final = {f"badges/{name}.svg": draw for name, draw in BADGES.items()}
"""The text of each file by its path from docs/."""
