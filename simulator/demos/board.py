"""A timeline of what happens in an embedded cluster: who did what, in simulated time, line by line.

Reads the store's changes only, so that what it tells has happened. What several pods go through at
the same moment is one line with their number. Lines come in the order of their first moment;
on a terminal they have colours, elsewhere they are plain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console
from rich.text import Text

MERGE_SECONDS: Final = 0.3
"""Real seconds in which the same thing, done to another pod, joins a line."""
_LOOK_SECONDS: Final = 0.1
_STYLES: Final = {
    "story": "bold cyan",
    "kubestow": "green",
    "autoscaler": "yellow",
    "bridge": "magenta",
}


@dataclass(slots=True)
class _Line:
    who: str
    text: str
    at: float
    """Simulated seconds since the beginning."""
    since: float
    """The real clock then."""
    whom: list[str] = field(default_factory=list)


class Timeline:
    """Collects what happens and writes it. `now` is the cluster's clock, `real` a monotonic one."""

    def __init__(
        self, console: Console, now: Callable[[], float], real: Callable[[], float]
    ) -> None:
        self._console = console
        self._now = now
        self._real = real
        self._start = now()
        self._open: list[_Line] = []
        self.happened: dict[str, float] = {}
        """When each milestone was first reached, in simulated seconds."""

    def begin(self) -> None:
        """Count from now."""
        self._start = self._now()

    def elapsed(self) -> float:
        """Simulated seconds since the beginning."""
        return self._now() - self._start

    def reach(self, milestone: str) -> None:
        """Note the first time of something that must happen."""
        self.happened.setdefault(milestone, self.elapsed())

    def tell(self, who: str, text: str, whom: str = "") -> None:
        """Something happened (to a pod, if `whom` is given)."""
        for line in self._open:
            if whom and (line.who, line.text) == (who, text):
                if whom not in line.whom:
                    line.whom.append(whom)
                return
        self._open.append(_Line(who, text, self.elapsed(), self._real(), [whom] if whom else []))

    async def write(self) -> None:
        """Write lines as they become final, until cancelled; then all that are left."""
        try:
            while True:
                await asyncio.sleep(_LOOK_SECONDS)
                self.flush()
        finally:
            self.flush(everything=True)

    def flush(self, *, everything: bool = False) -> None:
        """Write the lines that nothing can join any more, or all."""
        until = float("inf") if everything else self._real() - MERGE_SECONDS
        while self._open and self._open[0].since <= until:
            self._print(self._open.pop(0))

    def _print(self, line: _Line) -> None:
        minutes, seconds = divmod(int(line.at), 60)
        text = Text()
        text.append(f"{minutes}:{seconds:02}  ", "dim")
        text.append(f"{line.who:<10}  ", _STYLES.get(line.who, ""))
        count = f"{_pods(len(line.whom))}  " if line.whom else ""
        text.append(count + line.text, "bold" if line.who == "story" else "")
        self._console.print(text, soft_wrap=True)


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
