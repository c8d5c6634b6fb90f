"""VolumeZone: topology labels of volumes and nodes."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.volume_zone import ZONE_CONFLICT, VolumeZone
from scheduler.framework import SKIP, ActionType, ClusterEvent, CycleState, Status, unresolvable
from tests.unit.plugins.clusters import Cluster, hint, node, pod, statuses
from tests.unit.plugins.volume_objects import add, claim, storage_class, using, volume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD = "failure-domain.beta.kubernetes.io/"


def bound(nodes: dict[str, dict[str, str]], **labels: str) -> tuple[Cluster, VolumeZone]:
    cluster = Cluster([node(name, labels=given) for name, given in nodes.items()])
    add(cluster, claim("c", "v"), volume("v", labels=labels))
    return cluster, VolumeZone(None, cluster.handle())


@pytest.mark.parametrize(
    ("on_volume", "on_node", "fits"),
    [
        ({ZONE: "a"}, {}, True),
        ({ZONE: "a"}, {"unrelated": "b"}, True),
        *(
            ({key: "a"}, {key: value}, value == "a")
            for key in (ZONE, REGION, f"{OLD}zone", f"{OLD}region")
            for value in "ab"
        ),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a"}, False),
        ({ZONE: "a"}, {f"{OLD}zone": "a"}, False),
        ({f"{OLD}zone": "a"}, {ZONE: "a"}, True),
        ({f"{OLD}zone": "a"}, {ZONE: "b"}, False),
        ({f"{OLD}zone": "a"}, {f"{OLD}zone": "b", ZONE: "a"}, False),
        ({f"{OLD}region": "r"}, {REGION: "r"}, True),
        ({ZONE: "a__c"}, {ZONE: "c"}, True),
        ({ZONE: " a __c"}, {ZONE: "a"}, True),
        ({ZONE: "a__c"}, {ZONE: "b"}, False),
    ],
)
def test_labels(on_volume: dict[str, str], on_node: dict[str, str], fits: bool) -> None:
    cluster, plugin = bound({"n": on_node}, **on_volume)
    assert statuses(plugin, cluster, using("c")) == {"n": None if fits else ZONE_CONFLICT}


def test_every_row_is_evaluated_by_its_own_labels() -> None:
    cluster, plugin = bound({"a": {ZONE: "a"}, "b": {ZONE: "b"}, "none": {}}, **{ZONE: "a"})
    found = statuses(plugin, cluster, using("c"))
    assert [name for name, status in found.items() if status] == ["b"]


def test_without_state_the_requirements_are_computed_again() -> None:
    cluster, plugin = bound({"a": {ZONE: "a"}, "b": {ZONE: "b"}}, **{ZONE: "a"})
    statuses = [
        plugin.filter(CycleState(), using("c"), cluster.table.node_info(row)) for row in (0, 1)
    ]
    assert statuses == [None, ZONE_CONFLICT]


@pytest.mark.parametrize(
    ("objects", "name", "expected"),
    [
        ((), "", unresolvable("PersistentVolumeClaim had no name")),
        ((), "c", unresolvable('persistentvolumeclaim "c" not found')),
        ((claim("c", "v"),), "c", unresolvable('persistentvolume "v" not found')),
        (
            (claim("c"),),
            "c",
            unresolvable("PersistentVolumeClaim had no pv name and storageClass name"),
        ),
        (
            (claim("c", class_name="s"),),
            "c",
            unresolvable('storageclass.storage.k8s.io "s" not found'),
        ),
        (
            (claim("c", class_name="s"), storage_class("s", mode=None)),
            "c",
            unresolvable('VolumeBindingMode not set for StorageClass "s"'),
        ),
        (
            (claim("c", class_name="s"), storage_class("s", mode="Immediate")),
            "c",
            unresolvable("PersistentVolume had no name"),
        ),
        ((claim("c", class_name="s"), storage_class("s")), "c", SKIP),
        ((claim("c", "v"), volume("v")), "c", SKIP),
        ((claim("c", "v"), volume("v", labels={ZONE: "a__"})), "c", SKIP),
        ((claim("c", "v"), volume("v", labels={ZONE: "a"})), "c", None),
    ],
)
def test_pre_filter(objects: tuple[Any, ...], name: str, expected: Status | None) -> None:
    cluster = Cluster([node("n")])
    add(cluster, *objects)
    plugin = VolumeZone(None, cluster.handle())
    assert plugin.pre_filter(CycleState(), using(name), cluster.table) == expected


def test_pods_without_claims_are_skipped() -> None:
    plugin = VolumeZone(None, Cluster().handle())
    assert plugin.pre_filter(CycleState(), pod(), Cluster().table) is SKIP


@pytest.mark.parametrize(
    ("resource", "old", "new", "wakes"),
    [
        ("storage.k8s.io/StorageClass", None, storage_class(), True),
        ("storage.k8s.io/StorageClass", None, storage_class(mode="Immediate"), False),
        ("storage.k8s.io/StorageClass", None, storage_class(mode=None), False),
        ("PersistentVolumeClaim", None, claim("c"), True),
        ("PersistentVolumeClaim", claim("c"), claim("c", "v"), True),
        ("PersistentVolumeClaim", None, claim("other"), False),
        ("PersistentVolume", None, volume("any"), True),
        ("PersistentVolume", volume(), volume(labels={ZONE: "a"}), True),
        ("PersistentVolume", volume(), volume(labels={"unrelated": "a"}), False),
        ("PersistentVolume", volume(), volume(labels={ZONE: "a__"}), False),
    ],
)
def test_hints(resource: str, old: Any, new: Any, wakes: bool) -> None:
    plugin = VolumeZone(None, Cluster().handle())
    action = ActionType.ADD if old is None else ActionType.UPDATE
    assert hint(plugin, ClusterEvent(resource, action), using("c"), old, new) is wakes
