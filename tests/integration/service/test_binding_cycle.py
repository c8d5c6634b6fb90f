"""Waiting at Permit, gangs, PreBind groups, and the writes to the API server meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from config import FeatureGates
from devtools.embedded_service import (
    BindLog,
    bound_to,
    condition,
    delete,
    event_notes,
    find,
    node,
    plugin,
    pod,
    sample,
    scheduling,
    settled,
    until,
)
from scheduler.framework import (
    SKIP,
    ClusterEventWithHint,
    Code,
    Handle,
    PreBindPreFlightResult,
    Status,
)
from scheduler.service.options import RunOptions
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster, FaultRule

WAIT = Status(Code.WAIT)


class Gatekeeper:
    """Makes each pod whose name begins with "wait" wait, until the test allows or rejects it."""

    name: ClassVar[str] = "Gatekeeper"
    seconds: ClassVar[float] = 600.0
    handle: ClassVar[Handle]

    def __init__(self, args: object, handle: Handle) -> None:
        type(self).handle = handle

    def permit(self, state: object, pod: Any, node_name: str) -> tuple[Status | None, float]:
        if pod.metadata.name.startswith("wait"):
            return WAIT, self.seconds
        return None, 0.0

    @classmethod
    def waiting(cls) -> dict[str, Any]:
        return {each.pod.metadata.name: each for each in cls.handle.waiting_pods()}


class Impatient(Gatekeeper):
    """A `Gatekeeper` with a short timeout."""

    name: ClassVar[str] = "Impatient"
    seconds: ClassVar[float] = 0.05


class WithoutEvents(Gatekeeper):
    """A `Gatekeeper` that registers no events: none requeues a pod that it rejected."""

    name: ClassVar[str] = "WithoutEvents"

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return []


class Gang:
    """Allows the pods of a gang once all of them have a node, as co-scheduling plugins do."""

    name: ClassVar[str] = "Gang"
    size: ClassVar[int] = 12

    def __init__(self, args: object, handle: Handle) -> None:
        self.handle = handle

    def permit(self, state: object, pod: Any, node_name: str) -> tuple[Status | None, float]:
        waiting = list(self.handle.waiting_pods())
        if len(waiting) + 1 < self.size:
            return WAIT, 600.0
        for each in waiting:
            each.allow(self.name)
        return None, 0.0


def nominated(cluster: EmbeddedCluster, name: str) -> str:
    found = find(cluster, name) or {}
    return str(found.get("status", {}).get("nominatedNodeName", ""))


def observed(scheduler: Wiring, cluster: EmbeddedCluster, name: str) -> bool:
    """Whether the scheduler has received the current state of a pod."""
    known = scheduler.state.listers["pods"].get(name, "default")
    stored = find(cluster, name)
    return (
        known is not None
        and stored is not None
        and known.metadata.resource_version == stored["metadata"]["resourceVersion"]
    )


async def test_a_waiting_pod_holds_its_place_until_it_is_allowed(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1", cpu="1"))
    async with scheduling(cluster, [Gatekeeper]) as scheduler:
        cluster.create(pod("wait"))
        await until(lambda: nominated(cluster, "wait") == "n1", "its node is nominated")
        cluster.create(pod("other"))
        await until(lambda: condition(cluster, "other"), "other rejected")
        assert not bound_to(cluster, "wait")
        Gatekeeper.waiting()["wait"].allow("Gatekeeper")
        await until(lambda: bound_to(cluster, "wait"), "bound")
        await settled(scheduler)
        assert nominated(cluster, "wait") == ""
        assert not bound_to(cluster, "other")
        count = "scheduler_permit_wait_duration_seconds_count"
        assert sample(scheduler, count, result="Success") == 1


async def test_a_rejected_pod_frees_its_node(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1", cpu="1"))
    async with scheduling(cluster, [Gatekeeper]) as scheduler:
        cluster.create(pod("wait"))
        cluster.create(pod("other"))
        await until(lambda: condition(cluster, "other"), "other rejected")

        def rejected_until_the_other_is_bound() -> bool:
            # The rejected pod may be back before the other's backoff ends.
            if "wait" in (waiting := Gatekeeper.waiting()):
                waiting["wait"].reject("Gatekeeper", "not today")
            return bound_to(cluster, "other") == "n1"

        await until(rejected_until_the_other_is_bound, "other bound")
        await until(lambda: condition(cluster, "wait"), "condition")
        assert condition(cluster, "wait")["reason"] == "Unschedulable"
        note = "0/1 nodes are available: 1 not today."
        await until(lambda: note in event_notes(cluster, "FailedScheduling"), "event")
        await settled(scheduler)
        assert nominated(cluster, "wait") == ""


async def test_a_pod_rejected_before_its_nomination_is_written_is_not_nominated(
    cluster: EmbeddedCluster,
) -> None:
    """The request that writes the nomination is under way when the pod is rejected."""
    cluster.create(node("n1"))
    cluster.clock.set_rate(0)
    cluster.faults.add(
        FaultRule(action="delay", verb="patch", resource="pods/status", seconds=60, times=1)
    )
    async with scheduling(cluster, [WithoutEvents]) as scheduler:
        cluster.create(pod("wait"))
        await until(lambda: cluster.faults.describe()[0]["acted"] == 1, "patch under way")
        WithoutEvents.waiting()["wait"].reject("WithoutEvents", "not today")
        await until(lambda: not scheduler.scheduling.queue.statistics().in_flight, "rejected")
        cluster.clock.advance(61)
        await until(lambda: condition(cluster, "wait"), "condition")
        await settled(scheduler)
        assert nominated(cluster, "wait") == ""
        # The states that the watch shows meanwhile have no nomination.
        await until(lambda: observed(scheduler, cluster, "wait"), "received from the watch")
        assert scheduler.scheduling.queue.statistics().nominated == 0


async def test_a_wait_ends_with_its_timeout(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    never_again: dict[str, Any] = {
        "podInitialBackoffSeconds": 600,
        "podMaxBackoffSeconds": 600,
        # Otherwise the pod is tried again at once, since there is nothing else to do.
        "options": RunOptions(feature_gates=FeatureGates({"SchedulerPopFromBackoffQ": False})),
    }
    async with scheduling(cluster, [Impatient], **never_again) as scheduler:
        cluster.create(pod("wait"))
        await until(lambda: condition(cluster, "wait"), "condition")
        assert condition(cluster, "wait")["message"].startswith(
            "0/1 nodes are available: 1 rejected due to timeout after waiting 50ms at plugin "
        )
        count = "scheduler_permit_wait_duration_seconds_count"
        assert sample(scheduler, count, result="Unschedulable") == 1


async def test_a_waiting_pod_that_is_deleted_frees_its_place(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1", cpu="1"))
    async with scheduling(cluster, [Gatekeeper]) as scheduler:
        cluster.create(pod("wait"))
        cluster.create(pod("other"))
        await until(lambda: condition(cluster, "other"), "other rejected")
        delete(cluster, "wait")
        await until(lambda: bound_to(cluster, "other") == "n1", "other bound")
        await settled(scheduler)
        assert Gatekeeper.waiting() == {}
        assert len(scheduler.scheduling.queue) == 0


async def test_a_gang_larger_than_the_bind_limit_completes(cluster: EmbeddedCluster) -> None:
    binds = BindLog(cluster)
    cluster.create(node("n1", cpu="100"))
    async with scheduling(cluster, [Gang], kubestow={"bindConcurrency": 2}) as scheduler:
        for number in range(Gang.size - 1):
            cluster.create(pod(f"p{number}"))
        await until(
            lambda: scheduler.scheduling.engine.statistics()["waiting_pods"] == Gang.size - 1,
            "wait",
        )
        assert binds.entries == []
        assert scheduler.state.slots.taken == 0
        cluster.create(pod("last"))
        await until(lambda: len(binds.entries) == Gang.size, "the gang is bound")
        await settled(scheduler)


class Steps:
    """Records when asynchronous PreBind calls begin and end; the test ends them."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.open: dict[str, asyncio.Event] = {}

    def plugin(self, name: str, flight: PreBindPreFlightResult | Status) -> type[Any]:
        return plugin(name, pre_bind_pre_flight=lambda *_: flight, pre_bind=self._pre_bind(name))

    def _pre_bind(self, name: str) -> Callable[..., Awaitable[None]]:
        async def pre_bind(state: object, pod: object, node_name: str) -> None:
            self.log.append(f"+{name}")
            ended = self.open[name] = asyncio.Event()
            await ended.wait()
            self.log.append(f"-{name}")

        return pre_bind

    def finish(self, name: str) -> None:
        self.open.pop(name).set()


