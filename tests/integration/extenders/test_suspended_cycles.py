"""Changes of the cluster while a scheduling cycle is suspended."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from devtools.embedded_service import (
    BindLog,
    bind,
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
    NominatingInfo,
    PostFilterResult,
    QueueingHint,
    Status,
    unresolvable,
    unschedulable,
)
from scheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, EventResource
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster
from tests.integration.extenders.extender import ExtenderServer, hanging, only
from tests.integration.extenders.setup import BY_NAME, QUICK, entry, message


async def called(cluster: EmbeddedCluster, extender: ExtenderServer, *names: str) -> None:
    """Create pods, and wait until the extender is called for the first of them."""
    extender.responses["filter"] = hanging
    for name in names:
        cluster.create(pod(name))
    await until(lambda: extender.calls, "called")


async def read(scheduler: Wiring, cluster: EmbeddedCluster, plural: str) -> None:
    """Wait until a change that was just made has been read; it may wait for the end of a cycle."""
    version = cluster.store.rv
    (reflector,) = (each for each in scheduler.reflectors if each.resource.plural == plural)
    await until(lambda: int(reflector.statistics().resource_version) >= version, "read")


async def test_the_chosen_node_is_deleted_while_the_extender_is_called(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1"))
    document = {**QUICK, "extenders": [entry(extender, "filter", **BY_NAME)]}
    async with scheduling(cluster, **document) as scheduler:
        await called(cluster, extender, "p")
        delete(cluster, "n1", "Node")
        await read(scheduler, cluster, "nodes")
        # The cycle still has its world.
        assert scheduler.state.listers["nodes"].get("n1") is not None
        assert scheduler.state.cache.table.row_of("n1") is not None
        extender.release()
        await until(lambda: message(cluster), "condition")
        assert message(cluster).startswith('node "n1" vanished while the scheduling cycle waited')
        assert condition(cluster, "p")["reason"] == "SchedulerError"
        cluster.create(node("n2"))
        await until(lambda: bound_to(cluster, "p") == "n2", "retried")


async def test_the_chosen_node_fills_up_while_the_extender_is_called(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1", cpu="1"))
    document = {**QUICK, "extenders": [entry(extender, "filter", **BY_NAME)]}
    async with scheduling(cluster, **document) as scheduler:
        await called(cluster, extender, "p")
        cluster.create(pod("rival", schedulerName="another"))
        bind(cluster, "rival", "n1")
        await until(lambda: scheduler.state.inbox.statistics()["waiting"], "seen")
        extender.release()
        await until(lambda: message(cluster), "condition")
        assert message(cluster).endswith("or an async plugin: Insufficient cpu")
        delete(cluster, "rival")
        await until(lambda: bound_to(cluster, "p") == "n1", "retried")


async def test_a_chosen_node_that_changed_and_still_fits_is_taken(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1", cpu="4"))
    mine = entry(extender, "filter", **BY_NAME)
    async with scheduling(cluster, extenders=[mine]) as scheduler:
        await called(cluster, extender, "p")
        cluster.create(pod("rival", schedulerName="another"))
        bind(cluster, "rival", "n1")
        await until(lambda: scheduler.state.inbox.statistics()["waiting"], "seen")
        extender.release()
        await until(lambda: bound_to(cluster, "p") == "n1", "bound")
    assert extender.verbs() == ["filter"]


async def test_a_pod_that_is_deleted_while_the_extender_is_called_is_forgotten(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1"))
    log = BindLog(cluster)
    mine = entry(extender, "filter", **BY_NAME)
    async with scheduling(cluster, extenders=[mine]) as scheduler:
        await called(cluster, extender, "p", "next")
        delete(cluster, "p")
        await read(scheduler, cluster, "pods")
        assert scheduler.state.listers["pods"].get("p", "default") is not None
        extender.release()
        await until(lambda: bound_to(cluster, "next") == "n1", "the next one goes on")
        await settled(scheduler)
        assert not scheduler.scheduling.queue.statistics().in_flight
    assert log.entries == [("next", "n1")]
    assert event_notes(cluster, "FailedScheduling") == []


async def test_a_pod_that_another_scheduler_binds_meanwhile_is_left_alone(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    for name in ("n1", "n2"):
        cluster.create(node(name))
    log = BindLog(cluster)
    mine = entry(extender, "filter", **BY_NAME)
    async with scheduling(cluster, extenders=[mine]) as scheduler:
        await called(cluster, extender, "p", "next")
        bind(cluster, "p", "n1")
        await until(lambda: scheduler.state.inbox.statistics()["waiting"], "seen")
        extender.release(only("n2"))
        await until(lambda: bound_to(cluster, "next") == "n2", "the next one goes on")
    assert log.entries == [("p", "n1"), ("next", "n2")]
    assert event_notes(cluster, "FailedScheduling") == []


async def test_events_in_between_reach_the_queue_in_order_before_the_outcome(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1"))
    seen: list[str] = []

    def hint(pod: Any, old: Any, new: Any) -> Any:
        seen.append((new or old).metadata.name)
        return QueueingHint.QUEUE if new.metadata.name == "n4" else QueueingHint.SKIP

    event = ClusterEvent(EventResource.NODE, ActionType.ADD)
    picky = plugin(
        "Picky",
        filter=lambda state, pod, node: None if node.name == "n4" else unschedulable("not n4"),
        events_to_register=lambda: (ClusterEventWithHint(event, hint),),
    )
    gate = asyncio.Event()
    called_plugin = asyncio.Event()

    async def pre_filter(*_: Any) -> None:
        called_plugin.set()
        await gate.wait()

    slow = plugin("Slow", pre_filter=pre_filter)
    document: dict[str, Any] = {**QUICK, "points": {"postFilter": {"disabled": [{"name": "*"}]}}}
    async with scheduling(cluster, [slow, picky], **document) as scheduler:
        cluster.create(pod("p"))
        await called_plugin.wait()
        for name in ("n2", "n3", "n4"):
            cluster.create(node(name))
        await read(scheduler, cluster, "nodes")
        assert scheduler.state.listers["nodes"].get("n4") is None
        assert seen == []
        assert scheduler.state.cache.table.node_count == 1
        gate.set()
        # The cycle saw n1 only; events since then count as events during its flight.
        await until(lambda: bound_to(cluster, "p") == "n4", "woken by n4")
        await until(lambda: event_notes(cluster, "FailedScheduling"), "event")
    assert seen[:3] == ["n2", "n3", "n4"]
    assert event_notes(cluster, "FailedScheduling")[0] == "0/1 nodes are available: 1 not n4."


async def test_results_of_bindings_wait_for_the_cycle_as_well(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1", cpu="1"))
    cluster.create(node("n2", cpu="1"))
    held, bound = asyncio.Event(), asyncio.Event()

    async def pre_bind(state: Any, pod: Any, node: str) -> Status | None:
        if pod.metadata.name == "first":
            await held.wait()
            bound.set()
            return unresolvable("no luck")
        return None

    holding = plugin("Holding", pre_bind=pre_bind, pre_bind_pre_flight=lambda *_: None)
    managed = [{"name": "example.com/slow"}]
    mine = entry(extender, "filter", **BY_NAME, managedResources=managed)
    extender.responses["filter"] = hanging
    async with scheduling(cluster, [holding], extenders=[mine], **QUICK) as scheduler:
        cluster.create(pod("first"))
        await until(lambda: scheduler.state.cache.statistics().assumed_pods == 1, "assumed")
        containers = [{"name": "c", "resources": {"limits": {"example.com/slow": "0"}}}]
        cluster.create(pod("second", containers=containers))
        await until(lambda: extender.calls, "called")
        held.set()
        await bound.wait()
        await until(lambda: scheduler.state.inbox.statistics()["waiting"], "failure waits")
        assert scheduler.state.cache.statistics().assumed_pods == 1
        extender.release()
        await until(lambda: bound_to(cluster, "second"), "second is bound")
        await until(
            lambda: any("no luck" in note for note in event_notes(cluster, "FailedScheduling"))
        )


async def test_no_cycle_ends_while_a_relist_is_being_applied(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1", cpu="1"))
    document = {**QUICK, "extenders": [entry(extender, "filter", **BY_NAME)]}
    async with scheduling(cluster, **document) as scheduler:
        await called(cluster, extender, "p")
        scheduler.scheduling.loop.pause(True)
        extender.release()
        await until(
            lambda: sample(scheduler, "kubestow_extender_requests_total", result="success"),
            "response",
        )
        cluster.create(pod("theirs", nodeName="n1"))
        await read(scheduler, cluster, "pods")
        assert scheduler.state.inbox.suspended
        scheduler.scheduling.loop.pause(False)
        await until(lambda: message(cluster), "condition")
        assert message(cluster).startswith('node "n1" changed while the scheduling cycle waited')


async def test_stopping_does_not_wait_for_an_extender(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.create(node("n1"))
    mine = entry(extender, "filter", **BY_NAME, httpTimeout="1h")
    async with scheduling(cluster, extenders=[mine]) as scheduler:
        await called(cluster, extender, "p")
        scheduler.scheduling.loop.stop()
        async with asyncio.timeout(60):
            await scheduler.scheduling.loop.drained()
        assert not scheduler.state.inbox.suspended
        assert not scheduler.scheduling.queue.statistics().in_flight


# -- async plugins --------------------------------------------------------------------------------


def async_pre_filter(name: str, result: Any, **members: Any) -> type[Any]:
    """A plugin with an async PreFilter that returns, raises, or never ends."""

    async def pre_filter(state: Any, pod: Any, table: Any) -> Any:
        if result is None or isinstance(result, Status):
            return result
        if isinstance(result, BaseException):
            raise result
        if result == "ignores cancellation":
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.Event().wait()
        if result != "never":
            return result
        return await asyncio.Event().wait()

    return plugin(name, pre_filter=pre_filter, **members)


@pytest.mark.parametrize(
    ("result", "reason", "text"),
    [
        (unresolvable("no seat"), "Unschedulable", "0/1 nodes are available: no seat."),
        (OSError("line cut"), "SchedulerError", 'running PreFilter plugin "Asks": line cut'),
        ("never", "SchedulerError",
         'running PreFilter plugin "Asks": did not finish within 0.02s'),
        ("ignores cancellation", "SchedulerError",
         'running PreFilter plugin "Asks": did not finish within 0.02s'),
        (TimeoutError("of my own"), "SchedulerError",
         'running PreFilter plugin "Asks": of my own'),
        (asyncio.CancelledError(), "SchedulerError",
         'running PreFilter plugin "Asks": it was cancelled'),
        (42, "SchedulerError",
         'running PreFilter plugin "Asks": answered 42, which is not a Status'),
    ],
)  # fmt: skip
async def test_an_async_pre_filter(
    cluster: EmbeddedCluster, result: Any, reason: str, text: str
) -> None:
    cluster.create(node("n1"))
    timeout = 0.02 if result in ("never", "ignores cancellation") else 60.0
    async with scheduling(cluster, [async_pre_filter("Asks", result, timeout=timeout)]):
        cluster.create(pod("p"))
        await until(lambda: message(cluster), "condition")
        assert message(cluster).startswith(text)
        assert condition(cluster, "p")["reason"] == reason
        # The loop goes on.
        cluster.create(pod("q"))
        await until(lambda: condition(cluster, "q"), "the next pod's turn")


async def test_an_async_pre_filter_that_agrees(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    async with scheduling(cluster, [async_pre_filter("Asks", None)]) as scheduler:
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "n1", "bound")
        await settled(scheduler)
        assert sample(scheduler, "scheduler_schedule_attempts_total", result="scheduled") == 1


async def test_only_the_points_that_are_async_are_awaited(cluster: EmbeddedCluster) -> None:
    async def post_filter(state: Any, pod: Any, statuses: Any) -> PostFilterResult:
        return PostFilterResult(unschedulable("no help"))

    mixed = plugin("Mixed", pre_filter=lambda *_: None, post_filter=post_filter)
    cluster.create(node("n1"))
    async with scheduling(cluster, [mixed]):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "n1", "bound")


@pytest.mark.parametrize("late", [False, True])
async def test_an_async_post_filter(cluster: EmbeddedCluster, late: bool) -> None:
    cluster.create(node("n1"))

    async def post_filter(state: Any, pod: Any, statuses: Any) -> PostFilterResult:
        await (asyncio.Event().wait() if late else asyncio.sleep(0))
        return PostFilterResult(None, NominatingInfo("n1"))

    helper = plugin("Helper", post_filter=post_filter, timeout=0.02 if late else 60.0)
    document: dict[str, Any] = {"points": {"postFilter": {
        "disabled": [{"name": "*"}], "enabled": [{"name": "Helper"}]}}}  # fmt: skip
    async with scheduling(cluster, [helper], **document):
        cluster.create(pod("p", cpu="64"))
        await until(lambda: message(cluster), "condition")
        first = "0/1 nodes are available: 1 Insufficient cpu."
        words = ' PostFilter plugin "Helper" did not finish within 0.02s' if late else ""
        assert message(cluster) == first + words
        found = find(cluster, "p")
        assert found is not None
        assert found["status"].get("nominatedNodeName") == (None if late else "n1")
