"""The walks of docs/architecture.md lead through code that exists, and callbacks are subscribed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.unit.repository.tree import ROOT, tracked_texts

PAGE: Final = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
LINK: Final = re.compile(r"\]\(\.\./([\w./]+\.py)\)")
CODE: Final = re.compile(r"(?<!\[)`([A-Za-z_]+)`")


def walks() -> Iterator[tuple[str, list[str]]]:
    """Yield the title and the steps of each walk."""
    section = PAGE.partition("\n## Five walks\n")[2].partition("\n## ")[0]
    for each in section.split("\n### ")[1:]:
        title, _, text = each.partition("\n")
        yield title, re.findall(r"^\d+\. (.+(?:\n   .+)*)", text, re.MULTILINE)


WALKS: Final = dict(walks())
STEPS: Final = [(title, step) for title, steps in WALKS.items() for step in steps]


def test_there_are_five_walks() -> None:
    assert len(WALKS) == 5
    assert all(len(steps) >= 5 for steps in WALKS.values())


@pytest.mark.parametrize(("title", "step"), STEPS, ids=[step[:40] for _, step in STEPS])
def test_a_step_names_a_file_and_code_in_it(title: str, step: str) -> None:
    files = LINK.findall(step)
    assert files, title
    assert step.startswith("["), title
    text = "\n".join((ROOT / file).read_text(encoding="utf-8") for file in files)
    assert [name for name in CODE.findall(step) if name not in text] == []


def test_the_table_of_changes_has_at_least_twelve() -> None:
    section = PAGE.partition("\n## Where does my change go\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\| ", section, re.MULTILINE)) >= 12 + 1


def test_no_callback_is_assigned_from_outside() -> None:
    """A part that needs a later one has a `Signal`, or gets it in its constructor."""
    found = [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path, text in tracked_texts().items()
        if path.endswith(".py")
        and path.startswith(("scheduler/", "plugins/", "config/", "simulator/"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and node.attr.startswith("on_")
        and ast.unparse(node.value) != "self"
    ]
    assert not found
