"""Cycles of groups take a part of the time only, while single pods can be tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plugins.gang_scheduling.arguments import GangSchedulingArgs, argument_problems
from scheduler.engine import Engine
from scheduler.groups.cycles.cycle import GroupCycle
from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster

CYCLE_SECONDS = 2.0


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods in the order of their attempts; cycles of groups say that they took long."""
    tried: list[str] = []
    decide, run = Engine.decide, GroupCycle.run

    def noted(engine: Engine, info: Any, **options: Any) -> Any:
        tried.append(info.pod.metadata.name)
        return decide(engine, info, **options)

    async def long(cycle: GroupCycle) -> Any:
        result = await run(cycle)
        result.outcome = replace(result.outcome, seconds=CYCLE_SECONDS)
        return result

    monkeypatch.setattr(Engine, "decide", noted)
    monkeypatch.setattr(GroupCycle, "run", long)
    return tried


def add_all(cluster: GangCluster, *, groups: str = "ab") -> None:
    """Add gangs of two pods each, and single pods of a lower priority."""
    for group in groups:
        cluster.add_group(2, group)
        cluster.add_members(2, group, cpu=0.1, priority=10)
    cluster.add_pods(pod("single", cpu=0.1), 3)


def groups_and_singles(order: list[str]) -> str:
    return "".join(each[0] for each in order)


def test_single_pods_go_before_the_next_group_after_a_long_cycle(
    cluster: GangCluster, order: list[str]
) -> None:
    add_all(cluster)
    cluster.tick(0.5)
    assert groups_and_singles(order) == "aasssbb"
    assert len(cluster.bound()) == 7


def test_groups_do_not_wait_where_there_is_no_single_pod(
    cluster: GangCluster, order: list[str]
) -> None:
    add_all(cluster, groups="abcd")
    cluster.tick(0.5)
    assert groups_and_singles(order) == "aasssbbccdd"


def test_single_pods_that_come_later_go_first_as_long_as_the_cycle_took(
    cluster: GangCluster, order: list[str]
) -> None:
    add_all(cluster, groups="a")
    cluster.tick(CYCLE_SECONDS - 0.5)
    add_all(cluster, groups="b")
    cluster.tick(0.1)
    assert groups_and_singles(order) == "aassssssbb"
    cluster.tick(CYCLE_SECONDS + 0.1)
    add_all(cluster, groups="c")
    cluster.tick(0.1)
    assert groups_and_singles(order) == "aassssssbbccsss"


@pytest.mark.parametrize(("share", "expected"), [(1, "aabbsss"), (0.9, "aasssbb")])
def test_the_share_is_configurable(order: list[str], share: float, expected: str) -> None:
    with GangCluster(args={"groupShare": share}) as cluster:
        add_all(cluster)
        cluster.tick(0.1)
        assert groups_and_singles(order) == expected


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, float("nan")])
def test_a_share_that_is_no_part_is_refused(share: float) -> None:
    (problem,) = argument_problems(GangSchedulingArgs(group_share=share))
    assert problem[0] == "groupShare"
    assert "must be above 0 and at most 1" in problem[1]


def test_members_that_were_set_aside_are_found_and_removed(
    cluster: GangCluster, order: list[str]
) -> None:
    cluster.add_group(3, "a")
    cluster.add_members(3, "a", cpu=5, priority=10)
    cluster.add_node(node("n2", cpu=8))
    add_all(cluster, groups="b")
    cluster.tick(0.1)
    cluster.world.remove("Pod", "a-pod-0", "default")
    cluster.tick(0.1)
    cluster.validate()
    assert len(cluster.bound("b")) == 2
