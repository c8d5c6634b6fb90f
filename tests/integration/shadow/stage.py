"""A cluster in which the test is the scheduler in force, and a shadow beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from devtools.embedded_service import configuration, patch_status, until
from devtools.embedded_service import pod as pod_of
from devtools.loop_time import LoopClock, pass_time
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.read_only import ReadOnlyTransport
from scheduler.explain.records.shadow import ShadowPod
from scheduler.metrics import SchedulerMetrics
from scheduler.shadow.profiles import following as following_names
from scheduler.shadow.running import following
from scheduler.shadow.wiring import ShadowWiring, wire
from simulator import EmbeddedCluster
from simulator.objects import JsonObject

THEIRS: Final = "default-scheduler"


@asynccontextmanager
async def shadow(
    cluster: EmbeddedCluster,
    plugins: Sequence[type[Any]] = (),
    names: Sequence[str] = (THEIRS,),
    **document: Any,
) -> AsyncIterator[ShadowWiring]:
    """Run a shadow in virtual time; it has synced when the context is entered."""
    loaded, registry = configuration(plugins, document)
    async with ReadOnlyTransport(ClientConfiguration(server=cluster.url)) as transport:
        wiring = wire(
            following_names(loaded, names),
            registry,
            transport,
            metrics=SchedulerMetrics(process=False),
            clock=LoopClock(cluster),
        )
        async with following(wiring):
            yield wiring
            wiring.state.cache.validate()
            wiring.scheduling.queue.validate()


def pod(name: str, cpu: str = "1", **spec: Any) -> JsonObject:
    """Return a pod of the scheduler in force."""
    return pod_of(name, cpu, schedulerName=THEIRS, **spec)


async def chosen(wiring: ShadowWiring, cluster: EmbeddedCluster, name: str) -> str:
    """Wait until the shadow has chosen a node for a pod; return it."""
    uid = cluster.get("v1", "Pod", name, "default")["metadata"]["uid"]

    def node() -> str:
        choice = wiring.follower.choices.get(uid)
        return "" if choice is None or choice.deadline is None else choice.node

    await until(node, f"a choice for {name}")
    return node()


async def judged(wiring: ShadowWiring, seen: list[ShadowPod], count: int) -> list[ShadowPod]:
    """Wait for so many judgements."""
    await until(lambda: len(seen) >= count, f"{count} judgements")
    return seen


def listen(wiring: ShadowWiring) -> list[ShadowPod]:
    """Return a list that grows with each judgement."""
    seen: list[ShadowPod] = []
    wiring.tally.listeners.append(seen.append)
    return seen


def reject(cluster: EmbeddedCluster, name: str, message: str) -> None:
    """Reject a pod as the scheduler in force does."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    patch_status(cluster, name, {"conditions": [condition]})


__all__ = ["chosen", "judged", "listen", "pass_time", "pod", "reject", "shadow"]
