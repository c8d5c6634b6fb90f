"""PreEnqueue holds the pods that share a claim while the claim is allocated for one of them."""

from __future__ import annotations

import pytest

from plugins.dynamic_resources.sharers import MAX_SHARERS
from scheduler.framework import CycleState
from tests.unit.plugins.dynamic_resources.objects import DeviceCluster, device

IN_FLIGHT = "resource claim default/c is in the process of being allocated"


@pytest.fixture
def world() -> DeviceCluster:
    found = DeviceCluster("n1")
    found.add_class()
    found.add_slice("n1", device("d"))
    found.add_claim("c")
    return found


def gate(world: DeviceCluster, name: str) -> str:
    """Run PreEnqueue for a pod that uses the claim; return why it is held, or ""."""
    status = world.plugin.pre_enqueue(world.pod("c", name=name))
    return "" if status is None else status.message


def rechecked(world: DeviceCluster) -> list[str]:
    """Return the pods that were rechecked since the last call."""
    found, world.cluster.rechecked[:] = list(world.cluster.rechecked), []
    return found


def test_the_other_pods_are_held_until_the_allocation_is_stored(world: DeviceCluster) -> None:
    assert [gate(world, name) for name in "pqr"] == ["", "", ""]
    first = world.pod("c", name="p")
    state = world.reserved(first)
    assert rechecked(world) == ["uid-q", "uid-r"]
    assert [gate(world, name) for name in "qrs"] == [IN_FLIGHT] * 3
    assert world.pre_bind(state, first) is None
    # The watch shows the allocation before the response comes, and its event wakes the pods.
    assert rechecked(world) == []
    assert [gate(world, name) for name in "qrs"] == ["", "", ""]
    assert len(world.devices.sharers) == 0


def test_they_do_not_wait_for_the_watch(world: DeviceCluster) -> None:
    assert [gate(world, name) for name in "pq"] == ["", ""]
    first = world.pod("c", name="p")
    state = world.reserved(first)
    world.api.lagging = True
    assert world.pre_bind(state, first) is None
    # Once to be held, and once to be let in.
    assert rechecked(world) == ["uid-q", "uid-q"]
    assert gate(world, "q") == ""
    assert len(world.devices.sharers) == 0


def test_the_other_pods_are_let_in_when_the_allocation_fails(world: DeviceCluster) -> None:
    assert [gate(world, name) for name in "pq"] == ["", ""]
    first = world.pod("c", name="p")
    state = world.reserved(first)
    rechecked(world)
    world.plugin.unreserve(state, first, "n1")
    assert rechecked(world) == ["uid-q"]
    assert gate(world, "q") == ""


def test_a_trial_holds_nobody(world: DeviceCluster) -> None:
    assert gate(world, "q") == ""
    first = world.pod("c", name="p")
    state = CycleState(now=world.now)
    assert world.plugin.pre_filter(state, first, world.cluster.table) is None
    assert world.plugin.reserve(state, first, "n1") is None
    assert rechecked(world) == []
    world.plugin.unreserve(state, first, "n1")


def test_claims_that_are_deleted_or_allocated_are_forgotten(world: DeviceCluster) -> None:
    world.add_claim("other")
    for name in ("c", "other"):
        assert world.plugin.pre_enqueue(world.pod(name, name="p")) is None
    assert len(world.devices.sharers) == 2
    world.api.remove("other")
    assert len(world.devices.sharers) == 1
    stored = world.api.stored["c"]
    world.api.put({**stored, "status": {"allocation": {"devices": {}}}})
    assert len(world.devices.sharers) == 0


def test_pods_that_come_and_go_are_not_remembered_for_ever(world: DeviceCluster) -> None:
    for number in range(2 * MAX_SHARERS):
        gate(world, f"p{number}")
    world.reserved(world.pod("c", name="p"))
    assert len(rechecked(world)) == MAX_SHARERS
