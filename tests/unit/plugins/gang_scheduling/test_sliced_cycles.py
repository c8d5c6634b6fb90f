"""Cycles of large gangs pause between slices: other work goes on, and no change is half seen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from scheduler.service.scheduling_loop import SchedulingLoop
from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster
from tests.unit.plugins.gang_scheduling.test_gang_topology import RACK, add_gang, racks, racks_of
from tests.unit.plugins.gang_scheduling.test_repeated_members import term


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the loop of the service pause after each member; return the assumed pods then."""
    found: list[int] = []

    def pause_always(loop: SchedulingLoop) -> Callable[[], Awaitable[bool]]:
        async def pause() -> bool:
            found.append(loop._engine.cache.statistics().assumed_pods)
            await asyncio.sleep(0)
            return True

        return pause

    monkeypatch.setattr("scheduler.offline.assembly.suits", lambda _engine: False)
    monkeypatch.setattr(SchedulingLoop, "_pauses_of_a_cycle", pause_always)
    return found


def test_g18_a_gang_pauses_after_each_member_whose_slice_is_over(pauses: list[int]) -> None:
    with GangCluster() as cluster:
        cluster.add_group(3)
        cluster.add_members(3, cpu=1)
        assert len(cluster.bound("g-pod")) == 3
        assert pauses == [1, 2, 3]
        cluster.validate()


def test_g25_a_large_gang_pauses_in_each_rack_that_is_tried(pauses: list[int]) -> None:
    with GangCluster(0) as cluster:
        racks(cluster, 3)
        apart = term("podAntiAffinity", {"app": "old"}, RACK)
        for rack in range(2):
            cluster.add(pod(f"old-{rack}", cpu=1, node=f"r{rack}-0", labels={"app": "old"}))
        add_gang(cluster, 3, cpu=1, count=2)
        cluster.add_members(1, name="z-apart", cpu=1, spec=apart)
        cluster.tick(2)
        assert racks_of(cluster, "").count("r2") == 3
        assert len(pauses) > 3
        cluster.validate()


def test_g22_room_that_is_taken_during_a_pause_binds_nobody(pauses: list[int]) -> None:
    with GangCluster() as cluster:
        cluster.add_group(4)
        cluster.add_members(4)
        world = cluster.world
        world.at(world.now, lambda: world.add(pod("thief", cpu=2, node="n0")))
        cluster.tick(5)
        bound = cluster.bound("g-pod")
        assert len(bound) in (0, 4)
        cluster.validate()


def test_a_member_that_is_deleted_during_a_pause_binds_nobody(
    pauses: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with GangCluster() as cluster:
        world = cluster.world
        original = SchedulingLoop._pauses_of_a_cycle

        def delete_then(loop: SchedulingLoop) -> Callable[[], Awaitable[bool]]:
            pause = original(loop)

            async def deleting() -> bool:
                if len(pauses) == 1:
                    world.remove("Pod", "g-pod-0", "default")
                return await pause()

            return deleting

        monkeypatch.setattr(SchedulingLoop, "_pauses_of_a_cycle", delete_then)
        cluster.add_group(4)
        cluster.add_members(4)
        cluster.tick(20)
        assert len(pauses) == 4
        assert not cluster.bound()
        cluster.validate()
        monkeypatch.undo()
        cluster.add_members(1)
        cluster.tick(30)
        assert len(cluster.bound()) == 4
        cluster.validate()


@pytest.mark.parametrize("deleted", ["g-pod-1", "g-pod-199"], ids=["handled", "not yet handled"])
def test_a_large_gang_that_fails_is_handled_in_slices(
    monkeypatch: pytest.MonkeyPatch, deleted: str
) -> None:
    monkeypatch.setattr("scheduler.offline.assembly.suits", lambda _engine: False)
    with GangCluster() as cluster:
        world, handled = cluster.world, list[int]()

        def pause_always(_loop: SchedulingLoop, around: object) -> Callable[[], Awaitable[bool]]:
            async def pause() -> bool:
                handled.append(0)
                if len(handled) == 100:
                    world.remove("Pod", deleted, "default")
                await asyncio.sleep(0)
                return True

            return pause

        monkeypatch.setattr(SchedulingLoop, "_slices", pause_always)
        cluster.add_group(200)
        cluster.add_members(200)
        cluster.tick(0.1)
        assert len(handled) >= 200, "once for each member"
        cluster.tick(2)
        cluster.validate()
        waiting = world.waiting()
        assert {each.pod for each in waiting} == {
            f"default/g-pod-{number}" for number in range(200)
        } - {f"default/{deleted}"}
        cluster.add_members(1)
        for number in range(100):
            cluster.add_node(node(f"m{number}", cpu=4))
        cluster.tick(30)
        assert len(cluster.bound()) == 200
        cluster.validate()
