"""The board of a demo: what happened, line by line, and what went wrong.

A story fills it from the API server's store; audiences read it. Events of the same kind and key
share a line, whose text may change for `merge_seconds`. Clocks are injected.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

_MAX_LINES: Final = 200
_MERGE_LINES: Final = 6
"""Only so many of the newest lines are merged with: older ones may have left the screen."""


@dataclass(slots=True)
class News:
    """One line about what happened, numbered from 1."""

    number: int
    at: float
    """Seconds on the story's clock since its beginning."""
    since: float
    """Seconds on the real clock when the line was added."""
    kind: str
    text: str
    key: str = ""
    """Lines with a key may still change for `merge_seconds`."""
    members: dict[str, None] = field(default_factory=dict)
    """The objects that the line is about, in order; for the story's use."""
    count: int = 1

    def __str__(self) -> str:
        word = "FAULT" if self.kind == "fault" else self.kind
        return f"{self.at:5.1f} s  {word:<8} {self.text}"


class Board:
    """News and faults of one story. Owner: the event loop that the API server runs on.

    `clock` is the story's, `real_clock` a monotonic one; by default they are the same.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        real_clock: Callable[[], float] | None = None,
        merge_seconds: float = 0.0,
    ) -> None:
        self._clock = clock
        self._real_clock = real_clock or clock
        self._merge_seconds = merge_seconds
        self._started = clock()
        self._added = 0
        self._read = 0
        self._changed = asyncio.Event()
        self.news: deque[News] = deque(maxlen=_MAX_LINES)
        self.faults: list[str] = []

    def begin(self) -> None:
        """Count the seconds from now."""
        self._started = self._clock()

    def elapsed(self) -> float:
        """Return the seconds since the beginning, on the story's clock."""
        return self._clock() - self._started

    # -- writing -----------------------------------------------------------------------------------

    def add(self, kind: str, text: str, key: str = "") -> News:
        """Add a line."""
        self._added += 1
        line = News(self._added, self.elapsed(), self._real_clock(), kind, text, key)
        self.news.append(line)
        return line

    def line_to_join(self, kind: str, key: str) -> News | None:
        """Return the recent line of this kind and key that may still change, if there is one."""
        for line in reversed([*self.news][-_MERGE_LINES:]):
            if (line.kind, line.key) == (kind, key) and not self._final(line):
                return line
        return None

    def fault(self, text: str) -> None:
        """Record, once, something that must not happen."""
        if text not in self.faults:
            self.faults.append(text)
            self.add("fault", text)

    def notify(self) -> None:
        """Wake whoever waits in `until`: the cluster has changed."""
        self._changed.set()

    # -- reading -----------------------------------------------------------------------------------

    async def until(self, holds: Callable[[], bool], timeout: float | None = None) -> None:
        """Wait until `holds()`, evaluated after every change.

        Raises:
            TimeoutError: it did not become true within `timeout` seconds.
        """
        async with asyncio.timeout(timeout):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    def unread(self, *, everything: bool = False) -> Iterator[News]:
        """Yield each unread line, in order, up to the first that may still change."""
        for line in [*self.news]:
            if line.number <= self._read:
                continue
            if not everything and line.key and not self._final(line):
                return
            self._read = line.number
            yield line

    def _final(self, line: News) -> bool:
        return self._real_clock() - line.since >= self._merge_seconds
