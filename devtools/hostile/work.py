"""WorkCount: how many lines of kubestow's own Python ran. A count of work, not a clock."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
COUNTED: Final = tuple(f"{ROOT / package}/" for package in ("scheduler", "plugins", "config"))


class WorkCount:
    """Lines of `scheduler`, `plugins` and `config`, counted while `counting`.

    Loops within C, such as a search in a list or an operation on an array, count as one line.
    """

    def __init__(self) -> None:
        self.lines = 0
        self._paused = False
        self._ours: dict[CodeType, bool] = {}

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count from zero."""
        self.lines = 0
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count what a test itself asks."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def _called(self, frame: FrameType, event: str, arg: object) -> Any:
        code = frame.f_code
        ours = self._ours.get(code)
        if ours is None:
            ours = self._ours[code] = code.co_filename.startswith(COUNTED)
        return self._line if ours and not self._paused else None

    def _line(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            self.lines += 1
        return self._line
