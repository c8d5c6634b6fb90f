"""Gangs of `scheduling.k8s.io`, and objects of both spellings that cannot work."""

from __future__ import annotations

import pytest

from scheduler.api.pod_groups import POD_GROUP_LABEL
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster, notes


@pytest.fixture
def cluster() -> GangCluster:
    return GangCluster()


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
def test_g1_a_native_gang_is_bound_in_one_cycle(cluster: GangCluster, version: str) -> None:
    cluster.add_native_group(4, version=version)
    cluster.add_native_members(3)
    assert not cluster.bound()
    cluster.add_native_members(1)
    assert len(cluster.bound()) == 4
    assert notes(cluster, "GangScheduled") == ["4 pods are bound together"]
    cluster.validate()


def test_g3_native_members_wait_for_their_object(cluster: GangCluster) -> None:
    first, _ = cluster.add_native_members(2)
    expected = "pod group default/g: there is no such PodGroup of scheduling.k8s.io"
    assert cluster.message(first) == expected
    cluster.add_group(2)
    assert not cluster.bound(), "a custom resource of the name is another group"
    cluster.add_native_group(2)
    assert len(cluster.bound()) == 2


def test_g4_a_field_holds_its_pod_where_the_resource_is_not_served(
    cluster: GangCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    permissions = cluster.world._assembly.state.permissions
    served = False
    monkeypatch.setattr(type(permissions), "serves", lambda _self, _resource: served)
    (pod,) = cluster.add_native_members(1)
    assert "does not serve PodGroups of scheduling.k8s.io" in cluster.message(pod)
    served = True
    cluster.add_native_group(1)
    assert len(cluster.bound()) == 1


def test_groups_that_may_not_be_listed_say_so(
    cluster: GangCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    permissions = cluster.world._assembly.state.permissions
    monkeypatch.setattr(
        type(permissions), "may", lambda _self, _verb, resource: "podgroups" not in resource
    )
    (pod,) = cluster.add_native_members(1)
    expected = "pod group default/g: kubestow may not list PodGroups of scheduling.k8s.io"
    assert cluster.message(pod) == expected


def test_g6_the_field_wins_over_the_label_and_an_event_says_so(cluster: GangCluster) -> None:
    cluster.add_native_group(1)
    cluster.add_group(2, "other")
    cluster.add_native_members(1, labels={POD_GROUP_LABEL: "other"})
    assert len(cluster.bound()) == 1
    (note,) = notes(cluster, "GroupConflict")
    assert note == (
        "spec.schedulingGroup names the group g, and the label scheduling.x-k8s.io/pod-group names "
        "other: the field counts"
    )


def test_a_basic_group_binds_what_fits(cluster: GangCluster) -> None:
    first, *_ = cluster.add_native_members(5)
    assert "no such PodGroup" in cluster.message(first)
    cluster.add_native_group(0)
    assert len(cluster.bound()) == 4


def test_g15_groups_of_both_spellings_do_not_block_each_other(cluster: GangCluster) -> None:
    cluster.add_group(4)
    cluster.add_native_group(4)
    for _ in range(4):
        cluster.add_members(1)
        cluster.add_native_members(1)
    assert len(cluster.bound()) == 4
    assert len(cluster.bound("g-native")) in (0, 4)
    cluster.validate()


def test_a_contradiction_is_an_event_and_the_text_of_the_pods(cluster: GangCluster) -> None:
    cluster.add_native_group(1, schedulingPolicy={"basic": {}, "gang": {"minCount": 1}})
    (pod,) = cluster.add_native_members(1)
    text = "spec.schedulingPolicy has both basic and gang"
    assert cluster.message(pod) == f"pod group default/g: {text}"
    cluster.add_native_group(1, schedulingPolicy={"basic": {}, "gang": {"minCount": 1}})
    assert notes(cluster, "InvalidPodGroup") == [text], "once"
    cluster.add_native_group(1)
    assert len(cluster.bound()) == 1


def test_a_part_of_a_composite_group_is_scheduled_on_its_own_and_told_so(
    cluster: GangCluster,
) -> None:
    cluster.add_native_group(2, version="v1alpha3", parentCompositePodGroupName="whole")
    cluster.add_native_members(2)
    assert len(cluster.bound()) == 2
    cluster.add_native_group(2, version="v1alpha3", parentCompositePodGroupName="whole")
    (note,) = notes(cluster, "GroupNotUnderstood")
    assert note.startswith("spec.parentCompositePodGroupName names whole: groups of pod groups")


def test_an_unreadable_annotation_is_an_event_and_holds_nobody(cluster: GangCluster) -> None:
    cluster.add_group(1, annotations={"kubestow.io/disruption": "Sometimes"})
    cluster.add_members(1)
    assert len(cluster.bound()) == 1
    (note,) = notes(cluster, "InvalidAnnotation")
    assert note == (
        'annotation kubestow.io/disruption: "Sometimes" is neither PodGroup nor Pod; the '
        "annotation is ignored"
    )
