"""Victims on one node: who is evicted, disruption budgets, failing plugins."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.api import Pod, PodDisruptionBudget
from scheduler.engine.preemption.disruption_budgets import DisruptionBudgets
from scheduler.framework import (
    CycleState,
    NodeToStatus,
    NominatingInfo,
    Status,
    error,
    unschedulable,
)
from scheduler.framework.preemption import PreemptionFinding, PreemptionRules
from tests.unit.engine.harness import plugin
from tests.unit.engine.preemption.harness import (
    ALLOCATABLE,
    ANY,
    WEB,
    Cluster,
    budget,
    cluster,
    names,
)


def test_a_small_pod_of_low_priority_stays_when_only_the_big_one_matters() -> None:
    c = cluster()
    c.place("big", "n1", "3", priority=50)
    c.place("small", "n1", "1", priority=1)
    assert names(c.decide(c.incoming("3")).victims) == ["big"]


def test_of_equal_pods_the_one_started_last_goes() -> None:
    c = cluster()
    for name, start in (("old", "01"), ("young", "03"), ("middle", "02"), ("unborn", "")):
        c.place(name, "n1", start=start)
    assert names(c.decide(c.incoming("1")).victims) == ["unborn"]
    assert names(c.decide(c.incoming("2")).victims) == ["young", "unborn"]


def test_ports_of_victims_are_free() -> None:
    c = cluster()
    ports = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    c.place("web", "n1", "1", container=ports)
    c.place("other", "n1", "1")
    assert names(c.decide(c.incoming("1", container=ports)).victims) == ["web"]


def test_nominated_pods_of_at_least_equal_priority_count() -> None:
    c = cluster()
    c.place("low", "n1", "4")
    c.nominations.add_nominated_pod(c.incoming("2", 100, "nominee"), NominatingInfo("n1"))
    assert "1 Insufficient cpu" in c.find(c.incoming("3")).message
    assert c.find(c.incoming("2")).chosen is not None
    assert c.find(c.incoming("3", 101, "above")).chosen is not None


# -- disruption budgets --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        ([], (["a", "b"], 0)),
        ([budget(2, WEB)], (["a", "b"], 0)),
        ([budget(1, WEB)], (["a", "b"], 1)),
        ([budget(0, WEB)], (["a", "b"], 2)),
        ([budget(0, WEB), budget(5, WEB)], (["a", "b"], 2)),
        ([budget(0, WEB, "a", "b")], (["a", "b"], 0)),
        ([budget(0, {})], (["a", "b"], 0)),
        ([budget(0, None)], (["a", "b"], 0)),
        ([budget(0, {"matchLabels": {"app": "db"}})], (["a", "b"], 0)),
        ([budget(0, {"matchExpressions": [{"key": "app", "operator": "Bad"}]})], (["a", "b"], 0)),
    ],
)
def test_budgets(budgets: list[PodDisruptionBudget], expected: tuple[list[str], int]) -> None:
    c = cluster()
    c.budgets += budgets
    c.place("a", "n1", "2", priority=2, labels={"app": "web"})
    c.place("b", "n1", "2", priority=1, labels={"app": "web"})
    assert c.candidates(c.incoming("4")) == {"n1": expected}


def test_protected_pods_are_spared_first() -> None:
    c = cluster()
    c.budgets.append(budget(0, WEB))
    c.place("protected", "n1", "2", priority=1, labels={"app": "web"})
    c.place("important", "n1", "2", priority=50)
    assert c.candidates(c.incoming("2")) == {"n1": (["important"], 0)}


def test_the_search_continues_until_a_node_respects_the_budgets() -> None:
    """Two candidates are enough; in any order, the one without violations is taken."""
    for seed in range(8):
        c = Cluster(seed=seed)
        c.budgets.append(budget(0, WEB))
        for number in range(6):
            c.node(f"n{number}", allocatable=ALLOCATABLE)
            labels = {} if number == 4 else {"app": "web"}
            c.place(f"p{number}", f"n{number}", "4", labels=labels)
        few = PreemptionRules(0, 2, own_victims_only=False)
        assert c.decide(c.incoming(), few).node_name == "n4"


def test_nodes_that_must_violate_budgets_are_not_tried_once_there_are_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same node and victims are chosen as if every node were tried, with fewer tries."""
    tried = 0
    split = DisruptionBudgets.split

    def counted(self: DisruptionBudgets, pods: Sequence[Pod]) -> Any:
        nonlocal tried
        tried += 1
        return split(self, pods)

    def choose(seed: int) -> tuple[str, list[str], int]:
        draw = random.Random(seed)
        c = Cluster(seed=seed)
        c.budgets.append(budget(draw.choice((0, 0, 1)), WEB, *draw.choice(((), (), ("p3-0",)))))
        web = draw.choice((0.7, 1))
        for number in range(12):
            c.node(f"n{number}", allocatable=ALLOCATABLE)
            for each in range(2):
                labels = {"app": "web"} if draw.random() < web else {}
                c.place(f"p{number}-{each}", f"n{number}", "2", draw.randrange(3), labels=labels)
        found = c.decide(c.incoming(), PreemptionRules(0, 2, own_victims_only=False))
        return found.node_name, names(found.victims), found.pdb_violations

    monkeypatch.setattr(DisruptionBudgets, "split", counted)
    chosen = [choose(seed) for seed in range(40)]
    fewer, tried = tried, 0
    monkeypatch.setattr(DisruptionBudgets, "forbid_all", lambda _self, _pods: False)
    assert chosen == [choose(seed) for seed in range(40)]
    assert fewer < tried


