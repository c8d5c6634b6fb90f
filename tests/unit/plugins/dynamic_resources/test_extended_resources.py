"""Extended resources become requests of a claim, which init containers share."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins import NodeResourcesFit
from plugins.dynamic_resources.extended_resources import (
    IMPLICIT_PREFIX,
    claim_requests,
    classes_by_resource,
)
from plugins.node_resources.arguments import NodeResourcesFitArgs
from scheduler.api import Pod
from scheduler.api.devices import DeviceClass
from scheduler.framework import SKIP
from tests.unit.plugins.clusters import node, raw_scores
from tests.unit.plugins.dynamic_resources.objects import DeviceCluster, device
from tests.unit.plugins.dynamic_resources.worlds import decoded

GPU = "example.com/gpu"


def test_devices_count_in_the_score_of_many_nodes_as_in_that_of_one() -> None:
    names = [f"n{number}" for number in range(8)]
    world = DeviceCluster(*names)
    world.cluster.cache.set_node(node("own", allocatable={GPU: 4, "cpu": 4}))
    world.add_class(extendedResourceName=GPU)
    for number, name in enumerate(names[1:]):
        world.add_slice(name, *(device(f"d{each}") for each in range(number)))
    resources = [{"name": "cpu", "weight": 1}, {"name": GPU, "weight": 1}]
    args = {"scoringStrategy": {"type": "LeastAllocated", "resources": resources}}
    plugin = NodeResourcesFit(msgspec.convert(args, NodeResourcesFitArgs), world.handle)
    requests = {"requests": {GPU: "1"}}
    subject = world.pod(containers=[{"name": "main", "resources": requests}])
    before = raw_scores(plugin, world.cluster, subject)
    assert len(set(before)) > 4
    world.add_claim()
    world.reserved(world.pod("c", name="q"), "n7")
    after = raw_scores(plugin, world.cluster, subject)
    assert [one != other for one, other in zip(before, after, strict=True)] == [
        name == "n7" for name in (*names, "own")
    ]
    world.add_slice("n1", *(device(f"d{each}") for each in range(9)))
    assert raw_scores(plugin, world.cluster, subject)[1] != after[1]


def device_class(name: str, resource: str | None = None, created: str = "") -> DeviceClass:
    """Return a class."""
    raw: dict[str, Any] = {"metadata": {"name": name}, "spec": {}}
    if created:
        raw["metadata"]["creationTimestamp"] = created
    if resource:
        raw["spec"]["extendedResourceName"] = resource
    return decoded(raw, DeviceClass)


def test_the_newest_class_serves_a_resource() -> None:
    found = classes_by_resource(
        [
            device_class("new", GPU, "2026-02-01T00:00:00Z"),
            device_class("old", GPU, "2026-01-01T00:00:00Z"),
            device_class("plain"),
        ]
    )
    assert {name: each.metadata.name for name, each in found.items()} == {
        GPU: "new",
        "deviceclass.resource.kubernetes.io/new": "new",
        "deviceclass.resource.kubernetes.io/plain": "plain",
    }


def test_of_classes_of_one_age_the_first_by_name_serves_a_resource() -> None:
    found = classes_by_resource([device_class("b", GPU), device_class("a", GPU)])
    assert found[GPU].metadata.name == "a"


def container(name: str, count: int, *, restartable: bool = False) -> dict[str, Any]:
    """Return a container that asks for GPUs, and for CPU."""
    requests = {"cpu": "1", GPU: str(count)} if count else {"cpu": "1"}
    raw: dict[str, Any] = {"name": name, "resources": {"requests": requests}}
    if restartable:
        raw["restartPolicy"] = "Always"
    return raw


@pytest.mark.parametrize(
    ("init", "main", "requests", "mappings"),
    [
        ([], [("a", 2)], {"container-0-request-1": 2}, [("a", 0)]),
        ([], [("a", 0)], {}, []),
        (
            [],
            [("a", 1), ("b", 2)],
            {"container-0-request-1": 1, "container-1-request-1": 2},
            [("a", 0), ("b", 1)],
        ),
        # An init container uses the devices of those that run after it.
        ([("i", 1)], [("a", 2)], {"container-1-request-1": 2}, [("a", 1), ("i", 1)]),
        (
            [("i", 3)],
            [("a", 1), ("b", 1)],
            {"container-0-request-1": 1, "container-1-request-1": 1, "container-2-request-1": 1},
            [("a", 1), ("b", 2), ("i", 1), ("i", 2), ("i", 0)],
        ),
        # Init containers run one after the other: what they need beyond that is shared.
        (
            [("i", 1), ("j", 3), ("k", 2)],
            [("a", 0)],
            {"container-1-request-1": 3},
            [("i", 1), ("j", 1), ("k", 1)],
        ),
    ],
)
def test_the_requests_of_a_pod(
    init: list[tuple[str, int]],
    main: list[tuple[str, int]],
    requests: dict[str, int],
    mappings: list[tuple[str, int]],
) -> None:
    spec = {
        "initContainers": [container(*each) for each in init],
        "containers": [container(*each) for each in main],
    }
    made, mapped = claim_requests(decoded({"spec": spec}, Pod), {GPU: "class"})
    assert {each.name: each.exactly.count for each in made if each.exactly} == requests
    assert [(each.container_name, each.request_name) for each in mapped] == [
        (name, f"container-{index}-request-1") for name, index in mappings
    ]


def test_a_sidecar_keeps_its_devices() -> None:
    """An init container shares them only if the sidecar starts after it."""
    spec = {
        "initContainers": [container("i", 1), container("s", 1, restartable=True)],
        "containers": [container("a", 0)],
    }
    made, mapped = claim_requests(decoded({"spec": spec}, Pod), {GPU: "class"})
    assert [each.name for each in made] == ["container-1-request-1"]
    assert [each.container_name for each in mapped] == ["s", "i"]


def test_requests_are_sorted_as_texts() -> None:
    spec = {"containers": [container(f"c{i}", 1) for i in range(11)]}
    made, _ = claim_requests(decoded({"spec": spec}, Pod), {GPU: "class"})
    assert [each.name for each in made[:3]] == [
        "container-0-request-1",
        "container-1-request-1",
        "container-10-request-1",
    ]


@given(
    served=st.sets(st.sampled_from(["gpu", "nic"])),
    asked=st.sets(st.sampled_from([GPU, f"{IMPLICIT_PREFIX}nic", "example.com/other", "cpu"])),
    claims=st.booleans(),
    enabled=st.booleans(),
)
@settings(deadline=None)
def test_prefilter_skips_the_pods_that_the_plugin_says_it_is_not_concerned_with(
    served: set[str], asked: set[str], claims: bool, enabled: bool
) -> None:
    world = DeviceCluster("n1", DRAExtendedResource=enabled)
    for name in served:
        world.add_class(name, **({"extendedResourceName": GPU} if name == "gpu" else {}))
    world.add_slice("n1", device("d0"))
    world.add_claim()
    containers = [{"name": "main", "resources": {"requests": dict.fromkeys(sorted(asked), "1")}}]
    subject = world.pod(*(["c"] if claims else []), containers=containers)
    state = world.state(subject)
    skipped = world.plugin.pre_filter(state, subject, world.cluster.table) is SKIP
    assert world.plugin.concerns(subject) is not skipped
    assert (world.plugin.name in state.skip_score) >= skipped
