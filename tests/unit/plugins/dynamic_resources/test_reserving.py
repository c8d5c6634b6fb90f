"""Reservations of claims that are allocated already: many pods may reserve one at the same time."""

from __future__ import annotations

import pytest

from plugins.dynamic_resources.writing import CONFLICTS
from tests.unit.plugins.dynamic_resources.objects import DeviceCluster
from tests.unit.plugins.dynamic_resources.test_writing import (
    CONFLICT,
    STATUS,
    UNKNOWN,
    failed,
    world_of,
)
from tests.unit.plugins.dynamic_resources.worlds import DRIVER


def allocated_world() -> DeviceCluster:
    """Return a world whose claim a first pod has already."""
    world = world_of()
    first = world.pod("c", name="first")
    assert world.pre_bind(world.reserved(first), first) is None
    world.api.log.clear()
    return world


def test_pods_that_reserve_a_claim_at_the_same_time_do_not_conflict() -> None:
    world = allocated_world()
    pods = [world.pod("c", name=f"p{number}") for number in range(40)]
    states = [world.reserved(pod) for pod in pods]
    for state, pod in zip(states, pods, strict=True):
        assert world.pre_bind(state, pod) is None
    assert world.api.log == [STATUS] * 40
    assert (CONFLICTS,) not in world.counted
    assert len(world.status_of("c")["reservedFor"]) == 41
    world.plugin.unreserve(states[0], pods[0], "n1")
    world.finish()
    assert "p0" not in {each["name"] for each in world.status_of("c")["reservedFor"]}


@pytest.mark.parametrize("problem", [CONFLICT, UNKNOWN])
@pytest.mark.parametrize("stored", [False, True])
def test_a_reservation_is_repeated_and_conflicts_are_counted(
    problem: Exception, stored: bool
) -> None:
    world = allocated_world()
    subject = world.pod("c")
    state = world.reserved(subject)
    world.api.failures = [(stored, problem)] * 4
    assert world.pre_bind(state, subject) is None
    assert world.counted.count((CONFLICTS,)) == (4 if problem is CONFLICT else 0)
    assert len(world.status_of("c")["reservedFor"]) == 2


def test_a_reservation_is_tried_five_times() -> None:
    world = allocated_world()
    subject = world.pod("c")
    state = world.reserved(subject)
    world.api.failures = [(False, CONFLICT)] * 5
    assert failed(world, state, subject) == (
        "add reservation to claim default/c: the object has been modified"
    )
    assert world.api.log == [STATUS] * 5
    assert world.counted.count((CONFLICTS,)) == 5


@pytest.mark.parametrize("change", ["deleted", "deallocated", "reallocated", "replaced"])
def test_a_claim_that_changed_before_its_reservation_ends_prebind(change: str) -> None:
    world = allocated_world()
    subject = world.pod("c")
    state = world.reserved(subject)
    stored = world.api.stored["c"]
    metadata, status = dict(stored["metadata"]), dict(stored["status"])
    if change == "deleted":
        metadata["deletionTimestamp"] = "2025-06-15T00:00:00Z"
    elif change == "deallocated":
        status = {}
    elif change == "replaced":
        metadata["uid"] = "another"
    else:
        results = [{"request": "r", "driver": DRIVER, "pool": "n1", "device": "d1"}]
        status["allocation"] = {"devices": {"results": results}}
    world.api.put({**stored, "metadata": metadata, "status": status})
    text = failed(world, state, subject)
    texts = {
        "deleted": "claim default/c got deleted in the meantime",
        "deallocated": "add reservation to claim default/c: reservedFor may not be specified",
        "reallocated": "claim default/c got allocated elsewhere in the meantime",
        "replaced": "add reservation to claim default/c: the object has been modified",
    }
    assert text.startswith(texts[change])
    world.finish()
    consumers = world.status_of("c").get("reservedFor", ())
    assert "p" not in {each["name"] for each in consumers}
