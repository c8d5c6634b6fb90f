"""Forms that keep the code readable; `make report` prints sizes."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests.unit.repository.tree import tracked_texts

HEADLESS: Final = re.compile(
    r"(?:What|As|Who|Whose|How|Where|When|Why|Which|That|If|Of|All that|Nothing|Nobody|Somebody)\b"
)
"""Openings without a subject, which send the reader looking for one."""

CHILD_SECONDS: Final = 600

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Forms:
    """Facts about the code, each with its place (path:line). The syntax trees are dropped.

    Two million nodes, kept for the session, would be visited by each later garbage collection.
    """

    docstrings: list[tuple[str, str]] = field(default_factory=list)
    """Place and text of each docstring of a module, class or function."""

    caught: list[tuple[str, str | None]] = field(default_factory=list)
    """Place of each exception handler, and the name that it gives to the exception."""

    waits: list[tuple[str, float]] = field(default_factory=list)
    """Place of each wait for a child process with a limit, and the limit in seconds."""

    def read(self, path: str, text: str) -> None:
        """Add the facts about a file."""
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ExceptHandler):
                self.caught.append((f"{path}:{node.lineno}", node.name))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in ("run", "communicate", "check_output", "check_call"):
                    self.waits.extend(
                        (f"{path}:{each.value.lineno}", float(each.value.value))
                        for each in node.keywords
                        if each.arg == "timeout"
                        and isinstance(each.value, ast.Constant)
                        and isinstance(each.value.value, int | float)
                    )
            elif isinstance(node, Function | ast.ClassDef | ast.Module):
                place = f"{path}:{getattr(node, 'lineno', 1)}"
                if docstring := ast.get_docstring(node, clean=False):
                    self.docstrings.append((place, docstring.lstrip()))


@pytest.fixture(scope="module")
def forms() -> Forms:
    """Parse every Python file once for the tests below."""
    found = Forms()
    for path, text in tracked_texts().items():
        if path.endswith(".py"):
            found.read(path, text)
    assert found.docstrings
    assert found.caught
    assert found.waits
    return found


def test_a_docstring_begins_with_a_verb_or_a_noun(forms: Forms) -> None:
    found = [
        f"{place}: {docstring.splitlines()[0]}"
        for place, docstring in forms.docstrings
        if HEADLESS.match(docstring)
    ]
    assert not found, "\n".join(found)


def test_a_caught_exception_is_called_error(forms: Forms) -> None:
    """Another name is allowed where it says which error of several this one is."""
    found = [
        f"{place}: {name}"
        for place, name in forms.caught
        if name in ("e", "ex", "exc", "err", "exception", "problem", "fault")
    ]
    assert not found, "\n".join(found)


def test_a_child_process_of_a_test_may_take_ten_minutes(forms: Forms) -> None:
    """A limit tells a hang from the end; a busy machine reaches a shorter one now and then."""
    found = [
        f"{place}: {seconds:g} s"
        for place, seconds in forms.waits
        if place.startswith("tests/") and seconds < CHILD_SECONDS
    ]
    assert not found, "\n".join(found)
