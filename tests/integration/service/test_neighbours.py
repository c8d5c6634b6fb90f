"""Other schedulers bind and nominate pods on the same nodes while kubestow schedules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from devtools.embedded_service import (
    BindLog,
    bind,
    bound_to,
    delete,
    event_notes,
    find,
    node,
    patch_status,
    pod,
    running,
    sample,
    scheduling,
    settled,
    until,
    wire,
)
from devtools.loop_time import LoopClock
from scheduler.client.configuration import ClientConfiguration
from scheduler.client.credentials import StaticCredentials
from scheduler.client.transport import Transport
from scheduler.framework import Code, Handle, Status
from simulator import EmbeddedCluster
from simulator.objects import JsonObject, priority_class


class Gatekeeper:
    """Makes pods named "slow" wait at Permit until the test allows them."""

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


@pytest.fixture(autouse=True)
def _classes(cluster: EmbeddedCluster) -> None:
    for name, value in (("low", 10), ("middle", 11), ("high", 100)):
        cluster.create(priority_class(name, value))


def foreign(name: str, cpu: str, on: str = "", priority: str = "") -> JsonObject:
    made = pod(name, cpu, priorityClassName=priority, terminationGracePeriodSeconds=0)
    made["spec"]["schedulerName"] = "other"
    if on:
        made["spec"]["nodeName"] = on
    return made


def nominate(cluster: EmbeddedCluster, name: str, to: str | None) -> None:
    """Nominate a node for a pod of another scheduler."""
    patch_status(cluster, name, {"nominatedNodeName": to})


@pytest.mark.parametrize("recheck", [True, False])
async def test_a_node_that_another_scheduler_filled_is_abandoned(
    cluster: EmbeddedCluster, recheck: bool
) -> None:
    binds = BindLog(cluster)
    cluster.create(node("n1", cpu="4"))
    options = {"recheckBeforeBind": recheck}
    async with scheduling(cluster, [Gatekeeper], kubestow=options) as scheduler:
        cluster.create(pod("slow", "3"))
        await until(Gatekeeper.waiting, "at Permit")
        cluster.create(foreign("theirs", "2", on="n1"))
        await until(lambda: scheduler.state.cache.statistics().pods == 2, "theirs seen")
        cluster.create(node("n2", cpu="4"))
        await until(lambda: scheduler.state.cache.statistics().nodes == 2, "n2 seen")
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


class HeldCredentials(StaticCredentials):
    """Makes requests wait for their `Authorization` header until the test provides it."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.open.set()

    async def authorization(self) -> str | None:
        await self.open.wait()
        return await super().authorization()


@pytest.mark.slow
async def test_a_bind_delayed_before_it_is_sent_is_checked_when_it_is_sent(
    cluster: EmbeddedCluster,
) -> None:
    """The node fills up between the call of the Bind plugin and the sending of its request."""
    cluster.create(node("n1", cpu="4"))
    credentials = HeldCredentials()
    configuration = ClientConfiguration(cluster.url, credentials=credentials)
    async with Transport(configuration) as transport, running(wire(transport)) as scheduler:
        dispatcher = scheduler.connections.dispatcher
        credentials.open.clear()
        cluster.create(pod("ours", "3"))
        await until(lambda: dispatcher.statistics().bind.in_flight, "waits for its credential")
        cluster.create(foreign("theirs", "2", on="n1"))
        await until(lambda: scheduler.state.cache.statistics().pods == 2, "theirs seen")
        credentials.open.set()
        await until(
            lambda: sample(scheduler, "kubestow_node_rechecks_total", result="rejected"), "held"
        )
        await settled(scheduler)
        assert not bound_to(cluster, "ours")
        delete(cluster, "theirs")
        await until(lambda: bound_to(cluster, "ours") == "n1", "bound in the end")
        await settled(scheduler)


def template(name: str) -> JsonObject:
    return pod(name, "1", terminationGracePeriodSeconds=7)


