"""Workloads: pods that arrive at given times and run for given durations."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simulator.offline.editing import WorldError

COLUMNS: Final = ("arrival", "duration", "template", "count")
MAX_FAULTS: Final = 20
"""Faults of one file that an error lists."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Pods of one template that arrive together."""

    time: float
    """Virtual second."""
    pod: Mapping[str, Any]
    """The template, see `builders.pod`; several, and one whose name is taken, are `NAME-0`,
    `NAME-1` and so on. Arrivals that share one template object are added fastest; do not change
    it."""
    duration: float | None = None
    """Seconds that each runs once it is bound; None: to the end."""
    count: int = 1
    name: str = ""
    """In place of the template's."""


def read_csv(path: str | Path, templates: Mapping[str, Mapping[str, Any]]) -> Sequence[Arrival]:
    """Read a workload with the columns `arrival,duration,template,count`.

    Times are in seconds; an empty duration means that the pods run to the end, an empty count 1.
    The pods of a line are named after their template and the number of the line.

    Raises:
        WorldError: every fault of the file, each with its line and column; of very many the first.
    """
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        missing = [each for each in COLUMNS[:3:2] if each not in (rows.fieldnames or ())]
        if missing:
            raise WorldError(f"{path}:1: column {missing[0]} is missing; give {','.join(COLUMNS)}")
        arrivals, faults = [], _Faults()
        for row in rows:
            line = rows.line_num
            faults.where = f"{path}:{line}"
            arrivals.append(_arrival(line, row, templates, faults))
        faults.report()
        return arrivals


class _Faults:
    """The faults of a file, so that one correction is enough."""

    def __init__(self) -> None:
        #: The file and line of the row that is read.
        self.where = ""
        self._found: list[str] = []
        self._more = 0

    def add(self, text: str) -> None:
        """Note a fault of the row."""
        if len(self._found) < MAX_FAULTS:
            self._found.append(f"{self.where}: {text}")
        else:
            self._more += 1

    def report(self) -> None:
        """Raise WorldError with all faults, if there are any."""
        if self._more:
            self._found.append(f"and {self._more} more")
        if self._found:
            raise WorldError("\n".join(self._found))

    def number(self, column: str, text: str | None, *, whole: bool = False) -> float:
        """Read a number from 0; 0 after a fault."""
        try:
            number = float(text or "")
        except ValueError:
            number = -1.0
        if 0 <= number < float("inf") and not (whole and number % 1):
            return number
        kind = "whole number" if whole else "number"
        self.add(f"{column} is {text!r}; give a {kind} from 0")
        return 0.0


def _arrival(
    line: int,
    row: Mapping[str, str | None],
    templates: Mapping[str, Mapping[str, Any]],
    faults: _Faults,
) -> Arrival:
    name = row["template"] or ""
    if name not in templates:
        faults.add(f"template {name!r} is unknown; known are {', '.join(sorted(templates))}")
    time = faults.number("arrival", row["arrival"])
    given = row.get("duration")
    duration = faults.number("duration", given) if given else None
    count = int(faults.number("count", row.get("count") or "1", whole=True))
    return Arrival(time, templates.get(name, {}), duration, count, f"{name}-{line}")
