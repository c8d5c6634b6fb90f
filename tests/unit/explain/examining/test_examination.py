"""The examination of all nodes for one pod: rejections, scores, notes and failures."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from scheduler.explain.records import Examination, Rejection
from scheduler.framework import SKIP, NominatingInfo, PreFilterResult, unschedulable
from tests.unit.engine.harness import plugin
from tests.unit.explain.examining.explaining import ExplainedWorld, fail, in_tree_world, reject_if


def without_details(found: Examination) -> tuple[Rejection, ...]:
    return tuple(replace(each, detail="") for each in found.rejections)


def taint(key: str) -> dict[str, Any]:
    return {"taints": [{"key": key, "effect": "NoSchedule"}]}


# -- rejections ----------------------------------------------------------------------------------


def test_nodes_are_grouped_by_the_first_plugin_that_rejects_and_its_reasons() -> None:
    world = in_tree_world()
    for index in range(5):
        world.node(f"small{index}", allocatable={"cpu": "1", "memory": "32Gi", "pods": "110"})
    world.node("tiny", allocatable={"cpu": "1", "memory": "1Mi", "pods": "110"})
    # Too small as well, but the taint is seen first.
    world.node("tainted", spec=taint("gpu"), allocatable={"cpu": "1", "pods": "110"})
    world.node("cordoned", spec={"unschedulable": True})
    world.pending(
        containers=[{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]
    )
    found = world.examined(examples=2)
    assert (found.nodes, found.feasible, found.best) == (8, 0, ())
    assert without_details(found) == (
        Rejection(
            "NodeResourcesFit", "UnschedulableAndUnresolvable", ("Insufficient cpu",), 5,
            ("small0", "small1"),
        ),
        Rejection(
            "NodeResourcesFit", "UnschedulableAndUnresolvable",
            ("Insufficient cpu", "Insufficient memory"), 1, ("tiny",),
        ),
        Rejection(
            "NodeUnschedulable", "UnschedulableAndUnresolvable", ("node(s) were unschedulable",),
            1, ("cordoned",),
        ),
        Rejection(
            "TaintToleration", "UnschedulableAndUnresolvable",
            ("node(s) had untolerated taint(s)",), 1, ("tainted",),
        ),
    )  # fmt: skip


def test_what_rejects_every_node_besides_is_told() -> None:
    world = in_tree_world()
    world.nodes("n1", "n2")
    label = {"nodeSelector": {"disk": "ssd"}}
    world.pending("large", **label, **world.requests(900_000))
    found = world.examined("large")
    (first,), (other,) = found.rejections, found.otherwise
    assert (first.plugin, first.nodes) == ("NodeAffinity", 2)
    assert (other.plugin, other.reasons, other.nodes) == (
        "NodeResourcesFit", ("Insufficient cpu",), 2,
    )  # fmt: skip
    # Filters of the pod are reported as they are, not as they were for that question.
    assert "NodeAffinity" not in found.skipped_filters
    world.pending("small", **label)
    assert world.examined("small").otherwise == ()


def test_nodes_that_preemption_may_help_have_a_status_of_their_own() -> None:
    world = in_tree_world()
    world.node("full", allocatable={"cpu": "2", "memory": "32Gi", "pods": "110"})
    world.cache.add_pod(world.pod("placed", nodeName="full", **world.requests(1500)))
    world.pending(**world.requests(1000))
    (rejection,) = world.examined().rejections
    assert (rejection.status, rejection.reasons) == ("Unschedulable", ("Insufficient cpu",))


def test_nodes_that_pre_filter_left_out_have_its_reason() -> None:
    world = in_tree_world()
    world.nodes("n1", "n2", "n3")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    world.pending(
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
            }
        }
    )
    found = world.examined()
    assert [score.node for score in found.best] == ["n2"]
    assert without_details(found) == (
        Rejection(
            "NodeAffinity", "UnschedulableAndUnresolvable",
            ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), 2, ("n1", "n3"),
        ),
    )  # fmt: skip


def test_a_rejection_by_pre_filter_counts_for_every_node() -> None:
    world = ExplainedWorld(
        plugin("P", pre_filter=lambda state, pod, table: unschedulable("not today"))
    )
    world.nodes("n1", "n2")
    world.pending()
    assert world.examined().rejections == (
        Rejection("P", "Unschedulable", ("not today",), 2, ("n1", "n2")),
    )


def test_pre_filter_plugins_without_a_common_node_are_named_together() -> None:
    world = ExplainedWorld(
        plugin("P", pre_filter=lambda *_: PreFilterResult(frozenset(("n1",)))),
        plugin("Q", pre_filter=lambda *_: PreFilterResult(frozenset(("n2",)))),
    )
    world.nodes("n1", "n2")
    world.pending()
    (rejection,) = world.examined().rejections
    assert (rejection.plugin, rejection.nodes) == ("P, Q", 2)
    assert rejection.reasons == ("node(s) didn't satisfy plugin(s) [P Q] simultaneously",)


def test_nodes_that_only_nominated_pods_make_unfit_are_marked() -> None:
    world = in_tree_world()
    world.node("full", allocatable={"cpu": "1", "memory": "32Gi", "pods": "110"})
    world.node("kept", allocatable={"cpu": "2", "memory": "32Gi", "pods": "110"})
    expected = world.exists(world.pod("expected", priority=5, **world.requests(2000)))
    world.nominations.add_nominated_pod(expected, NominatingInfo("kept"))
    # Too small anyway: the nominated pods make no difference.
    second = world.exists(world.pod("second", priority=5, **world.requests(500)))
    world.nominations.add_nominated_pod(second, NominatingInfo("full"))
    world.pending(priority=5, **world.requests(1500))
    rejections = world.examined().rejections
    assert {each.examples: each.only_nominated for each in rejections} == {
        ("full",): False,
        ("kept",): True,
    }
    assert {each.reasons for each in rejections} == {("Insufficient cpu",)}


@pytest.mark.parametrize(("priority", "nodes"), [(0, 0), (6, 1), (8, 2)])
def test_nodes_with_pods_of_lower_priority_are_counted(priority: int, nodes: int) -> None:
    world = in_tree_world()
    most = world.requests(1500)
    room = {"cpu": "2", "memory": "32Gi", "pods": "110"}
    for name, other in (("n1", 5), ("n2", 7)):
        world.node(name, allocatable=room)
        world.cache.add_pod(world.pod(f"on-{name}", nodeName=name, priority=other, **most))
    # No eviction makes a tainted node fit.
    world.node("tainted", spec=taint("gpu"), allocatable=room)
    world.cache.add_pod(world.pod("on-tainted", nodeName="tainted", priority=-1, **most))
    world.pending(priority=priority, **most)
    assert world.examined().evictable == nodes


def test_scalar_plugins_run_on_every_node() -> None:
    world = ExplainedWorld(
        plugin("A", filter=lambda state, pod, node: reject_if(node.name == "n1", "one")),
        plugin("B", filter=lambda state, pod, node: reject_if(node.name in {"n1", "n3"}, "two")),
    )
    world.nodes("n1", "n2", "n3")
    world.pending()
    found = world.examined()
    assert [(each.plugin, each.examples) for each in found.rejections] == [
        ("A", ("n1",)),
        ("B", ("n3",)),
    ]
    assert found.feasible == 1


# -- scores --------------------------------------------------------------------------------------


def test_feasible_nodes_show_the_scores_of_each_plugin() -> None:
    world = ExplainedWorld(
        plugin("Count", score=lambda state, pod, node: {"n1": 10, "n2": 20}.get(node.name, 0)),
        plugin(
            "Halve",
            score=lambda state, pod, node: 8 if node.name == "n1" else 2,
            normalize_scores=lambda state, pod, table, rows, scores: scores // 2,
        ),
        plugin("Idle", pre_score=lambda *_: SKIP, score=lambda *_: 99),
        weights={"Count": 1, "Halve": 3, "Idle": 1},
    )
    world.nodes("n1", "n2", "n3")
    world.pending()
    found = world.examined(top=2)
    assert found.feasible == 3
    assert [(score.node, score.total) for score in found.best] == [("n2", 23), ("n1", 22)]
    assert [asdict(each) for each in found.best[1].scores] == [
        {"plugin": "Count", "raw": 10, "normalized": 10, "weighted": 10},
        {"plugin": "Halve", "raw": 8, "normalized": 4, "weighted": 12},
    ]
    assert (found.weights, found.skipped_scores) == ({"Count": 1, "Halve": 3}, ("Idle",))
    assert (found.tied, found.notes) == (1, ())


def test_equal_totals_are_counted_and_listed_by_name() -> None:
    world = ExplainedWorld(
        plugin("S", score=lambda state, pod, node: 0 if node.name == "n0" else 7)
    )
    world.nodes("n3", "n1", "n2", "n0")
    world.pending()
    found = world.examined()
    assert [score.node for score in found.best] == ["n1", "n2", "n3", "n0"]
    assert found.tied == 3


@pytest.mark.parametrize(
    ("nodes", "scores", "note"),
    [
        (0, True, "no nodes"),
        (1, True, "without scoring"),
        (2, True, ""),
        (2, False, "breaks ties"),
        # A scalar plugin makes a cycle stop at 100 nodes.
        (120, True, "found 100 nodes"),
    ],
)
def test_notes_name_what_a_cycle_does_differently(nodes: int, scores: bool, note: str) -> None:
    filtering = plugin("F", filter=lambda *_: None)
    world = ExplainedWorld(filtering, *([plugin("S", score=lambda *_: 1)] if scores else []))
    world.nodes(*(f"n{index}" for index in range(nodes)))
    world.pending()
    found = world.examined()
    assert found.feasible == nodes
    assert len(found.notes) == bool(note)
    assert all(note in each for each in found.notes)


def test_a_note_names_the_node_that_a_nominated_pod_takes_without_scoring() -> None:
    world = in_tree_world()
    world.nodes("n1", "n2")
    pod = world.exists(world.pod(nominated="n2"))
    world.queue.add(pod)
    assert any("nominated to n2" in note for note in world.examined().notes)


# -- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["pre_filter", "filter", "pre_score", "score"])
def test_a_plugin_that_raises_is_named(point: str) -> None:
    methods: dict[str, Any] = {point: fail}
    if point == "pre_score":
        methods["score"] = lambda *_: 1
    world = ExplainedWorld(plugin("Bad", **methods), plugin("Good", score=lambda *_: 1))
    world.nodes("n1", "n2")
    world.pending()
    explained = world.explain()
    found = explained.nodes
    assert found is not None
    assert "Bad" in found.error
    assert "broken" in found.error
    assert found.best == ()
    # Scoring fails after the nodes were found; they are shown.
    assert found.feasible == (2 if "score" in point else 0)
    assert "would end with an error" in explained.summary
    world.try_next()
