"""kubestow beside a project that has packages of the same names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

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

PLACES = ("folders", "files", "on the path")


class Project(NamedTuple):
    """A project with packages of our names."""

    folder: Path
    """Where its tests and its programs are started."""
    place: Path
    """The folder with its packages."""

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the folder, with the packages earlier on the path than ours."""
        path = os.pathsep.join([str(self.place), str(ROOT)])
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )


@pytest.fixture(params=PLACES)
def theirs(tmp_path: Path, request: pytest.FixtureRequest) -> Project:
    """Return a project with such packages in one of the places."""
    place = tmp_path
    if request.param == "on the path":
        place = tmp_path / "lib"
    for name in packages.NAMES:
        file = place / (f"{name}.py" if request.param == "files" else f"{name}/__init__.py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("NAME = 'theirs'\n")
    (tmp_path / "profile.yaml").write_text(PROFILE)
    return Project(tmp_path, place)


@pytest.mark.slow
def test_the_command_runs(theirs: Project) -> None:
    ended = theirs.run("-m", "kubestow", "config", "validate", "profile.yaml")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.slow
def test_their_tests_run(theirs: Project) -> None:
    (theirs.folder / "test_theirs.py").write_text(TEST)
    ended = theirs.run("-m", "pytest", "-q", "-p", "kubestow.pytest_plugin")
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.slow
def test_their_test_of_a_plugin_is_told_what_is_in_the_way(theirs: Project) -> None:
    (theirs.folder / "test_plugin.py").write_text(TEST_OF_A_PLUGIN)
    ended = theirs.run("-m", "pytest", "-q", "-p", "kubestow.pytest_plugin")
    assert ended.returncode == 1
    assert "kubestow needs its own package `config`, but Python finds" in ended.stdout
    assert str(theirs.place / "config") in ended.stdout


@pytest.mark.parametrize("module", ["plugin", "cel", "testing", "offline", "sweeps"])
def test_an_import_is_told_what_is_in_the_way(theirs: Project, module: str) -> None:
    ended = theirs.run("-c", f"import kubestow.{module}")
    assert ended.returncode == 1
    found = ended.stderr.splitlines()[-1]
    first = "scheduler" if module in ("plugin", "cel") else "config"
    assert found.startswith(f"ImportError: kubestow needs its own package `{first}`, but Python")
    assert str(theirs.place / first) in found
    assert found.endswith("or install kubestow into an environment of its own")


@pytest.mark.slow
def test_a_notebook_beside_what_is_not_needed_imports_it(tmp_path: Path) -> None:
    (tmp_path / "config.py").write_text("NAME = 'theirs'\n")
    ended = Project(tmp_path, tmp_path).run(
        "-c", "import config, kubestow.plugin; print(config.NAME)"
    )
    assert (ended.stdout, ended.stderr) == ("theirs\n", "")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return `site-packages` of an environment into which kubestow was installed."""
    folder = tmp_path_factory.mktemp("environment") / "site-packages"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("kubestow", *packages.NAMES):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    (folder / "theirs.yaml").write_text(PROFILE)
    return folder


def run_installed(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ, "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env=environment, check=False, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_an_installed_module_of_one_file_is_in_the_way_of_nothing(installed: Path) -> None:
    for name in packages.NAMES:
        (installed / f"{name}.py").write_text("raise AssertionError\n")
    try:
        command = run_installed(installed, "-m", "kubestow", "config", "validate", "theirs.yaml")
        notebook = run_installed(installed, "-c", "import kubestow.offline")
    finally:
        for name in packages.NAMES:
            (installed / f"{name}.py").unlink()
    assert (command.returncode, command.stderr) == (0, "")
    assert (notebook.returncode, notebook.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["-m", "kubestow"], ["-c", "import kubestow.offline"]])
def test_a_package_that_another_distribution_replaced_is_named(
    installed: Path, arguments: list[str]
) -> None:
    file = installed / "config" / "__init__.py"
    ours = file.read_text()
    file.write_text("NAME = 'theirs'\n")
    try:
        ended = run_installed(installed, *arguments)
    finally:
        file.write_text(ours)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        f"ImportError: kubestow needs its own package `config`, but another distribution has"
        f" replaced {file}: install both anew, each into an environment of its own"
    )


@pytest.mark.parametrize("name", packages.NAMES)
def test_the_first_line_of_a_package_of_ours_says_so(name: str) -> None:
    packages.check(name)
    assert "kubestow" in (ROOT / name / "__init__.py").read_text().splitlines()[0]


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
