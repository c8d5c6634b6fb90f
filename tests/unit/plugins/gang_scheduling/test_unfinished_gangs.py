"""Gangs of which some members have nodes and others wait, as after the end of a leader."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from plugins import GangScheduling
from scheduler.api.pod_groups import POD_GROUP_LABEL
from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster


@pytest.fixture
def cluster() -> Iterator[GangCluster]:
    with GangCluster(nodes=0) as found:
        yield found
        found.validate()


def take_over(cluster: GangCluster, *, bound: int, group: str = "half", priority: int = 0) -> None:
    """Let a group of six have members on nodes that an earlier leader bound."""
    cluster.add_group(6, group)
    for number in range(bound):
        cluster.add_members(1, group, name=f"{group}-bound", node=f"n{number}", priority=priority)


def add_nodes(cluster: GangCluster, count: int) -> None:
    for number in range(count):
        cluster.add_node(node(f"n{number}", cpu=4))


@pytest.mark.parametrize("rival", [6, 2])
def test_a_half_bound_gang_is_tried_before_another_one_that_came_first(
    cluster: GangCluster, rival: int
) -> None:
    cluster.add_group(rival, "rival")
    cluster.add_members(rival, "rival")
    take_over(cluster, bound=2)
    cluster.add_members(4, "half")
    add_nodes(cluster, 3)
    assert len(cluster.bound("half")) == 6
    assert cluster.bound("rival") == {}


@pytest.mark.parametrize(("priority", "first"), [(0, "half"), (10, "rival")])
def test_a_gang_of_higher_priority_still_comes_first(
    cluster: GangCluster, priority: int, first: str
) -> None:
    cluster.add_group(4, "rival")
    cluster.add_members(4, "rival", priority=priority)
    take_over(cluster, bound=2)
    cluster.add_members(4, "half")
    add_nodes(cluster, 3)
    assert len(cluster.bound(f"{first}-pod")) == 4


def test_a_grouping_plugin_need_not_know_which_groups_come_first(
    cluster: GangCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(GangScheduling, "tried_before")
    cluster.add_group(2)
    cluster.add_members(2)
    add_nodes(cluster, 1)
    assert len(cluster.bound("g-pod")) == 2


def test_two_half_bound_gangs_are_tried_in_their_order(cluster: GangCluster) -> None:
    take_over(cluster, bound=2, group="a")
    take_over(cluster, bound=2, group="b")
    cluster.add_members(4, "b")
    cluster.add_members(4, "a")
    add_nodes(cluster, 4)
    assert (len(cluster.bound("a")), len(cluster.bound("b"))) == (2, 6)


def test_when_it_cannot_be_completed_others_are_placed(cluster: GangCluster) -> None:
    take_over(cluster, bound=2)
    cluster.add_members(4, "half", cpu=4)
    cluster.add_group(2, "rival")
    cluster.add_members(2, "rival")
    add_nodes(cluster, 3)
    assert len(cluster.bound("rival")) == 2
    assert len(cluster.bound("half")) == 2


def test_a_broken_gang_takes_over_the_reservation_of_a_new_one(cluster: GangCluster) -> None:
    """The new one has reserved the room that the replacements of the broken one need."""
    add_nodes(cluster, 5)
    cluster.add_group(8, "train")
    cluster.add_members(8, "train")
    cluster.tick(1)
    cluster.add_group(4, "second")
    cluster.add_members(4, "second")
    cluster.tick(70)
    assert cluster.world._assembly.scheduling.queue.nominator.nominations()
    nodes = list(cluster.bound("train").values())
    cluster.world.drop_node(max(nodes, key=nodes.count))
    cluster.add_members(2, "train", name="train-again")
    cluster.tick(2)
    assert len(cluster.bound("train-again")) == 2


@pytest.mark.parametrize("waited", [True, False])
def test_a_new_leader_counts_for_how_long_a_gang_has_waited(
    cluster: GangCluster, *, waited: bool
) -> None:
    add_nodes(cluster, 2)
    for number in range(2):
        cluster.add(pod(f"long-{number}", cpu=3, node=f"n{number}"))
    since = cluster.now - (120 if waited else 0)
    conditions = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "lastTransitionTime": datetime.fromtimestamp(since, UTC).isoformat(),
        }
    ]
    cluster.add_group(2)
    for number in range(2):
        member = pod(f"g-pod-{number}", cpu=2, labels={POD_GROUP_LABEL: "g"})
        cluster.add({**member, "status": {"conditions": conditions}})
    cluster.tick(5)
    assert bool(cluster.world._assembly.scheduling.queue.nominator.nominations()) is waited
