"""Notebooks of the docs: executed here without Jupyter, and shown as pages.

    python -m devtools.notebooks          # execute all, write their outputs and pictures

Cells run in order in one namespace. Outputs are what they print, the value of a last line that is
an expression, and the figures that Matplotlib has open at the end of a cell. A notebook is stored
with its outputs, so that it can be read without running it; a test compares the texts.
`python -m devtools.references` writes the pages.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
NOTEBOOKS: Final = tuple(sorted((ROOT / "docs").rglob("*.ipynb")))

Cell = dict[str, Any]
Output = dict[str, Any]


def cells(path: Path) -> list[Cell]:
    """Read the cells of a notebook. Raises ValueError if it is none of format 4."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    if notebook.get("nbformat") != 4:
        raise ValueError(f"{path}: not a notebook of format 4")
    found: list[Cell] = notebook["cells"]
    return found


def source(cell: Cell) -> str:
    """Return the text of a cell."""
    return "".join(cell["source"])


def execute(found: Sequence[Cell]) -> Iterator[list[Output]]:
    """Execute the code cells in an empty folder; yield the outputs of each."""
    os.environ.setdefault("MPLBACKEND", "agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for number, cell in enumerate(found):
            if cell["cell_type"] == "code":
                yield _outputs(source(cell), f"cell {number}", names)


def _outputs(code: str, name: str, names: dict[str, Any]) -> list[Output]:
    tree = ast.parse(code, name)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, name, "exec"), names)
        value = None if last is None else eval(compile(last, name, "eval"), names)
    found: list[Output] = []
    if printed.getvalue():
        text = _lines(printed.getvalue())
        found.append({"output_type": "stream", "name": "stdout", "text": text})
    images = list(_figures())
    if value is not None and not images:
        data = {"text/plain": _lines(repr(value))}
        found.append({"output_type": "execute_result", "metadata": {}, "data": data})
    found += [
        {"output_type": "display_data", "metadata": {}, "data": {"image/png": each}}
        for each in images
    ]
    return found


def _figures() -> Iterator[str]:
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    for number in pyplot.get_fignums():
        image = io.BytesIO()
        pyplot.figure(number).savefig(image, format="png", dpi=80, metadata={"Software": None})
        pyplot.close(number)
        yield base64.b64encode(image.getvalue()).decode()


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def texts(outputs: Sequence[Output]) -> list[str]:
    """Return the texts of outputs, and an empty one for each picture."""
    return ["".join(each.get("text") or each["data"].get("text/plain") or ()) for each in outputs]


def page(path: Path) -> str:
    """Return a notebook with its outputs as Markdown; pictures are files beside it."""
    notice = f"<!-- Generated from {path.name} by `make references`; do not edit. -->\n\n"
    parts: list[str] = []
    pictures = _pictures(path)
    for cell in cells(path):
        if cell["cell_type"] == "markdown":
            parts.append(source(cell))
            continue
        parts.append(f"```python\n{source(cell)}\n```")
        for output, text in zip(cell["outputs"], texts(cell["outputs"]), strict=True):
            if "image/png" in output.get("data", {}):
                parts.append(f"![A plot of the cell above]({next(pictures)})")
            else:
                parts.append(f"```text\n{text.rstrip()}\n```")
    first, *rest = parts
    return "\n\n".join([first.rstrip(), notice.strip(), *rest]) + "\n"


def _pictures(path: Path) -> Iterator[str]:
    number = 0
    while True:
        yield f"{path.stem}-{number}.png"
        number += 1


def write(path: Path) -> None:
    """Execute a notebook, and write its outputs and pictures."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [each for each in notebook["cells"] if each["cell_type"] == "code"]
    pictures = _pictures(path)
    for number, (cell, outputs) in enumerate(
        zip(code, execute(notebook["cells"]), strict=True), start=1
    ):
        cell["execution_count"], cell["outputs"] = number, outputs
        for output in outputs:
            if output["output_type"] == "execute_result":
                output["execution_count"] = number
            image = output.get("data", {}).get("image/png")
            if image:
                path.with_name(next(pictures)).write_bytes(base64.b64decode(image))
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for each in NOTEBOOKS:
        write(each)
