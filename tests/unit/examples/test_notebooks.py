"""The notebooks of the docs run, and print what they show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from devtools.notebooks import NOTEBOOKS, cells, execute, page, texts


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.name))
def test_a_notebook_prints_what_it_shows(path: Path) -> None:
    found = cells(path)
    stored = [each["outputs"] for each in found if each["cell_type"] == "code"]
    executed = list(execute(found))
    assert list(map(texts, executed)) == list(map(texts, stored)), "python -m devtools.notebooks"
    assert any("image/png" in each.get("data", {}) for outputs in executed for each in outputs)


def test_there_are_notebooks_and_their_pictures_are_beside_them() -> None:
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        assert path.with_name(f"{path.stem}-0.png").is_file()


def code(text: str) -> dict[str, Any]:
    return {"cell_type": "code", "source": text.splitlines(keepends=True), "outputs": []}


def test_outputs_are_prints_and_the_last_value() -> None:
    found = [code("x = 2"), code("print(x)\nx + 1"), code("None"), code("x * 2;\ny = 1")]
    assert list(map(texts, execute(found))) == [[], ["2\n", "3"], [], []]


def test_a_cell_that_fails_names_itself() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(execute([code("pass"), code("\n1 / 0")]))
    assert str(caught.traceback[-1].path).endswith("cell 1")


def test_a_page_has_texts_code_and_outputs(tmp_path: Path) -> None:
    text = {"cell_type": "markdown", "source": ["# Title\n", "text"]}
    printed = {**code("print(1)"), "outputs": next(execute([code("print(1)")]))}
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "cells": [text, printed]}))
    assert page(path) == (
        "# Title\ntext\n\n<!-- Generated from n.ipynb by `make references`; do not edit. -->\n\n"
        "```python\nprint(1)\n```\n\n```text\n1\n```\n"
    )
    path.write_text('{"nbformat": 3}')
    with pytest.raises(ValueError, match="not a notebook of format 4"):
        cells(path)
