"""A scheduler at work on an embedded cluster, with a configuration and plugins in a folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from devtools.embedded_service import ConditionLog, sample
from scheduler.process.application import read
from scheduler.reload.reloader import Reloader
from scheduler.service.options import RunOptions, ServingOptions
from simulator import EmbeddedCluster
from simulator.objects import JsonObject

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PROFILE = HEADER + "profiles:\n- schedulerName: kubestow\n"
PATIENCE_SECONDS = 60.0


class Running:
    """The cluster, the scheduler, and the files that it was started with."""

    def __init__(self, cluster: EmbeddedCluster, folder: Path, options: RunOptions) -> None:
        self.cluster = cluster
        self.conditions = ConditionLog(cluster)
        self.config = folder / "config.yaml"
        self.plugins = folder / "plugins"
        self.application = read(options)

    @property
    def reloader(self) -> Reloader:
        assert self.application.reloader is not None
        return self.application.reloader

    async def reload(self, text: str) -> str:
        """Write the configuration, and return the result of reloading it."""
        self.config.write_text(text)
        return await self.reloader.reload()

    def write_plugin(self, text: str, name: str = "reloaded_plugin") -> None:
        (self.plugins / f"{name}.py").write_text(text)

    def plugin(self, name: str) -> Any:
        """Return the plugin in force."""
        return self.reloader.wiring.profiles.frameworks["kubestow"].plugins[name]

    def problems(self) -> str:
        refusal = self.reloader.refusal
        return "" if refusal is None else "\n".join(refusal.problems)

    def node(self, name: str, **labels: str) -> None:
        size = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
        self.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "status": {"capacity": size, "allocatable": size},
            }
        )

    def pod(self, name: str, scheduler: str = "kubestow", **spec: Any) -> None:
        container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1m"}}}
        self.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"schedulerName": scheduler, "containers": [container], **spec},
            }
        )

    def node_of(self, name: str) -> str:
        pod = self.cluster.get("v1", "Pod", name)
        return str(pod["spec"].get("nodeName", ""))

    def unbound(self) -> list[str]:
        return [
            each.name
            for each in self.cluster.store.items("pods", "default")
            if not each.obj["spec"].get("nodeName")
        ]

    def sample(self, name: str) -> float:
        """Return the sum of a metric over all its labels."""
        return sample(self.reloader.wiring, name)

    def validate(self) -> None:
        """Check every invariant of the queue."""
        self.reloader.wiring.scheduling.queue.validate()

    def events(self) -> list[str]:
        """Return the reasons of all Events."""
        return [each.obj["reason"] for each in self.cluster.store.items("events")]

    async def event(self, reason: str) -> str:
        """Wait for an Event about the configuration, and return its note."""
        await until(lambda: self._notes(reason))
        return self._notes(reason)[0]

    def _notes(self, reason: str) -> list[str]:
        events = self.cluster.store.items("events")
        return [each.obj["message"] for each in events if each.obj["reason"] == reason]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - the state of a server, not an event of ours
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(
    folder: Path, text: str = PROFILE, lease: JsonObject | None = None
) -> AsyncIterator[Running]:
    """Start the scheduler with the configuration `text`, and stop it at the end.

    `lease` is created before, and the scheduler tries to get it.
    """
    (folder / "config.yaml").write_text(text)
    (folder / "plugins").mkdir(exist_ok=True)
    async with EmbeddedCluster(controllers=()) as cluster:
        if lease is not None:
            cluster.create(lease)
        options = RunOptions(
            config_file=str(folder / "config.yaml"),
            plugin_dirs=(str(folder / "plugins"),),
            overrides={
                "leaderElection.leaderElect": lease is not None,
                "leaderElection.resourceNamespace": "default",
                "leaderElection.retryPeriod": "200ms",
                "clientConnection.kubeconfig": str(cluster.write_kubeconfig(folder / "kubeconfig")),
            },
            serving=ServingOptions(secure_port=0),
        )
        world = Running(cluster, folder, options)
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(world.application.serve(handle_signals=False))
            try:
                await until(lambda: world.application.reloader)
                yield world
            finally:
                world.application.stop()
        assert serving.result() == 0
