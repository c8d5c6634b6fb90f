"""The pages about nodes show what the cache holds, in bounded chunks."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api import Pod
from scheduler.explain.pages import nodes as node_pages
from scheduler.explain.pages.nodes import NodePages
from scheduler.explain.records import NodeRow
from scheduler.framework import NominatingInfo
from tests.unit.engine.harness import World

GPU = "nvidia.com/gpu"
ZONE = {"topology.kubernetes.io/zone": "b"}


@pytest.fixture
def world() -> World:
    world = World()
    world.node("n1", allocatable={"cpu": "8", "memory": "1Gi", "pods": "10", GPU: "4"}, labels=ZONE)
    world.node("n2", spec={"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]})
    world.node("n3")
    return world


def pages(world: World) -> NodePages:
    nominated = world.nominations.nominated_pods_for_node
    return NodePages(world.cache, nominated, clock=world.clock, leading=lambda: True)


def gpu_pod(world: World, name: str, **spec: Any) -> Pod:
    requests = {"cpu": "500m", GPU: "1"}
    return world.pod(name, containers=[{"name": "c", "resources": {"requests": requests}}], **spec)


def test_a_node_has_its_zone_and_what_is_requested_of_it(world: World) -> None:
    world.cache.assume_pod(gpu_pod(world, "p"), "n1")
    page = pages(world).nodes({})
    assert (page.total, page.now, page.leading) == (3, 1_000.0, True)
    assert page.resources == ["cpu", "memory", "ephemeral-storage", "pods", GPU]
    first, second, _ = page.nodes
    assert first == NodeRow(
        name="n1",
        zone="b",
        unschedulable=False,
        taints=0,
        pods=1,
        requested=[0.5, 0, 0, 1, 1],
        allocatable=[8, 1 << 30, 0, 10, 4],
    )
    assert (second.zone, second.unschedulable, second.taints) == ("", True, 1)


def test_a_node_has_the_pool_that_a_label_names(world: World) -> None:
    world.node("n4", labels={"eks.amazonaws.com/nodegroup": "gpu"})
    assert [each.pool for each in pages(world).nodes({}).nodes] == ["", "", "", "gpu"]


def test_the_cursor_leads_through_all_nodes_also_when_some_are_gone(world: World) -> None:
    first = pages(world).nodes({"limit": "1"})
    assert [node.name for node in first.nodes] == ["n1"]
    world.cache.remove_node("n2")
    rest = pages(world).nodes({"limit": "1", "from": str(first.next)})
    assert ([node.name for node in rest.nodes], rest.next) == (["n3"], None)


def test_extended_resources_are_limited_to_the_most_widespread(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.node("n4", allocatable={"cpu": "1", "a.example/one": "1", GPU: "1"})
    monkeypatch.setattr(node_pages, "MAX_EXTENDED_RESOURCES", 1)
    assert pages(world).nodes({}).resources[4:] == [GPU]


def test_the_pods_of_a_node_come_by_priority_and_nominated_ones_last(world: World) -> None:
    bound = world.pod("bound", nodeName="n1")
    world.cache.add_pod(bound)
    world.cache.assume_pod(gpu_pod(world, "assumed", priority=7), "n1")
    world.nominations.add_nominated_pod(gpu_pod(world, "next", priority=9), NominatingInfo("n1"))
    page = pages(world).node({"name": "n1"})
    found = [(pod.name, pod.state, pod.priority, pod.requests) for pod in page.pods]
    wants = {"cpu": 0.5, GPU: 1}
    assert found == [
        ("assumed", "assumed", 7, wants),
        ("bound", "bound", 0, {}),
        ("next", "nominated", 9, wants),
    ]
    assert (page.pods_total, page.zone) == (2, "b")
    assert page.allocatable == {"cpu": 8, "memory": 1 << 30, "pods": 10, GPU: 4}
    assert page.requested == {"cpu": 0.5, "pods": 2, GPU: 1}


def test_pods_labels_and_taints_are_limited(world: World) -> None:
    for number in range(5):
        world.cache.assume_pod(world.pod(f"p{number}"), "n2")
    many = {f"key-{number:03}": "v" for number in range(150)}
    taints = [{"key": key, "effect": "NoSchedule"} for key in many]
    world.node("n2", labels=many, spec={"taints": taints})
    page = pages(world).node({"name": "n2", "pods": "2"})
    assert [pod.name for pod in page.pods] == ["p0", "p1"]
    assert page.pods_total == 5
    assert len(page.labels) == len(page.taints) == node_pages.MAX_LABELS


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"limit": "501"}, "limit=501: give a number from 1 to 500"),
        ({"limit": "0"}, "limit=0: give a number from 1 to 500"),
        ({"from": "-1"}, "from=-1: not a number"),
    ],
)
def test_a_number_out_of_range_is_refused(
    world: World, query: dict[str, str], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        pages(world).nodes(query)


def test_a_node_must_be_named_and_exist(world: World) -> None:
    with pytest.raises(ValueError, match="say which node"):
        pages(world).node({})
    with pytest.raises(LookupError, match='no node "gone"'):
        pages(world).node({"name": "gone"})
