"""The files in tar and zip archives. Nothing is unpacked onto the disk: a name is only a name.

Own readers of few lines: those of the standard library keep a record for each member, and follow
what a header says about sizes. Here each member is limited when it is read, members that are not
wanted cost no memory, and links are never followed.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, NamedTuple, Protocol

BLOCK: Final = 512
"""Bytes of a header of tar, to whose multiple the content of each member is filled up."""
MAX_MEMBERS: Final = 1_000_000
"""With those that are not wanted."""
_MAX_HEADER: Final = 1 << 20
"""Bytes of a long name, or of the extended header of one member."""
_CHUNK: Final = 1 << 20

ZIP_MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")
_END: Final = struct.Struct("<4s4H2LH")
_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_REGULAR: Final = (b"0", b"\0", b"7")
_LINKS: Final = (b"1", b"2")
_PAX: Final = re.compile(rb"([0-9]{1,7}) (path|size)=")

_ZIP64: Final = "zip in the form for more than 65,534 files or 4 GiB is not read: pack it as tar.gz"

Wanted = Callable[[str], bool]


class ArchiveError(ValueError):
    """An archive that is damaged, or in a form that is not read."""


class Member(NamedTuple):
    """One file of an archive."""

    name: str
    content: Iterator[bytes]
    """Its pieces, which must be taken before the next member."""
    packed: int | None = None
    """Its bytes before decompression, where it is compressed on its own."""
    is_link: bool = False
    """Whether it is a link, which has no content."""


class Stream(Protocol):
    """Bytes that are read once."""

    def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer at the end only."""


def is_tar(head: bytes) -> bool:
    """Whether a file that begins so is a tar archive: the checksum of its first header fits."""
    return len(head) >= BLOCK and any(head[:BLOCK]) and _number(head[148:156]) == _checksum(head)


def _checksum(header: bytes) -> int:
    return sum(header[:148]) + 8 * 32 + sum(header[156:BLOCK])


def _number(text: bytes) -> int:
    if text[0] & 0x80:  # GNU: a binary number, which is larger than octal digits allow
        return int.from_bytes(bytes([text[0] & 0x7F]) + text[1:])
    digits = text.strip(b" \0")
    return int(digits, 8) if re.fullmatch(b"[0-7]+", digits) else -1


def tar_members(stream: Stream, wanted: Wanted) -> Iterator[Member]:
    """Yield the regular files of a tar archive that are wanted.

    Raises:
        ArchiveError: the archive is damaged or cut.
    """
    name = size = None
    for _ in range(MAX_MEMBERS):
        header = stream.read(BLOCK)
        if not any(header):
            return  # two empty blocks, or nothing
        if not is_tar(header):
            raise ArchiveError("the archive is damaged: a header of tar does not fit its checksum")
        kind, length = header[156:157], _number(header[124:136])
        if kind in (b"L", b"x"):
            extended = b"".join(_taken(stream, length, _MAX_HEADER))
            if kind == b"L":
                name = extended.rstrip(b"\0")
            else:
                name, size = _pax(extended, b"path", name), _pax(extended, b"size", size)
            continue
        if size is not None:
            length = int(size) if size.isdigit() else -1
        own = name if name is not None else _name(header)
        name = size = None
        content = _taken(stream, length, None)
        text = own.decode(errors="replace")
        if kind in _LINKS and wanted(text):
            yield Member(text, iter(()), is_link=True)
        elif kind in _REGULAR and wanted(text):
            yield Member(text, content)
        for _ in content:
            pass
    raise ArchiveError(f"more than {MAX_MEMBERS} files in the archive")


def _name(header: bytes) -> bytes:
    own, before = header[:100].rstrip(b"\0"), header[345:500].rstrip(b"\0")
    return before + b"/" + own if header[257:263] == b"ustar\0" and before else own


def _pax(records: bytes, key: bytes, otherwise: bytes | None) -> bytes | None:
    """Return a value of an extended header: records of `LENGTH KEY=VALUE` and a line feed."""
    for matched in _PAX.finditer(records):
        if matched[2] == key:
            return records[matched.end() : matched.start() + int(matched[1]) - 1]
    return otherwise


