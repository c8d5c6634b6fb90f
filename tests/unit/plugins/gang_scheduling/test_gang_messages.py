"""The complete message of a group that does not fit, and the Events about groups."""

from __future__ import annotations

import random
import re

import pytest

from plugins.gang_scheduling.messages import why_held
from plugins.gang_scheduling.plugin import GangScheduling
from plugins.gang_scheduling.standing import standing
from scheduler.explain.records import GroupView
from scheduler.groups import PodGroups
from scheduler.testing import node, pod
from tests.unit.groups.objects import member, pod_group
from tests.unit.plugins.gang_scheduling.gang_cluster import RACK, GangCluster, notes, racks

NEVER = {"preemptionPolicy": "Never"}


def view(cluster: GangCluster, name: str = "g") -> GroupView:
    """Return the row of a group in `kubestow gangs`."""
    plugin = cluster.plugin("GangScheduling")
    assert isinstance(plugin, GangScheduling)
    views, _ = plugin.group_views("default", 100)
    return next(each for each in views if each.group == f"default/{name}")


def test_numbers_the_scarce_resource_and_what_an_empty_cluster_takes() -> None:
    cluster = GangCluster()
    cluster.add_group(6)
    cluster.add_members(6)
    cluster.tick(2)
    text = (
        "needs 6 pods, 4 fit at most, 2 do not: short of cpu on 2 nodes; even an empty cluster "
        "takes 4 at most"
    )
    assert view(cluster).text == text
    assert cluster.message("default/g-pod-0").startswith(f"pod group default/g: {text}")
    assert notes(cluster, "FailedScheduling") == [text, f"pod group default/g: {text}"]


def test_the_nodes_are_counted_by_what_limits_them_and_by_the_filters_that_exclude_them() -> None:
    cluster = GangCluster()
    cluster.add_node(node("small", cpu=8, memory="1Gi"))
    for number in range(3):
        cluster.add_node(node(f"tainted-{number}", cpu=64, taints=("k:NoSchedule",)))
    cluster.add_node(node("cordoned", cpu=64, unschedulable=True))
    cluster.add_group(9)
    cluster.add_members(9, memory="600Mi")
    cluster.tick(2)
    text = (
        "needs 9 pods, 5 fit at most, 4 do not: short of cpu on 2 nodes, memory on 1 node; "
        "3 nodes excluded by TaintToleration, 1 by NodeUnschedulable"
    )
    assert view(cluster).text.startswith(text)


def test_an_empty_cluster_is_named_only_where_it_is_too_small() -> None:
    cluster = GangCluster()
    cluster.add(pod("other", cpu=2, node="n0"))
    cluster.add_group(4)
    cluster.add_members(4)
    cluster.tick(2)
    assert view(cluster).text == "needs 4 pods, 3 fit at most, 1 do not: short of cpu on 2 nodes"


def test_an_empty_cluster_counts_the_nodes_that_filters_leave() -> None:
    cluster = GangCluster()
    cluster.add_node(node("tainted", cpu=64, taints=("k:NoSchedule",)))
    cluster.add_group(6, "first")
    cluster.add_members(6, "first")
    cluster.tick(2)
    # An attempt at pods without labels of their own tells which nodes take them.
    cluster.add_group(7, "first")
    cluster.add_members(1, "first")
    cluster.tick(2)
    assert view(cluster, "first").text.endswith("; even an empty cluster takes 4 at most")


def test_members_with_nodes_are_counted_apart() -> None:
    cluster = GangCluster()
    cluster.add_group(4)
    cluster.add_members(4)
    cluster.tick(1)
    for number in range(3):
        cluster.world.remove("Pod", f"g-pod-{number}", "default")
    cluster.add(pod("other", cpu=4))
    cluster.tick(1)
    cluster.add_members(3)
    cluster.tick(2)
    assert view(cluster).text == (
        "1 of 4 pods have a node; needs 4 pods, 2 fit at most (1 placed before, 1 now), 2 do not: "
        "short of cpu on 2 nodes"
    )


