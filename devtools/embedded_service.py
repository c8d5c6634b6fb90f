"""A scheduler in this process against an embedded cluster over real HTTP.

    async with EmbeddedCluster(controllers=()) as cluster, scheduling(cluster) as scheduler:
        cluster.create(node("n1"))
        cluster.create(pod("a"))
        await until(lambda: bound_to(cluster, "a") == "n1")

Everything `Wiring` builds runs as `Application` would run it, but for endpoints, signals and
leader election (`test_application.py` covers those). Leaving the context checks the invariants of
cache and queue, whatever the test did to them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import plugins as in_tree
from config import Configuration, FeatureGates, load_configuration
from devtools.loop_time import LoopClock, skip_idle_time
from scheduler.api.pod_groups import POD_GROUP_LABEL
from scheduler.client.clock import Clock
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.fence import Fence, OpenFence
from scheduler.client.transport import Transport
from scheduler.framework import Registry
from scheduler.metrics import SchedulerMetrics
from scheduler.service.options import RunOptions
from scheduler.stages.wiring import Wiring
from scheduler.stages.wiring import wire as wire_service
from simulator import EmbeddedCluster, subresources
from simulator.admission import WriteOptions
from simulator.api import MERGE_PATCH
from simulator.demos.gang.objects import group
from simulator.errors import ApiError
from simulator.objects import JsonObject
from simulator.store import StoreChange

PROFILE: Final = "kubestow"
PATIENCE_SECONDS: Final = 60.0
"""Before `until` gives up. Nothing here takes more than two; a loaded machine is slower."""


def node(name: str, cpu: str = "4", *, pods: int = 110, **metadata: object) -> JsonObject:
    """Return a node with room for `cpu` and 8 GiB."""
    size = {"cpu": cpu, "memory": "8Gi", "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **metadata},
        "status": {"capacity": size, "allocatable": dict(size)},
    }


def pod(name: str, cpu: str = "1", *, gates: Sequence[str] = (), **spec: object) -> JsonObject:
    """Return a pod of our profile that requests `cpu`; `spec` overrides fields of its spec."""
    made: JsonObject = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": PROFILE,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
    }
    if gates:
        made["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    return made


def add_gang(cluster: EmbeddedCluster, name: str, members: int, **spec: Any) -> list[str]:
    """Create a PodGroup that needs all of its members, of 2 CPU each; return their names."""
    cluster.create(group(name, members))
    names = [f"{name}-{number}" for number in range(members)]
    for each in names:
        made = pod(each, "2", **spec)
        made["metadata"]["labels"] = {POD_GROUP_LABEL: name}
        cluster.create(made)
    return names


def plugin(plugin_name: str, **methods: Any) -> type[Any]:
    """A plugin class; functions become methods without `self`, other values class attributes."""
    members = {
        key: staticmethod(value) if callable(value) else value for key, value in methods.items()
    }
    return type(plugin_name, (), {"name": plugin_name, "__init__": _ignore, **members})


def _ignore(self: object, args: object, handle: object) -> None: ...


def configuration(
    plugins: Sequence[type[Any]],
    document: Mapping[str, Any],
    feature_gates: FeatureGates | None = None,
) -> tuple[Configuration, Registry]:
    """The default profile plus `plugins` at all their points.

    `document` has other settings; its entry `points` is for the profile's `plugins`.
    """
    registry = Registry([*in_tree.in_tree(), *plugins])
    enabled = {"multiPoint": {"enabled": [{"name": each.name} for each in plugins]}}
    document = dict(document)
    points = document.pop("points", {})
    profile = {"schedulerName": PROFILE, "plugins": {**enabled, **points}}
    text = json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"qps": 5000, "burst": 5000},
            "profiles": [profile],
            **document,
        }
    )
    loaded = load_configuration(
        text,
        registry=registry,
        default_plugins=in_tree.DEFAULT_PLUGINS,
        feature_gates=feature_gates,
    )
    return loaded, registry


def wire(
    transport: Transport,
    plugins: Sequence[type[Any]] = (),
    document: Mapping[str, Any] | None = None,
    fence: Fence | None = None,
    options: RunOptions | None = None,
    clock: Clock | None = None,
) -> Wiring:
    """All parts, not running."""
    options = options or RunOptions()
    loaded, registry = configuration(plugins, document or {}, options.feature_gates)
    return wire_service(
        loaded,
        registry,
        options,
        transport,
        fence=fence or OpenFence(),
        metrics=SchedulerMetrics(),
        clock=clock,
    )


@asynccontextmanager
async def scheduling(
    cluster: EmbeddedCluster,
    plugins: Sequence[type[Any]] = (),
    *,
    fence: Fence | None = None,
    options: RunOptions | None = None,
    clock: Clock | None = None,
    **document: Any,
) -> AsyncIterator[Wiring]:
    """Run a scheduler; it has synced when the context is entered.

    Without a `clock`, its time is virtual: `until` skips what nobody uses.
    """
    async with (
        Transport(ClientConfiguration(server=cluster.url)) as transport,
        running(
            wire(transport, plugins, document, fence, options, clock or LoopClock(cluster))
        ) as wiring,
    ):
        yield wiring


@asynccontextmanager
async def running(wiring: Wiring) -> AsyncIterator[Wiring]:
    """Run what `wire` made; it has synced when the context is entered."""
    async with asyncio.TaskGroup() as group:
        tasks: list[asyncio.Task[Any]] = [
            group.create_task(reflector.run()) for reflector in wiring.reflectors
        ]
        tasks.append(group.create_task(wiring.connections.recorder.run()))
        tasks.append(group.create_task(wiring.connections.dispatcher.run()))
        for reflector in wiring.reflectors:
            await reflector.synced.wait()
        wiring.state.subscriptions.publish_synced()
        tasks.append(group.create_task(wiring.scheduling.loop.run()))
        tasks += [
            group.create_task(run(), name=name) for name, run in wiring.controllers.leaders_work()
        ]
        try:
            yield wiring
            wiring.state.cache.validate()
            wiring.scheduling.queue.validate()
        finally:
            for task in tasks:
                task.cancel()
            await wiring.close()


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Let the event loop run until `condition` holds, and skip the time in which nothing happens.

    Raises:
        AssertionError: it still does not after `PATIENCE_SECONDS`.
    """
    # The machine's time: that of the loop may be ahead.
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"did not happen in time: {what or condition}")
        await asyncio.sleep(0.001 if skip_idle_time() else 0.005)


