"""Packed: a large part of a pod as compressed bytes; UnpackedCache: recently read ones unpacked.

A pod of 1 MB takes 4 MB as objects, and 10 MB more in derived values, and a user may create
hundreds. So only compressed bytes of a large pod are kept; reads unpack them again into a bounded
LRU cache.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from scheduler.api.sizes import deep_size

MAX_UNPACKED_BYTES: Final = 16 << 20
"""Limit of unpacked values and their derived values; the least recently used is dropped."""

T = TypeVar("T")

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode
_MISSING: Final = object()
_FAST: Final = 1
"""zlib level: nine times as fast as the best compression, for a tenth more bytes."""


class _Unpacked:
    """A value and the values derived from it."""

    __slots__ = ("derived", "nbytes", "value")

    def __init__(self, value: object, nbytes: int) -> None:
        self.value = value
        self.derived: dict[str, Any] = {}
        self.nbytes = nbytes


class UnpackedCache:
    """The recently read packed values. Touched from one event loop only."""

    __slots__ = ("_known", "nbytes")

    def __init__(self) -> None:
        self._known: OrderedDict[Packed[Any], _Unpacked] = OrderedDict()
        #: Estimate of what is held.
        self.nbytes = 0

    def of(self, packed: Packed[Any]) -> _Unpacked:
        """Return the cached value, or unpack it; the newest is kept whatever its size."""
        found = self._known.get(packed)
        if found is not None:
            self._known.move_to_end(packed)
            return found
        found = self._known[packed] = _Unpacked(packed.unpack(), packed.unpacked_bytes)
        self.nbytes += found.nbytes
        self._drop_oldest()
        return found

    def keep(self, packed: Packed[Any], value: object) -> None:
        """Cache a value that was just packed: it is likely to be read next."""
        self._known[packed] = _Unpacked(value, packed.unpacked_bytes)
        self.nbytes += packed.unpacked_bytes
        self._drop_oldest()

    def derived(self, packed: Packed[Any], name: str, derive: Callable[[], Any]) -> Any:
        """Return a value derived from a packed one; derived again after eviction."""
        value = self.of(packed).derived.get(name, _MISSING)
        if value is _MISSING:
            value = derive()
            # Deriving may have evicted this value by unpacking others.
            unpacked = self.of(packed)
            unpacked.derived[name] = value
            # The strings are shared with the value itself.
            size = deep_size(value, texts=False)
            unpacked.nbytes += size
            self.nbytes += size
            self._drop_oldest()
        return value

    def forget(self, packed: Packed[Any]) -> None:
        """Evict the unpacked form of a value."""
        unpacked = self._known.pop(packed, None)
        if unpacked is not None:
            self.nbytes -= unpacked.nbytes

    def _drop_oldest(self) -> None:
        while self.nbytes > MAX_UNPACKED_BYTES and len(self._known) > 1:
            self.forget(next(iter(self._known)))


class Packed(Generic[T]):
    """A value as compressed bytes. Compared by identity."""

    __slots__ = ("_cache", "_decode", "data", "unpacked_bytes")

    def __init__(self, value: T, decode: Callable[[bytes], T], cache: UnpackedCache) -> None:
        """Compress `value`; `decode` restores it from MessagePack."""
        self.data: Final = zlib.compress(_encode(value), _FAST)
        #: Estimate of the memory as objects.
        self.unpacked_bytes: Final = deep_size(value)
        self._decode = decode
        self._cache = cache

    @property
    def value(self) -> T:
        """The value; do not keep a reference."""
        return cast("T", self._cache.of(self).value)

    def unpack(self) -> T:
        """Decompress and decode the value."""
        return self._decode(zlib.decompress(self.data))

    def derived(self, name: str, derive: Callable[[], Any]) -> Any:
        """Return a value derived from this one; derived again after eviction."""
        return self._cache.derived(self, name, derive)

    def forget(self) -> None:
        """Evict the unpacked form."""
        self._cache.forget(self)
