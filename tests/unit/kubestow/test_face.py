"""The public face: what documents, examples and the scaffold import, and only that."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Final

import pytest

from devtools.markdown import blocks
from scheduler.cli.plugin.scaffold import POINTS, Scaffold
from tests.unit.repository.tree import ROOT

BEHIND: Final = {
    "kubestow.plugin": ("scheduler.api", "scheduler.framework"),
    "kubestow.cel": ("scheduler.cel",),
    "kubestow.testing": ("scheduler.testing",),
    "kubestow.testing.strategies": (),
    "kubestow.offline": ("scheduler.offline", "simulator.offline"),
    "kubestow.sweeps": ("simulator.sweeps",),
}
"""The modules of the face, with the packages whose public names they hand on."""

OURS: Final = {"config", "kubestow", "plugins", "scheduler", "simulator"}


def sources() -> Iterator[tuple[str, str]]:
    """Yield place and text of all Python that users are shown or given."""
    for path in sorted((ROOT / "examples").rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), path.read_text()
    documents = [ROOT / "README.md", ROOT / "examples/README.md", *(ROOT / "docs").rglob("*.md")]
    for path in documents:
        for each in blocks(path, ROOT):
            if each.language == "python" and each.mark != "generated":
                yield str(each), textwrap.dedent(each.text)
    for path in (ROOT / "docs").rglob("*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        code = ("".join(each["source"]) for each in cells if each["cell_type"] == "code")
        yield path.relative_to(ROOT).as_posix(), "\n".join(code)
    for columnar in (False, True):
        for name, text in Scaffold("rule", POINTS, columnar=columnar).files().items():
            if name.endswith(".py"):
                yield f"scaffold: {name}", text


SOURCES: Final = dict(sources())


def imports(text: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import of one of our packages."""
    for statement in ast.walk(ast.parse(text)):
        match statement:
            case ast.ImportFrom(module=str(module), names=names, level=0):
                found = [(module, each.name) for each in names]
            case ast.Import(names=names):
                found = [(each.name, "") for each in names]
            case _:
                continue
        yield from (each for each in found if each[0].split(".")[0] in OURS)


def is_public(module: str, name: str) -> bool:
    """Return whether a name can be imported from a module of the face."""
    if module == "kubestow":
        return f"kubestow.{name}" in BEHIND
    return module in BEHIND and name in importlib.import_module(module).__all__


@pytest.mark.parametrize("place", SOURCES)
def test_users_are_shown_imports_of_the_face_only(place: str) -> None:
    text = SOURCES[place]
    assert not [each for each in imports(text) if not is_public(*each)]


def test_there_are_such_imports() -> None:
    found = {module for text in SOURCES.values() for module, _ in imports(text)}
    assert {"kubestow", "kubestow.plugin", "kubestow.testing", "kubestow.offline"} <= found


@pytest.mark.parametrize("name", BEHIND)
def test_it_has_each_public_name_behind_it_as_the_same_object(name: str) -> None:
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(hasattr(module, each) for each in module.__all__)
    for package in map(importlib.import_module, BEHIND[name]):
        assert {each: getattr(module, each) for each in package.__all__} == {
            each: getattr(package, each) for each in package.__all__
        }


def test_every_module_of_it_is_listed() -> None:
    entry_points = {"__init__", "__main__", "command", "packages", "pytest_plugin"}
    top_level = {path.stem for path in (ROOT / "kubestow").glob("*.py")} - entry_points
    packages = {path.parent.name for path in (ROOT / "kubestow").glob("*/__init__.py")}
    assert {each.split(".")[1] for each in BEHIND} == top_level | packages


@pytest.mark.parametrize("name", BEHIND)
def test_it_defines_nothing(name: str) -> None:
    tree = ast.parse(inspect.getsource(importlib.import_module(name)))
    for statement in tree.body[1:]:
        match statement:
            case ast.Import() | ast.ImportFrom():
                continue
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="check"))):
                continue
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                assert ast.unparse(statement).startswith("__all__")
            case _:
                pytest.fail(ast.unparse(statement))


@pytest.mark.slow
def test_a_plugin_loads_neither_service_nor_simulator() -> None:
    code = "import sys, kubestow.plugin; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    loaded = ended.stdout.split()
    assert "scheduler.framework" in loaded
    heavy = ("aiohttp", "asyncio", "config", "lark", "plugins", "simulator", "scheduler.service")
    assert not [each for each in heavy if each in loaded]


def test_the_entry_points_load_nothing_behind_them() -> None:
    code = "import sys, kubestow.pytest_plugin, kubestow.command; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert not (OURS - {"kubestow"}) & set(ended.stdout.split())
