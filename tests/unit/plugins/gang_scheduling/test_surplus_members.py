"""Members beyond the minimum of a gang: how many of them are tried, and what they wait for."""

from __future__ import annotations

from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster


def test_of_those_that_are_alike_one_is_refused_by_an_attempt(
    cluster: GangCluster, attempts: list[str]
) -> None:
    cluster.add_group(2)
    keys = cluster.add_members(40)
    bound = cluster.bound()
    assert len(bound) == 4
    # Four and one in the cycle of the group, and one for itself.
    assert len(attempts) == 6
    waiting = [cluster.message(key) for key in keys if key not in bound]
    assert len(waiting) == 36
    assert len(set(waiting)) == 1
    assert "Insufficient cpu" in waiting[0]
    cluster.add_node(node("n2", cpu=6))
    cluster.tick(20)
    assert len(cluster.bound()) == 7


def test_of_those_that_must_be_in_one_rack_one_is_refused_by_an_attempt(
    attempts: list[str],
) -> None:
    with GangCluster(0) as cluster:
        rack = {"example.com/rack": "r"}
        for number in range(2):
            cluster.add_node(node(f"n{number}", cpu=4, labels=rack))
        required = {"kubestow.io/topology-required": "example.com/rack"}
        cluster.add_group(2, annotations=required)
        keys = cluster.add_members(40)
        bound = cluster.bound()
        assert len(bound) == 4
        assert len(attempts) <= 8
        waiting = {cluster.message(key) for key in keys if key not in bound}
        assert len(waiting) == 1
        attempts.clear()
        cluster.tick(60)
        assert attempts == [], "no attempt without an event"
        cluster.add_node(node("elsewhere", cpu=4))
        cluster.add_node(node("n2", cpu=6, labels=rack))
        cluster.tick(20)
        assert len(cluster.bound()) == 7
        for key in sorted(waiting_keys(cluster))[:5]:
            cluster.world.remove("Pod", key.partition("/")[2], "default")
        cluster.add_node(node("n3", cpu=4, labels=rack))
        cluster.tick(20)
        assert len(cluster.bound()) == 9
        cluster.validate()


def waiting_keys(cluster: GangCluster) -> list[str]:
    return [each.pod for each in cluster.world.waiting()]


def test_one_is_tried_of_each_template(cluster: GangCluster, attempts: list[str]) -> None:
    cluster.add_group(2)
    cluster.add_members(2)
    cluster.add_members(20, name="large", cpu=3)
    cluster.add_members(20, name="small", cpu=1)
    assert len(cluster.bound()) >= 2
    refused = set(attempts) - set(cluster.bound())
    assert len(refused) <= 4
    cluster.validate()


def test_a_member_never_evicts_another_one_of_its_group(cluster: GangCluster) -> None:
    cluster.add_group(4)
    cluster.add_members(4, priority=0)
    assert len(cluster.bound()) == 4
    (surplus,) = cluster.add_members(1, priority=10)
    cluster.add(pod("low", cpu=1, priority=-1))
    # Longer than the time after which everything is tried without an event.
    cluster.tick(400)
    assert len(cluster.bound("g")) == 4
    assert surplus not in cluster.bound()
    assert [each for each in cluster.events if each.reason == "Preempted"] == []
    cluster.add_node(node("n2", cpu=2))
    cluster.tick(20)
    assert surplus in cluster.bound()


def test_a_member_that_may_not_evict_its_own_group_evicts_others(cluster: GangCluster) -> None:
    cluster.add_group(2)
    cluster.add_members(2, priority=0, spec={"nodeSelector": {"kubernetes.io/hostname": "n0"}})
    cluster.tick(1)
    cluster.add_pods(pod("low", cpu=4, priority=0))
    cluster.tick(1)
    (surplus,) = cluster.add_members(1, priority=10)
    cluster.tick(60)
    assert surplus in cluster.bound()
    assert len(cluster.bound("g")) == 3
    assert not cluster.bound("low")


def test_each_evicts_for_itself(cluster: GangCluster) -> None:
    for number in range(3):
        cluster.add_pods(pod(f"low-{number}", cpu=2, priority=-1))
    cluster.tick(1)
    cluster.add_group(1)
    cluster.add_members(4, priority=10)
    cluster.tick(60)
    assert len(cluster.bound("g")) == 4
