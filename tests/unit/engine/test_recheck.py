"""Filters of a chosen node before the bind: external changes of the node, and their effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from plugins.inter_pod_affinity.plugin import InterPodAffinity
from plugins.node_ports import NodePorts
from plugins.node_resources.fit import NodeResourcesFit
from plugins.node_unschedulable import NodeUnschedulable
from plugins.pod_topology_spread.plugin import PodTopologySpread
from plugins.taint_toleration import TaintToleration
from scheduler.api import Pod
from scheduler.engine import Attempt, ScheduleResult
from scheduler.framework import PreFilterResult, QueuedPodInfo, unschedulable
from tests.unit.engine.harness import World, plugin

LABELS = {"kubernetes.io/hostname": "n1", "zone": "z"}
SELECTOR = {"matchLabels": {"app": "x"}}


def world() -> World:
    made = World(
        NodeUnschedulable,
        TaintToleration,
        NodePorts,
        NodeResourcesFit,
        PodTopologySpread,
        InterPodAffinity,
    )
    made.node("n1", labels=LABELS)
    return made


def chosen(
    on: World, name: str = "p", labels: dict[str, str] | None = None, **spec: Any
) -> Attempt:
    spec = {**on.requests(4000), **spec}
    attempt = on.attempt(labelled(on, name, labels or {}, **spec))
    assert attempt.failure is None, attempt.failure
    return attempt


def labelled(on: World, name: str, labels: dict[str, str], **spec: Any) -> Pod:
    pod = on.pod(name, **spec)
    pod.metadata.labels = labels
    return pod


def theirs(on: World, name: str = "theirs", milli: int = 1000, **labels: str) -> Pod:
    """A pod that another scheduler bound."""
    pod = labelled(on, name, labels, **on.requests(milli), nodeName="n1")
    on.cache.add_pod(pod)
    return pod


def confirmed(on: World, attempt: Attempt) -> None:
    on.cache.add_pod(msgspec.structs.replace(attempt.pod))


def started(on: World, attempt: Attempt) -> None:
    confirmed(on, attempt)
    status = msgspec.structs.replace(attempt.pod.status, phase="Running", start_time=1.0)
    on.cache.update_pod(msgspec.structs.replace(attempt.pod, status=status))


QUIET: list[tuple[str, Callable[[World], object]]] = [
    ("nothing", lambda on: None),
    ("our own pods", lambda on: chosen(on, "q", **on.requests(1000))),
    ("our own confirmed", lambda on: confirmed(on, chosen(on, "q", **on.requests(1000)))),
    ("our own failed", lambda on: on.engine.abandon(chosen(on, "q", **on.requests(1000)))),
    ("another node", lambda on: on.nodes("n2")),
    ("our own started", lambda on: started(on, chosen(on, "q", **on.requests(1000)))),
    ("a heartbeat", lambda on: on.node("n1", labels=LABELS)),
]


@pytest.mark.parametrize(("what", "change"), QUIET, ids=[each[0] for each in QUIET])
def test_changes_by_own_cycles_are_no_external_changes(
    what: str, change: Callable[[World], object]
) -> None:
    on = world()
    attempt = chosen(on)
    change(on)
    assert not on.engine.changed_by_others(attempt)


SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELECTOR,
        "minDomains": 2,
    }
]
ANTI = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": SELECTOR, "topologyKey": "zone"}
        ]
    }
}
PORT = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]


def _port_taken(on: World) -> None:
    on.cache.add_pod(on.pod("theirs", containers=PORT, nodeName="n1"))


FITS: list[tuple[str, dict[str, Any], Callable[[World], object]]] = [
    ("a small pod", {}, theirs),
    ("exactly full", {}, lambda on: theirs(on, milli=4000)),
    ("one more label", {}, lambda on: on.node("n1", labels={**LABELS, "new": "1"})),
    ("own spread", {"topologySpreadConstraints": SPREAD}, theirs),
    ("own anti-affinity", {"affinity": ANTI}, theirs),
    ("own port", {"containers": PORT}, theirs),
    ("more room than before", {}, lambda on: on.cache.remove_pod(theirs(on))),
]


@pytest.mark.parametrize(("what", "spec", "change"), FITS, ids=[each[0] for each in FITS])
def test_a_changed_node_that_fits_is_filtered_once(
    what: str, spec: dict[str, Any], change: Callable[[World], object]
) -> None:
    on = world()
    attempt = chosen(on, labels={"app": "x"}, **spec)
    change(on)
    assert on.engine.changed_by_others(attempt)
    assert on.engine.recheck(attempt) is None
    assert not on.engine.changed_by_others(attempt)
    assert on.cache.is_assumed("p")
    on.cache.validate()


TAINT = {"key": "k", "effect": "NoSchedule"}
MISFITS: list[tuple[str, dict[str, Any], Callable[[World], object], str]] = [
    ("room taken", {}, lambda on: theirs(on, milli=4001), "Insufficient cpu"),
    (
        "shrunk",
        {},
        lambda on: on.node("n1", labels=LABELS, allocatable={"cpu": "3", "pods": "9"}),
        "Insufficient cpu",
    ),
    (
        "cordoned",
        {},
        lambda on: on.node("n1", labels=LABELS, spec={"unschedulable": True}),
        "node(s) were unschedulable",
    ),
    (
        "tainted",
        {},
        lambda on: on.node("n1", labels=LABELS, spec={"taints": [TAINT]}),
        "node(s) had untolerated taint(s)",
    ),
    (
        "spread",
        {"topologySpreadConstraints": SPREAD},
        lambda on: theirs(on, app="x"),
        "node(s) didn't match pod topology spread constraints",
    ),
    (
        "anti-affinity",
        {"affinity": ANTI},
        lambda on: theirs(on, app="x"),
        "node(s) didn't match pod anti-affinity rules",
    ),
    (
        "port",
        {"containers": PORT},
        _port_taken,
        "node(s) didn't have free ports for the requested pod ports",
    ),
    ("deleted", {}, lambda on: on.cache.remove_node("n1"), "node(s) were deleted"),
]


@pytest.mark.parametrize(
    ("what", "spec", "change", "reason"), MISFITS, ids=[each[0] for each in MISFITS]
)
def test_a_changed_node_that_fits_no_longer_is_a_rejection_without_plugin(
    what: str, spec: dict[str, Any], change: Callable[[World], object], reason: str
) -> None:
    on = world()
    attempt = chosen(on, labels={"app": "x"}, **spec)
    change(on)
    assert on.engine.changed_by_others(attempt)
    failure = on.engine.recheck(attempt)
    assert failure is not None
    prefix = "node n1 changed before the pod was bound to it and fits no longer: "
    assert failure.message.startswith(prefix + reason)
    # Nobody to wait for: the pod is tried again after its backoff.
    assert not failure.unschedulable_plugins
    assert failure.rejected
    on.cache.validate()


def test_a_node_recreated_under_its_name_is_filtered() -> None:
    on = world()
    attempt = chosen(on)
    on.cache.remove_node("n1")
    on.node("n1", labels=LABELS)
    assert on.engine.changed_by_others(attempt)
    assert on.engine.recheck(attempt) is None


def test_a_pod_that_is_no_longer_assumed_is_not_filtered() -> None:
    on = world()
    attempt = chosen(on)
    theirs(on, milli=8000)
    on.cache.forget_pod("p")
    assert on.engine.recheck(attempt) is None


PRE_FILTERS: list[tuple[str, Callable[[int], Any], str]] = [
    (
        "narrows",
        lambda n: PreFilterResult(frozenset({"n2"})),
        "node(s) didn't satisfy plugin(s) [P]",
    ),
    ("rejects", lambda n: unschedulable("not now"), "not now"),
]


@pytest.mark.parametrize(
    ("what", "answer", "reason"), PRE_FILTERS, ids=[each[0] for each in PRE_FILTERS]
)
def test_pre_filter_runs_again(what: str, answer: Callable[[int], Any], reason: str) -> None:
    calls: list[int] = []

    def pre_filter(*_: Any) -> Any:
        calls.append(1)
        return answer(len(calls)) if len(calls) > 1 else None

    on = World(plugin("P", pre_filter=pre_filter))
    on.nodes("n1")
    attempt = on.attempt()
    on.node("n1", spec={"unschedulable": True})
    failure = on.engine.recheck(attempt)
    assert failure is not None
    assert failure.message.endswith(reason)


@pytest.mark.parametrize("problem", [ValueError("boom"), asyncio.CancelledError("boom")])
def test_a_plugin_that_raises_in_the_recheck_is_an_error(problem: BaseException) -> None:
    calls: list[int] = []

    def filter_once(*_: Any) -> None:
        calls.append(1)
        if len(calls) > 1:
            raise problem

    on = World(plugin("P", filter=filter_once))
    on.nodes("n1")
    attempt = on.attempt()
    on.node("n1", spec={"unschedulable": True})
    failure = on.engine.recheck(attempt)
    assert failure is not None
    assert failure.reason == "SchedulerError"
    assert "boom" in failure.message


def test_the_result_of_an_async_pre_filter_is_kept_and_the_queue_record_is_passed_on() -> None:
    calls: list[str] = []

    async def pre_filter(*_: Any) -> None:
        calls.append("again")

    def check(state: Any, pod: Any, node: Any) -> Any:
        text = f"{state.get('Slow')} {state.info is not None}"
        return unschedulable(text) if node.unschedulable else None

    on = World(plugin("Slow", pre_filter=pre_filter, timeout=5.0), plugin("P", filter=check))
    on.nodes("n1")
    attempt = on.engine._begin(QueuedPodInfo(on.pod(), 0.0))
    attempt.state.write("Slow", "kept")
    attempt.result = ScheduleResult("n1", 0, 1, 1)
    on.engine.commit(attempt)
    on.node("n1", spec={"unschedulable": True})
    failure = on.engine.recheck(attempt)
    assert failure is not None
    assert failure.message.endswith("kept True")
    assert calls == []
