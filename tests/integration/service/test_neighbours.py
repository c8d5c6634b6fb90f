"""Other schedulers at work on the same nodes while ours decides."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from scheduler.framework import Code, Handle, Status
from simulator import EmbeddedCluster
from simulator.objects import JsonObject
from tests.integration.service.harness import (
    BindLog,
    bound_to,
    delete,
    event_notes,
    node,
    pod,
    sample,
    scheduling,
    settled,
    until,
)


class Gatekeeper:
    """Makes pods called "slow" wait at Permit until the test lets them go."""

    name: ClassVar[str] = "Gatekeeper"
    handle: ClassVar[Handle]
    released: ClassVar[list[str]]

    def __init__(self, args: object, handle: Handle) -> None:
        type(self).handle = handle
        type(self).released = []

    def permit(self, state: object, pod: Any, node_name: str) -> tuple[Status | None, float]:
        once = pod.metadata.name == "slow" and not self.released
        return (Status(Code.WAIT), 600.0) if once else (None, 0.0)

    def unreserve(self, state: object, pod: Any, node_name: str) -> None:
        self.released.append(f"{pod.metadata.name} {node_name}")

    def reserve(self, state: object, pod: Any, node_name: str) -> None:
        return None

    @classmethod
    def let_go(cls) -> None:
        for each in cls.handle.waiting_pods():
            each.allow(cls.name)

    @classmethod
    def waiting(cls) -> bool:
        return any(True for _ in cls.handle.waiting_pods())


def foreign(name: str, cpu: str, on: str = "") -> JsonObject:
    more = {"nodeName": on} if on else {}
    return pod(name, cpu, **{"schedulerName": "other", **more})


@pytest.mark.parametrize("recheck", [True, False])
async def test_a_node_that_another_scheduler_filled_is_given_up(
    cluster: EmbeddedCluster, recheck: bool
) -> None:
    binds = BindLog(cluster)
    cluster.create(node("n1", cpu="4"))
    options = {"recheckBeforeBind": recheck}
    async with scheduling(cluster, [Gatekeeper], kubestow=options) as scheduler:
        cluster.create(pod("slow", "3"))
        await until(Gatekeeper.waiting, "at Permit")
        cluster.create(foreign("theirs", "2", on="n1"))
        await until(lambda: scheduler.cache.statistics().pods == 2, "theirs seen")
        cluster.create(node("n2", cpu="4"))
        await until(lambda: scheduler.cache.statistics().nodes == 2, "n2 seen")
        Gatekeeper.let_go()
        await until(lambda: bound_to(cluster, "slow"), "bound")
        await settled(scheduler)
        assert bound_to(cluster, "slow") == ("n2" if recheck else "n1")
        assert sample(scheduler, "kubestow_node_rechecks_total", result="rejected") == recheck
        if recheck:
            assert Gatekeeper.released == ["slow n1"]
            assert ("slow", "n1") not in binds.entries
            await until(lambda: event_notes(cluster, "FailedScheduling"), "event")
            (note,) = event_notes(cluster, "FailedScheduling")
            assert "fits no longer: Insufficient cpu" in note


async def test_a_bind_held_back_by_the_rate_limit_is_checked_when_it_leaves(
    cluster: EmbeddedCluster,
) -> None:
    """The node is filled after the Bind plugin was called and before its request was sent."""
    cluster.create(node("n1", cpu="4"))
    async with scheduling(cluster) as scheduler:
        asked = scheduler.client._wait_for_turn
        turns: list[str] = []

        async def wait_for_turn(verb: str) -> None:
            if verb == "POST" and not turns:
                turns.append(verb)
                cluster.create(foreign("theirs", "2", on="n1"))
                await until(lambda: scheduler.cache.statistics().pods == 2, "theirs seen")
            await asked(verb)

        scheduler.client._wait_for_turn = wait_for_turn  # type: ignore[method-assign]
        cluster.create(pod("ours", "3"))
        await until(
            lambda: sample(scheduler, "kubestow_node_rechecks_total", result="rejected"), "held"
        )
        await settled(scheduler)
        assert not bound_to(cluster, "ours")
        delete(cluster, "theirs")
        await until(lambda: bound_to(cluster, "ours") == "n1", "bound in the end")
        await settled(scheduler)
