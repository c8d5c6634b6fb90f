"""Reloads against a real API server: under load, and of a ConfigMap volume by a whole process.

With more nodes, for the length of pauses: `KUBESTOW_RELOAD_NODES=5000`, which takes minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from devtools.control_plane.control_plane import ControlPlane
from devtools.control_plane.kubestow import start_kubestow
from scheduler.process.application import Application
from scheduler.reload.reloader import Reloader
from scheduler.service.options import (
    RunOptions,
    ServingOptions,
    available_plugins,
    read_configuration,
)
from tests.envtest.workload import Workload
from tests.integration.reload.conftest import import_path, no_watch
from tests.integration.reload.running import HEADER, PROFILE, until

pytestmark = pytest.mark.envtest
__all__ = ["import_path", "no_watch"]

NODES: Final = int(os.environ.get("KUBESTOW_RELOAD_NODES", "50"))
RELOADS: Final = 100
PODS: Final = 300
PLUGIN: Final = """\
from scheduler.framework import unschedulable


class Reloaded:
    name = "Reloaded"

    def __init__(self, args, handle):
        self.nodes = set()
        handle.subscriptions.on_object("nodes", self._node)
        handle.subscriptions.on_object("pods", lambda old, new: None)

    def _node(self, old, new):
        if new is not None:
            self.nodes.add(new.metadata.name)

    def filter(self, state, pod, node):
        return None if node.name in self.nodes else unschedulable("not heard of")
"""
WITH_PLUGIN: Final = f"""\
{PROFILE}  plugins:
    multiPoint:
      enabled:
      - name: reloaded_plugin:Reloaded
      - {{name: NodeResourcesFit, weight: 3}}
"""
OTHER_ARGUMENTS: Final = f"""\
{PROFILE}  pluginConfig:
  - name: InterPodAffinity
    args: {{hardPodAffinityWeight: 7}}
podMaxBackoffSeconds: 3
"""
TWO_PROFILES: Final = f"{PROFILE}- schedulerName: second\n"
TEXTS: Final = (WITH_PLUGIN, OTHER_ARGUMENTS, TWO_PROFILES, WITH_PLUGIN, f"{HEADER}parallelism: no")


@asynccontextmanager
async def scheduling(control_plane: ControlPlane, folder: Path) -> AsyncIterator[Reloader]:
    """Run a scheduler in this process."""
    (folder / "reloaded_plugin.py").write_text(PLUGIN)
    (folder / "config.yaml").write_text(TWO_PROFILES)
    options = RunOptions(
        config_file=str(folder / "config.yaml"),
        plugin_dirs=(str(folder),),
        overrides={
            "leaderElection.leaderElect": False,
            "clientConnection.kubeconfig": str(control_plane.kubeconfig),
            "clientConnection.qps": 1000.0,
            "clientConnection.burst": 1000,
        },
        serving=ServingOptions(secure_port=0),
    )
    registry = available_plugins()
    application = Application(read_configuration(options, registry), registry, options)
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(application.serve(handle_signals=False))
        await until(lambda: application.reloader)
        assert application.reloader is not None
        yield application.reloader
        application.stop()
    assert serving.result() == 0


def create_nodes(work: Workload) -> None:
    for number in range(NODES):
        work.node(f"node-{number:04}", cpu="64", labels={"zone": f"z{number % 3}"})


def create_pods(work: Workload) -> None:
    for number in range(PODS):
        name = "second" if number % 7 == 0 else "kubestow"
        work.pod(f"pod-{number:03}", cpu="10m", scheduler_name=name)


async def reload(reloader: Reloader, folder: Path, number: int) -> str:
    if number % len(TEXTS) == 0:
        (folder / "reloaded_plugin.py").write_text(f"{PLUGIN}# version {number}\n")
    (folder / "config.yaml").write_text(TEXTS[number % len(TEXTS)])
    return await reloader.reload()


async def test_a_hundred_reloads_under_load_lose_no_pod_and_bind_none_twice(
    control_plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Workload(control_plane, "reloads-under-load") as work:
        work.follow()
        await asyncio.to_thread(create_nodes, work)
        async with scheduling(control_plane, tmp_path) as reloader:
            cache = reloader.wiring.state.cache
            await until(lambda: cache.statistics().nodes == NODES)
            creating = asyncio.create_task(asyncio.to_thread(create_pods, work))
            results, wall, cpu = Counter[str](), 0.0, 0.0
            for number in range(RELOADS):
                results[await reload(reloader, tmp_path, number)] += 1
                wall, cpu = max(wall, reloader.pause.seconds), max(cpu, reloader.pause.cpu_seconds)
                reloader.wiring.scheduling.queue.validate()
            await creating
            assert await reload(reloader, tmp_path, 2) == "success"
            bound = await asyncio.to_thread(work.until_bound)
        assert results == {"success": 80, "invalid": 20}
        assert len(bound) == PODS
        bindings = await asyncio.to_thread(work.bindings)
        assert list(bindings.values()) == [1] * PODS
        assert await asyncio.to_thread(work.overfull) == {}
    with capsys.disabled():
        longest = f"longest pause {1e3 * wall:.1f} ms, of CPU time {1e3 * cpu:.1f} ms"
        print(f"\n{RELOADS} reloads, {NODES} nodes, {PODS} pods: {longest}")


def write_version(mount: Path, version: str, kubeconfig: Path, *profiles: str) -> None:
    """Write a version of the configuration and link to it, as the kubelet does."""
    (mount / version).mkdir()
    document = {
        "profiles": [{"schedulerName": name} for name in profiles],
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
    }
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in document.items())
    (mount / version / "config.yaml").write_text(HEADER + text)
    (mount / "..data_tmp").symlink_to(version)
    (mount / "..data_tmp").replace(mount / "..data")


def test_a_process_takes_over_a_changed_config_map_volume(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    write_version(tmp_path, "..1", control_plane.kubeconfig, "kubestow")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    arguments = [f"--config={tmp_path}/config.yaml"]
    process = start_kubestow(control_plane, arguments=arguments, name="kubestow-reload")
    with Workload(control_plane, "reload-of-a-volume") as work:
        work.node("node-reload")
        work.pod("first")
        work.until_bound("first")
        work.pod("waiting", scheduler_name="second")
        write_version(tmp_path, "..2", control_plane.kubeconfig, "kubestow", "second")
        assert work.until_bound("waiting")["waiting"] == "node-reload"
    process.stop_cleanly()
