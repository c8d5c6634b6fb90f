"""Packed: a large part of a pod as compressed bytes; UnpackedCache: those read last, as objects.

A pod of 1 MB becomes 4 MB of objects, and 10 more of what is derived from them; whoever may create
pods may create hundreds. So of a large one only compressed bytes are kept. What is read of it is
unpacked again, and the last few unpacked ones are remembered, up to so many bytes.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from scheduler.api.sizes import deep_size

MAX_UNPACKED_BYTES: Final = 16 << 20
"""Of unpacked values and what is derived from them; the one used longest ago goes first."""

T = TypeVar("T")

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode
_MISSING: Final = object()
_FAST: Final = 1
"""Of zlib: nine times as fast as its best, for a tenth more bytes."""


class _Unpacked:
    """What is known of a packed value for now."""

    __slots__ = ("derived", "nbytes", "value")

    def __init__(self, value: object, nbytes: int) -> None:
        self.value = value
        self.derived: dict[str, Any] = {}
        self.nbytes = nbytes


class UnpackedCache:
    """The packed values read last. Touched from one event loop only."""

    __slots__ = ("_known", "nbytes")

    def __init__(self) -> None:
        self._known: OrderedDict[Packed[Any], _Unpacked] = OrderedDict()
        #: Estimate of what is held.
        self.nbytes = 0

    def of(self, packed: Packed[Any]) -> _Unpacked:
        """Unpack, or remember; the newest is kept whatever its size."""
        found = self._known.get(packed)
        if found is not None:
            self._known.move_to_end(packed)
            return found
        found = self._known[packed] = _Unpacked(packed.unpack(), packed.unpacked_bytes)
        self.nbytes += found.nbytes
        self._drop_oldest()
        return found

    def keep(self, packed: Packed[Any], value: object) -> None:
        """Remember the value that was just packed, for it is likely to be read next."""
        self._known[packed] = _Unpacked(value, packed.unpacked_bytes)
        self.nbytes += packed.unpacked_bytes
        self._drop_oldest()

    def derived(self, packed: Packed[Any], name: str, derive: Callable[[], Any]) -> Any:
        """A fact about a packed value, derived again when it was forgotten."""
        value = self.of(packed).derived.get(name, _MISSING)
        if value is _MISSING:
            value = derive()
            # Deriving one may have unpacked others.
            unpacked = self.of(packed)
            unpacked.derived[name] = value
            # Its texts are those of the value itself.
            size = deep_size(value, texts=False)
            unpacked.nbytes += size
            self.nbytes += size
            self._drop_oldest()
        return value

    def forget(self, packed: Packed[Any]) -> None:
        """Drop what is unpacked of one."""
        unpacked = self._known.pop(packed, None)
        if unpacked is not None:
            self.nbytes -= unpacked.nbytes

    def _drop_oldest(self) -> None:
        while self.nbytes > MAX_UNPACKED_BYTES and len(self._known) > 1:
            self.forget(next(iter(self._known)))


class Packed(Generic[T]):
    """A value as compressed bytes. Compared by identity."""

    __slots__ = ("_decode", "_memory", "data", "unpacked_bytes")

    def __init__(self, value: T, decode: Callable[[bytes], T], memory: UnpackedCache) -> None:
        """`decode` makes the value again of its MessagePack."""
        self.data: Final = zlib.compress(_encode(value), _FAST)
        #: Estimate of what it takes as objects.
        self.unpacked_bytes: Final = deep_size(value)
        self._decode = decode
        self._memory = memory

    @property
    def value(self) -> T:
        """The value; to be read and not kept."""
        return cast("T", self._memory.of(self).value)

    def unpack(self) -> T:
        """Make the value anew."""
        return self._decode(zlib.decompress(self.data))

    def derived(self, name: str, derive: Callable[[], Any]) -> Any:
        """A fact that follows from the value, derived again when it was forgotten."""
        return self._memory.derived(self, name, derive)

    def forget(self) -> None:
        """Nobody is going to read it soon."""
        self._memory.forget(self)
