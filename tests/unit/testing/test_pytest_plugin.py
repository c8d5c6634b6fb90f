"""The pytest plugin in a run of its own, as in the project of a plugin's author."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.unit.repository.tree import ROOT

TEST = """\
from scheduler.testing import Cluster, node, pod


def test_a_pod_is_placed(cluster: Cluster) -> None:
    cluster.add_node(node("n1"))
    cluster.add_pods(pod("web"))
    cluster.assert_scheduled("web", node="n1")
    cluster.assert_decisions()
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Other plugins, and the entry point of an installed kubestow, would load it a second time.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "kubestow.pytest_plugin", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True
    )


@pytest.mark.slow
def test_the_fixture_has_a_snapshot_beside_each_test(tmp_path: Path) -> None:
    (tmp_path / "test_web.py").write_text(TEST)
    first = run(tmp_path)
    assert first.returncode == 1
    assert "pytest --update-decisions" in first.stdout
    assert run(tmp_path, "--update-decisions").returncode == 0
    snapshot = tmp_path / "decisions" / "test_web.test_a_pod_is_placed.txt"
    assert snapshot.read_text().startswith("default/web: n1, one of 1 that fit")
    assert run(tmp_path).returncode == 0


def test_the_plugin_is_an_entry_point_that_imports_nothing_of_the_scheduler() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (module,) = project["entry-points"]["pytest11"].values()
    code = f"import sys, {module}; print(*(each for each in sys.modules if '.' in each))"
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    ours = {each for each in result.stdout.split() if each.startswith(("scheduler.", "simulator."))}
    assert ours == set()
