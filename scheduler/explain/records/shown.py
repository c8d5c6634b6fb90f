"""Records as a Python prompt and a notebook show them: in words, and never all of their fields.

What is in a record was written by others: it is shown without characters that control a terminal,
as text of HTML, and cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from scheduler.explain.records.wording import shortened
from scheduler.sanitizing.escaping import escaped
from scheduler.sanitizing.html import shown

MAX_SHOWN: Final = 10
"""Records, rows or lines that are shown of one value."""
MAX_LINE: Final = 300
"""Characters of one line."""

T_co = TypeVar("T_co", covariant=True)


class Shown:
    """A record that shows itself: `repr` is one line, HTML has some more.

    A subclass that is a dataclass says `repr=False`.
    """

    __slots__ = ()

    def _lines(self) -> Sequence[str]:
        """Return what to show: the first line alone in `repr`, all of them in a notebook."""
        raise NotImplementedError

    def _cells(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """Return headings and rows of a table for a notebook; no rows: no table."""
        return (), ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {_line(self._lines()[0])}>"

    def _repr_html_(self) -> str:
        first, *others = self._lines()
        parts = [f"<p><b>{shown(_line(first))}</b></p>"]
        parts += [f"<p>{shown(_line(each))}</p>" for each in others[:MAX_SHOWN]]
        headings, rows = self._cells()
        if rows:
            parts.append(_table(headings, rows[:MAX_SHOWN]))
        parts.append(_more(max(len(rows), len(others)) - MAX_SHOWN))
        return "".join(parts)


class ShownTuple(tuple[T_co, ...]):
    """A tuple of records that shows the first ones, each in a line.

    >>> ShownTuple(range(12))
    (0,
     1,
     2,
     3,
     4,
     5,
     6,
     7,
     8,
     9,
     ... and 2 more)
    >>> ShownTuple(), ShownTuple([1])
    ((), (1,))
    """

    __slots__ = ()

    def __repr__(self) -> str:
        if len(self) <= 1:
            return tuple.__repr__(self)
        lines = [repr(each) for each in self[:MAX_SHOWN]]
        if len(self) > MAX_SHOWN:
            lines.append(f"... and {len(self) - MAX_SHOWN} more")
        return "(" + ",\n ".join(lines) + ")"

    def _repr_html_(self) -> str:
        rows = [[_words(each)] for each in self[:MAX_SHOWN]]
        return _table((), rows) + _more(len(self) - MAX_SHOWN) if rows else "<p>none</p>"


def _words(record: object) -> str:
    return record._lines()[0] if isinstance(record, Shown) else repr(record)  # noqa: SLF001 - ours


def _line(text: str) -> str:
    """Return a text in one line, cut, as a terminal and a page may show it."""
    return escaped(shortened(text, MAX_LINE))


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{shown(each)}</th>" for each in headings)
    body = [f"<tr>{''.join(f'<td>{shown(_line(cell))}</td>' for cell in row)}</tr>" for row in rows]
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{''.join(body)}</table>"


def _more(count: int) -> str:
    return f"<p>and {count} more</p>" if count > 0 else ""
