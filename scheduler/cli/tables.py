"""Tables for people: as wide as a terminal, and one line for each row in a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPED_WIDTH: Final = 10_000
"""Columns of a pipe: nothing is wrapped there, for grep and awk."""


def wide_console(*, endless: bool = False) -> Console:
    """A console as wide as the terminal, and without end in a pipe or where asked for."""
    from rich.console import Console

    narrow = sys.stdout.isatty() and not endless
    return Console(highlight=False, width=None if narrow else PIPED_WIDTH)


def cut(text: str, most: int) -> str:
    """The beginning of a text, with an ellipsis where something is missing.

    >>> cut("12345", 5), cut("123456", 5)
    ('12345', '1234…')
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def put(console: Console, table: Table) -> None:
    """Print a table; in a pipe without the blanks that fill the last column."""
    if console.is_terminal and console.width < PIPED_WIDTH:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.print(line.rstrip(), markup=False)