async def settled(wiring: Wiring) -> None:
    """Wait until no attempt, bind or status patch is in flight."""

    def quiet() -> bool:
        writes = wiring.connections.dispatcher.statistics()
        lanes = (writes.bind, writes.status)
        return (
            not wiring.state.slots.taken
            and not writes.settling
            and not any(lane.waiting or lane.in_flight for lane in lanes)
            and not wiring.scheduling.queue.statistics().in_flight
        )

    await until(quiet, "quiet")


def find(cluster: EmbeddedCluster, name: str) -> JsonObject | None:
    """A pod as stored, or None."""
    try:
        return cluster.get("v1", "Pod", name)
    except ApiError:
        return None


def bound_to(cluster: EmbeddedCluster, name: str) -> str:
    """The node of a pod; empty when it has none, or the pod does not exist."""
    found = find(cluster, name)
    return "" if found is None else str(found["spec"].get("nodeName", ""))


def bind(cluster: EmbeddedCluster, name: str, to: str) -> None:
    """Bind a pod as another scheduler does."""
    target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": to}}
    pods = cluster.resources.of_kind("v1", "Pod")
    subresources.bind(cluster.api, pods, "default", name, target, WriteOptions())


def patch_status(cluster: EmbeddedCluster, name: str, status: JsonObject) -> None:
    """Write the status of a pod as another client, mostly a kubelet, does."""
    pods = cluster.resources.of_kind("v1", "Pod")
    patch = {"status": status}
    cluster.api.patch(pods, "default", name, patch, MERGE_PATCH, subresource="status")


def delete(cluster: EmbeddedCluster, name: str, kind: str = "Pod") -> None:
    """Delete an object immediately, as another client does."""
    resource = cluster.resources.of_kind("v1", kind)
    namespace = "default" if resource.namespaced else ""
    options = {"gracePeriodSeconds": 0}
    cluster.api.delete(resource, namespace, name, options, WriteOptions())


def event_notes(cluster: EmbeddedCluster, reason: str) -> list[str]:
    """Notes of all stored events of that reason."""
    events = [version.obj for version in cluster.store.items("events")]
    return [str(each.get("message", "")) for each in events if each["reason"] == reason]


def condition(cluster: EmbeddedCluster, name: str) -> JsonObject:
    """The PodScheduled condition; empty when there is none."""
    found = find(cluster, name) or {}
    for each in found.get("status", {}).get("conditions", ()):
        if each["type"] == "PodScheduled":
            return dict(each)
    return {}


def sample(wiring: Wiring, name: str, **labels: str) -> float:
    """The sum of a metric's samples that carry these labels; 0 when there are none."""
    total = 0.0
    for line in wiring.connections.metrics.exposition()[0].decode().splitlines():
        series, _, value = line.rpartition(" ")
        if series.partition("{")[0] == name and all(
            f'{key}="{text}"' in series for key, text in labels.items()
        ):
            total += float(value)
    return total


class ConditionLog:
    """Every reason and message of pods' PodScheduled conditions that the cluster stored, in order.

    They stay only until the next attempt, so a test that looks at the pod later may miss them.
    """

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._entries: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        cluster.store.subscribe("pods", self._changed)

    def reasons(self, name: str) -> list[str]:
        """The reasons of a pod."""
        return [reason for reason, _ in self._entries[name]]

    def messages(self, name: str) -> list[str]:
        """The messages of a pod."""
        return [message for _, message in self._entries[name]]

    def _changed(self, _table: str, change: StoreChange) -> None:
        obj = change.version.obj
        for each in obj.get("status", {}).get("conditions", ()):
            if each["type"] == "PodScheduled":
                entries = self._entries[obj["metadata"]["name"]]
                entry = str(each.get("reason", "")), str(each.get("message", ""))
                if entries[-1:] != [entry]:
                    entries.append(entry)


class BindLog:
    """Every change of a pod's node that the cluster stored: (pod, node), in order."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.entries: list[tuple[str, str]] = []
        self._nodes: dict[str, str] = {}
        cluster.store.subscribe("pods", self._changed)

    def _changed(self, _table: str, change: StoreChange) -> None:
        obj = change.version.obj
        uid, to = obj["metadata"]["uid"], obj["spec"].get("nodeName", "")
        if to and self._nodes.get(uid) != to:
            self._nodes[uid] = to
            self.entries.append((obj["metadata"]["name"], to))
