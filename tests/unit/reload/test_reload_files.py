"""The files of a configuration: fingerprints, and modules that are imported afresh."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import scheduler
from scheduler.reload.fingerprints import of_file, of_folders
from scheduler.reload.plugin_modules import FreshImports


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the import path, whose modules are forgotten at the end."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [each for each in sys.modules if each.startswith("afresh_")]:
        del sys.modules[name]


def value(name: str = "afresh_one") -> object:
    return importlib.import_module(name).VALUE


def import_all(folder: Path) -> None:
    with afresh(folder):
        assert [value(), value("afresh_new")] == [2, 2]
        value("afresh_two")


@contextmanager
def afresh(folder: Path) -> Iterator[None]:
    imports = FreshImports([str(folder)])
    imports.begin()
    try:
        yield
    except BaseException:
        imports.undo()
        raise
    imports.end()


def test_folder_that_cannot_be_looked_at_has_a_fingerprint() -> None:
    # As a folder below one that may not be searched: looking at it is an OSError.
    assert of_folders(["x" * 300]) == of_folders(["x" * 300])


def test_file_has_another_fingerprint_after_a_swap_of_a_link_on_its_path(tmp_path: Path) -> None:
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "file").write_text("the same")
    (tmp_path / "data").symlink_to("v1")
    path = str(tmp_path / "data" / "file")
    before = of_file(path)
    assert of_file(path) == before
    (tmp_path / "next").symlink_to("v2")
    (tmp_path / "next").replace(tmp_path / "data")
    assert of_file(path) != before


def test_absent_file_has_a_fingerprint_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "file"
    absent = of_file(str(path))
    assert of_file(str(path)) == absent
    path.touch()
    assert of_file(str(path)) != absent


@pytest.mark.parametrize(
    ("name", "changes"),
    [("new.py", True), ("below/new.py", True), ("notes.txt", False), ("__pycache__/a.py", False)],
)
def test_folder_has_another_fingerprint_after_a_python_file_was_added(
    tmp_path: Path, name: str, changes: bool
) -> None:
    before = of_folders([str(tmp_path)])
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert (of_folders([str(tmp_path)]) != before) is changes


def test_module_is_read_again_although_size_and_second_are_the_same(folder: Path) -> None:
    (folder / "afresh_one.py").write_text("VALUE = 1\n")
    assert value() == 1
    (folder / "afresh_one.py").write_text("VALUE = 2\n")
    with afresh(folder):
        assert value() == 2
    assert value() == 2


def test_modules_are_as_before_if_anything_fails(folder: Path) -> None:
    (folder / "afresh_one.py").write_text("VALUE = 1\n")
    (folder / "afresh_two.py").write_text("VALUE = 1\n")
    modules = [importlib.import_module(name) for name in ("afresh_one", "afresh_two")]
    (folder / "afresh_one.py").write_text("VALUE = 2\n")
    (folder / "afresh_two.py").write_text("VALUE = 1 / 0\n")
    (folder / "afresh_new.py").write_text("VALUE = 2\n")
    with pytest.raises(ZeroDivisionError):
        import_all(folder)
    assert [sys.modules["afresh_one"], sys.modules["afresh_two"]] == modules
    assert "afresh_new" not in sys.modules


def test_imports_that_did_not_begin_leave_everything_when_they_are_undone(folder: Path) -> None:
    (folder / "afresh_one.py").write_text("VALUE = 1\n")
    module = importlib.import_module("afresh_one")
    FreshImports([str(folder)]).undo()
    assert sys.modules["afresh_one"] is module


def test_modules_elsewhere_stay(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (folder / "afresh_one.py").write_text("VALUE = 1\n")
    module = importlib.import_module("afresh_one")
    with afresh(tmp_path_factory.mktemp("another")):
        assert importlib.import_module("afresh_one") is module


@pytest.mark.parametrize("root", [sys.prefix, str(Path(scheduler.__file__).parents[1])])
def test_libraries_and_the_program_stay_although_they_are_in_the_folder(root: str) -> None:
    names = ("numpy", "msgspec", "scheduler", "config", "plugins")
    before = {each: importlib.import_module(each) for each in names}
    imports = FreshImports([root])
    imports.begin()
    found = {each: sys.modules.get(each) for each in names}
    # The modules of the tests are in the clone, too.
    imports.undo()
    assert found == before


def test_virtual_environment_in_a_plugin_folder_is_not_looked_through(tmp_path: Path) -> None:
    library = tmp_path / "venv" / "lib"
    library.mkdir(parents=True)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    before = of_folders([str(tmp_path)])
    (library / "module.py").touch()
    assert of_folders([str(tmp_path)]) == before
    (tmp_path / "plugin.py").touch()
    assert of_folders([str(tmp_path)]) != before


def test_interpreter_writes_compiled_files_again_afterwards(folder: Path) -> None:
    before = sys.pycache_prefix, sys.dont_write_bytecode
    with afresh(folder):
        assert sys.dont_write_bytecode
    assert (sys.pycache_prefix, sys.dont_write_bytecode) == before
