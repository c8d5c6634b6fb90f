"""Objects that come and go at bad moments: a visible reason, nothing stuck, nothing kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler.api.pod_groups import POD_GROUP_LABEL, POD_GROUPS
from scheduler.testing import pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster
from tests.unit.plugins.gang_scheduling.test_gang_messages import view

GROUP, _, REST = POD_GROUPS.partition("/")
VERSION, _, PLURAL = REST.partition("/")
KIND = f"{PLURAL}.{VERSION}.{GROUP}"


def remove_group(cluster: GangCluster, name: str = "g") -> None:
    cluster.world.remove(KIND, name, "default")


def relabel(cluster: GangCluster, key: str, group: str) -> None:
    """Change the group that the label of a pending pod names; empty: remove the label."""
    labels = {POD_GROUP_LABEL: group} if group else {}
    made = pod(key.partition("/")[2], cpu=2, labels=labels)
    made["metadata"]["uid"] = cluster.world.pod(key).uid
    cluster.add(made)


def reasons(cluster: GangCluster) -> set[str]:
    cluster.tick(2)
    return {each.reason for each in cluster.world.waiting()}


@pytest.fixture
def unserve(cluster: GangCluster, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Remove the resource: it is not served any more, then its objects are gone."""

    def unserve() -> None:
        permissions = cluster.world._assembly.state.permissions
        monkeypatch.setattr(type(permissions), "serves", lambda _self, _resource: False)
        remove_group(cluster)

    return unserve


def test_members_that_did_not_fit_are_single_pods_when_the_resource_is_gone(
    cluster: GangCluster, unserve: Callable[[], None]
) -> None:
    cluster.add_group(5)
    cluster.add_members(5)
    cluster.tick(5)
    assert not cluster.bound()
    unserve()
    assert len(cluster.bound()) == 4
    (reason,) = reasons(cluster)
    assert "pod group" not in reason


def test_members_for_which_pods_were_evicted_are_placed_when_the_resource_is_gone(
    cluster: GangCluster, unserve: Callable[[], None]
) -> None:
    for number in range(4):
        cluster.add_pods(pod(f"low-{number}", cpu=2, priority=-1))
    cluster.tick(1)
    cluster.add_group(3)
    cluster.add_members(3, priority=5)
    cluster.tick(0.2)
    unserve()
    cluster.tick(60)
    assert len(cluster.bound("g-pod")) == 3


def test_a_pod_that_leaves_a_group_that_did_not_fit_is_tried_alone(cluster: GangCluster) -> None:
    cluster.add_group(5)
    first, *_ = cluster.add_members(5)
    cluster.tick(5)
    relabel(cluster, first, "")
    assert [*cluster.bound()] == [first]
    assert reasons(cluster) == {"pod group default/g: 4 of 5 pods exist"}


def test_the_reason_of_a_pod_that_changes_groups_is_about_the_new_one(
    cluster: GangCluster,
) -> None:
    for name in "gh":
        cluster.add_group(5, name)
        cluster.add_members(4, name)
    (moved,) = cluster.add_members(1, name="moved")
    cluster.tick(5)
    relabel(cluster, moved, "h")
    assert reasons(cluster) == {
        "pod group default/g: 4 of 5 pods exist",
        (
            "pod group default/h: needs 5 pods, 4 fit at most, 1 do not: short of cpu on 2 nodes; "
            "even an empty cluster takes 4 at most"
        ),
    }


@pytest.mark.parametrize("moment", ["incomplete", "unschedulable", "bound"])
def test_an_object_that_is_deleted_and_recreated_counts_at_any_moment(
    cluster: GangCluster, moment: str
) -> None:
    cluster.add_group({"incomplete": 4, "unschedulable": 5, "bound": 3}[moment])
    cluster.add_members(5 if moment == "unschedulable" else 3)
    cluster.tick(2)
    bound = {*cluster.bound()}
    remove_group(cluster)
    cluster.tick(2)
    assert {*cluster.bound()} == bound
    missing = {"pod group default/g: there is no such PodGroup of scheduling.x-k8s.io"}
    assert reasons(cluster) == (set() if moment == "bound" else missing)
    cluster.add_group(2)
    assert len(cluster.bound()) >= 3


def test_an_object_that_comes_and_goes_costs_a_cycle_each_time(
    cluster: GangCluster, cycles: list[bool]
) -> None:
    cluster.add_group(5)
    cluster.add_members(5)
    cluster.tick(2)
    for _ in range(20):
        remove_group(cluster)
        cluster.tick(0.05)
        cluster.add_group(5)
        cluster.tick(0.05)
    assert len(cycles) <= 21
    cluster.tick(60)
    assert len(cycles) <= 21
    assert view(cluster).stage == "Unschedulable"


def test_groups_whose_pods_are_deleted_while_they_wait_are_not_kept(cluster: GangCluster) -> None:
    waiting = cluster.world._assembly.scheduling.groups.waiting
    for number in range(150):
        name = f"g{number}"
        cluster.add_group(3, name)
        members = cluster.add_members(3, name, cpu=3)
        cluster.tick(0.1)
        for key in members:
            cluster.world.remove("Pod", key.partition("/")[2], "default")
        remove_group(cluster, name)
    assert len(waiting) <= 64


def test_what_an_annotation_hides_is_shown_in_the_event(cluster: GangCluster) -> None:
    cluster.add_group(1, annotations={"kubestow.io/disruption": "Pod\u202e\x1b[31m"})
    cluster.add_members(1)
    assert len(cluster.bound()) == 1
    (event,) = [each for each in cluster.events if each.reason == "InvalidAnnotation"]
    assert '"Pod\\u202e\\x1b[31m" is neither PodGroup nor Pod' in event.note


def test_a_pod_that_changes_groups_is_told_of_on_both(cluster: GangCluster) -> None:
    for name in "gh":
        cluster.add_group(5, name)
    (moved, *_) = cluster.add_members(3)
    cluster.tick(5)
    relabel(cluster, moved, "h")
    cluster.tick(5)
    relabel(cluster, moved, "missing")
    cluster.tick(5)
    relabel(cluster, moved, "")
    cluster.tick(5)
    told = [
        (each.regarding, each.reason, each.note)
        for each in cluster.events
        if each.reason.startswith("GangMember")
    ]
    gone = f"{moved} is no longer a member: it is "
    assert told == [
        ("default/g", "GangMemberLeft", f"{gone}in pod group default/h now"),
        (
            "default/h",
            "GangMemberJoined",
            f"{moved} is a member now, and was one of pod group default/g before",
        ),
        ("default/h", "GangMemberLeft", f"{gone}in pod group default/missing now"),
    ]
