"""Tables for terminals, as wide as they are, and for pipes, with one line for each row."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPED_WIDTH: Final = 10_000
"""Columns of a pipe: nothing is wrapped there, for grep and awk."""

Layout = Mapping[str, Any]
FOLDED: Final[Layout] = {"overflow": "fold"}
WHOLE: Final[Layout] = {"no_wrap": True}
NUMBER: Final[Layout] = {"justify": "right", "no_wrap": True}

Cell = str | tuple[str, str]
"""A text, or a text and its style. Nothing in it is markup."""


def wide_console(*, endless: bool = False) -> Console:
    """Build a console as wide as the terminal; in a pipe, or `endless`, no line is wrapped."""
    from rich.console import Console

    narrow = sys.stdout.isatty() and not endless
    return Console(highlight=False, width=None if narrow else PIPED_WIDTH)


def listing(columns: Mapping[str, Layout], rows: Iterable[Sequence[Cell]]) -> Table:
    """Build a table from the layout of its columns by heading, and its rows."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading, layout in columns.items():
        table.add_column(Text(heading), **layout)
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else Text(*cell) for cell in row))
    return table


def cut(text: str, limit: int) -> str:
    """Shorten a text to `limit` characters, with an ellipsis at the end.

    >>> cut("12345", 5), cut("123456", 5)
    ('12345', '1234…')
    """
    return text if len(text) <= limit else text[: limit - 1] + "…"


def put(console: Console, table: Table) -> None:
    """Print a table; in a pipe without the padding of the last column."""
    if console.is_terminal and console.width < PIPED_WIDTH:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.print(line.rstrip(), markup=False)
