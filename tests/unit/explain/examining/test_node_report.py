"""Reports about one node: every filter is asked, and what the node lacks is said in numbers."""

from __future__ import annotations

import pytest

from scheduler.explain.records import NodeReport, ResourceRoom
from tests.unit.engine.harness import plugin
from tests.unit.explain.examining.explaining import ExplainedWorld, fail, in_tree_world, reject_if


def report(world: ExplainedWorld, node: str, name: str = "p") -> NodeReport:
    found = world.explain(name, node=node).report
    assert found is not None
    return found


def test_filters_after_the_one_that_rejects_are_asked_as_well() -> None:
    first = plugin("First", filter=lambda state, pod, node: reject_if(node.name == "n1", "one"))
    second = plugin("Second", filter=lambda state, pod, node: reject_if(node.name == "n1", "two"))
    world = ExplainedWorld(first, second)
    world.nodes("n1", "n2")
    world.pending()
    found = report(world, "n1")
    assert [(each.plugin, each.status, each.reasons) for each in found.checks] == [
        ("First", "UnschedulableAndUnresolvable", ("one",)),
        ("Second", "UnschedulableAndUnresolvable", ("two",)),
    ]
    assert (found.fits, found.rank, found.score, found.feasible) == (False, 0, None, 1)
    assert [each.status for each in report(world, "n2").checks] == ["Success", "Success"]


def test_a_node_that_fits_has_its_place_and_scores() -> None:
    ranks = {"n1": 1, "n2": 3, "n3": 2}
    world = ExplainedWorld(plugin("S", score=lambda state, pod, node: ranks[node.name]))
    world.nodes(*ranks)
    world.pending()
    found = {name: report(world, name) for name in ranks}
    assert {name: (each.rank, each.feasible) for name, each in found.items()} == {
        "n1": (3, 3),
        "n2": (1, 3),
        "n3": (2, 3),
    }
    assert found["n3"].score is not None
    assert found["n3"].score.total == 2
    assert len(world.examined(node="n1", top=1).best) == 1


def test_what_is_requested_is_compared_with_what_is_free() -> None:
    world = in_tree_world()
    world.node("n1", allocatable={"cpu": "4", "memory": "8Gi", "pods": "9", "example.com/gpu": "1"})
    requests = {"cpu": "6500m", "memory": "1Gi", "example.com/gpu": "2"}
    world.pending(containers=[{"name": "c", "resources": {"requests": requests}}])
    found = report(world, "n1")
    assert found.room == (
        ResourceRoom("cpu", 6.5, 4.0, 4.0),
        ResourceRoom("memory", 1 << 30, 8 << 30, 8 << 30),
        ResourceRoom("example.com/gpu", 2, 1, 1),
        ResourceRoom("pods", 1, 9, 9),
    )
    (rejecting,) = [each for each in found.checks if each.status != "Success"]
    assert rejecting.plugin == "NodeResourcesFit"
    assert set(rejecting.reasons) == {"Insufficient cpu", "Insufficient example.com/gpu"}


def test_a_filter_that_fails_does_not_hide_the_others() -> None:
    world = ExplainedWorld(plugin("Broken", filter=fail), plugin("Fine", filter=lambda *_: None))
    world.nodes("n1")
    world.pending()
    broken, fine = report(world, "n1").checks
    assert (broken.status, fine.status) == ("Error", "Success")
    assert "broken" in broken.reasons[0]


def test_a_bound_pod_is_reported_on_as_a_copy_that_may_go_anywhere() -> None:
    world = in_tree_world()
    for name in ("n1", "n2"):
        world.node(name, allocatable={"cpu": "2", "pods": "9"})
    pod = world.exists(world.pod("p", nodeName="n1"))
    world.cache.add_pod(pod)
    assert report(world, "n2").fits
    assert world.explain().report is None


def test_an_unknown_node_is_an_error() -> None:
    world = ExplainedWorld()
    world.nodes("n1")
    world.pending()
    with pytest.raises(LookupError, match='no node "ghost"'):
        world.explain(node="ghost")
