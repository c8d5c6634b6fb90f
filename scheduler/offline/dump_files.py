"""The files of a dump: named ones, those in folders at any depth, and those in archives.

A person names a file or a folder; `kubectl cluster-info dump --output-directory`, must-gather and
backups write folders in folders. Does not know what is in the files, but that they are text.

Files may come from anywhere: what is read is bounded in number, in bytes and in what compression
makes of few of them; a link in a folder leads to nothing outside of the folder. Archives in
folders and in archives are not read, nor are links in archives.
"""

from __future__ import annotations

import io
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from scheduler.files import open_file, reason
from scheduler.offline.archives import (
    BLOCK,
    ZIP_MAGIC,
    ArchiveError,
    Member,
    is_tar,
    tar_members,
    zip_members,
)
from scheduler.offline.editing import WorldError
from scheduler.offline.faults import Faults
from scheduler.recording.reading import GZIP_MAGIC
from scheduler.sanitizing.encodings import as_utf8

SUFFIXES: Final = (".yaml", ".yml", ".json", ".jsonl", ".ndjson", ".gz")
"""Files that are read of a folder."""
MAX_BYTES: Final = 2 << 30
"""Of all files together, after decompression: 150,000 pods as kubectl prints them."""
MAX_RATIO: Final = 200
"""Compression of a file of more than `RATIO_FROM`; objects that are alike reach some 50."""
RATIO_FROM: Final = 64 << 20
MAX_FILES: Final = 200_000
"""In one folder and below; a backup has a file for each object."""
MAX_DEPTH: Final = 40
"""Folders in folders; must-gather has eight."""
MAX_PASSED: Final = 16 << 30
"""Bytes of an archive after decompression, with files that are not read: half a minute."""
_CHUNK: Final = 1 << 20
_MAX_NAME: Final = 300
"""Characters of a name in an archive; its end counts."""

_OTHER_CONTENT: Final = re.compile(r"(?i)\.(?:tar|log|txt)\.gz$")
"""Compressed files of a folder that have no objects."""


_ARCHIVE: Final = re.compile(r"(?i)\.(?:tar|tgz|zip|tar\.\w+)$")
_EXAMPLES: Final = 3
_HIDDEN_FOLDER: Final = re.compile(r"(?:^|/)\.(?!\.?(?:/|$))")

_OTHER_FORMATS: Final = {
    b"\xfd7zXZ\0": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!": "rar",
}
"""Beginnings of files that are compressed in ways that are not read."""


@dataclass(frozen=True, slots=True)
class DumpFile:
    """One file that was read."""

    path: Path
    """Of a file in an archive, the path of the archive and its name there."""
    data: bytes
    """UTF-8, unless it is no text."""
    named: bool
    """Whether a person named the file itself, so that it must have objects."""


def dump_files(paths: Iterable[str | Path], faults: Faults, notes: list[str]) -> Iterator[DumpFile]:
    """Yield what is in files, in the files of folders in the order of their names, and in archives.

    Faults are noted, and the other files read; `notes` is told of links and archives that are not.
    """
    reader = _Reader(notes)
    for path in map(Path, paths):
        try:
            if path.is_dir():
                yield from reader.files_in(path, faults)
            else:
                yield from reader.file_or_archive(path)
        except WorldError as error:
            faults.note(str(error))


