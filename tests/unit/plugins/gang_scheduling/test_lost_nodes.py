"""Members whose node was deleted hold no room, although their pods still exist."""

from __future__ import annotations

from scheduler.testing import node
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster


def lose(cluster: GangCluster, group: str = "g") -> tuple[str, int]:
    """Delete a node with members, whose pods stay; return its name and their number."""
    placed = list(cluster.bound(group).values())
    cluster.world.remove("Node", placed[0])
    cluster.tick(1)
    return placed[0], placed.count(placed[0])


def have(cluster: GangCluster) -> tuple[int, str]:
    view = cluster.plugin("GangScheduling").group_views("", 9)[0][0]
    return view.bound, view.stage


def test_members_of_a_deleted_node_do_not_count(cluster: GangCluster) -> None:
    cluster.add_group(4)
    cluster.add_members(4)
    assert len(cluster.bound()) == 4
    _, lost = lose(cluster)
    assert have(cluster) == (4 - lost, "Partial")
    cluster.add_members(lost, name="again")
    cluster.tick(5)
    assert not cluster.bound("again"), "all of the replacements, or none"
    cluster.add_node(node("n9", cpu=4))
    cluster.tick(20)
    assert len(cluster.bound("again")) == lost
    assert have(cluster) == (4, "AllBound")


def test_they_count_again_if_the_node_comes_back(cluster: GangCluster) -> None:
    cluster.add_group(4)
    cluster.add_members(4)
    name, _ = lose(cluster)
    cluster.add_node(node(name, cpu=4))
    cluster.tick(1)
    assert have(cluster) == (4, "AllBound")


def test_the_deletion_of_their_pods_changes_nothing_more(cluster: GangCluster) -> None:
    cluster.add_group(4)
    cluster.add_members(4)
    on_it = [key for key, where in cluster.bound().items() if where == "n0"]
    cluster.world.remove("Node", "n0")
    cluster.tick(1)
    for key in on_it:
        cluster.world.remove("Pod", key.partition("/")[2], "default")
    cluster.tick(1)
    assert have(cluster) == (4 - len(on_it), "Partial")
    cluster.add_node(node("n0", cpu=4))
    cluster.tick(1)
    assert have(cluster) == (4 - len(on_it), "Partial")
