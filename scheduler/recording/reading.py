"""Reading of bundles from untrusted sources: with limits, and verified before use.

The file is read twice, first to verify it against its manifest, then for its content, so that no
content of a damaged or hostile file is used. Memory is bounded by the longest line.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler.files import open_file
from scheduler.recording.format import (
    API_VERSION,
    HEADER,
    MANIFEST,
    MAX_BYTES,
    MAX_LINE_BYTES,
    MAX_LINES,
    MAX_SECTION_NAME,
    MAX_SECTIONS,
    BundleError,
    Header,
    Line,
    Manifest,
    decode_line,
)

GZIP_MAGIC: Final = b"\x1f\x8b"
_CHUNK: Final = 1 << 16
_INFLATED: Final = 1 << 20
"""Maximum bytes of one decompression step, even for highly compressed input."""

_CUT: Final = "{path}: the file is cut: it ends {where}; copy it again, or make a new bundle"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A file that matches its manifest."""

    path: Path
    header: Header
    manifest: Manifest

    def lines(self) -> Iterator[Line]:
        """Yield the lines between header and manifest, in order.

        Raises:
            BundleError: the file has changed since it was opened.
        """
        for index, raw in enumerate(_lines(self.path)):
            if index >= self.manifest.lines:
                return
            if index:
                yield _line(self.path, index, raw)


def is_bundle(path: str | Path) -> bool:
    """Whether a file looks like a bundle of any version."""
    try:
        with open_file(path) as file:
            if file.read(2) != GZIP_MAGIC:
                return False
        first = next(_lines(Path(path)), b"")
    except (OSError, BundleError):
        return False
    return first.startswith(b'{"section":"bundle"')


def open_bundle(path: str | Path) -> Bundle:
    """Open a bundle and verify it completely.

    Raises:
        BundleError: the file is not a bundle, of another version, truncated, changed or too large.
    """
    path = Path(path)
    header: Header | None = None
    bundle: Bundle | None = None
    total, size, sections, checksum = 0, 0, Counter[str](), hashlib.sha256()
    for raw in _lines(path):
        if bundle is not None:
            raise BundleError(f"{path}: something follows the end of the bundle; copy it again")
        line = _line(path, total, raw)
        if header is None:
            header = _header(path, line)
        elif line.section == MANIFEST:
            manifest = _decoded(path, line, Manifest)
            found = (total, size, checksum.hexdigest(), dict(sections))
            if found != (manifest.lines, manifest.bytes, manifest.sha256, manifest.sections):
                raise BundleError(
                    f"{path}: the content does not match the checksum in its manifest: the file "
                    "was changed or damaged; copy it again, or make a new bundle"
                )
            bundle = Bundle(path, header, manifest)
        _check_section(path, line.section, sections)
        total, size = total + 1, size + len(raw) + 1
        sections[line.section] += 1
        checksum.update(raw)
        checksum.update(b"\n")
        if total > MAX_LINES:
            raise BundleError(f"{path}: more than {MAX_LINES} lines: no bundle has so many")
    if bundle is not None:
        return bundle
    if header is None:
        raise BundleError(f"{path}: empty; `kubestow bundle -o FILE` writes bundles")
    raise BundleError(_CUT.format(path=path, where=f"after line {total}, without a manifest"))


def _check_section(path: Path, section: str, known: Counter[str]) -> None:
    if len(section) > MAX_SECTION_NAME:
        raise BundleError(
            f"{path}: a section whose name is longer than {MAX_SECTION_NAME}: refused"
        )
    if section not in known and len(known) >= MAX_SECTIONS:
        raise BundleError(f"{path}: more than {MAX_SECTIONS} sections: no bundle has so many")


def _header(path: Path, line: Line) -> Header:
    if line.section != HEADER:
        raise BundleError(f"{path}: not a bundle of kubestow: its first line has no header")
    version = _decoded(path, line, _Version).api_version
    if version != API_VERSION:
        raise BundleError(
            f"{path}: a bundle of version {version!r:.80}, and this kubestow reads {API_VERSION}; "
            "use the version of kubestow that wrote it"
        )
    header: Header = _decoded(path, line, Header)
    return header


class _Version(msgspec.Struct, rename="camel"):
    api_version: str = ""


def _decoded(path: Path, line: Line, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(line.data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BundleError(f"{path}: malformed {line.section}: {error}") from error


def _line(path: Path, index: int, raw: bytes) -> Line:
    try:
        return decode_line(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BundleError(
            f"{path}: not a bundle of kubestow, or a damaged one: line {index + 1}: {error}"
        ) from error


def _lines(path: Path) -> Iterator[bytes]:
    """Yield lines without their ends."""
    rest = b""
    for data in _inflated(path):
        pieces = (rest + data).split(b"\n")
        rest = pieces.pop()
        yield from pieces
        if len(rest) > MAX_LINE_BYTES or any(len(each) > MAX_LINE_BYTES for each in pieces):
            raise BundleError(f"{path}: a line of more than {MAX_LINE_BYTES >> 20} MiB: refused")
    if rest:
        raise BundleError(_CUT.format(path=path, where="within a line"))


def _inflated(path: Path) -> Iterator[bytes]:
    inflater, total = zlib.decompressobj(16 + zlib.MAX_WBITS), 0
    try:
        with open_file(path) as file:
            if file.read(2) != GZIP_MAGIC:
                raise BundleError(f"{path}: not a bundle of kubestow: not compressed by gzip")
            file.seek(0)
            while chunk := file.read(_CHUNK):
                while chunk and not inflater.eof:
                    data = inflater.decompress(chunk, _INFLATED)
                    total += len(data)
                    if total > MAX_BYTES:
                        raise BundleError(
                            f"{path}: more than {MAX_BYTES >> 30} GiB after decompression: refused"
                        )
                    chunk = inflater.unconsumed_tail
                    yield data
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror or error}") from error
    except zlib.error as error:
        raise BundleError(
            f"{path}: damaged: {error}; copy it again, or make a new bundle"
        ) from error
    if not inflater.eof:
        raise BundleError(_CUT.format(path=path, where="in the middle of its compressed data"))
    if inflater.unused_data:
        raise BundleError(f"{path}: something follows the end of the bundle; copy it again")