class _Reader:
    """Reads files one after the other, all of which together are limited."""

    def __init__(self, notes: list[str]) -> None:
        self._left, self._notes = MAX_BYTES, notes

    def files_in(self, folder: Path, faults: Faults) -> Iterator[DumpFile]:
        """Yield the files in a folder and below; note faults of single files. Raises WorldError."""
        files, archives = _files_in(folder)
        self._note_unread("archives", archives)
        for path in files:
            try:
                data = content(path, self._left)
            except WorldError as error:
                faults.note(str(error))
                continue
            self._left -= len(data)
            yield DumpFile(path, data, named=False)

    def file_or_archive(self, path: Path) -> Iterator[DumpFile]:
        """Yield a file, or those in an archive. Raises WorldError."""
        with _errors(path), open_file(path, pipes=True) as file:
            head = file.read(BLOCK)
            if head.startswith(ZIP_MAGIC):
                if not file.seekable():
                    raise WorldError(f"{path}: zip in a pipe: write it into a file, and name that")
                wanted = _Wanted()
                yield from self._members(path, zip_members(file, wanted), wanted)
                return
            stream = _Stream(path, _pieces(path, head, file))
            start = stream.read(BLOCK)
            whole = _Stream(path, chain((start,), stream.rest()))
            if is_tar(start):
                wanted = _Wanted()
                yield from self._members(path, tar_members(whole, wanted), wanted)
                return
            data = as_utf8(_joined(path, whole.rest(), self._left))
        self._left -= len(data)
        yield DumpFile(path, data, named=True)

    def _members(
        self, archive: Path, members: Iterator[Member], wanted: _Wanted
    ) -> Iterator[DumpFile]:
        count, links = 0, []
        for member in members:
            path, count = archive / member.name.lstrip("/")[-_MAX_NAME:], count + 1
            if member.is_link:
                links.append(path)
                continue
            if count > MAX_FILES:
                raise WorldError(f"{archive}: the archive has more than {MAX_FILES} files")
            with _errors(path):
                pieces = _within_ratio(path, member)
                if member.name.lower().endswith(".gz"):
                    packed = _joined(path, pieces, self._left)
                    pieces = _pieces(path, packed[:BLOCK], io.BytesIO(packed[BLOCK:]))
                data = as_utf8(_joined(path, pieces, self._left))
            self._left -= len(data)
            yield DumpFile(path, data, named=False)
        self._note_unread("links", links)
        self._note_unread("archives", [archive / each for each in wanted.archives])
        if not count:
            raise WorldError(f"{archive}: the archive has no file ending in {', '.join(SUFFIXES)}")

    def _note_unread(self, kind: str, paths: list[Path]) -> None:
        if paths:
            names = ", ".join(map(str, paths[:_EXAMPLES]))
            more = f" and {len(paths) - _EXAMPLES} more" * (len(paths) > _EXAMPLES)
            self._notes.append(f"{kind} are not read here: {names}{more}")


