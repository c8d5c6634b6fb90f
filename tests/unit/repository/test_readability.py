"""Sizes and forms that keep the code readable."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from tests.unit.repository.tree import tracked_texts

MAX_FILE_LINES: Final = 500
MAX_FUNCTION_LINES: Final = 60

HEADLESS: Final = re.compile(
    r"(?:What|As|Who|Whose|How|Where|When|Why|Which|That|If|Of|All that|Nothing|Nobody|Somebody)\b"
)
"""Openings without a subject, which send the reader looking for one."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax tree of every Python file, by path."""
    return {path: ast.parse(text) for path, text in tracked_texts().items() if path.endswith(".py")}


def nodes() -> Iterator[tuple[str, ast.AST]]:
    """Yield every node of every file, with the file's path."""
    for path, module in modules().items():
        for node in ast.walk(module):
            yield path, node


def test_no_file_is_too_long() -> None:
    lengths = {
        path: text.count("\n") for path, text in tracked_texts().items() if path.endswith(".py")
    }
    assert not {path: lines for path, lines in lengths.items() if lines > MAX_FILE_LINES}


def test_no_function_is_too_long() -> None:
    """Data belongs outside functions; long signatures belong into a record of options."""
    found = [
        f"{path}:{node.lineno}: {node.name} has {lines} lines"
        for path, node in nodes()
        if isinstance(node, Function)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert not found, "\n".join(found)


def test_a_docstring_begins_with_a_verb_or_a_noun() -> None:
    found = [
        f"{path}:{getattr(node, 'lineno', 1)}: {docstring.splitlines()[0]}"
        for path, node in nodes()
        if isinstance(node, Function | ast.ClassDef | ast.Module)
        and (docstring := ast.get_docstring(node))
        and HEADLESS.match(docstring)
    ]
    assert not found, "\n".join(found)


def test_a_caught_exception_is_called_error() -> None:
    """Another name is allowed where it says which error of several this one is."""
    found = [
        f"{path}:{node.lineno}: {node.name}"
        for path, node in nodes()
        if isinstance(node, ast.ExceptHandler)
        and node.name in ("e", "ex", "exc", "err", "exception", "problem", "fault")
    ]
    assert not found, "\n".join(found)
