"""Workloads: pods that arrive at given times and run for given durations."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simulator.offline.builders import renamed
from simulator.offline.editing import WorldError

COLUMNS: Final = ("arrival", "duration", "template", "count")


@dataclass(frozen=True, slots=True)
class Arrival:
    """Pods of one template that arrive together."""

    time: float
    """Virtual second."""
    pod: Mapping[str, Any]
    """The template, see `builders.pod`; several, and one whose name is taken, are `NAME-0`,
    `NAME-1` and so on."""
    duration: float | None = None
    """Seconds that each runs once it is bound; None: to the end."""
    count: int = 1


def read_csv(path: str | Path, templates: Mapping[str, Mapping[str, Any]]) -> Sequence[Arrival]:
    """Read a workload with the columns `arrival,duration,template,count`.

    Times are in seconds; an empty duration means that the pods run to the end, an empty count 1.
    The pods of a line are named after their template and the number of the line.

    Raises:
        WorldError: names the file, the line and what is wrong there.
    """
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        missing = [each for each in COLUMNS[:3:2] if each not in (rows.fieldnames or ())]
        if missing:
            raise WorldError(f"{path}:1: column {missing[0]} is missing; give {','.join(COLUMNS)}")
        return [_arrival(f"{path}:{rows.line_num}", rows.line_num, row, templates) for row in rows]


def _arrival(
    where: str,
    line: int,
    row: Mapping[str, str | None],
    templates: Mapping[str, Mapping[str, Any]],
) -> Arrival:
    name = row["template"] or ""
    if name not in templates:
        known: Iterable[str] = sorted(templates)
        raise WorldError(f"{where}: template {name!r} is unknown; known are {', '.join(known)}")
    time = _number(where, "arrival", row["arrival"])
    given = row.get("duration")
    duration = _number(where, "duration", given) if given else None
    count = int(_number(where, "count", row.get("count") or "1"))
    return Arrival(time, renamed(templates[name], f"{name}-{line}"), duration, count)


def _number(where: str, column: str, text: str | None) -> float:
    try:
        number = float(text or "")
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise WorldError(f"{where}: {column} is {text!r}; give a number from 0")
    return number
