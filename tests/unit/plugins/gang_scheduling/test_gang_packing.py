"""The members of a gang that has failed go to the nodes with the least room for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from scheduler.engine.engine import Engine
from scheduler.groups.cycles.run import MemberRun
from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster

HOSTNAME: Final = "kubernetes.io/hostname"


@pytest.fixture
def cluster() -> Iterator[GangCluster]:
    with GangCluster(nodes=2) as found:
        yield found
        found.validate()


def fill(cluster: GangCluster) -> None:
    cluster.add(pod("half-0", cpu=2, node="n0"))
    cluster.add(pod("half-1", cpu=2, node="n0"))
    cluster.add(pod("whole", cpu=4, node="n1"))


def make_room(cluster: GangCluster) -> None:
    """Leave 2 CPU on n0 and 4 on n1."""
    cluster.world.remove("Pod", "whole", "default")
    cluster.world.remove("Pod", "half-0", "default")
    cluster.tick(60)


def members_by_node(cluster: GangCluster) -> dict[str, int]:
    placed = list(cluster.bound("g-pod").values())
    return {name: placed.count(name) for name in sorted(set(placed))}


def test_a_gang_that_was_never_tried_goes_where_the_scores_say(cluster: GangCluster) -> None:
    fill(cluster)
    make_room(cluster)
    cluster.add_group(2)
    cluster.add_members(2, cpu=1)
    # By LeastAllocated: n1 is empty, and half of n0 is in use.
    assert members_by_node(cluster) == {"n1": 2}


def test_a_gang_that_failed_leaves_the_largest_room_to_others(cluster: GangCluster) -> None:
    fill(cluster)
    cluster.add_group(2)
    cluster.add_members(2, cpu=1)
    cluster.tick(5)
    assert not cluster.bound("g-pod")
    make_room(cluster)
    assert members_by_node(cluster) == {"n0": 2}


def test_a_gang_that_was_never_tried_is_packed_while_another_one_waits(
    cluster: GangCluster,
) -> None:
    fill(cluster)
    cluster.add_group(9, "large")
    cluster.add_members(9, "large", cpu=3)
    cluster.tick(5)
    make_room(cluster)
    assert not cluster.bound("large-pod")
    cluster.add_group(2)
    cluster.add_members(2, cpu=1)
    assert members_by_node(cluster) == {"n0": 2}


def test_members_that_the_fullest_node_does_not_take_go_to_the_next_one(
    cluster: GangCluster,
) -> None:
    fill(cluster)
    cluster.add_group(3)
    cluster.add_members(3, cpu=1)
    cluster.tick(5)
    make_room(cluster)
    assert members_by_node(cluster) == {"n0": 2, "n1": 1}


def term(topology_key: str, **more: Any) -> dict[str, Any]:
    return {"topologyKey": topology_key, "labelSelector": {"matchLabels": {"app": "g"}}, **more}


AFFINITY: Final = {
    "affinity": {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(HOSTNAME)]}
    }
}
SPREAD: Final = {
    "topologySpreadConstraints": [term(HOSTNAME, maxSkew=1, whenUnsatisfiable="ScheduleAnyway")]
}


@pytest.mark.parametrize(
    ("spec", "members", "expected"),
    [(AFFINITY, 3, {"n1": 3}), (SPREAD, 2, {"n0": 1, "n1": 1})],
    ids=["affinity", "spread"],
)
def test_members_with_constraints_are_placed_by_these(
    cluster: GangCluster, spec: dict[str, Any], members: int, expected: dict[str, int]
) -> None:
    """The fullest node takes two of them, so that a third one with affinity would have no node."""
    fill(cluster)
    cluster.add_group(members)
    cluster.add_members(members, cpu=1, labels={"app": "g"}, spec=spec)
    cluster.tick(5)
    make_room(cluster)
    assert members_by_node(cluster) == expected


def test_a_new_node_gets_only_what_the_others_do_not_take() -> None:
    with GangCluster(nodes=3) as cluster:
        for number in range(3):
            cluster.add(pod(f"long-{number}", cpu=3, node=f"n{number}"))
        cluster.add_group(4)
        cluster.add_members(4, cpu=1)
        cluster.tick(5)
        assert not cluster.bound("g-pod")
        cluster.add_node(node("new", cpu=8))
        cluster.tick(60)
        assert members_by_node(cluster) == {"n0": 1, "n1": 1, "n2": 1, "new": 1}


def test_a_node_with_room_for_any_number_of_members_takes_no_memory(
    cluster: GangCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed: list[int] = []
    pack = MemberRun.pack

    async def noting(run: MemberRun, engine: Engine) -> None:
        await pack(run, engine)
        packed.append(len(run.packed))

    monkeypatch.setattr(MemberRun, "pack", noting)
    cluster.add_group(2)
    cluster.add_members(2, cpu=8)
    cluster.tick(5)
    cluster.add_node(node("vast", cpu=80_000_000, pods=10_000_000))
    assert set(cluster.bound("g-pod").values()) == {"vast"}
    assert packed[-1] == 2
