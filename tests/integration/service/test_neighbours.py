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
    patch_status,
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


def template(name: str, **more: object) -> JsonObject:
    return pod(name, "1", terminationGracePeriodSeconds=7, **more)


async def reject(cluster: EmbeddedCluster, name: str, reason: str) -> str:
    """The pod's kubelet refuses it; its node."""
    await until(lambda: bound_to(cluster, name), f"{name} bound")
    status = {"phase": "Failed", "reason": reason, "message": "Pod was rejected: so it is"}
    patch_status(cluster, name, status)
    return bound_to(cluster, name)


REJECTIONS = [
    ("OutOfcpu", "OutOfcpu"),
    ("OutOfexample.com/gpu", "OutOfexample.com/gpu"),
    ("UnexpectedAdmissionError", "UnexpectedAdmissionError"),
    ("TopologyAffinityError", "TopologyAffinityError"),
    ("NodeAffinity", "NodeAffinity"),
    ("SomethingNewer", "other"),
]


@pytest.mark.parametrize(("reason", "label"), REJECTIONS)
async def test_the_replacement_of_a_pod_its_kubelet_rejected_goes_elsewhere(
    cluster: EmbeddedCluster, reason: str, label: str
) -> None:
    cluster.create(node("n1"))
    cluster.create(node("n2", cpu="8"))
    async with scheduling(cluster) as scheduler:
        cluster.create(template("first"))
        refused = await reject(cluster, "first", reason)
        await until(
            lambda: sample(scheduler, "kubestow_kubelet_rejections_total", reason=label), "counted"
        )
        for number in range(4):
            cluster.create(template(f"next-{number}"))
        names = [f"next-{number}" for number in range(4)]
        await until(lambda: all(bound_to(cluster, name) for name in names), "bound")
        (other,) = {bound_to(cluster, name) for name in names}
        assert {refused, other} == {"n1", "n2"}
        await settled(scheduler)


async def test_where_all_nodes_rejected_it_the_pod_waits_and_says_so(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1"))
    options = {"rejectingNodeAvoidance": "2s"}
    async with scheduling(cluster, kubestow=options) as scheduler:
        cluster.create(template("first"))
        await reject(cluster, "first", "OutOfcpu")
        await until(lambda: len(scheduler.rejections), "noted")
        cluster.create(template("second"))
        await until(lambda: event_notes(cluster, "FailedScheduling"), "event")
        (note,) = event_notes(cluster, "FailedScheduling")
        assert note.startswith(
            "0/1 nodes are available: 1 node(s) recently rejected a pod like this."
        )
        # Nothing else happens: the end of the time wakes it.
        await until(lambda: bound_to(cluster, "second") == "n1", "bound when the time is over")
        await settled(scheduler)


@pytest.mark.parametrize("seconds", ["0s", "5m"])
async def test_pods_that_end_or_go_otherwise_hold_nothing_against_their_node(
    cluster: EmbeddedCluster, seconds: str
) -> None:
    cluster.create(node("n1"))
    async with scheduling(cluster, kubestow={"rejectingNodeAvoidance": seconds}) as scheduler:
        endings: dict[str, dict[str, str]] = {
            "done": {"phase": "Succeeded"},
            "failed": {"phase": "Failed"},
            "late": {"phase": "Failed", "reason": "DeadlineExceeded"},
        }
        for name in (*endings, "deleted"):
            cluster.create(template(name))
            await until(lambda name=name: bound_to(cluster, name), f"{name} bound")  # type: ignore[misc]
        for name, status in endings.items():
            patch_status(cluster, name, dict(status))
        delete(cluster, "deleted")
        await until(lambda: not scheduler.cache.statistics().pods, "all gone")
        await until(lambda: not len(scheduler.background), "all looked at")
        assert not len(scheduler.rejections)
        assert not sample(scheduler, "kubestow_kubelet_rejections_total")
        if seconds == "0s":
            cluster.create(template("refused"))
            await reject(cluster, "refused", "OutOfmemory")
            await until(lambda: sample(scheduler, "kubestow_kubelet_rejections_total"), "counted")
            assert not len(scheduler.rejections)
        await settled(scheduler)
