"""Decoding of watch bytes into typed events.

A watch is lines of `{"type": ..., "object": {...}}`. The common line is decoded in one step into a
struct; only when that fails is it decoded in parts: bookmarks and errors carry other objects, nulls
stand for absent fields, and unread fields may nest deeper than a decoder can follow. Pure: no I/O,
no logging.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, Generic

import msgspec

from scheduler.api.decoding import decode_json, prune
from scheduler.api.meta import Named, Object
from scheduler.client.errors import StatusBody
from scheduler.client.resources import Resource, T

MAX_LINE_BYTES: Final = 32 * 1024 * 1024
"""Far above the size limit of etcd for one object; a longer line is not a watch."""

_NAMING: Final = ("name", "namespace", "uid", "resourceVersion")
"""Fields of `metadata` that identify an object; all are strings."""


class WatchType(Enum):
    """The `type` of a watch line."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class Changed(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object was added, modified or deleted."""

    type: WatchType
    object: T


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """No change up to `resource_version`."""

    resource_version: str


class DecodingFailure(msgspec.Struct, frozen=True, gc=False):
    """The server ends the watch with an error."""

    status: StatusBody


class Malformed(msgspec.Struct, frozen=True, gc=False):
    """A change whose object cannot be decoded; `named` has as much metadata as could be."""

    type: WatchType
    named: Named
    error: str


class WatchDecodeError(Exception):
    """The stream is not a watch: a line is not the expected JSON, or has no end."""


class _RawLine(Object):
    type: WatchType
    object: msgspec.Raw


class LineSplitter:
    """Cuts chunks into lines and keeps the unfinished rest."""

    __slots__ = ("_pieces", "_size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without line ends and empty lines.

        Raises:
            WatchDecodeError: a line is longer than MAX_LINE_BYTES.
        """
        lines = chunk.split(b"\n")
        tail = lines.pop()
        if lines and self._pieces:
            self._pieces.append(lines[0])
            lines[0] = b"".join(self._pieces)
            self._pieces.clear()
            self._size = 0
        if tail:
            self._pieces.append(tail)
            self._size += len(tail)
            if self._size > MAX_LINE_BYTES:
                raise WatchDecodeError(f"a line of more than {MAX_LINE_BYTES} bytes")
        return [line for line in lines if line]


class WatchDecoder(Generic[T]):
    """Decodes the lines of one resource's watch."""

    def __init__(self, resource: Resource[T]) -> None:
        self._resource = resource
        # Any: static types cannot express a struct type that is parametrised at run time.
        changed: Any = Changed
        self._fast: msgspec.json.Decoder[Changed[T]] = msgspec.json.Decoder(changed[resource.type])
        self._raw = msgspec.json.Decoder(_RawLine)
        self._named = msgspec.json.Decoder(Named)
        self._status = msgspec.json.Decoder(StatusBody)
        self._any: msgspec.json.Decoder[Any] = msgspec.json.Decoder()

    def decode(self, line: bytes) -> Changed[T] | Bookmark | DecodingFailure | Malformed:
        """Decode one line.

        Raises:
            WatchDecodeError: it is not a watch line.
        """
        try:
            event = self._fast.decode(line)
        except (ValueError, RecursionError):
            return self._decode_slowly(line)
        if event.type is WatchType.BOOKMARK or event.type is WatchType.ERROR:
            return self._decode_slowly(line)
        return event

    def _decode_slowly(self, line: bytes) -> Changed[T] | Bookmark | DecodingFailure | Malformed:
        try:
            return self._decode_parts(line)
        except RecursionError:
            return self._decode_parts(prune(line))

    def _decode_parts(self, line: bytes) -> Changed[T] | Bookmark | DecodingFailure | Malformed:
        try:
            raw = self._raw.decode(line)
            if raw.type is WatchType.ERROR:
                return DecodingFailure(self._status.decode(raw.object))
            if raw.type is WatchType.BOOKMARK:
                return Bookmark(self._named.decode(raw.object).metadata.resource_version)
        except ValueError as error:
            raise WatchDecodeError(f"{error}: {line[:120]!r}") from error
        try:
            return Changed(raw.type, self._resource.decode(raw.object))
        except ValueError as error:
            return Malformed(raw.type, self.named(raw.object), str(error))

    def named(self, data: bytes | msgspec.Raw) -> Named:
        """Return as much of the metadata as can be decoded; never raises."""
        try:
            return decode_json(self._named, data)
        except ValueError:
            pass
        try:
            loose = decode_json(self._any, data)
            metadata = loose.get("metadata") or {}
            # Another field may have the wrong type.
            texts = {key: metadata[key] for key in _NAMING if isinstance(metadata.get(key), str)}
            return msgspec.convert({"metadata": texts}, Named)
        except (ValueError, AttributeError):
            return Named()

    def object_bytes(self, line: bytes) -> bytes:
        """Return a copy of the object's JSON in a line that was decoded before."""
        try:
            return bytes(self._raw.decode(line).object)
        except RecursionError:
            from scheduler.api.nesting import Nesting  # noqa: PLC0415 - see scheduler.api.decoding

            return Nesting(line).member("object")
