"""A scheduler gives back what it allocated later than another one."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework import Code, OutcomeUnknownError, WriteConflictError
from tests.unit.plugins.clusters import pod as plain_pod
from tests.unit.plugins.dynamic_resources.objects import DeviceCluster, device
from tests.unit.plugins.dynamic_resources.worlds import DRIVER, request

LATE = "claim default/c: another scheduler allocated the same devices or capacity at the same time"
UNKNOWN = OutcomeUnknownError("timeout")
CONFLICT = WriteConflictError("the object has been modified", 409)


def result(name: str = "d0", **parts: Any) -> dict[str, Any]:
    """Return a result of an allocation on node n1."""
    return {"request": "r", "driver": DRIVER, "pool": "n1", "device": name, **parts}


def share(amount: str, number: int) -> dict[str, Any]:
    """Return a share of device d0."""
    uid = f"00000000-0000-4000-8000-{number:012}"
    return result(shareID=uid, consumedCapacity={"memory": amount})


def allocate(world: DeviceCluster, name: str, *results: dict[str, Any], **status: Any) -> None:
    """Allocate a claim as another scheduler would; it may be new."""
    if name not in world.api.stored:
        world.add_claim(name)
    stored = world.api.stored[name]
    allocation = {"devices": {"results": list(results)}}
    world.api.put({**stored, "status": {"allocation": allocation, **status}})


def exclusive_world() -> DeviceCluster:
    """Return a node with two devices, and a claim for one."""
    world = DeviceCluster("n1")
    world.add_class()
    world.add_slice("n1", device("d0"), device("d1"))
    world.add_claim()
    return world


def shared_world() -> DeviceCluster:
    """Return a node with one device of 10Gi, and a claim for 6Gi of it."""
    world = DeviceCluster("n1")
    world.add_class()
    capacity = {"memory": {"value": "10Gi"}}
    world.add_slice("n1", device("d0", allowMultipleAllocations=True, capacity=capacity))
    world.add_claim("c", request(capacity={"requests": {"memory": "6Gi"}}))
    return world


def partitioned_world() -> DeviceCluster:
    """Return a node with a device of 8 units in halves and as a whole, and a claim for a half."""
    world = DeviceCluster("n1")
    world.add_class()
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}

    def partition(name: str, amount: int) -> dict[str, Any]:
        counters = {"units": {"value": str(amount)}}
        return device(name, consumesCounters=[{"counterSet": "s", "counters": counters}])

    halves = partition("d0", 4), partition("d1", 4), partition("whole", 8)
    world.add_slice("n1", *halves, pool=pool)
    counters = [{"name": "s", "counters": {"units": {"value": "8"}}}]
    world.add_slice("n1", pool=pool, sharedCounters=counters, name="counters")
    world.add_claim()
    return world


def finish(world: DeviceCluster, state: Any, subject: Any) -> str:
    """Run PreBind; return its failure, after Unreserve."""
    status = world.pre_bind(state, subject)
    if status is None:
        return ""
    assert status.code is Code.ERROR
    world.plugin.unreserve(state, subject, "n1")
    world.finish()
    return str(status.message)


@pytest.mark.parametrize(
    ("world", "theirs"),
    [
        (exclusive_world(), [result()]),
        (exclusive_world(), [result(shareID="00000000-0000-4000-8000-000000000000")]),
        (shared_world(), [share("3Gi", 1), share("2Gi", 2)]),
        (shared_world(), [result()]),
        (partitioned_world(), [result("d1"), result("d0")]),
        (partitioned_world(), [result("whole")]),
    ],
)
def test_the_later_claim_gives_devices_and_capacity_back(
    world: DeviceCluster, theirs: list[dict[str, Any]]
) -> None:
    world.add_claim("theirs")
    subject = world.pod("c")
    state = world.reserved(subject)
    allocate(world, "theirs", *theirs)
    assert finish(world, state, subject) == LATE
    assert world.status_of("c") == {}
    assert not list(world.devices.allocated.in_flight())
    world.devices.validate()


@pytest.mark.parametrize(
    ("world", "theirs"),
    [
        (shared_world(), [share("3Gi", 1), share("1Gi", 2)]),
        (partitioned_world(), [result("d1")]),
        (exclusive_world(), [result("d1")]),
        (exclusive_world(), [result(adminAccess=True)]),
    ],
)
def test_claims_that_leave_enough_room_are_no_rivals(
    world: DeviceCluster, theirs: list[dict[str, Any]]
) -> None:
    world.add_claim("theirs")
    subject = world.pod("c")
    state = world.reserved(subject)
    allocate(world, "theirs", *theirs)
    assert finish(world, state, subject) == ""


def test_the_earlier_claim_keeps_its_share() -> None:
    world = shared_world()
    world.add_claim("theirs")
    subject = world.pod("c")
    assert finish(world, world.reserved(subject), subject) == ""
    allocate(world, "theirs", share("6Gi", 1))
    assert not world.devices.precedence.is_late("uid-c")
    assert world.devices.precedence.is_late("uid-theirs")


def test_a_relist_that_shows_claims_in_another_order_changes_nothing() -> None:
    world = exclusive_world()
    world.add_claim("first")
    world.api.lagging = True
    allocate(world, "first", result())
    allocate(world, "c", result())
    # The list has the newest state of each claim, sorted by name.
    world.api._unshown.reverse()
    world.api.show()
    assert world.devices.precedence.is_late("uid-c")
    assert not world.devices.precedence.is_late("uid-first")


def killed_world() -> DeviceCluster:
    """Return what a new process finds: two claims with one device, and a pod that has no node."""
    world = exclusive_world()
    world.api.remove("c")
    for name, pod in (("c", "p"), ("theirs", "other")):
        reserved = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"}]
        status = {"allocation": {"devices": {"results": [result()]}}, "reservedFor": reserved}
        world.add_claim(name, status=status)
    return world


def test_a_claim_of_a_killed_process_is_given_back_if_another_has_its_device() -> None:
    world = killed_world()
    subject = world.pod("c")
    assert finish(world, world.reserved(subject), subject) == LATE
    assert world.status_of("c") == {}
    assert world.taken() == {"n1/d0"}, "that of the other claim"


def test_a_claim_that_a_bound_pod_uses_is_not_given_back() -> None:
    world = killed_world()
    metadata = {"name": "user", "namespace": "default", "uid": "uid-user"}
    bound = plain_pod({"nodeName": "n1"}, metadata=metadata)
    world.cluster.add_object("pods", bound)
    stored = world.api.stored["c"]
    users = [{"resource": "pods", "name": "user", "uid": "uid-user"}]
    world.api.put({**stored, "status": {**stored["status"], "reservedFor": users}})
    subject = world.pod("c")
    assert finish(world, world.reserved(subject), subject) == ""
    assert [each["name"] for each in world.status_of("c")["reservedFor"]] == ["user", "p"]


def test_a_late_claim_that_another_pod_is_about_to_use_binds_neither() -> None:
    world = killed_world()
    subject = world.pod("c", name="second")
    assert finish(world, world.reserved(subject), subject) == LATE
    assert [each["name"] for each in world.status_of("c")["reservedFor"]] == ["p"]
    first = world.pod("c")
    assert finish(world, world.reserved(first), first) == LATE
    assert world.status_of("c") == {}


@pytest.mark.parametrize(
    ("stored", "problem"), [(False, CONFLICT), (False, UNKNOWN), (True, UNKNOWN)]
)
def test_giving_back_is_repeated_after_a_failure(stored: bool, problem: Exception) -> None:
    world = killed_world()
    world.api.failures = [(stored, problem)]
    subject = world.pod("c")
    assert finish(world, world.reserved(subject), subject) == LATE
    assert world.status_of("c") == {}


def test_a_failure_to_give_back_is_reported_and_made_up_for_by_the_next_attempt() -> None:
    world = killed_world()
    subject = world.pod("c")
    world.api.failures = [(False, CONFLICT)] * 5
    assert finish(world, world.reserved(subject), subject) == (
        f"{LATE}: the object has been modified"
    )
    assert world.status_of("c")["allocation"], "it stays until it can be given back"
    assert finish(world, world.reserved(subject), subject) == LATE
    assert world.status_of("c") == {}
