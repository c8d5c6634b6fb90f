"""Rows of files with a workload: CSV with a header, or a JSON object in each line.

Every fault of a file is noted with its line and column, and all are raised together at its end, so
that one correction is enough and nothing is used of a file that has faults.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler.offline.dump_files import content
from scheduler.offline.editing import WorldError
from scheduler.offline.faults import MAX_FAULTS, Faults

MAX_BYTES: Final = 512 << 20
"""Of one file, after decompression: some ten million rows."""
MAX_CELL: Final = 16 << 20
"""Characters of one cell: the order in which three million pods arrive."""
MAX_NUMBER: Final = 10**15
"""Above it, whole numbers are no longer exact as floats."""

UNITS: Final[Mapping[str, float]] = {
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
"""Units of a time, and the seconds that each has."""

_TIME: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]\+?([0-9]{1,4}))?\s*([A-Za-zµ]*)")
_WHOLE: Final = re.compile(r"([0-9]{1,16})(?:\.0+)?")
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
MAX_NAME: Final = 253
NO_HINTS: Final[Mapping[str, str]] = {}
MAX_QUOTED: Final = 40
"""Characters of a bad value that an error quotes."""


class FileFaults(Faults):
    """The faults of one file."""

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self._path = path
        #: The line of the last fault.
        self.line = 0

    def add(self, line: int, text: str) -> None:
        """Note a fault of a line."""
        self.line = line
        self.note(f"{self._path}:{line}: {text}")


@dataclass(frozen=True, slots=True)
class Row:
    """One row; a method reads a column, and notes a fault if it cannot."""

    line: int
    _cells: Mapping[str, Any]
    _faults: FileFaults

    def fault(self, text: str) -> None:
        """Note a fault of this row; `text` begins with the column."""
        self._faults.add(self.line, text)

    @property
    def sound(self) -> bool:
        """Whether no fault of this row was noted yet."""
        return self._faults.line != self.line

    @property
    def faults(self) -> int:
        """The number of faults up to now, to tell whether what was read since has any."""
        return self._faults.count

    def has(self, column: str) -> bool:
        """Return whether the column exists and is not empty here."""
        return self._cells.get(column) not in (None, "")

    def value(self, column: str) -> Any:
        """Return what is there: a text of CSV, any value of JSON."""
        return self._cells.get(column)

    def text(self, column: str) -> str:
        """Return a text; empty where the column is missing."""
        found = self._cells.get(column)
        if found is None or isinstance(found, str):
            return (found or "").strip()
        self.fault(f"{column} is {_quoted(found)}; give a text")
        return ""

    def name(self, column: str) -> str:
        """Return the name of a Kubernetes object; empty where the column does not exist."""
        found = self.text(column)
        if column not in self._cells:
            return ""
        if not _NAME.fullmatch(found) or len(found) > MAX_NAME:
            self.fault(
                f"{column} is {_quoted(found)}; a name has lower case letters, digits, '-' and "
                f"'.', and at most {MAX_NAME} characters"
            )
        return found

    def whole(self, column: str, *, maximum: int = MAX_NUMBER) -> int:
        """Return a whole number from 0; 0 after a fault, or where the column does not exist."""
        found = self._cells.get(column, 0)
        matched = _WHOLE.fullmatch(str(found).strip())
        number = int(matched[1]) if matched and not isinstance(found, bool) else maximum + 1
        if number <= maximum:
            return number
        upper = "" if maximum == MAX_NUMBER else f" to {maximum}"
        self.fault(f"{column} is {_quoted(found)}; give a whole number from 0{upper}, without unit")
        return 0

    def seconds(self, column: str) -> float:
        """Return a time in seconds; 0 after a fault, or where the column does not exist."""
        found = self._cells.get(column, 0)
        try:
            return seconds(str(found))
        except ValueError as error:
            self.fault(f"{column} is {_quoted(found)}; {error}")
            return 0.0


def seconds(text: str) -> float:
    """Read a time: a number of seconds, or a number with a unit, `ms`, `s`, `m`, `h` or `d`.

    >>> seconds("1.5h")
    5400.0

    Raises:
        ValueError: it is negative, not finite, of an unknown unit, or no time.
    """
    matched = _TIME.fullmatch(text.strip())
    if matched is None:
        raise ValueError(f"give a number from 0, of seconds or with a unit: {', '.join(UNITS)}")
    unit = matched[3] or "s"
    if unit not in UNITS:
        raise ValueError(f"unit {unit!r:.20} is unknown; known are {', '.join(UNITS)}")
    found = float(f"{matched[1]}e{matched[2] or 0}") * UNITS[unit]
    if found > MAX_NUMBER:
        raise ValueError(f"give at most {MAX_NUMBER} seconds")
    return found


class Rows:
    """The rows of one file, and its faults."""

    def __init__(
        self,
        path: str | Path,
        required: Sequence[str],
        known: Sequence[str],
        hints: Mapping[str, str] = NO_HINTS,
    ) -> None:
        """Read a file, which may be compressed; nothing of it is checked yet.

        Args:
            path: ends in `.jsonl` or `.jsonl.gz` if every line is a JSON object; else it is CSV.
            required: columns that must be there.
            known: all columns that mean something, in the order in which errors list them.
            hints: what to do about others that people write, by their names in lower case.

        Raises:
            WorldError: the file cannot be read, or is not text.
        """
        self.path = Path(path)
        self.faults = FileFaults(path)
        self._required, self._known, self._hints = required, known, hints
        try:
            self._content = content(self.path, MAX_BYTES).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise WorldError(f"{path}: byte {error.start} is not UTF-8: not a text file") from error

    @property
    def columns(self) -> list[str]:
        """The header of CSV."""
        first = self._content.partition("\n")[0].rstrip("\r")
        return next(csv.reader([first]), [])

    def __iter__(self) -> Iterator[Row]:
        if ".jsonl" in self.path.suffixes:
            yield from self._json()
        else:
            yield from self._csv()

    def _json(self) -> Iterator[Row]:
        if not self._content.strip():
            self._note_empty()
        for line, text in enumerate(self._content.split("\n"), 1):
            if not text.strip():
                continue
            try:
                cells = msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError) as error:
                self.faults.add(line, f"not JSON: {error}")
                continue
            if not isinstance(cells, dict):
                self.faults.add(line, f"expected a JSON object, got {_quoted(cells)}")
                continue
            for column in self._required:
                if column not in cells:
                    self.faults.add(line, f"column {column} is missing")
            absent = [each for each in self._known if each not in cells]
            for column in sorted(cells.keys() - set(self._known)):
                self.faults.add(
                    line, f"column {_quoted(column)} is not read{self._advice(column, absent)}"
                )
            yield Row(line, cells, self.faults)

    def _csv(self) -> Iterator[Row]:
        limit = csv.field_size_limit(MAX_CELL)
        try:
            # At once, since the limit is that of the whole process.
            rows = csv.reader(io.StringIO(self._content, newline=""), strict=True)
            table = self._table(rows)
        finally:
            csv.field_size_limit(limit)
        if not table:
            self._note_empty()
            return
        header = [each.strip() for each in table[0][1]]
        self._check_header(header)
        if len(table) == 1 and not self.faults.line:
            self.faults.add(1, "there is no row below the header")
        for line, cells in table[1:]:
            if len(cells) != len(header):
                self.faults.add(line, f"{len(cells)} columns, but the header has {len(header)}")
                continue
            yield Row(line, dict(zip(header, cells, strict=True)), self.faults)

    def _advice(self, column: str, absent: Sequence[str]) -> str:
        """Return what to do about a column that is not known: a text that ends a sentence."""
        if self.faults.count >= MAX_FAULTS:
            return ""  # It is not listed.
        meant = get_close_matches(column.lower(), absent, 1, 0.75)
        if advice := self._hints.get(column.lower()):
            return f": {advice}"
        if meant:
            return f"; did you mean {meant[0]}?"
        return f": remove it; known are {','.join(self._known)}"

    def _note_empty(self) -> None:
        self.faults.add(1, f"the file is empty; give columns {','.join(self._known)}")

    def _table(self, rows: Any) -> list[tuple[int, list[str]]]:
        """Return the rows that are not empty, each with the line where it begins."""
        found: list[tuple[int, list[str]]] = []
        line = 1
        try:
            for each in rows:
                if each:
                    found.append((line, each))
                line = rows.line_num + 1
        except csv.Error as error:
            self.faults.add(line, f"not CSV from here on: {error}")
        return found

    def _check_header(self, header: list[str]) -> None:
        if len(header) == 1 and (other := re.search(r"[;\t|]", header[0])):
            self.faults.add(1, f"columns are separated by commas here, not by {other[0]!r}")
            return
        absent = [each for each in self._known if each not in header]
        for column in header:
            if column not in self._known:
                # Whoever wrote it expects an effect.
                self.faults.add(
                    1, f"column {_quoted(column)} is not read{self._advice(column, absent)}"
                )
        for column in self._required:
            if column not in header:
                self.faults.add(1, f"column {column} is missing; give {','.join(self._known)}")
        for column in self._known:
            if header.count(column) > 1:
                self.faults.add(1, f"column {column} is there {header.count(column)} times")


def _quoted(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"
