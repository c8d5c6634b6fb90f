"""The seam between leadership and writes: nothing is written while the fence is shut."""

from __future__ import annotations

from typing import Protocol


class Fence(Protocol):
    """Asked immediately before each write."""

    def allowed(self) -> bool:
        """Whether this process may write now."""
        ...


class OpenFence:
    """Always open: for processes that run without leader election."""

    __slots__ = ()

    def allowed(self) -> bool:
        """Always."""
        return True
