"""Gangs whose members wait for an extender."""

from __future__ import annotations

import asyncio
from typing import Any

from devtools.embedded_service import (
    bound_to,
    condition,
    event_notes,
    node,
    plugin,
    pod,
    scheduling,
    settled,
    until,
)
from scheduler.api.pod_groups import POD_GROUP_LABEL
from simulator import EmbeddedCluster
from simulator.demos.gang.objects import POD_GROUPS
from simulator.demos.gang.objects import group as pod_group
from tests.integration.extenders.extender import ExtenderServer, hanging
from tests.integration.extenders.setup import BY_NAME, QUICK, entry

GANGS = {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}}


def add_gang(cluster: EmbeddedCluster, minimum: int, *names: str) -> None:
    cluster.create(pod_group("gang", minimum))
    for name in names:
        member = pod(name)
        member["metadata"]["labels"] = {POD_GROUP_LABEL: "gang"}
        cluster.create(member)


async def test_members_beyond_the_minimum_have_attempts_of_their_own(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.resources.add(POD_GROUPS)
    cluster.create(node("n1"))
    mine = entry(extender, "filter", **BY_NAME)
    names = ("a", "b", "c", "d")
    async with scheduling(cluster, points=GANGS, extenders=[mine], **QUICK) as scheduler:
        add_gang(cluster, 2, *names)
        await until(lambda: all(bound_to(cluster, each) == "n1" for each in names), "bound")
        await settled(scheduler)
        assert not scheduler.state.inbox.suspended
        assert not scheduler.scheduling.queue.statistics().in_flight
        notes = [note for name in names for note in event_notes(cluster, name)]
    assert not [note for note in notes if "suspended" in note]
    assert extender.verbs().count("filter") == 4


async def test_a_member_that_ends_as_cancelled_ends_its_group_only(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    """It raises after the cycle was suspended, as if the scheduling loop were cancelled."""

    def score(*_: Any) -> int:
        raise asyncio.CancelledError

    cluster.resources.add(POD_GROUPS)
    for name in ("n1", "n2"):
        cluster.create(node(name))
    mine = entry(extender, "filter", **BY_NAME)
    cancelled = plugin("Cancelled", score=score)
    points = {"multiPoint": {"enabled": [{"name": "GangScheduling"}, {"name": "Cancelled"}]}}
    async with scheduling(
        cluster, [cancelled], points=points, extenders=[mine], **QUICK
    ) as scheduler:
        add_gang(cluster, 2, "a", "b")
        cluster.create(pod("single"))
        for name in ("a", "single"):
            await until(lambda name=name: condition(cluster, name), "an attempt")  # type: ignore[misc]
            assert "CancelledError" in condition(cluster, name)["message"]
        await until(lambda: not scheduler.state.inbox.suspended, "end of the cycle")


async def test_a_stop_while_deferred_changes_are_applied_ends_no_binding_cycle(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    cluster.resources.add(POD_GROUPS)
    cluster.create(node("n1"))
    extender.responses["filter"] = hanging
    mine = entry(extender, "filter", **BY_NAME)
    async with scheduling(cluster, points=GANGS, extenders=[mine]) as scheduler:
        add_gang(cluster, 2, "a", "b")
        await until(lambda: extender.calls, "called")
        scheduler.state.inbox.submit(scheduler.scheduling.loop.stop)
        extender.release()
        await until(lambda: not scheduler.state.inbox.suspended, "end of the cycle")
        await scheduler.scheduling.loop.drained()
        assert not scheduler.scheduling.binding.ending, "the loop runs, and so do binding cycles"