async def reject(cluster: EmbeddedCluster, name: str, reason: str) -> str:
    """Reject the pod as its kubelet would; return its node."""
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
        rejected = await reject(cluster, "first", reason)
        await until(
            lambda: sample(scheduler, "kubestow_kubelet_rejections_total", reason=label), "counted"
        )
        for number in range(4):
            cluster.create(template(f"next-{number}"))
        names = [f"next-{number}" for number in range(4)]
        await until(lambda: all(bound_to(cluster, name) for name in names), "bound")
        (other,) = {bound_to(cluster, name) for name in names}
        assert {rejected, other} == {"n1", "n2"}
        await settled(scheduler)


async def test_a_pod_that_all_nodes_rejected_waits_and_its_condition_shows_why(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1"))
    options, clock = {"kubeletRejectionBackoff": "5m"}, LoopClock(cluster)
    async with scheduling(cluster, kubestow=options, clock=clock) as scheduler:
        cluster.create(template("first"))
        await reject(cluster, "first", "OutOfcpu")
        await until(lambda: len(scheduler.profiles.rejections), "noted")
        cluster.create(template("second"))
        await until(lambda: event_notes(cluster, "FailedScheduling"), "event")
        (note,) = event_notes(cluster, "FailedScheduling")
        assert note.startswith(
            "0/1 nodes are available: 1 node(s) recently rejected a pod like this."
        )
        # No event occurs: the pod is requeued when the backoff of its nodes ends.
        clock.ahead += 300.0
        scheduler.scheduling.queue.signals.on_timer()
        await until(
            lambda: bound_to(cluster, "second") == "n1", "bound after the backoff of its nodes"
        )
        await settled(scheduler)


@pytest.mark.parametrize("seconds", ["0s", "5m"])
async def test_pods_that_end_otherwise_do_not_put_their_node_in_backoff(
    cluster: EmbeddedCluster, seconds: str
) -> None:
    cluster.create(node("n1"))
    async with scheduling(cluster, kubestow={"kubeletRejectionBackoff": seconds}) as scheduler:
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
        await until(lambda: not scheduler.state.cache.statistics().pods, "all deleted")
        await until(lambda: not len(scheduler.state.background), "all processed")
        assert not len(scheduler.profiles.rejections)
        assert not sample(scheduler, "kubestow_kubelet_rejections_total")
        if seconds == "0s":
            cluster.create(template("rejected"))
            await reject(cluster, "rejected", "OutOfmemory")
            await until(lambda: sample(scheduler, "kubestow_kubelet_rejections_total"), "counted")
            assert not len(scheduler.profiles.rejections)
        await settled(scheduler)


# -- nominations of other schedulers -----------------------------------------------------------


async def test_a_nomination_by_another_scheduler_is_honored(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1", cpu="4"))
    cluster.create(foreign("theirs", "3", priority="low"))
    nominate(cluster, "theirs", "n1")
    async with scheduling(cluster) as scheduler:
        assert scheduler.scheduling.queue.statistics().nominated == 1
        cluster.create(pod("lower", "2"))
        await until(lambda: event_notes(cluster, "FailedScheduling"), "lower rejected")
        assert not bound_to(cluster, "lower")
        cluster.create(pod("higher", "2", priorityClassName="middle"))
        await until(lambda: bound_to(cluster, "higher"), "higher bound")
        cluster.create(pod("other", "1"))
        await until(
            lambda: len(event_notes(cluster, "FailedScheduling")) == 2, "the other rejected"
        )
        await settled(scheduler)


async def test_foreign_nominations_are_ignored_if_the_field_is_false(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1", cpu="4"))
    cluster.create(foreign("theirs", "3", priority="low"))
    nominate(cluster, "theirs", "n1")
    async with scheduling(cluster, kubestow={"honorForeignNominations": False}) as scheduler:
        cluster.create(pod("lower", "2"))
        await until(lambda: bound_to(cluster, "lower"), "bound")
        nominate(cluster, "theirs", None)
        delete(cluster, "theirs")
        await settled(scheduler)


def _goes(cluster: EmbeddedCluster) -> None:
    delete(cluster, "theirs")


def _withdrawn(cluster: EmbeddedCluster) -> None:
    nominate(cluster, "theirs", None)


def _moved(cluster: EmbeddedCluster) -> None:
    nominate(cluster, "theirs", "n2")


def _bound_elsewhere(cluster: EmbeddedCluster) -> None:
    bind(cluster, "theirs", "n2")


ENDS = [_goes, _withdrawn, _moved, _bound_elsewhere]


@pytest.mark.parametrize("end", ENDS, ids=[each.__name__ for each in ENDS])
async def test_a_nomination_that_ends_requeues_the_pods_that_waited_for_it(
    cluster: EmbeddedCluster, end: Callable[[EmbeddedCluster], None]
) -> None:
    cluster.create(node("n1", cpu="4"))
    cluster.create(node("n2", cpu="4", labels={"theirs": "only"}))
    cluster.create(foreign("theirs", "3", priority="low"))
    async with scheduling(cluster) as scheduler:
        # Here the watch delivers the nomination.
        nominate(cluster, "theirs", "n1")
        await until(
            lambda: scheduler.scheduling.queue.statistics().nominated == 1, "nomination received"
        )
        cluster.create(pod("second", "2", affinity=_NOT_THEIRS))
        await until(lambda: event_notes(cluster, "FailedScheduling"), "rejected")
        end(cluster)
        await until(lambda: bound_to(cluster, "second") == "n1", "bound")
        await settled(scheduler)


_NOT_THEIRS: JsonObject = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "theirs", "operator": "DoesNotExist"}]}
            ]
        }
    }
}