@pytest.mark.parametrize("native", [False, True])
def test_the_best_domain_is_named_everywhere(native: bool) -> None:
    cluster = racks(1, 2, 1)
    if native:
        constraints = {"topology": [{"key": RACK}]}
        cluster.add_native_group(5, schedulingConstraints=constraints)
        cluster.add_native_members(5)
    else:
        cluster.add_group(5, annotations={"kubestow.io/topology-required": RACK})
        cluster.add_members(5)
    cluster.tick(2)
    text = (
        f"needs 5 pods, 4 fit at most in the best domain {RACK}=r1, 1 do not: short of cpu on 2 "
        "nodes; even an empty cluster takes 4 at most"
    )
    assert view(cluster).text == text
    assert notes(cluster, "FailedScheduling")[0] == text


def test_a_mixed_group_that_was_tried_in_several_orders_is_no_proof() -> None:
    cluster = GangCluster(nodes=3)
    for number in range(3):
        cluster.add(pod(f"other-{number}", cpu=0.5, node=f"n{number}"))
    cluster.add_group(5)
    cluster.add_members(3, name="large", cpu=2.5)
    cluster.add_members(2, name="small", cpu=1.5)
    cluster.tick(2)
    text = view(cluster).text
    assert "Insufficient cpu; found no place in" in text
    assert text.endswith("orders, which is no proof for pods of several templates")


def test_a_policy_that_keeps_the_group_from_preempting_is_named() -> None:
    cluster = GangCluster()
    for number in range(2):
        cluster.add(pod(f"low-{number}", cpu=4, priority=0, node=f"n{number}"))
    cluster.add_group(3)
    cluster.add_members(3, priority=10, spec=NEVER)
    cluster.tick(2)
    assert view(cluster).text.endswith(
        "; it might fit if some of 2 pods of lower priority went, but a member has "
        "preemptionPolicy=Never"
    )


def test_a_policy_is_not_named_where_preemption_would_not_help() -> None:
    cluster = GangCluster()
    cluster.add(pod("same", cpu=4, priority=10, node="n0"))
    cluster.add_group(3)
    cluster.add_members(3, priority=10, spec=NEVER)
    cluster.tick(2)
    assert "preemptionPolicy" not in view(cluster).text


def test_events_are_one_for_each_change_and_not_for_each_member() -> None:
    cluster = GangCluster()
    low = {"terminationGracePeriodSeconds": 600}
    cluster.add(pod("low", cpu=4, priority=0, node="n0", spec=low))
    cluster.add_group(4)
    cluster.add_members(4, priority=10)
    cluster.tick(5)
    # One about the group and one about its first member.
    assert len(notes(cluster, "FailedScheduling")) == 2
    about = [each.reason for each in cluster.events if each.note.startswith("needs 4 pods")]
    assert about == ["FailedScheduling"]
    assert notes(cluster, "Preempting") == ["1 pod evicted to make room for all that it needs"]
    cluster.world.remove("Pod", "low", "default")
    cluster.tick(5)
    assert len(notes(cluster, "GangScheduled")) == 1


@pytest.mark.parametrize("seed", range(200))
def test_the_numbers_of_every_sentence_add_up(seed: int) -> None:
    draw = random.Random(seed)
    groups = PodGroups()
    minimum = draw.randint(1, 8)
    group = groups.set_object(pod_group(minimum))
    for number in range(draw.randint(0, 10)):
        gated, node = draw.random() < 0.3, draw.choice(("", "", "n1"))
        made = member(f"p{number}", gated=gated and not node, node=node)
        groups.observe(made, ours=draw.random() < 0.8)
    for number in range(draw.choice((0, 0, 1, 5))):
        group.succeed(f"done-{number}")
    standing_text, held = standing(group, "").text, why_held(group)
    for text in (standing_text, held):
        for part, whole in re.findall(r"(\d+) of (\d+)", text):
            assert int(part) <= int(whole), text
        existing = re.search(r"(\d+) (?:of \d+ )?pods exist", text)
        parts = sum(map(int, re.findall(r"(\d+) of them", text)))
        assert existing is None or parts <= int(existing[1]), text
    assert bool(held) is not group.ready


def test_more_pods_than_needed_may_exist_without_being_enough(cluster: GangCluster) -> None:
    cluster.add_group(4)
    cluster.add_members(2)
    gates = [{"name": "example.com/wait"}]
    cluster.add_members(4, name="gated", spec={"schedulingGates": gates})
    assert cluster.message("default/g-pod-0") == (
        "pod group default/g: 6 pods exist, 4 are needed, 4 of them with scheduling gates"
    )
