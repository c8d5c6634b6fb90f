"""Bytes of a connection to the answers in them (RFC 9112). Pure: no sockets, no clock.

Invariant: however the bytes are cut, the same answers come out. What cannot be an answer raises
ProtocolError, after which the connection is good for nothing: nobody knows where the next answer
would begin.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

MOST_HEAD_BYTES: Final = 256 * 1024
MOST_CHUNK_LINE_BYTES: Final = 4096
MOST_DIGITS: Final = 18

_CHUNK_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{1,16}[ \t]*(?:;[^\r\n]*)?")
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?")
# Go's servers write these names in this form; others may not, and pay for it.
_FRAMING: Final = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE
)
_NO_BODY: Final = (204, 304)
_SWITCHING: Final = 101


class ProtocolError(Exception):
    """What arrived is no HTTP/1.1 answer."""


class _State(IntEnum):
    HEAD = 0
    #: A body of known length.
    LENGTH = 1
    #: A body that the end of the connection ends.
    UNTIL_CLOSE = 2
    CHUNK_LINE = 3
    CHUNK = 4
    CHUNK_END = 5
    TRAILER = 6
    COMPLETE = 7


class AnswerParser:
    """Parses one answer: feed it bytes until it `is_complete`."""

    __slots__ = ("_left", "_rest", "_state", "head", "reusable", "status")

    def __init__(self) -> None:
        #: Status code; 0 until the head is read.
        self.status = 0
        self.head = b""
        #: Whether the server leaves the connection open after this answer.
        self.reusable = True
        self._state = _State.HEAD
        self._left = 0
        self._rest = b""

    def is_complete(self) -> bool:
        """Whether the whole answer has been fed."""
        return self._state is _State.COMPLETE

    @property
    def begun(self) -> bool:
        """Whether anything of the answer has been fed."""
        return bool(self.status or self._rest)

    @property
    def surplus(self) -> bytes:
        """What came after the answer; nobody asked for it."""
        return self._rest if self._state is _State.COMPLETE else b""

    def feed(self, data: bytes) -> bytes:
        """Take bytes as they came; returns what they add to the body.

        Raises:
            ProtocolError: this is no answer.
        """
        if self._rest:
            data, self._rest = self._rest + data, b""
        while self._state is _State.HEAD:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > MOST_HEAD_BYTES:
                    raise ProtocolError(f"a head of more than {MOST_HEAD_BYTES} bytes")
                self._rest = data
                return b""
            self._read_head(data[:end])
            data = data[end + 4 :]
        if self._state is _State.LENGTH:
            if len(data) < self._left:
                self._left -= len(data)
                return data
            self._state = _State.COMPLETE
            data, self._rest = data[: self._left], data[self._left :]
            return data
        if self._state is _State.UNTIL_CLOSE:
            return data
        if self._state is _State.COMPLETE:
            self._rest = data
            return b""
        return self._feed_chunks(data)

    def feed_end(self) -> bool:
        """The connection ended; whether that completes the answer."""
        if self._state is _State.UNTIL_CLOSE:
            self._state = _State.COMPLETE
        return self._state is _State.COMPLETE

    def _read_head(self, head: bytes) -> None:
        line = head.partition(b"\r\n")[0]
        matched = _STATUS_LINE.fullmatch(line)
        if matched is None:
            raise ProtocolError(f"no HTTP/1.1 answer: {line[:80]!r}")
        status = int(matched[2])
        if status == _SWITCHING:
            raise ProtocolError("the server switched protocols, which nobody asked for")
        if status < 200:
            # An interim answer: the real one follows.
            return
        self.status, self.head = status, head
        self.reusable = matched[1] == b"1"
        length = -1
        chunked = coded = False
        for name, text in _FRAMING.findall(head):
            kind, value = name.lower(), text.strip().lower()
            if kind == b"content-length":
                length = _length(value, length)
            elif kind == b"connection":
                if b"close" in value:
                    self.reusable = False
            else:
                coded, chunked = True, value.endswith(b"chunked")
        if status in _NO_BODY:
            self._state = _State.COMPLETE
        elif chunked:
            self._state = _State.CHUNK_LINE
        elif coded or length < 0:
            self._state, self.reusable = _State.UNTIL_CLOSE, False
        else:
            self._state, self._left = _State.LENGTH, length

    def _feed_chunks(self, data: bytes) -> bytes:
        pieces: list[bytes] = []
        at, size = 0, len(data)
        while at < size:
            if self._state is _State.CHUNK:
                end = min(size, at + self._left)
                pieces.append(data[at:end])
                self._left -= end - at
                at = end
                if not self._left:
                    self._state = _State.CHUNK_END
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                if size - at > MOST_CHUNK_LINE_BYTES:
                    raise ProtocolError(f"a chunk line of more than {MOST_CHUNK_LINE_BYTES} bytes")
                break
            self._read_chunk_line(data[at:end])
            at = end + 2
            if self._state is _State.COMPLETE:
                break
        self._rest = data[at:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read_chunk_line(self, line: bytes) -> None:
        if self._state is _State.CHUNK_LINE:
            if _CHUNK_SIZE.fullmatch(line) is None:
                raise ProtocolError(f"no chunk size: {line[:80]!r}")
            self._left = int(line.partition(b";")[0], 16)
            self._state = _State.CHUNK if self._left else _State.TRAILER
        elif self._state is _State.CHUNK_END:
            if line:
                raise ProtocolError(f"a chunk longer than it said: {line[:80]!r}")
            self._state = _State.CHUNK_LINE
        elif not line:
            self._state = _State.COMPLETE


def _length(value: bytes, before: int) -> int:
    if not value.isdigit() or len(value) > MOST_DIGITS or before not in (-1, int(value)):
        raise ProtocolError(f"no content length: {value[:80]!r}")
    return int(value)