def _taken(stream: Stream, length: int, limit: int | None) -> Iterator[bytes]:
    """Yield the content of a member, and pass what fills its last block."""
    if length < 0 or (limit is not None and length > limit):
        raise ArchiveError("the archive is damaged: a header of tar has an impossible size")
    left, fill = length, -length % BLOCK
    while left:
        piece = stream.read(min(left, _CHUNK))
        if not piece:
            raise ArchiveError("the archive is cut: it ends within a file")
        left -= len(piece)
        yield piece
    stream.read(fill)


def zip_members(file: BinaryIO, wanted: Wanted) -> Iterator[Member]:
    """Yield the files of a zip archive that are wanted.

    Raises:
        ArchiveError: the archive is damaged or cut, or a file encrypted or compressed in another
            way than by deflate.
    """
    size = file.seek(0, 2)
    tail = min(size, _END.size + 0xFFFF)
    file.seek(size - tail)
    last = file.read(tail)
    place = last.rfind(b"PK\x05\x06")
    if place < 0 or len(last) - place < _END.size:
        raise ArchiveError("the archive is cut: its list of files is missing")
    _, _, _, _, count, length, start, _ = _END.unpack_from(last, place)
    if count == 0xFFFF or start == 0xFFFFFFFF:
        raise ArchiveError(_ZIP64)
    file.seek(start)
    directory, at = file.read(length), 0
    for _ in range(count):
        if len(directory) - at < _ENTRY.size or directory[at : at + 4] != b"PK\x01\x02":
            raise ArchiveError("the archive is damaged: its list of files cannot be read")
        entry = _ENTRY.unpack_from(directory, at)
        flags, method, packed, lengths, local = *entry[3:5], entry[8], entry[10:13], entry[-1]
        name = directory[at + _ENTRY.size :][: lengths[0]]
        at += _ENTRY.size + sum(lengths)
        # Windows separates folders by "\\", and the upper half of the attributes is Unix's mode.
        text = name.decode("utf-8" if flags & 0x800 else "cp437", "replace").replace("\\", "/")
        if text.endswith("/") or not wanted(text):
            continue
        if entry[1] >> 8 == 3 and entry[-2] >> 28 == 0xA:
            yield Member(text, iter(()), is_link=True)
            continue
        if 0xFFFFFFFF in (packed, local):
            raise ArchiveError(_ZIP64)
        if flags & 1 or method not in (0, 8):
            how = "encrypted" if flags & 1 else f"compressed by method {method}"
            raise ArchiveError(
                f"{text[:200]} is {how}: pack it with deflate and without a password"
            )
        content = _unzipped(file, local, packed, method)
        yield Member(text, _checked(content, entry[7]), packed)


def _unzipped(file: BinaryIO, local: int, packed: int, method: int) -> Iterator[bytes]:
    file.seek(local)
    header = file.read(_LOCAL.size)
    if len(header) < _LOCAL.size or header[:4] != b"PK\x03\x04":
        raise ArchiveError("the archive is damaged: a file is not where its list says")
    file.seek(sum(_LOCAL.unpack(header)[-2:]), 1)
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    while packed:
        data = file.read(min(packed, _CHUNK))
        if not data:
            raise ArchiveError("the archive is cut: it ends within a file")
        packed -= len(data)
        if method == 0:
            yield data
        while method and data and not inflater.eof:
            yield inflater.decompress(data, _CHUNK)
            data = inflater.unconsumed_tail
    if method and not inflater.eof:
        raise ArchiveError("the archive is cut: the compressed data of a file have no end")


def _checked(pieces: Iterator[bytes], expected: int) -> Iterator[bytes]:
    checksum = 0
    for piece in pieces:
        checksum = zlib.crc32(piece, checksum)
        yield piece
    if checksum != expected:
        raise ArchiveError("the archive is damaged: the checksum of a file differs")
