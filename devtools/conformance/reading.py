"""Finding vector files and reading them.

A file holds one vector per line, gzipped. Files of families are run through the engine, unit files
(`devtools.conformance.units`) through one function each. A missing or empty file is an error: it
must never look like agreement.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from devtools.conformance.units import SUFFIX, UNIT_FILES

VECTORS: Final = Path(__file__).parents[2] / "tests" / "conformance" / "vectors"
"""The committed vectors."""

FAMILIES: Final = (
    "basic",
    "resources",
    "taints",
    "nodeaffinity",
    "ports",
    "images",
    "scoring",
    "gates",
    "spread",
    "interpod",
    "volumes",
    "preemption",
    "nominated",
    "dra",
    "mixed",
    "storagescore",
    "csidriver",
    "imagevolumes",
    "pdboverlap",
    "resizing",
    "gatednominated",
    "negativens",
    "devices137",
)
"""Families that are committed, in the order of the table."""

UNIT: Final = "unit"
"""Stands for all unit files in `--families`; alone they are called `unit/quantity` and so on."""

Vector = dict[str, Any]
"""One line of a file: id, family, note, input, expected."""


class VectorError(Exception):
    """The requested vectors are missing or unreadable."""


@dataclass(frozen=True, slots=True)
class VectorFile:
    """One file and what it is called in the table."""

    path: Path
    family: str

    @property
    def unit(self) -> bool:
        """Whether it holds unit vectors."""
        return self.family.startswith(f"{UNIT}/")

    def vectors(self) -> Iterator[Vector]:
        """Decode every line. Raises VectorError for an unreadable file and for an empty one."""
        count = 0
        try:
            with gzip.open(self.path, "rb") as lines:
                for line in lines:
                    count += 1
                    yield msgspec.json.decode(line)
        except (OSError, EOFError, msgspec.DecodeError) as error:
            raise VectorError(f"{self.path}: cannot be read: {error}") from error
        if not count:
            raise VectorError(f"{self.path}: holds no vectors")


def find_files(paths: Sequence[Path], families: Sequence[str] = ()) -> list[VectorFile]:
    """The vector files under `paths` (files, or directories with or without `unit/`).

    Raises VectorError when a path does not exist or holds nothing, when one of `families` was not
    found, or when the committed directory is not complete.
    """
    found: dict[Path, VectorFile] = {}
    for path in paths:
        for file in _files_of(path):
            found.setdefault(file.path.resolve(), file)
    files = sorted(found.values(), key=_place)
    _require(files, families)
    return [each for each in files if not families or _wanted(each.family, families)]


def _files_of(path: Path) -> list[VectorFile]:
    if path.is_dir():
        listed = sorted(path.glob(f"*{SUFFIX}")) + sorted((path / UNIT).glob(f"*{SUFFIX}"))
        if not listed:
            raise VectorError(f"{path}: holds no {SUFFIX} files")
        files = [_named(each) for each in listed]
        if path.resolve() == VECTORS.resolve():
            _require(files, (*FAMILIES, *(f"{UNIT}/{name}" for name in UNIT_FILES)))
        return files
    if not path.is_file():
        raise VectorError(f"{path}: no such file or directory")
    return [_named(path)]


def _named(path: Path) -> VectorFile:
    name = path.name.removesuffix(SUFFIX)
    return VectorFile(path, f"{UNIT}/{name}" if name in UNIT_FILES else name)


def _require(files: Sequence[VectorFile], families: Sequence[str]) -> None:
    missing = [each for each in families if not any(_wanted(f.family, [each]) for f in files)]
    if missing:
        there = ", ".join(file.family for file in files) or "nothing"
        raise VectorError(f"no vector file for {', '.join(missing)}; found: {there}")


def _wanted(family: str, families: Sequence[str]) -> bool:
    return family in families or (family.startswith(f"{UNIT}/") and UNIT in families)


def _place(file: VectorFile) -> tuple[int, str]:
    if file.unit:
        return len(FAMILIES) + 1, file.family
    known = file.family in FAMILIES
    return FAMILIES.index(file.family) if known else len(FAMILIES), file.family
