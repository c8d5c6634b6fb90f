"""`kubestow plugin new`: what it writes is green at once, whatever was chosen.

`make types` checks its types.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from config import load_configuration
from devtools.strict_types import scaffolds
from plugins import DEFAULT_PLUGINS, in_tree
from scheduler.cli.plugin.scaffold import Scaffold, ScaffoldError
from scheduler.framework import Registry
from tests.unit.cli.command_line import Shell
from tests.unit.repository.tree import ROOT


def run(folder: Path, *arguments: str) -> None:
    environment = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(ROOT),
    }
    result = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder, env=environment, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_every_combination_passes_its_tests(tmp_path: Path) -> None:
    folders = scaffolds(tmp_path)
    assert len(folders) == len(set(folders)) == 18
    names = [each.name for each in folders]
    run(
        tmp_path, "pytest", "-q", "-W", "error", "-p", "kubestow.pytest_plugin",
        "--import-mode=importlib", "-o", f"pythonpath={' '.join(names)}", *names,
    )  # fmt: skip


def test_the_command_writes_a_folder_that_check_and_configuration_accept(
    shell: Shell, tmp_path: Path
) -> None:
    folder = tmp_path / "rack-aware"
    ended = shell("plugin", "new", "rack-aware", "--folder", str(folder), "--point", "score")
    assert ended.code == 0, ended.err
    assert f"cd {folder}" in ended.out
    assert {each.name for each in folder.iterdir()} == {
        "rack_aware.py",
        "test_rack_aware.py",
        "config.yaml",
        "kustomization.yaml",
        "README.md",
    }
    marks = re.compile("@(?!staticmethod)")
    assert not [each.name for each in folder.iterdir() if marks.search(each.read_text())]
    config = str(folder / "config.yaml")
    assert shell("config", "validate", config, "--plugin-dir", str(folder)).code == 0
    assert shell("plugin", "check", str(folder), "--clusters", "2").code == 0
    sys.modules.pop("rack_aware")


def test_the_kustomization_mounts_the_files_that_exist(tmp_path: Path) -> None:
    (folder,) = scaffolds(tmp_path)[:1]
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    (generator,) = kustomization["configMapGenerator"]
    assert all((folder / each).is_file() for each in generator["files"])
    (patch,) = kustomization["patches"]
    (container,) = yaml.safe_load(patch["patch"])["spec"]["template"]["spec"]["containers"]
    mount = container["volumeMounts"][0]["mountPath"]
    assert f"--plugin-dir={mount}" in container["args"]


def test_the_configuration_without_the_plugin_is_refused(tmp_path: Path) -> None:
    (folder,) = scaffolds(tmp_path)[:1]
    text = (folder / "config.yaml").read_text()
    with pytest.raises(ValueError, match="no module named"):
        load_configuration(text, registry=Registry(in_tree()), default_plugins=DEFAULT_PLUGINS)


@pytest.mark.parametrize("name", ["", "Rack", "rack_aware", "-a", "a--b", "../x", "a" * 41, "1a"])
def test_a_name_that_is_no_module_is_refused(name: str) -> None:
    with pytest.raises(ScaffoldError, match="give a name like rack-aware"):
        Scaffold(name, ["filter"])


@pytest.mark.parametrize(
    "name", ["class", "json", "random", "config", "kubestow", "numpy", "plugins", "scheduler"]
)
def test_a_name_that_python_finds_already_is_refused(name: str) -> None:
    with pytest.raises(ScaffoldError, match="give another name"):
        Scaffold(name, ["filter"])


def test_nothing_is_overwritten(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("mine")
    ended = shell("plugin", "new", "rack-aware", "--folder", str(tmp_path))
    assert ended.code == 2
    assert "is not empty" in ended.err
    assert [each.name for each in tmp_path.iterdir()] == ["mine.py"]


def test_a_folder_that_cannot_be_written_is_an_error(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = shell("plugin", "new", "rack-aware", "--folder", str(tmp_path / "file" / "x"))
    assert ended.code == 2
    assert "Not a directory" in ended.err