SERIAL = PreBindPreFlightResult()
PARALLEL = PreBindPreFlightResult(allow_parallel=True)


async def test_pre_bind_runs_adjacent_plugins_that_allow_it_concurrently(
    cluster: EmbeddedCluster,
) -> None:
    steps = Steps()
    plugins = [
        steps.plugin("first", SERIAL),
        steps.plugin("left", PARALLEL),
        steps.plugin("skipped", SKIP),
        steps.plugin("right", PARALLEL),
        steps.plugin("last", SERIAL),
    ]
    cluster.create(node("n1"))
    async with scheduling(cluster, plugins) as scheduler:
        cluster.create(pod("a"))
        await until(lambda: "first" in steps.open, "first began")
        await until(lambda: nominated(cluster, "a") == "n1", "its node is nominated")
        assert steps.log == ["+first"]
        steps.finish("first")
        await until(lambda: {"left", "right"} <= set(steps.open), "both began")
        steps.finish("right")
        await until(lambda: "-right" in steps.log, "right ended")
        assert "last" not in steps.open
        steps.finish("left")
        await until(lambda: "last" in steps.open, "last began")
        assert not bound_to(cluster, "a")
        steps.finish("last")
        await until(lambda: bound_to(cluster, "a"), "bound")
        await settled(scheduler)
        assert steps.log[:2] == ["+first", "-first"]
        assert sorted(steps.log[2:4]) == ["+left", "+right"]
        assert steps.log[4:] == ["-right", "-left", "+last", "-last"]
        assert nominated(cluster, "a") == ""


