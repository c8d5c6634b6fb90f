"""BoundedCache: what is derived from pods and kept for the next one, up to so many bytes.

Pods are written by anybody: a pod of 1 MB makes a derived value of many, so a number of entries
bounds nothing. Who puts a value in says what it holds; `PodSignature.weigh` tells it of what
follows from a signature.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Values by key. Everything is forgotten at once when it is too much: simple, and rare."""

    __slots__ = ("_values", "get", "max_bytes", "nbytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        #: What the callers said that the values hold.
        self.nbytes = 0
        self._values: dict[K, V] = {}
        #: The value, None if it is not remembered. The dict's own method: cycles ask several times.
        self.get: Callable[[K], V | None] = self._values.get

    def __len__(self) -> int:
        return len(self._values)

    def put(self, key: K, value: V, nbytes: int) -> None:
        """Remember a value that was not; one beyond the limit is not remembered."""
        if self.nbytes + nbytes > self.max_bytes:
            self.clear()
        if nbytes <= self.max_bytes:
            self._values[key] = value
            self.nbytes += nbytes

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()
        self.nbytes = 0
