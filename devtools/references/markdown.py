"""Markdown that GitHub and MkDocs read alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# Code spans stay as they are; elsewhere these characters would be markup.
_MARKUP = re.compile(r"(`[^`]*`)|([<*|])|(?<=\s)(__?)(?=\w)")


def prose(text: str) -> str:
    """Escape what is no markup in a text of the code; code spans keep their backticks."""

    def escape(found: re.Match[str]) -> str:
        if found[1]:
            return found[1]
        return "&lt;" if found[0] == "<" else "".join(f"\\{each}" for each in found[0])

    return _MARKUP.sub(escape, text)


def cell(text: str) -> str:
    """Return a text as one cell of a table: one line, with bars escaped."""
    line = prose(" ".join(text.split()))
    return re.sub(r"(?<!\\)\|", r"\\|", line) or "-"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    lines = (f"| {' | '.join(row)} |\n" for row in (head, *rows))
    return next(lines) + "|---" * len(head) + "|\n" + "".join(lines)


def fence(text: str, language: str = "text") -> str:
    """Return a block of code."""
    return f"```{language}\n{text.rstrip()}\n```\n"
