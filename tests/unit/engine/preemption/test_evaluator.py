"""Searches for victims: nodes without candidates, cached results, observed attempts.

Follows preemption.go: Evaluator. Evictions are tested with the plugin.
"""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api import Pod
from scheduler.framework import CycleState, NodeToStatus, Status, unresolvable, unschedulable
from scheduler.framework.preemption import PreemptionRules
from tests.unit.engine.harness import plugin
from tests.unit.engine.preemption.harness import ALLOCATABLE, ANY, Cluster, cluster, names


def test_equal_priority_is_no_victim() -> None:
    c = cluster()
    c.place("a", "n1", priority=100)
    assert c.find(c.incoming()).message == (
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_nodes_that_no_eviction_helps_are_not_examined() -> None:
    c = cluster()
    c.place("a", "n1", "1")
    assert c.find(c.incoming("5")).message == (
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    assert c.find(c.incoming("4")).chosen is not None


def test_reasons_of_nodes_without_victims_and_unhelpful_nodes_are_counted() -> None:
    c = cluster(2)
    c.node("cordoned", spec={"unschedulable": True}, allocatable=ALLOCATABLE)
    c.node("small", allocatable={"cpu": "1", "pods": "1"})
    for node in ("n1", "n2"):
        c.place(f"low-{node}", node, "1")
        c.place(f"high-{node}", node, "2", priority=100)
    assert c.find(c.incoming()).message == (
        "0/4 nodes are available: 2 Insufficient cpu, 2 Preemption is not helpful for scheduling."
    )


def test_an_empty_cluster_is_an_error() -> None:
    c = Cluster()
    finding = c.evaluator.find(CycleState(), c.incoming(), NodeToStatus(), ANY)
    assert finding.error == "no nodes available"


def test_a_rejection_by_pre_filter_that_may_pass_makes_every_node_a_candidate() -> None:
    c = cluster(2)
    c.place("low", "n2")
    statuses = NodeToStatus(absent=unschedulable("claimed"))
    finding = c.evaluator.find(CycleState(), c.incoming(), statuses, ANY)
    # n1 has no victim.
    assert finding.chosen is not None
    assert finding.chosen.node_name == "n2"


def test_own_victims_only() -> None:
    c = cluster()
    c.place("theirs", "n1", schedulerName="default-scheduler")
    ours = PreemptionRules()
    assert "1 No preemption victims found" in c.find(c.incoming(), ours).message
    assert names(c.decide(c.incoming()).victims) == ["theirs"]
    c.place("mine", "n1")
    assert "1 Insufficient cpu" in c.find(c.incoming(), ours).message
    assert names(c.decide(c.incoming("3"), ours).victims) == ["mine"]


def test_statuses_of_unknown_nodes_are_ignored() -> None:
    """The map was made by hand, with a node that is gone."""
    c = cluster(2)
    c.place("low", "n1", "4")
    statuses = NodeToStatus({"n1": unschedulable("x"), "gone": unschedulable("x")})
    statuses.set("n2", unresolvable("y"))
    finding = c.evaluator.find(CycleState(), c.incoming(), statuses, ANY)
    assert finding.chosen is not None
    assert finding.chosen.node_name == "n1"


# -- cached results ------------------------------------------------------------------------------


def test_plugins_that_reject_a_node_without_its_victims_are_named() -> None:
    refuses = plugin("Refuses", filter=lambda state, pod, node: unschedulable("refused"))
    c = cluster(2, refuses)
    c.place("high", "n1", "4", priority=100)
    c.place("low", "n2", "4")
    statuses = NodeToStatus({name: unschedulable("Insufficient cpu") for name in ("n1", "n2")})
    findings = [c.evaluator.find(CycleState(), c.incoming(), statuses, ANY) for _ in range(2)]
    # n1 has no victim, which no plugin caused.
    assert [each.rejectors for each in findings] == [{"Refuses"}] * 2


def test_a_search_without_candidates_is_cached_until_something_changes() -> None:
    c = cluster(3)
    for node in ("n1", "n2", "n3"):
        c.place(f"high-{node}", node, "4", priority=100)
    message = c.find(c.incoming()).message
    c.evaluator._screening.screen = None  # type: ignore[assignment,method-assign]
    assert c.find(c.incoming(name="another")).message == message
    with pytest.raises(TypeError):
        c.find(c.incoming("3"))
    del c.evaluator._screening.screen
    low = c.place("low", "n2", "1")
    c.cache.remove_pod(c.cache.get_pod("high-n2") or low)
    c.place("mid", "n2", "2", priority=50)
    assert c.decide(c.incoming(name="third")).node_name == "n2"


@pytest.mark.parametrize("table_only", [False, True])
def test_a_filter_of_unknown_inputs_runs_every_time(*, table_only: bool) -> None:
    calls: list[str] = []

    def filter_(state: CycleState, pod: Pod, node: Any) -> Status | None:
        calls.append(pod.metadata.name)
        return unschedulable("never")

    c = cluster(1, plugin("Unknown", filter=filter_, filter_depends_only_on_table=table_only))
    c.place("low", "n1")
    state = CycleState()
    statuses = NodeToStatus({"n1": unschedulable("never")})

    def search(name: str, labels: dict[str, str]) -> int:
        pod = c.incoming(name=name)
        pod.metadata.labels = labels
        calls.clear()
        message = c.evaluator.find(state, pod, statuses, ANY).message
        assert message == "0/1 nodes are available: 1 never."
        return len(calls)

    assert search("a", {}) == 1
    assert search("b", {}) == (0 if table_only else 1)
    assert search("c", {"app": "x"}) == 1
    c.cache.table.bump("services")
    assert search("d", {}) == 1


def test_a_filter_that_reads_a_resource_runs_again_when_it_changes() -> None:
    calls: list[str] = []

    def filter_(state: CycleState, pod: Pod, node: Any) -> Status | None:
        calls.append(node.name)
        return unschedulable("never")

    reads = {"filter_depends_only_on_table": True, "required_resources": ("leases",)}
    c = cluster(1, plugin("Reads", filter=filter_, **reads))
    c.place("low", "n1")
    statuses = NodeToStatus({"n1": unschedulable("never")})
    for changed, times in (("", 1), ("events", 0), ("leases", 1)):
        c.cache.table.bump(changed, revise=False)
        calls.clear()
        c.evaluator.find(CycleState(), c.incoming(), statuses, ANY)
        assert len(calls) == times, changed


def test_attempts_are_observed() -> None:
    c = cluster()
    c.evaluator.observe(3)
    assert c.observed == [3]
