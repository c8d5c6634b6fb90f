"""The demo's objects: valid, countable, the same every time."""

from __future__ import annotations

import pytest

from simulator.api import Api
from simulator.demos.morning.objects import demo_cluster
from simulator.objects import copy_tree


def test_the_server_takes_every_object_of_the_demo(api: Api) -> None:
    demo = demo_cluster()
    from scheduler.api.stored.priorities import BUILT_IN

    classes = api.resources.of_kind("scheduling.k8s.io/v1", "PriorityClass")
    for name, value in BUILT_IN.items():
        api.create(classes, "", {"metadata": {"name": name}, "value": value})
    for obj in (*demo.base, *demo.workloads):
        row = api.resources.of_kind(obj["apiVersion"], obj["kind"])
        api.create(row, obj["metadata"].get("namespace", ""), copy_tree(obj))
    assert 24 <= api.store.count("nodes") <= 60
    zones = {
        v.obj["metadata"]["labels"]["topology.kubernetes.io/zone"] for v in api.store.items("nodes")
    }
    assert len(zones) == 3
    assert demo.pods == 206
    assert demo.waiting == 9


def test_the_demo_is_the_same_for_the_same_seed() -> None:
    assert demo_cluster(3) == demo_cluster(3)
    assert demo_cluster(3).base == demo_cluster(4).base


@pytest.mark.parametrize("kind", ["gated", "misfit", "gpu", "batch", "web", "agent"])
def test_the_demo_has_something_of_every_kind(kind: str) -> None:
    found = [
        obj for obj in demo_cluster().workloads if obj["metadata"]["labels"].get("demo") == kind
    ]
    assert found
