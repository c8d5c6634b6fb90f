"""SchedulingGates: upstream's `scheduling_gates.go`, and its registration."""

from __future__ import annotations

import pytest

from plugins import SchedulingGates
from scheduler.framework import ActionType, ClusterEvent, Code, EventResource
from tests.unit.plugins.clusters import Cluster, hint, pod

ELIMINATED = ClusterEvent(
    EventResource.TARGET_POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
)


@pytest.fixture
def plugin() -> SchedulingGates:
    return SchedulingGates(None, Cluster().handle())


def test_a_pod_without_gates_is_admitted(plugin: SchedulingGates) -> None:
    assert plugin.pre_enqueue(pod()) is None


def test_gates_are_named_in_order(plugin: SchedulingGates) -> None:
    status = plugin.pre_enqueue(pod({"schedulingGates": [{"name": "foo"}, {"name": "bar"}]}))

    assert status is not None
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "waiting for scheduling gates: [foo bar]"


@pytest.mark.parametrize(("uid", "wakes"), [("u", True), ("another", False)])
def test_only_the_pods_own_loss_of_gates_wakes_it(
    plugin: SchedulingGates, uid: str, wakes: bool
) -> None:
    waiting = pod({"schedulingGates": [{"name": "foo"}]})

    assert hint(plugin, ELIMINATED, waiting, None, pod(metadata={"uid": uid})) is wakes


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        ("kueue.x-k8s.io/admission", "Kueue removes it once it has admitted the workload"),
        ("kueue.x-k8s.io/new", "Kueue must remove it"),
        ("example.com/wait", "the owner of example.com must remove it"),
        ("wait", "whoever set it must remove it; this scheduler never does"),
    ],
)
def test_the_explanation_says_who_removes_a_gate(
    plugin: SchedulingGates, gate: str, text: str
) -> None:
    (line,) = plugin.explain(pod({"schedulingGates": [{"name": gate}]}))
    assert line.startswith(f"{gate}: {text}")


def test_few_of_many_gates_are_explained(plugin: SchedulingGates) -> None:
    gates = [{"name": f"gate-{each}"} for each in range(500)]
    lines = plugin.explain(pod({"schedulingGates": gates}))
    assert len(lines) == 6
    assert lines[-1] == "and 495 more gates"
    assert plugin.explain(pod()) == ()
