"""Tables and sentences for terminals, as wide as they are, and for pipes, one line for each row.

No word is broken that fits on a line: a table that is too wide for the terminal becomes a list of
records, one field a line. Nothing that is printed here has a control character.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPED_WIDTH: Final = 10_000
"""Columns of a pipe: nothing is wrapped there, for grep and awk."""

MIN_NAME: Final = 24
"""Characters of a name that are shown even if what follows is cut off for them."""

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


def printable(text: str) -> str:
    r"""Replace what could control a terminal; line ends stay.

    >>> printable("a\x1b[31m\nb\u202e")
    'a?[31m\nb?'
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else "?" for each in text)


def listing(columns: Mapping[str, Layout], rows: Iterable[Sequence[Cell]]) -> Table:
    """Build a table from the layout of its columns by heading, and its rows."""
    from rich.table import Table
    from rich.text import Text

    headed = any(map(str.strip, columns))
    table = Table(box=None, header_style="bold", pad_edge=False, show_header=headed)
    for heading, layout in columns.items():
        table.add_column(Text(printable(heading)), **layout)
    for row in rows:
        pairs = ((cell, "") if isinstance(cell, str) else cell for cell in row)
        table.add_row(*(Text(printable(text), style) for text, style in pairs))
    return table


def cut(text: str, limit: int) -> str:
    """Shorten a text to `limit` characters, with an ellipsis at the end.

    >>> cut("12345", 5), cut("123456", 5)
    ('12345', '1234…')
    """
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shortened(name: str, width: int) -> str:
    """Shorten a name in its middle, since ends tell names apart; `MIN_NAME` characters stay.

    >>> shortened("default/nightly-7f9c5d8b6-x2k4v", 26), shortened("default/web-0", 5)
    ('default/nigh…9c5d8b6-x2k4v', 'default/web-0')
    """
    width = max(width, MIN_NAME)
    if len(name) <= width:
        return name
    head = (width - 1) // 2
    return f"{name[:head]}…{name[head + 1 - width :]}"


def put(console: Console, table: Table) -> None:
    """Print a table; in a pipe without the padding of the last column."""
    if console.is_terminal and console.width < PIPED_WIDTH:
        console.print(table if _fits(console, table) else _records(table))
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.print(line.rstrip(), markup=False)


def say(console: Console, text: str, style: str = "", *, indent: int = 0) -> None:
    """Print a sentence or a heading, wrapped between words; `indent` spaces precede every line."""
    from rich.padding import Padding
    from rich.text import Text

    if console.is_terminal:
        console.print(Padding.indent(Text(printable(text), style), indent))
    else:
        console.print(Text(" " * indent + printable(text), style), soft_wrap=True)


def _fits(console: Console, table: Table) -> bool:
    """Whether the longest word of every column finds room, or line if it must not be wrapped."""
    from rich.cells import cell_len

    needed = 2 * (len(table.columns) - 1)
    for column in table.columns:
        texts = [str(column.header), *map(str, column.cells)]
        parts = (text.splitlines() if column.no_wrap else text.split() for text in texts)
        needed += max((cell_len(part) for each in parts for part in each), default=0)
    return needed <= console.width


def _records(table: Table) -> Table:
    """Return the rows of a table one below the other, a field on each line."""
    from rich.table import Table as RichTable
    from rich.text import Text

    records = RichTable.grid(padding=(0, 2))
    records.add_column(no_wrap=True, style="bold")
    records.add_column(overflow="fold")
    cells = [list(column.cells) for column in table.columns]
    headings = [str(column.header).replace("\n", " ") for column in table.columns]
    for number, row in enumerate(zip(*cells, strict=True)):
        if number:
            records.add_row("", "")
        if sum(bool(str(cell)) for cell in row) == 1 and str(row[0]):
            # A heading above rows, not a record.
            records.add_row(row[0], "")
            continue
        for heading, cell in zip(headings, row, strict=True):
            if str(cell):
                records.add_row(Text(heading), cell)
    return records
