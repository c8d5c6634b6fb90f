"""Completion of `kubectl kubestow`, as kubectl asks a plugin for it.

kubectl starts `kubectl_complete-kubestow` with the words after the plugin's name, the last of which
is incomplete. It wants a candidate per line, with a tab before its description, and a number at the
end: what the shell does besides (`ShellCompDirective` of cobra).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import click
from click.shell_completion import CompletionItem, ShellComplete

PLUGIN: Final = "kubectl-kubestow"
COMPLETION: Final = "kubectl_complete-kubestow"
PROGRAM_NAME: Final = "kubectl kubestow"
"""The name in help and usage."""

_FILES, _NO_FILES = 0, 4


def completions(program: click.Command, words: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the answer."""
    *before, incomplete = words or [""]
    found = ShellComplete(program, {}, PROGRAM_NAME, "").get_completions(list(before), incomplete)
    yield from map(_line, (each for each in found if each.type == "plain"))
    yield f":{_NO_FILES if all(each.type == 'plain' for each in found) else _FILES}"


def _line(item: CompletionItem) -> str:
    return f"{item.value}\t{item.help}" if item.help else str(item.value)
