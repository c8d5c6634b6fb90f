"""The metrics of pod groups."""

from __future__ import annotations

import re

import pytest

from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster

RACK = "example.com/rack"
POD_GROUP = "podgroups.v1alpha1.scheduling.x-k8s.io"


def sampled(cluster: GangCluster) -> dict[str, float]:
    """Return the samples of groups, without those of 0 and buckets."""
    scheduler = cluster.world._assembly
    kept = scheduler.scheduling.groups.waiting.kept
    cluster.plugin("GangScheduling").report_groups(kept)
    text = scheduler.metrics.exposition()[0].decode()
    found = re.findall(r"^((?:kubestow_gang|scheduler_podgroup)\S+) (\S+)$", text, re.MULTILINE)
    samples = {
        name.removeprefix("kubestow_gang_"): float(value)
        for name, value in found
        if "_bucket" not in name and "_created" not in name
    }
    return {name: value for name, value in samples.items() if value}


def test_groups_and_members_are_counted_by_state() -> None:
    cluster = GangCluster()
    cluster.add_group(2, "bound")
    cluster.add_members(2, "bound")
    cluster.add_native_group(6, "large")
    cluster.add_native_members(6, "large")
    cluster.add_group(3, "short")
    cluster.add_members(1, "short")
    cluster.tick(3)
    found = sampled(cluster)
    assert found['groups{source="CRD",state="AllBound"}'] == 1
    assert found['groups{source="Native",state="Unschedulable"}'] == 1
    assert found['groups{source="CRD",state="WaitingForMembers"}'] == 1
    assert (found['members{state="bound"}'], found['members{state="pending"}']) == (2, 7)
    assert "partial_groups" not in found
    for number in range(2):
        cluster.world.remove("Pod", f"bound-pod-{number}", "default")
    cluster.world.remove(POD_GROUP, "bound", "default")
    cluster.tick(1)
    found = sampled(cluster)
    assert 'groups{source="CRD",state="AllBound"}' not in found
    assert 'members{state="bound"}' not in found


def test_a_partial_group_is_counted_until_it_is_whole() -> None:
    cluster = GangCluster()
    cluster.add_group(3)
    cluster.add_members(3)
    cluster.tick(1)
    cluster.world.remove("Pod", "g-pod-0", "default")
    cluster.tick(1)
    assert sampled(cluster)['groups{source="CRD",state="Partial"}'] == 1
    assert "partial_groups" not in sampled(cluster), "nobody waits"
    cluster.add(pod("in-the-way", cpu=4, priority=1))
    cluster.add_members(1, cpu=3)
    cluster.tick(1)
    assert sampled(cluster)["partial_groups"] == 1
    (note,) = [each.note for each in cluster.events if each.reason == "GangPartial"]
    assert note.startswith("2 of 3 pods have a node; needs 3 pods, 2 fit")
    cluster.add_node(node("n9", cpu=4))
    cluster.tick(3)
    assert "partial_groups" not in sampled(cluster)


def test_cycles_by_result_and_the_bound() -> None:
    cluster = GangCluster()
    cluster.add_group(2, "fits")
    cluster.add_members(2, "fits")
    cluster.add_group(6, "large")
    cluster.add_members(6, "large")
    cluster.tick(2)
    # Nodes change, and it still cannot fit.
    cluster.add_node(node("n2", cpu=2))
    cluster.tick(2)
    found = sampled(cluster)
    attempts = "scheduler_podgroup_schedule_attempts_total"
    assert found[f'{attempts}{{profile="kubestow",result="scheduled"}}'] == 1
    assert found[f'{attempts}{{profile="kubestow",result="unschedulable"}}'] == 1
    assert found['cycle_seconds_count{result="scheduled"}'] == 1
    assert found["scheduler_podgroup_scheduling_algorithm_duration_seconds_count"] == 2
    assert (found["cycle_slices_count"], found["orders_tried_count"]) == (2, 2)
    assert found['bound_rejections_total{at="event"}'] >= 1
    assert "placements_tried_count" not in found


def test_a_group_that_the_bound_refuses_untried() -> None:
    cluster = GangCluster()
    cluster.add_group(6, "first")
    cluster.add_members(6, "first")
    cluster.tick(2)
    cluster.add_group(6, "second")
    cluster.add_members(6, "second", name="first-pod")
    cluster.tick(2)
    found = sampled(cluster)
    assert found['bound_rejections_total{at="cycle"}'] == 1
    assert found['cycle_seconds_count{result="rejected_by_bound"}'] == 1


