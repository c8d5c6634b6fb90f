"""Gangs by other names: the former label, and what other schedulers and Kueue write."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api.pod_groups import OLD_POD_GROUP_LABEL, POD_GROUP_LABEL
from scheduler.testing import pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster, notes


def test_the_former_label_joins_pods(cluster: GangCluster) -> None:
    cluster.add_group(3)
    for number in range(2):
        cluster.add_pods(pod(f"old-{number}", cpu=1, labels={OLD_POD_GROUP_LABEL: "g"}))
    assert cluster.message("default/old-0") == "pod group default/g: 2 of 3 pods exist"
    cluster.add_members(1)
    assert len(cluster.bound()) == 3
    assert notes(cluster, "GangScheduled") == ["3 pods are bound together"]


def test_the_present_label_counts_more(cluster: GangCluster) -> None:
    cluster.add_group(1)
    labels = {OLD_POD_GROUP_LABEL: "other", POD_GROUP_LABEL: "g"}
    (key,) = cluster.add_pods(pod("both", cpu=1, labels=labels))
    assert [*cluster.bound()] == [key]


@pytest.mark.parametrize("in_label", [False, True], ids=["annotation", "label"])
@pytest.mark.parametrize(
    "key",
    [
        "scheduling.k8s.io/group-name",
        "gang.scheduling.koordinator.sh/name",
        "yunikorn.apache.org/task-group-name",
        "kueue.x-k8s.io/pod-group-name",
        "pod-group.scheduling.sigs.k8s.io/name",
    ],
)
def test_what_makes_a_gang_elsewhere_is_told_once(
    cluster: GangCluster, key: str, in_label: bool
) -> None:
    metadata: dict[str, Any] = {"labels" if in_label else "annotations": {key: "train"}}
    for number in range(3):
        cluster.add_pods(pod(f"theirs-{number}", cpu=1, **metadata))
    assert len(cluster.bound()) == 3, "each is a single pod"
    (event,) = [each for each in cluster.events if each.reason == "GroupNotUnderstood"]
    assert event.regarding == "default/theirs-0"
    assert event.note.startswith(f"{key}=train does not make a gang here")


def test_a_member_of_a_group_gets_no_such_event(cluster: GangCluster) -> None:
    cluster.add_group(2)
    cluster.add_members(2, annotations={"scheduling.k8s.io/group-name": "train"})
    assert len(cluster.bound()) == 2
    assert notes(cluster, "GroupNotUnderstood") == []


@pytest.mark.parametrize(("minimum", "told"), [(1, True), (3, False)])
def test_a_group_whose_only_demand_is_min_resources_is_told(
    cluster: GangCluster, minimum: int, told: bool
) -> None:
    """The Spark operator creates such groups: minMember 1, and minResources for all of its pods."""
    cluster.add(
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {"minMember": minimum, "minResources": {"cpu": "7", "memory": "3Gi"}},
        }
    )
    cluster.add_members(3, cpu=1)
    assert len(cluster.bound()) == 3
    events = [each for each in cluster.events if each.reason == "GroupNotUnderstood"]
    assert [each.regarding for each in events] == ["default/g"] * told
    assert all("spec.minResources is not read" in each.note for each in events)
