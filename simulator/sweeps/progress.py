"""The progress of a sweep on a terminal: a bar, how many have failed, and how long it takes yet."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from simulator.sweeps.runs import SweepOutcome


class Progress:
    """A context in which outcomes advance a bar; without a terminal it shows nothing."""

    def __init__(self, console: Console | None, total: int) -> None:
        self._bar: Bar | None = None
        self._failed = 0
        if console is None or not console.is_terminal:
            return
        self._bar = Bar(
            TextColumn("runs"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]}", style="red"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[last]}", markup=False, style="dim"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("runs", total=total, failed="", last="")

    def advance(self, outcome: SweepOutcome) -> None:
        """Show that one more run has ended."""
        if self._bar is None:
            return
        self._failed += bool(outcome.error)
        failed = f"{self._failed} failed" if self._failed else ""
        self._bar.update(self._task, advance=1, failed=failed, last=outcome.run.name)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
