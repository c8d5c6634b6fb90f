"""The annotation `kubestow.io/priority-class` of PodGroups."""

from __future__ import annotations

import pytest

from scheduler.groups import PRIORITY_CLASS
from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster


def add_class(cluster: GangCluster, name: str, value: int, policy: str = "") -> None:
    found = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
    cluster.add({**found, "preemptionPolicy": policy} if policy else found)


def add_gang(cluster: GangCluster, priority_class: str, *, native: bool = False) -> None:
    """Add a gang of two pods of priority 100 whose PodGroup names a class."""
    annotations = {PRIORITY_CLASS: priority_class}
    if native:
        cluster.add_native_group(2, metadata={"annotations": annotations})
        cluster.add_native_members(2, priority=100)
    else:
        cluster.add_group(2, annotations=annotations)
        cluster.add_members(2, priority=100)
    cluster.tick(40)


def fill(cluster: GangCluster) -> None:
    """Have all nodes full of pods of priority 50."""
    cluster.add_pods(pod("low", cpu=4, priority=50), 2)
    cluster.tick(1)


def faults(cluster: GangCluster) -> list[str]:
    return [each.note for each in cluster.events if each.reason == "InvalidAnnotation"]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(("value", "evicts"), [(50, False), (51, True), (1000, True)])
def test_a_group_evicts_only_below_the_priority_of_its_class(
    cluster: GangCluster, value: int, evicts: bool, native: bool
) -> None:
    add_class(cluster, "batch", value)
    fill(cluster)
    add_gang(cluster, "batch", native=native)
    assert bool(cluster.bound("g-")) is evicts
    assert faults(cluster) == []


def test_a_class_never_raises_the_priority_above_that_of_the_members(
    cluster: GangCluster,
) -> None:
    add_class(cluster, "high", 1_000)
    cluster.add_pods(pod("same", cpu=4, priority=100), 2)
    cluster.tick(1)
    add_gang(cluster, "high")
    assert not cluster.bound("g-")


def test_the_policy_of_a_class_keeps_the_group_from_preempting(cluster: GangCluster) -> None:
    add_class(cluster, "meek", 100, "Never")
    fill(cluster)
    add_gang(cluster, "meek")
    assert not cluster.bound("g-")


def test_an_unknown_class_is_ignored_and_named_and_counts_once_it_is_there(
    cluster: GangCluster,
) -> None:
    fill(cluster)
    cluster.add_group(2, annotations={PRIORITY_CLASS: "later"})
    cluster.tick(1)
    fault = 'annotation kubestow.io/priority-class: there is no PriorityClass "later"'
    assert faults(cluster) == [f"{fault}; the annotation is ignored"]
    (details,) = cluster.plugin("GangScheduling").group_details("default", "g")
    assert (details.rules.priority, details.rules.ignored) == (None, (fault,))
    add_class(cluster, "later", 7)
    cluster.tick(1)
    (details,) = cluster.plugin("GangScheduling").group_details("default", "g")
    assert (details.rules.priority, details.rules.ignored) == (7, ())
    add_gang(cluster, "later")
    assert not cluster.bound("g-")
    assert len(faults(cluster)) == 1


def test_a_group_that_failed_is_tried_again_when_its_class_is_gone(cluster: GangCluster) -> None:
    add_class(cluster, "batch", 10)
    fill(cluster)
    add_gang(cluster, "batch")
    assert not cluster.bound("g-")
    cluster.world.remove("PriorityClass", "batch")
    cluster.tick(40)
    assert len(cluster.bound("g-")) == 2
    (text,) = faults(cluster)
    assert 'there is no PriorityClass "batch"' in text


def test_a_class_that_is_listed_after_the_group_is_not_reported() -> None:
    with GangCluster() as cluster:
        # Objects that exist at the start are seen in the order of their kinds.
        cluster.add_group(2, annotations={PRIORITY_CLASS: "batch"})
        add_class(cluster, "batch", 10)
        cluster.add_node(node("n9", cpu=4))
        cluster.tick(5)
        assert faults(cluster) == []


@pytest.mark.parametrize("value", ["Not a name", "x" * 100_000])
def test_an_unreadable_name_is_ignored_and_named(cluster: GangCluster, value: str) -> None:
    fill(cluster)
    add_gang(cluster, value)
    assert len(cluster.bound("g-")) == 2
    (text,) = faults(cluster)
    assert "is not the name of a PriorityClass; the annotation is ignored" in text
    assert len(text) < 300


def test_the_priority_of_the_built_in_field_wins_over_the_annotation(cluster: GangCluster) -> None:
    add_class(cluster, "batch", 10)
    fill(cluster)
    metadata = {"annotations": {PRIORITY_CLASS: "batch"}}
    cluster.add_native_group(2, priority=60, metadata=metadata)
    cluster.add_native_members(2, priority=100)
    cluster.tick(40)
    assert len(cluster.bound("g-")) == 2
    (text,) = faults(cluster)
    assert "the object has spec.priority, which counts" in text


def test_groups_without_the_permission_to_list_classes_say_so(
    cluster: GangCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    permissions = cluster.world._assembly.state.permissions
    monkeypatch.setattr(
        type(permissions), "may", lambda _self, verb, resource, *_: resource != "priorityclasses"
    )
    fill(cluster)
    add_gang(cluster, "batch")
    assert len(cluster.bound("g-")) == 2
    (text,) = faults(cluster)
    assert "kubestow may not list PriorityClasses" in text
