"""Loading of third-party plugins: every fault is a problem that names file and line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from scheduler.framework import registry
from scheduler.framework.registry import entry_point_plugins, load
from scheduler.framework.status import ConfigurationError

PLUGIN = """\
class Choice:
    name = "example.com/Choice"

    def __init__(self, args, handle): ...

    def filter(self, state, pod, node): ...
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder at the end of the path, as with --plugin-dir."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def problems(reference: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        load(reference)
    return caught.value.problems


def test_correct_plugin_is_loaded(folder: Path) -> None:
    (folder / "choice_a.py").write_text(PLUGIN)
    assert load("choice_a:Choice").name == "example.com/Choice"


@pytest.mark.parametrize(
    ("source", "line", "text"),
    [
        ("x = 1\ndef y(:\n", 2, "SyntaxError: invalid syntax: def y(:"),
        ("x = 1\n\ny = x / 0\n", 3, "ZeroDivisionError: division by zero: y = x / 0"),
        ("import json\njson.loads('{')\n", 2, "JSONDecodeError: "),
        ("import no_such_module\n", 1, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
        ("raise RecursionError\n", 1, "RecursionError: "),
    ],
)
def test_fault_of_an_import_names_file_and_line(
    folder: Path, source: str, line: int, text: str
) -> None:
    file = folder / "choice_b.py"
    file.write_text(source)
    (problem,) = problems("choice_b:Choice")
    assert problem.startswith(f'plugin "choice_b:Choice": {file}:{line}: {text}')


def test_faults_of_a_class_are_all_reported_with_its_place(folder: Path) -> None:
    file = folder / "choice_c.py"
    file.write_text("\n" + PLUGIN.replace("filter", "fliter").replace("args, ", ""))
    found = problems("choice_c:Choice")
    assert len(found) == 2
    assert all(each.startswith(f'plugin "choice_c:Choice" ({file}:2): ') for each in found)


def test_misspelt_class_is_told_the_similar_one(folder: Path) -> None:
    (folder / "choice_d.py").write_text(PLUGIN)
    (problem,) = problems("choice_d:Choise")
    assert 'has no attribute "Choise"; did you mean "Choice"?' in problem


def test_shadowed_module_is_named_with_the_file_that_won(folder: Path) -> None:
    shadowed = folder / "queue.py"
    shadowed.write_text(PLUGIN)
    (problem,) = problems("queue:Choice")
    import queue

    assert f'module "queue" ({queue.__file__}) has no attribute "Choice"' in problem
    assert f"{shadowed} has the same name and is not imported" in problem


def test_broken_installed_plugin_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "choice_e.py"
    file.write_text("1 / 0\n")
    point = EntryPoint("Choice", "choice_e:Choice", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "_entry_points", lambda path: [point])
    with pytest.raises(ConfigurationError, match="an installed distribution") as caught:
        list(entry_point_plugins())
    assert f"{file}:1: ZeroDivisionError" in str(caught.value)