async def test_preemption_does_not_patch_pods_of_other_schedulers(cluster: EmbeddedCluster) -> None:
    """The preemptor outranks a nominated pod of another scheduler, which is not patched."""
    cluster.create(node("n1", cpu="4"))
    async with scheduling(cluster) as scheduler:
        cluster.create(pod("victim", "3", terminationGracePeriodSeconds=0))
        await until(lambda: bound_to(cluster, "victim"), "bound")
        cluster.create(foreign("theirs", "2", priority="low"))
        nominate(cluster, "theirs", "n1")
        await until(
            lambda: scheduler.scheduling.queue.statistics().nominated == 1, "nomination received"
        )
        cluster.create(pod("preemptor", "3", priorityClassName="high"))
        await until(lambda: bound_to(cluster, "preemptor") == "n1", "preempted")
        found = find(cluster, "theirs")
        assert found is not None
        assert found["status"]["nominatedNodeName"] == "n1"
        await settled(scheduler)


@pytest.mark.parametrize("victims", ["Own", "All"])
async def test_which_schedulers_pods_may_be_victims(cluster: EmbeddedCluster, victims: str) -> None:
    cluster.create(node("n1", cpu="4"))
    arguments = {"name": "DefaultPreemption", "args": {"victimSchedulers": victims}}
    profile = {"schedulerName": "kubestow", "pluginConfig": [arguments]}
    async with scheduling(cluster, profiles=[profile]) as scheduler:
        cluster.create(foreign("theirs", "3", on="n1"))
        await until(lambda: scheduler.state.cache.statistics().pods, "seen")
        cluster.create(pod("preemptor", "3", priorityClassName="high"))
        if victims == "All":
            await until(lambda: bound_to(cluster, "preemptor") == "n1", "preempted")
            assert find(cluster, "theirs") is None
        else:
            await until(lambda: event_notes(cluster, "FailedScheduling"), "rejected")
            assert not bound_to(cluster, "preemptor")
            assert bound_to(cluster, "theirs") == "n1"
        await settled(scheduler)