async def test_a_write_begun_before_a_bind_never_arrives_after_it(cluster: EmbeddedCluster) -> None:
    """The request that writes the nomination is under way when the bind is due."""
    steps = Steps()
    cluster.create(node("n1"))
    cluster.clock.set_rate(0)
    cluster.faults.add(FaultRule(action="delay", verb="patch", resource="pods/status", seconds=60))
    async with scheduling(cluster, [steps.plugin("only", SERIAL)]) as scheduler:
        cluster.create(pod("a"))
        await until(lambda: cluster.faults.describe()[0]["acted"] == 1, "patch under way")
        steps.finish("only")
        await until(lambda: steps.log == ["+only", "-only"], "bind due")
        assert not scheduler.connections.dispatcher.statistics().bind.in_flight
        cluster.clock.advance(61)
        await until(lambda: bound_to(cluster, "a"), "bound")
        await settled(scheduler)
        assert nominated(cluster, "a") == ""


async def test_a_rejection_not_yet_written_is_dropped_when_the_pod_is_bound(
    cluster: EmbeddedCluster,
) -> None:
    """Patches are sent last: under load a pod can be bound before its rejection is written."""
    cluster.clock.set_rate(0)
    cluster.create(node("small", cpu="1"))
    delayed = FaultRule(action="delay", verb="patch", resource="pods/status", seconds=60)
    cluster.faults.add(delayed)
    async with scheduling(cluster) as scheduler:
        # These keep every status slot busy.
        slots = 16
        for number in range(slots):
            cluster.create(pod(f"busy{number}", cpu="1000"))
        await until(
            lambda: scheduler.connections.dispatcher.statistics().status.in_flight == slots, "busy"
        )
        cluster.create(pod("a", cpu="2"))
        await until(
            lambda: scheduler.connections.dispatcher.statistics().status.waiting == 1, "a rejected"
        )
        cluster.create(node("large", cpu="2"))
        await until(lambda: bound_to(cluster, "a") == "large", "a bound")
        cluster.clock.advance(61)
        cluster.faults.clear()
        await settled(scheduler)
        assert condition(cluster, "a")["status"] == "True"


class Fence:
    """A leader fence that the test closes."""

    def __init__(self) -> None:
        self.shut = False

    def allowed(self) -> bool:
        return not self.shut


async def test_nothing_is_written_while_the_fence_is_closed(cluster: EmbeddedCluster) -> None:
    fence = Fence()
    cluster.create(node("n1"))
    async with scheduling(cluster, fence=fence) as scheduler:
        fence.shut = True
        before = cluster.store.rv
        cluster.create(pod("fits"))
        cluster.create(pod("does-not", cpu="100"))
        await until(
            lambda: scheduler.connections.dispatcher.statistics().bind.fenced, "bind held back"
        )
        await until(
            lambda: scheduler.connections.dispatcher.statistics().status.fenced, "patch held back"
        )
        assert cluster.store.rv == before + 2, "only the two pods were written"
        assert scheduler.state.cache.statistics().assumed_pods == 0
        fence.shut = False
        await until(lambda: bound_to(cluster, "fits"), "bound after all")
