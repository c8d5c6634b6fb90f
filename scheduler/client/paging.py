"""Pages of a list: their form, and the number of objects to request so that a page stays small.

A page of 500 objects of 1.5 MB each has 750 MB. The server counts objects, not bytes, so the size
is adapted: a page that arrived limits the next one by its bytes per object, and one that was too
large to be read is requested again with a quarter of its objects. Afterwards the size doubles from
page to page: the next namespace may have ordinary objects.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from scheduler.api.meta import Object

PAGE_SIZE: Final = 500

TARGET_PAGE_BYTES: Final = 8 * 1024 * 1024
"""Decoded in some 10 ms. 500 ordinary pods have 2 to 5 MiB."""

_SHRINK: Final = 4
_GROW: Final = 2


class ListMeta(Object):
    """`metadata` of a list."""

    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class Page(Object):
    """One page of a list, its items not decoded yet."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    # null when a list is empty and the server is careless
    items: list[msgspec.Raw] | None = None


_page_decoder = msgspec.json.Decoder(Page)


async def decode_page(body: bytes) -> Page:
    """Decode a page.

    Raises:
        ValueError: `body` is not a list.
    """
    try:
        return _page_decoder.decode(body)
    except RecursionError:
        # Some 20 ns a byte, and most of it without the interpreter's lock.
        return await asyncio.to_thread(_decode_deep_page, body)


def _decode_deep_page(body: bytes) -> Page:
    # Splitting a page into items skips them by recursion as well. The items stay as they are.
    from scheduler.api.nesting import Nesting  # noqa: PLC0415 - see scheduler.api.decoding

    nesting = Nesting(body)
    page = _page_decoder.decode(nesting.pruned())
    if page.items:
        page.items = [msgspec.Raw(item) for item in nesting.elements("items")]
    return page


class PageSizes:
    """The size of the next page of each collection, by its path."""

    __slots__ = ("_sizes",)

    def __init__(self) -> None:
        # Only sizes below those that callers want.
        self._sizes: dict[str, int] = {}

    def next(self, path: str, limit: int) -> int:
        """Return the number of objects to request where the caller wants `limit`."""
        return min(limit, self._sizes.get(path, limit))

    def too_large(self, path: str, size: int) -> bool:
        """Note that a page of `size` objects had too many bytes; False if it had one object."""
        self._sizes[path] = max(1, size // _SHRINK)
        return size > 1

    def received(self, path: str, size: int, count: int, length: int) -> None:
        """Note that a request for `size` objects brought `count` of them in `length` bytes."""
        fitting = TARGET_PAGE_BYTES * max(1, count) // max(1, length)
        if path in self._sizes or fitting < size:
            self._sizes[path] = max(1, min(fitting, size * _GROW))
