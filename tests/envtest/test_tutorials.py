"""The tutorials do what they say: each is executed in order and its output compared.

The scheduler of each tutorial gets a port of its own: see `fake_bin`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any, Final

import pytest

from devtools.control_plane.admin import ApiError
from devtools.control_plane.binaries import Binaries
from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.ports import free_port
from devtools.markdown import blocks
from devtools.shell_session import ShellSession
from tests.envtest.quickstart import NAMESPACE, replica
from tests.envtest.workload import until

pytestmark = pytest.mark.envtest("kubectl")

ROOT: Final = Path(__file__).parents[2]
TUTORIALS: Final = ROOT / "docs" / "tutorials"
SIMULATED: Final = ("explain", "simulate", "extend")
"""Those that bring their own cluster."""
COMMAND: Final = """\
#!/bin/sh
case $1 in
  run) shift; set -- run --secure-port={port} "$@" ;;
esac
exec {python} -m scheduler "$@"
"""
"""kubestow on a free port where a reader's uses the default one, which another test may use."""


def reader(folder: Path, binaries: Binaries) -> dict[str, str]:
    """Return the environment of a reader of a tutorial, whose home is empty."""
    commands = folder / "bin"
    commands.mkdir()
    kubestow = commands / "kubestow"
    kubestow.write_text(COMMAND.format(port=free_port(), python=sys.executable))
    kubestow.chmod(0o755)
    (commands / "kubectl").symlink_to(binaries.kubectl)
    return {
        "HOME": str(folder),
        "PATH": f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }


@pytest.mark.parametrize("name", SIMULATED)
def test_a_tutorial_with_a_cluster_of_its_own(
    name: str, tmp_path: Path, envtest_binaries: Binaries
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with ShellSession(work, reader(tmp_path, envtest_binaries)) as session:
        session.follow(blocks(TUTORIALS / f"{name}.md", ROOT))


CONTROLLERS: Final = (
    "deployment-controller",
    "disruption-controller",
    "job-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
)


@pytest.fixture
def cluster(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Run a control plane with kube-scheduler, controllers and three nodes without containers."""
    directory = tmp_path_factory.mktemp("operate")
    with ControlPlane(envtest_binaries, directory=directory) as plane:
        plane.start_controller_manager(controllers=CONTROLLERS)
        plane.start_scheduler()
        kubeconfig = f"--kubeconfig={plane.kubeconfig}"
        command = [sys.executable, "-m", "simulator.outside_kubelets", kubeconfig, "--nodes=3"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as kubelets:
            try:
                yield plane
            finally:
                kubelets.terminate()


def run_the_container(plane: ControlPlane, directory: Path, ended: Event) -> None:
    """Run the container of the Deployment from when its pods have nodes until the tutorial ends."""

    def placed() -> bool:
        if ended.is_set():
            return True
        try:
            pods: Any = plane.admin.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        except ApiError:
            return False
        return bool(pods) and all("nodeName" in pod["spec"] for pod in pods)

    until(placed, "the pods of kubestow have nodes")
    if not ended.is_set():
        with replica(plane, directory):
            ended.wait()


@pytest.mark.envtest("kube-scheduler", "kube-controller-manager")
def test_the_tutorial_beside_kube_scheduler(cluster: ControlPlane, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    environment = reader(tmp_path, cluster.binaries) | {"KUBECONFIG": str(cluster.kubeconfig)}
    with ShellSession(work, environment) as session:
        session.follow(blocks(TUTORIALS / "shadow.md", ROOT))


@pytest.mark.envtest("kube-scheduler", "kube-controller-manager")
def test_the_tutorial_on_a_real_cluster(cluster: ControlPlane, tmp_path: Path) -> None:
    work = tmp_path / "work"
    shutil.copytree(ROOT / "manifests", work / "manifests")
    environment = reader(tmp_path, cluster.binaries) | {"KUBECONFIG": str(cluster.kubeconfig)}
    ended = Event()
    with ThreadPoolExecutor(1) as threads, ShellSession(work, environment) as session:
        container = threads.submit(run_the_container, cluster, tmp_path, ended)
        try:
            session.follow(blocks(TUTORIALS / "operate.md", ROOT))
        finally:
            ended.set()
        container.result()
