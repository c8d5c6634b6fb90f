"""Tables for people: as wide as a terminal, and one line for each row in a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPED_WIDTH: Final = 10_000
"""Columns of a pipe: nothing is wrapped there, for grep and awk."""


def wide_console() -> Console:
    """A console as wide as the terminal, and without end in a pipe."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


def put(console: Console, table: Table) -> None:
    """Print a table; in a pipe without the blanks that fill the last column."""
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.print(line.rstrip(), markup=False)
