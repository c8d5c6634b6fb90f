"""BoundedCache: values derived from pods, kept for later pods within a number of bytes.

Users write pods: a pod of 1 MB may make a derived value of many, so a number of entries bounds
nothing. The caller states the size of each value; `PodSignature.weigh` estimates it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Values by key. A full cache is cleared as a whole: simple, and rare."""

    __slots__ = ("_values", "get", "max_bytes", "nbytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        #: Sum of the sizes that the callers stated.
        self.nbytes = 0
        self._values: dict[K, V] = {}
        #: Return the value, None if absent. The bound dict method, because it is on the hot path.
        self.get: Callable[[K], V | None] = self._values.get

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: K, value: V, nbytes: int) -> None:
        """Add a value that is absent, unless it alone exceeds the limit."""
        if self.nbytes + nbytes > self.max_bytes:
            self.clear()
        if nbytes <= self.max_bytes:
            self._values[key] = value
            self.nbytes += nbytes

    def clear(self) -> None:
        """Remove all values."""
        self._values.clear()
        self.nbytes = 0