class _Stream:
    """Pieces of a file as a stream."""

    def __init__(self, path: Path, pieces: Iterator[bytes]) -> None:
        self._path, self._pieces = path, filter(None, pieces)
        self._rest, self._left = memoryview(b""), MAX_PASSED

    def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer at the end only. Raises WorldError."""
        found, left = [], size
        while left:
            self._rest = self._rest or memoryview(next(self._pieces, b""))
            if not self._rest:
                break
            piece, self._rest = self._rest[:left], self._rest[left:]
            found.append(piece)
            left -= len(piece)
        self._left -= size
        if self._left < 0:
            raise WorldError(
                f"{self._path}: more than {MAX_PASSED >> 30} GiB after decompression: refused; "
                "pack only the files with objects"
            )
        return b"".join(found)

    def rest(self) -> Iterator[bytes]:
        """Yield what was not read."""
        yield bytes(self._rest)
        yield from self._pieces


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Let errors of reading a file name it. Raises WorldError."""
    try:
        yield
    except (OSError, zlib.error, ArchiveError) as error:
        raise WorldError(f"{path}: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise WorldError(f"{path}: byte {error.start} is no {error.encoding}") from error


class _Wanted:
    """Says which files of an archive are read; keeps the names of archives in it."""

    def __init__(self) -> None:
        #: The first ones.
        self.archives: list[str] = []

    def __call__(self, name: str) -> bool:
        if _HIDDEN_FOLDER.search(name):
            return False
        if _ARCHIVE.search(name) and len(self.archives) < MAX_DEPTH:
            self.archives.append(name.lstrip("/")[-_MAX_NAME:])
        return _is_read(name.rpartition("/")[2])


def _is_read(name: str) -> bool:
    # Hidden files are left out: a mounted ConfigMap has its files in ..data as well.
    return (
        name.lower().endswith(SUFFIXES)
        and not name.startswith(".")
        and not _OTHER_CONTENT.search(name)
    )


def _files_in(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files in a folder that are read, and the archives, which are not."""
    found: list[Path] = []
    archives: list[Path] = []
    inside, top = folder.resolve(), len(folder.parts)
    for name, folders, files in os.walk(folder, onerror=_refuse_folder):
        here = Path(name)
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        if len(here.parts) - top > MAX_DEPTH:
            raise WorldError(f"{here}: nested too deeply: more than {MAX_DEPTH} folders")
        linked = [here / each for each in folders if (here / each).is_symlink()]
        read = [here / each for each in sorted(files) if _is_read(each)]
        for path in (*linked, *(each for each in read if each.is_symlink())):
            if not path.resolve().is_relative_to(inside):
                raise WorldError(
                    f"{path}: a link to a file outside of the folder; name the file itself"
                )
        found += (each for each in read if each.is_file())
        archives += (here / each for each in sorted(files) if _ARCHIVE.search(each))
        if len(found) > MAX_FILES:
            raise WorldError(f"{folder}: the folder has more than {MAX_FILES} files")
    if not found:
        raise WorldError(
            f"{folder}: the folder has no file ending in {', '.join(SUFFIXES)}, nor has one below"
        )
    return found, archives


def _refuse_folder(error: OSError) -> None:
    raise WorldError(f"{error.filename}: {reason(error)}")


def content(path: Path, limit: int, *, pipes: bool = False) -> bytes:
    """Return the text of a file, which may be compressed by gzip, at most `limit` bytes of UTF-8.

    With `pipes` also what is in a pipe (`scheduler.files`).

    Raises:
        WorldError: it cannot be read, or is refused.
    """
    with _errors(path), open_file(path, pipes=pipes) as file:
        return as_utf8(_joined(path, _pieces(path, file.read(BLOCK), file), limit))


def _pieces(path: Path, head: bytes, file: BinaryIO) -> Iterator[bytes]:
    """Return what is in a file that begins with `head`, decompressed, in pieces."""
    for magic, name in _OTHER_FORMATS.items():
        if head.startswith(magic):
            raise WorldError(
                f"{path}: compressed by {name}: decompress it first, or compress it with gzip"
            )
    pieces = chain((head,), iter(partial(file.read, _CHUNK), b""))
    return _inflated(path, pieces) if head.startswith(GZIP_MAGIC) else pieces


def _joined(path: Path, pieces: Iterable[bytes], limit: int) -> bytes:
    found, size = [], 0
    for piece in pieces:
        found.append(piece)
        size += len(piece)
        if size > limit:
            raise WorldError(
                f"{path}: more than {MAX_BYTES >> 30} GiB, after decompression and with the files "
                "before it: refused"
            )
    return b"".join(found)


def _inflated(path: Path, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of a gzip file, in which members may follow each other."""
    packed, total, data = 0, 0, b""
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
    for chunk in pieces:
        packed += len(chunk)
        data += chunk
        while data:
            if inflater.eof:
                inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
            piece = inflater.decompress(data, _CHUNK)
            total += len(piece)
            _refuse_ratio(path, total, packed)
            yield piece
            data = inflater.unused_data.lstrip(b"\0") if inflater.eof else inflater.unconsumed_tail
    if not inflater.eof:
        raise WorldError(f"{path}: the file is cut: its compressed data has no end")


def _refuse_ratio(path: Path, total: int, packed: int) -> None:
    if total > max(RATIO_FROM, packed * MAX_RATIO):
        raise WorldError(
            f"{path}: compressed more than {MAX_RATIO} times, as no dump is: refused; "
            "decompress it first"
        )


def _within_ratio(path: Path, member: Member) -> Iterator[bytes]:
    total = 0
    for piece in member.content:
        total += len(piece)
        if member.packed is not None:
            _refuse_ratio(path, total, member.packed)
        yield piece
