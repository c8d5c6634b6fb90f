"""kubestow beside a project that has packages of the same names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kubestow import packages
from tests.unit.repository.tree import ROOT

PROFILE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: theirs
"""

TEST = """\
import config, plugins, scheduler, simulator

def test_what_is_theirs():
    assert (scheduler.NAME, config.NAME, plugins.NAME, simulator.NAME) == ("theirs",) * 4
"""

TEST_OF_A_PLUGIN = "def test_a_plugin(cluster): pass\n"


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Return the folder of such a project: packages, and modules of one file."""
    for name in ("scheduler/__init__.py", "config.py", "plugins/__init__.py", "simulator.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("NAME = 'theirs'\n")
    (tmp_path / "profile.yaml").write_text(PROFILE)
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the folder, which is also first on the path, as if it were installed."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )


def test_the_command_runs(theirs: Path) -> None:
    ended = run(theirs, "-m", "kubestow", "config", "validate", "profile.yaml")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_their_tests_run(theirs: Path) -> None:
    (theirs / "test_theirs.py").write_text(TEST)
    ended = run(theirs, "-m", "pytest", "-q", "-p", "kubestow.pytest_plugin")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_their_test_of_a_plugin_is_told_what_is_in_the_way(theirs: Path) -> None:
    (theirs / "test_plugin.py").write_text(TEST_OF_A_PLUGIN)
    ended = run(theirs, "-m", "pytest", "-q", "-p", "kubestow.pytest_plugin")
    assert ended.returncode == 1
    found = (
        f"kubestow needs its own package `config`, but Python finds {theirs / 'config.py'} first"
    )
    assert found in ended.stdout


@pytest.mark.parametrize(
    ("name", "found"),
    [("simulator.py", "simulator.py"), ("plugins/__init__.py", "plugins/__init__.py")],
)
def test_what_is_in_the_way_is_named(
    tmp_path: Path, name: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    for each in packages.NAMES:
        monkeypatch.delitem(sys.modules, each, raising=False)
    with pytest.raises(ImportError, match="start Python where that is not on the path") as raised:
        packages.check()
    assert str(tmp_path / found) in str(raised.value)


def test_a_folder_without_a_module_is_in_the_way_of_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scheduler").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    packages.check()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["lib", "ours"], ["lib", "ours"]),
        (["theirs", "lib", "ours", "more"], ["lib", "ours", "theirs", "more"]),
        (["lib", "ours", "theirs"], ["lib", "ours", "theirs"]),
        (["theirs", "lib"], ["lib", "ours", "theirs"]),
    ],
)
def test_only_folders_that_are_in_the_way_move(
    before: list[str], after: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "config.py").write_text("")
    places = {name: str(tmp_path / name) for name in ("theirs", "lib", "more")}
    places["ours"] = str(ROOT)
    monkeypatch.setattr(sys, "path", [places[name] for name in before])
    packages.put_first()
    assert sys.path == [places[name] for name in after]
