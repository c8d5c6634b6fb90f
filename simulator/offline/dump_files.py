"""The files of a dump: named ones, and those in folders at any depth.

A person names a file or a folder; `kubectl cluster-info dump --output-directory`, must-gather and
backups write folders in folders. Does not know what is in the files, but that they are text.

Files may come from anywhere: what is read is bounded in number, in bytes and in what compression
makes of few of them; a link in a folder leads to nothing outside of the folder.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from scheduler.bundle.reading import GZIP_MAGIC
from scheduler.files import open_file, reason
from scheduler.text.encodings import as_utf8
from simulator.offline.editing import WorldError
from simulator.offline.faults import Faults

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
_CHUNK: Final = 1 << 20

_OTHER_CONTENT: Final = re.compile(r"(?i)\.(?:tar|log|txt)\.gz$")
"""Compressed files of a folder that have no objects."""


@dataclass(frozen=True, slots=True)
class DumpFile:
    """One file that was read."""

    path: Path
    data: bytes
    """UTF-8, unless it is no text."""
    named: bool
    """Whether a person named the file itself, so that it must have objects."""


def dump_files(paths: Iterable[str | Path], faults: Faults) -> Iterator[DumpFile]:
    """Yield what is in files, and in the files of folders in the order of their names.

    Faults are noted, and the other files read.
    """
    size = 0
    for each in paths:
        path = Path(each)
        named = not path.is_dir()
        try:
            inside = [path] if named else _files_in(path)
        except WorldError as error:
            faults.note(str(error))
            continue
        for file in inside:
            try:
                data = content(file, MAX_BYTES - size, pipes=True)
            except WorldError as error:
                faults.note(str(error))
                continue
            size += len(data)
            yield DumpFile(file, data, named)


def _is_read(name: str) -> bool:
    # Hidden files are left out: a mounted ConfigMap has its files in ..data as well.
    return (
        name.lower().endswith(SUFFIXES)
        and not name.startswith(".")
        and not _OTHER_CONTENT.search(name)
    )


def _files_in(folder: Path) -> list[Path]:
    found: list[Path] = []
    inside, top = folder.resolve(), len(folder.parts)
    for name, folders, files in os.walk(folder):
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
        if len(found) > MAX_FILES:
            raise WorldError(f"{folder}: the folder has more than {MAX_FILES} files")
    if not found:
        raise WorldError(
            f"{folder}: the folder has no file ending in {', '.join(SUFFIXES)}, nor has one below"
        )
    return found


def content(path: Path, limit: int, *, pipes: bool = False) -> bytes:
    """Return the text of a file, which may be compressed by gzip, at most `limit` bytes of UTF-8.

    With `pipes` also what is in a pipe (`scheduler.files`).

    Raises:
        WorldError: it cannot be read, or is refused.
    """
    try:
        with open_file(path, pipes=pipes) as file:
            head = file.read(len(GZIP_MAGIC))
            if head == GZIP_MAGIC:
                return as_utf8(_joined(path, _inflated(path, file), limit))
            pieces = chain((head,), iter(partial(file.read, _CHUNK), b""))
            return as_utf8(_joined(path, pieces, limit))
    except (OSError, zlib.error) as error:
        raise WorldError(f"{path}: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise WorldError(f"{path}: byte {error.start} is no {error.encoding}") from error


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


def _inflated(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a gzip file whose magic number was read; members may follow another."""
    packed, total, data = len(GZIP_MAGIC), 0, GZIP_MAGIC
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
    while chunk := file.read(_CHUNK):
        packed += len(chunk)
        data += chunk
        while data:
            if inflater.eof:
                inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
            piece = inflater.decompress(data, _CHUNK)
            total += len(piece)
            if total > max(RATIO_FROM, packed * MAX_RATIO):
                raise WorldError(
                    f"{path}: compressed more than {MAX_RATIO} times, as no dump is: refused; "
                    "decompress it first"
                )
            yield piece
            data = inflater.unused_data.lstrip(b"\0") if inflater.eof else inflater.unconsumed_tail
    if not inflater.eof:
        raise WorldError(f"{path}: the file is cut: its compressed data has no end")
