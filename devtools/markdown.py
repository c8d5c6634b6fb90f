"""Fenced code blocks of Markdown documents, for the tests that check or execute them.

A comment on the line above a block, `<!-- run -->`, says what a test does with it; a title after
the language, `yaml title="pod.yaml"`, is the name of the file that a reader saves the block as.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

_FENCE: Final = re.compile(
    r'(?:<!-- (?P<mark>[^\n]+) -->\n)?```(?P<language>\w+)(?: title="(?P<title>[^"\n]+)")?\n'
    r"(?P<text>.*?)\n```$",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A fenced code block."""

    document: str
    """Relative to the root that was given."""
    line: int
    """Of the comment above it, or of its fence; counted from 1."""
    mark: str
    """The text of the comment above it; empty without one."""
    language: str
    title: str
    """The file that it is saved as; empty if it is none."""
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks(path: Path, root: Path) -> list[Block]:
    """Return the fenced blocks of a document in order; those without a language are left out."""
    content = path.read_text(encoding="utf-8")
    return [
        Block(
            str(path.relative_to(root)),
            content[: found.start()].count("\n") + 1,
            found["mark"] or "",
            found["language"],
            found["title"] or "",
            found["text"],
        )
        for found in _FENCE.finditer(content)
    ]
