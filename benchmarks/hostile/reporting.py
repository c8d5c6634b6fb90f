"""The results as a table for the terminal, and as Markdown for docs/hostile-input.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from rich.table import Table

from benchmarks.hostile.measuring import Measured
from benchmarks.schedulers import OURS

Column = tuple[str, Callable[[Measured], str]]


def _milliseconds(seconds: float) -> str:
    return "-" if math.isnan(seconds) else f"{seconds * 1000:.0f}"


def _mebibytes(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.0f}"


COLUMNS: Final[Sequence[Column]] = (
    ("longest block ms", lambda each: _milliseconds(each.longest_block)),
    ("(idle)", lambda each: _milliseconds(each.idle_block)),
    ("delivered s", lambda each: _seconds(each.delivery_delay)),
    ("bound s", lambda each: _seconds(each.ordinary_delay)),
    ("CPU s", lambda each: _seconds(each.cpu)),
    ("MiB before", lambda each: _mebibytes(each.memory_before)),
    ("peak", lambda each: _mebibytes(each.memory_peak)),
    ("after", lambda each: _mebibytes(each.memory_after)),
    ("ended", lambda each: "" if each.alive else "yes"),
)


def _seconds(seconds: float) -> str:
    return "never" if math.isnan(seconds) else f"{seconds:.2f}"


def table(results: Sequence[Measured], title: str) -> Table:
    """All results, for the terminal."""
    view = Table(title=title)
    view.add_column("pods", overflow="fold")
    view.add_column("scheduler", overflow="fold")
    for heading, _ in COLUMNS:
        view.add_column(heading, justify="right")
    for first, each in _marked(results):
        if first:
            view.add_section()
        view.add_row(_what(each) if first else "", each.scheduler, *_cells(each))
    return view


def markdown(results: Sequence[Measured]) -> str:
    """The same as a table in Markdown."""
    headings = ["pods", "scheduler", *(heading for heading, _ in COLUMNS)]
    lines = [headings, ["---"] * 2 + ["---:"] * len(COLUMNS)]
    lines += [
        [_what(each) if first else "", each.scheduler, *_cells(each)]
        for first, each in _marked(results)
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def beyond(results: Sequence[Measured], *, block: float, delay: float, left: float) -> list[str]:
    """Return a sentence for each limit that kubestow exceeds. Block and delay in s, left in MiB."""
    found = []
    for each in results:
        if each.scheduler != OURS:
            continue
        if not each.alive:
            found.append(f"{each.case}: the process ended")
        if not each.longest_block <= block:
            found.append(f"{each.case}: blocked for {_milliseconds(each.longest_block)} ms")
        if not each.ordinary_delay <= delay:
            found.append(f"{each.case}: ordinary pod after {_seconds(each.ordinary_delay)} s")
        if not each.memory_after - each.memory_before <= left:
            found.append(f"{each.case}: {each.memory_after - each.memory_before:.0f} MiB left")
    return found


def _what(each: Measured) -> str:
    return f"{each.pods} {each.case.removeprefix('pods-')}, {each.bytes / 1e6:.2f} MB each"


def _cells(each: Measured) -> list[str]:
    return [value(each) for _, value in COLUMNS]


def _marked(results: Sequence[Measured]) -> list[tuple[bool, Measured]]:
    """With each result, whether it is the first of its case."""
    previous = ["", *(each.case for each in results)]
    return [(before != each.case, each) for before, each in zip(previous, results, strict=False)]
