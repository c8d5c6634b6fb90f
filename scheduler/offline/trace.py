"""Workloads of our own format: pods that arrive at given times and run for given durations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scheduler.explain.records.shown import Shown
from scheduler.offline.rows import Row, Rows

COLUMNS: Final = ("arrival", "duration", "template", "count")
_REQUESTS: Final = "requests are those of the template: write a template for each size"
_HINTS: Final = {
    **dict.fromkeys(("cpu", "memory", "mem", "gpu", "gpus", "requests", "limits"), _REQUESTS),
    **dict.fromkeys(("cpu_milli", "memory_mib"), _REQUESTS),
    **dict.fromkeys(("replicas", "pods", "copies", "number"), "did you mean count?"),
    **dict.fromkeys(("time", "start", "submit_time", "created"), "did you mean arrival?"),
    **dict.fromkeys(("runtime", "seconds", "run_time"), "did you mean duration?"),
    **dict.fromkeys(("name", "pod", "job"), "pods are named after their template and their line"),
    "priority": "the priority is that of the template: write a template for each",
    "namespace": "the namespace is that of the template: write a template for each",
}
MAX_COUNT: Final = 1_000_000
"""Pods of one row."""
MAX_PODS: Final = 5_000_000
"""Pods of one file, as many as a generator draws."""


@dataclass(frozen=True, slots=True, repr=False)
class Arrival(Shown):
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
    patience: float | None = None
    """Seconds that each waits for a node before it is deleted; None: as long as it takes. Less than
    the first backoff, 1 s, means a single attempt."""

    def _lines(self) -> Sequence[str]:
        name = self.name or (self.pod.get("metadata") or {}).get("name", "")
        ends = "to the end" if self.duration is None else f"for {self.duration:g} s"
        return [f"at {self.time:g} s: {self.count} of {name}, {ends}"]


def read_csv(path: str | Path, templates: Mapping[str, Mapping[str, Any]]) -> Sequence[Arrival]:
    """Read a workload with the columns `arrival,duration,template,count`, in order of arrival.

    Of a file that ends in `.jsonl`, every line is a JSON object with these names. Either may be
    compressed by gzip. Times are in seconds, or have a unit (`90s`, `1.5h`); an empty duration
    means that the pods run to the end, an empty count 1. A further column is a fault. The pods of a
    line are named after their template and the number of the line.

    Raises:
        WorldError: every fault of the file, each with its line and column; of very many the first.
    """
    rows = Rows(path, ("arrival", "template"), COLUMNS, _HINTS)
    arrivals: list[Arrival] = []
    latest, total = 0.0, 0
    for row in rows:
        arrival = _arrival(row, templates)
        total += arrival.count
        if total - arrival.count <= MAX_PODS < total:
            row.fault(f"count: {total} pods up to this row; at most {MAX_PODS} are possible")
        # A time that could not be read is 0.
        if arrival.time < latest and (arrival.time > 0 or row.sound):
            row.fault(f"arrival is before that of an earlier row, {latest:g}; sort the rows")
        latest = max(latest, arrival.time)
        arrivals.append(arrival)
    rows.faults.report()
    return arrivals


def _arrival(row: Row, templates: Mapping[str, Mapping[str, Any]]) -> Arrival:
    name = row.text("template")
    if name not in templates and row.value("template") is not None:
        known = ", ".join(sorted(templates)) or "none"
        row.fault(f"template {name!r:.80} is unknown; known are {known:.400}")
    time = row.seconds("arrival")
    duration = row.seconds("duration") if row.has("duration") else None
    count = row.whole("count", maximum=MAX_COUNT) if row.has("count") else 1
    return Arrival(time, templates.get(name, {}), duration, count, f"{name}-{row.line}")