# -- faults --------------------------------------------------------------------------------------


def keeper(broken: str = "") -> type[Any]:
    """A plugin that allows two pods on a node, by its own state; removals fail on node `broken`."""

    class Kept:
        def __init__(self, counts: dict[str, int]) -> None:
            self.counts = counts

        def clone(self) -> Kept:
            return Kept(dict(self.counts))

    def pre_filter(state: CycleState, pod: Pod, table: Any) -> None:
        counts = {table.names[row]: table.node_info(row).pod_count for row in table.rows.tolist()}
        state.write("kept", Kept(counts))

    def change(by: int) -> Any:
        def changed(state: CycleState, pod: Pod, other: Pod, node: Any) -> Status | None:
            if by < 0 and node.name == broken:
                return error("cannot remove")
            state.read("kept").counts[node.name] += by
            return None

        return changed

    def filter_(state: CycleState, pod: Pod, node: Any) -> Status | None:
        return unschedulable("kept full") if state.read("kept").counts[node.name] >= 2 else None

    return plugin(
        "test-plugin",
        pre_filter=pre_filter,
        add_pod=change(1),
        remove_pod=change(-1),
        filter=filter_,
    )


def test_plugins_with_state_of_their_own_follow_removals_and_reprieves() -> None:
    c = cluster(2, keeper())
    for node in ("n1", "n2"):
        c.place(f"{node}-low", node, priority=1)
        c.place(f"{node}-mid", node, priority=2)
    c.place("n1-high", "n1", priority=100)
    pod = c.incoming("0")
    assert c.candidates(pod) == {
        "n1": (["n1-mid", "n1-low"], 0),
        "n2": (["n2-low"], 0),
    }
    assert c.decide(pod).node_name == "n2"


def test_an_error_on_one_node_does_not_matter_while_another_helps() -> None:
    text = 'running RemovePod on PreFilter plugin "test-plugin": cannot remove'
    c = cluster(2, keeper("n1"))
    for node in ("n1", "n2"):
        for index in range(2):
            c.place(f"{node}-{index}", node)
    assert c.decide(c.incoming()).node_name == "n2"
    c = cluster(1, keeper("n1"))
    for index in range(2):
        c.place(f"{index}", "n1")
    assert c.find(c.incoming()) == PreemptionFinding(error=text)


def test_a_node_that_needs_no_victim_after_all_is_an_error() -> None:
    c = cluster()
    c.place("low", "n1", "1")
    statuses = NodeToStatus({"n1": unschedulable("mistaken")})
    finding = c.evaluator.find(CycleState(), c.incoming("1"), statuses, ANY)
    assert finding.error == 'expected at least one victim pod on node "n1"'
