"""How many objects to ask for in one page of a list, so that a page stays small in bytes.

Whoever may create objects of 1.5 MB decides how long a page of 500 is. The server counts objects,
not bytes, so the size is learnt: a page that came limits the next one by its bytes per object, and
one that was too large to be read is asked for again with a quarter of its objects. Afterwards the
size doubles from page to page: the next namespace may be an ordinary one.
"""

from __future__ import annotations

from typing import Final

TARGET_PAGE_BYTES: Final = 8 * 1024 * 1024
"""Decoded in some 10 ms. 500 ordinary pods have 2 to 5 MiB."""

_SHRINK: Final = 4
_GROW: Final = 2


class PageSizes:
    """The size of the next page of each collection, by its path."""

    __slots__ = ("_sizes",)

    def __init__(self) -> None:
        # Only where it is smaller than what callers ask for.
        self._sizes: dict[str, int] = {}

    def next(self, path: str, limit: int) -> int:
        """Objects to ask for where the caller wants `limit`."""
        return min(limit, self._sizes.get(path, limit))

    def too_large(self, path: str, size: int) -> bool:
        """Note that a page of `size` objects had too many bytes; False if it had one object."""
        self._sizes[path] = max(1, size // _SHRINK)
        return size > 1

    def came(self, path: str, size: int, count: int, length: int) -> None:
        """Note that of `size` objects `count` came, in `length` bytes."""
        fitting = TARGET_PAGE_BYTES * max(1, count) // max(1, length)
        if path in self._sizes or fitting < size:
            self._sizes[path] = max(1, min(fitting, size * _GROW))
