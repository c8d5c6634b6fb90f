"""`make report` counts code, not comments and docstrings."""

from __future__ import annotations

import ast

from devtools.report import code_lines, function_lines

TEXT = '''"""A module."""

import os  # a reason


def name(
    path: str,
) -> str:
    """Return it."""
    # A comment.

    return os.fspath(path)
'''


def test_lines_without_code_do_not_count() -> None:
    assert code_lines(TEXT, ast.parse(TEXT)) == 5


def test_functions_are_counted_from_their_first_line() -> None:
    assert list(function_lines(ast.parse(TEXT))) == [(7, 6, "name")]