def test_placements_of_a_group_with_topology() -> None:
    cluster = GangCluster(nodes=0)
    for number in range(3):
        cluster.add_node(node(f"n{number}", cpu=4, labels={RACK: f"r{number}"}))
    cluster.add_group(2, annotations={"kubestow.io/topology-required": RACK})
    cluster.add_members(2)
    cluster.tick(1)
    found = sampled(cluster)
    assert (found["placements_tried_count"], found["placements_tried_sum"]) == (1, 1)


def test_the_wait_from_complete_to_bound_and_of_a_deleted_group() -> None:
    cluster = GangCluster()
    cluster.add(pod("other", cpu=4, node="n0"))
    cluster.add_group(3)
    cluster.add_members(2)
    cluster.tick(50)
    cluster.add_members(1)
    cluster.tick(20)
    assert 'wait_seconds_count{result="bound"}' not in sampled(cluster)
    cluster.world.remove("Pod", "other", "default")
    cluster.tick(5)
    found = sampled(cluster)
    assert found['wait_seconds_count{result="bound"}'] == 1
    assert 20 <= found['wait_seconds_sum{result="bound"}'] <= 25, "not the time without the third"
    cluster.add_group(9, "large")
    cluster.add_members(9, "large")
    cluster.tick(7)
    cluster.world.remove(POD_GROUP, "large", "default")
    for number in range(9):
        cluster.world.remove("Pod", f"large-pod-{number}", "default")
    cluster.tick(1)
    assert sampled(cluster)['wait_seconds_count{result="deleted"}'] == 1


@pytest.mark.parametrize(("minimum", "kind"), [(2, "group"), (1, "surplus"), (0, "pod")])
def test_plans_and_victims_by_kind(minimum: int, kind: str) -> None:
    cluster = GangCluster(nodes=1)
    if minimum:
        cluster.add_group(minimum, "low")
        cluster.add_members(2, "low", priority=0)
    else:
        cluster.add_pods(pod("low", cpu=2, priority=0), 2)
    cluster.tick(1)
    cluster.add_group(1, "high")
    cluster.add_members(1, "high", priority=10)
    cluster.tick(1)
    found = sampled(cluster)
    assert found['preemption_plans_total{result="planned"}'] == 1
    assert found[f'victims_total{{kind="{kind}"}}'] == (2 if kind == "group" else 1)
    attempts = "scheduler_podgroup_schedule_attempts_total"
    assert found[f'{attempts}{{profile="kubestow",result="waiting_on_preemption"}}'] == 1


def test_a_plan_in_vain_is_counted_and_evicts_nobody() -> None:
    cluster = GangCluster(nodes=1)
    cluster.add(pod("low", cpu=4, priority=0, node="n0"))
    cluster.add_group(3, "high")
    cluster.add_members(3, "high", priority=10)
    cluster.tick(1)
    found = sampled(cluster)
    assert found['preemption_plans_total{result="none"}'] == 1
    assert not any(name.startswith("victims_total") for name in found)


def test_groups_that_are_gone_before_metrics_are_read_leave_nothing_behind() -> None:
    cluster = GangCluster()
    tally = cluster.plugin("GangScheduling").gangs.tally
    for number in range(3):
        cluster.add_group(2, f"brief-{number}")
        cluster.add_members(1, f"brief-{number}")
        cluster.tick(1)
        cluster.world.remove("Pod", f"brief-{number}-pod-0", "default")
        cluster.world.remove(POD_GROUP, f"brief-{number}", "default")
        cluster.tick(1)
    assert not tally._changed
    assert not tally._counted
    assert sampled(cluster).keys() == {"succeeded_lookups_total"}


def test_a_group_that_was_counted_is_taken_out_of_the_sums_once_it_is_gone() -> None:
    cluster = GangCluster()
    tally = cluster.plugin("GangScheduling").gangs.tally
    cluster.add_group(2, "counted")
    cluster.tick(1)
    assert sampled(cluster) == {'groups{source="CRD",state="WaitingForMembers"}': 1}
    cluster.world.remove(POD_GROUP, "counted", "default")
    cluster.tick(1)
    assert tally._changed, "its state is still in the sums"
    assert sampled(cluster) == {}
    assert not tally._changed
    assert not tally._counted


def test_without_groups_nothing_is_measured() -> None:
    cluster = GangCluster()
    cluster.add(pod("single", cpu=1))
    cluster.tick(1)
    assert sampled(cluster) == {}
