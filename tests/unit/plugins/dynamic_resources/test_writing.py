"""PreBind and Unreserve: what is written, and what happens when a write fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.framework import Code, CycleState, OutcomeUnknownError, WriteConflictError
from tests.unit.plugins.dynamic_resources.objects import (
    FINALIZER,
    NOW,
    DeviceCluster,
    device,
)

CONFLICT = WriteConflictError("the object has been modified", 409)
UNKNOWN = OutcomeUnknownError("timeout")
STATUS = ("patch", "resourceclaims/status", "c")


def world_of(**gates: bool) -> DeviceCluster:
    """Return a node with two devices, and a claim for one."""
    world = DeviceCluster("n1", **gates)
    world.add_class()
    world.add_slice("n1", device("d0"), device("d1"))
    world.add_claim()
    return world


def failed(world: DeviceCluster, state: Any, subject: Any) -> str:
    """Run PreBind, which fails, and Unreserve; return the text."""
    status = world.pre_bind(state, subject)
    assert status is not None
    assert status.code is Code.ERROR
    world.plugin.unreserve(state, subject, "n1")
    return str(status.message)


def test_the_claim_gets_finalizer_allocation_and_reservation() -> None:
    world = world_of()
    subject = world.pod("c")
    assert world.pre_bind(world.reserved(subject), subject) is None
    assert world.api.log == [("patch", "resourceclaims", "c"), STATUS]
    stored = world.api.stored["c"]
    assert stored["metadata"]["finalizers"] == [FINALIZER]
    status = stored["status"]
    assert status["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    assert status["allocation"]["allocationTimestamp"] == "2025-06-15T15:06:40Z"
    assert world.taken() == {"n1/d0"}
    assert not list(world.devices.allocated.in_flight())


def test_devices_stay_taken_while_the_watch_lags_behind() -> None:
    world = world_of()
    subject = world.pod("c")
    state = world.reserved(subject)
    world.api.lagging = True
    seen: list[set[str]] = []
    world.api.meanwhile = [lambda: seen.append(world.taken())]
    assert world.pre_bind(state, subject) is None
    assert world.taken() == {"n1/d0"}
    world.api.show()
    assert world.taken() == {"n1/d0"}
    assert len(world.devices.claims) == 0


def test_an_allocated_claim_is_only_reserved() -> None:
    world = world_of()
    first, second = world.pod("c"), world.pod("c", name="q")
    world.pre_bind(world.reserved(first), first)
    world.api.log.clear()
    assert world.pre_bind(world.reserved(second), second) is None
    assert world.api.log == [STATUS]
    assert {each["name"] for each in world.status_of("c")["reservedFor"]} == {"p", "q"}


@pytest.mark.parametrize("problem", [CONFLICT, UNKNOWN])
@pytest.mark.parametrize("stored", [False, True])
def test_a_write_is_repeated_with_the_newest_claim(problem: Exception, stored: bool) -> None:
    world = world_of()
    subject = world.pod("c")
    state = world.reserved(subject)
    world.api.failures = [None, (stored, problem)]
    assert world.pre_bind(state, subject) is None
    assert len(world.status_of("c")["reservedFor"]) == 1
    assert world.taken() == {"n1/d0"}


def test_five_conflicts_are_an_error_and_give_the_devices_back() -> None:
    world = world_of()
    subject = world.pod("c")
    state = world.reserved(subject)
    world.api.failures = [None, *[(False, CONFLICT)] * 5]
    assert failed(world, state, subject) == (
        "add allocation and reservation to claim default/c: the object has been modified"
    )
    assert not world.taken()


def test_devices_stay_taken_until_the_outcome_of_a_write_is_known() -> None:
    world = world_of()
    subject = world.pod("c")
    state = world.reserved(subject)
    world.api.lagging = True
    world.api.failures = [None, *[(False, UNKNOWN)] * 4, (True, UNKNOWN)]
    assert failed(world, state, subject).endswith("timeout")
    # Nobody knows that it was stored in the end.
    assert world.taken() == {"n1/d0"}
    world.finish()
    assert world.status_of("c")["allocation"]
    assert world.taken() == {"n1/d0"}
    assert not list(world.devices.allocated.in_flight())


def test_devices_are_free_when_a_write_turns_out_not_to_be_stored() -> None:
    world = world_of()
    subject = world.pod("c")
    state = world.reserved(subject)
    world.api.failures = [None, *[(False, UNKNOWN)] * 5]
    failed(world, state, subject)
    assert world.taken() == {"n1/d0"}
    world.finish()
    assert not world.taken()


def test_a_conflict_with_a_write_that_was_stored_late_leaves_its_devices_taken() -> None:
    world = world_of()
    subject = world.pod("c")
    state = world.reserved(subject)
    world.api.lagging = True
    write, tries = world.api.patch, []

    async def patch(*args: Any, **kwargs: Any) -> Any:
        if args[-1] != "status":
            return await write(*args, **kwargs)
        tries.append(args)
        if len(tries) < 5:
            raise UNKNOWN
        await write(*tries[0], **kwargs)
        return await write(*args, **kwargs)

    world.api.patch = patch  # type: ignore[method-assign]
    assert failed(world, state, subject).endswith("the object has been modified")
    assert world.taken() == {"n1/d0"}, "the first try was executed in the end"
    world.api.patch = write  # type: ignore[method-assign]
    world.finish()
    assert world.taken() == {"n1/d0"}
    assert not list(world.devices.allocated.in_flight())


def test_devices_stay_taken_after_a_cancellation_until_the_outcome_is_known() -> None:
    """A preemptor ends PreBind of its victims, and so does a failure beside it."""
    world = world_of()
    subject, later = world.pod("c"), world.pod("c", name="later")
    state = world.reserved(subject)
    world.api.lagging = True
    world.api.failures = [None, (True, asyncio.CancelledError())]  # type: ignore[list-item]
    with pytest.raises(asyncio.CancelledError):
        world.pre_bind(state, subject)
    world.plugin.unreserve(state, subject, "n1")
    assert world.taken() == {"n1/d0"}
    assert world.filtered(later)[1] == {
        "*": "resource claim default/c is in the process of being allocated"
    }
    world.finish()
    assert world.taken() == {"n1/d0"}
    assert not list(world.devices.allocated.in_flight())


def test_pods_are_woken_when_a_write_turns_out_not_to_be_stored() -> None:
    world = world_of()
    subject, other = world.pod("c"), world.pod("c", name="other")
    state = world.reserved(subject)
    world.api.failures = [None, *[(False, UNKNOWN)] * 5]
    failed(world, state, subject)
    world.filtered(other)
    assert world.woken == []
    world.finish()
    assert world.woken == ["uid-other"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"metadata": {"deletionTimestamp": "2025-06-15T00:00:00Z"}}, "got deleted"),
        ({"status": {"allocation": {"devices": {}}}}, "got allocated elsewhere"),
    ],
)
def test_a_claim_that_changed_meanwhile_ends_prebind(change: dict[str, Any], text: str) -> None:
    world = world_of()
    subject = world.pod("c")
    state = world.reserved(subject)
    stored = world.api.stored["c"]
    metadata = {**stored["metadata"], **change.get("metadata", {})}
    world.api.put({**stored, **change, "metadata": metadata})
    assert failed(world, state, subject) == f"claim default/c {text} in the meantime"
    assert not world.taken()


def test_a_claim_that_is_gone_ends_prebind() -> None:
    world = world_of()
    subject = world.pod("c")
    state = world.reserved(subject)
    world.api.remove("c")
    assert "not found" in failed(world, state, subject)
    assert not world.taken()


def test_unreserve_after_prebind_removes_the_reservation_and_keeps_the_allocation() -> None:
    world = world_of()
    subject = world.pod("c")
    state = world.reserved(subject)
    world.pre_bind(state, subject)
    world.plugin.unreserve(state, subject, "n1")
    world.plugin.unreserve(state, subject, "n1")
    world.finish()
    assert world.api.log[2:] == [STATUS]
    assert world.status_of("c")["reservedFor"] == []
    assert world.taken() == {"n1/d0"}


def test_of_two_schedulers_that_allocate_one_device_the_later_one_gives_it_back() -> None:
    world = world_of()
    world.add_claim("theirs")
    subject = world.pod("c")
    state = world.reserved(subject)
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "d0"}
    allocated = {"allocation": {"devices": {"results": [result]}}}
    world.api.put({**world.api.stored["theirs"], "status": allocated})
    assert failed(world, state, subject) == (
        "claim default/c: another scheduler allocated the same devices or capacity at the same time"
    )
    assert world.status_of("c") == {}
    assert world.taken() == {"n1/d0"}


def test_of_two_schedulers_that_allocate_one_device_the_earlier_one_keeps_it() -> None:
    world = world_of()
    world.add_claim("theirs")
    subject = world.pod("c")
    state = world.reserved(subject)
    assert world.pre_bind(state, subject) is None
    allocated = {"allocation": world.status_of("c")["allocation"]}
    world.api.put({**world.api.stored["theirs"], "status": allocated})
    assert not world.devices.precedence.is_late("uid-c")
    assert world.devices.precedence.is_late("uid-theirs")


# -- extended resources --------------------------------------------------------------------------

EXTENDED = "p-extended-resources-1"


def extended_world() -> tuple[DeviceCluster, Any]:
    """Return a cluster whose devices serve an extended resource, and a pod that asks for it."""
    world = DeviceCluster("n1")
    world.add_class(extendedResourceName="example.com/gpu")
    world.add_slice("n1", device("d0"), device("d1"))
    requests = {"requests": {"example.com/gpu": "1"}}
    return world, world.pod(containers=[{"name": "main", "resources": requests}])


def test_a_claim_is_created_for_extended_resources() -> None:
    world, subject = extended_world()
    world.api.lagging = True
    assert world.pre_bind(world.reserved(subject), subject) is None
    assert world.api.log == [
        ("create", "claim", EXTENDED),
        ("patch", "resourceclaims", EXTENDED),
        ("patch", "resourceclaims/status", EXTENDED),
        ("patch", "pods/status", "p"),
    ]
    mapping = {
        "containerName": "main",
        "resourceName": "example.com/gpu",
        "requestName": "container-0-request-0",
    }
    assert world.api.pod_patches == [
        {
            "status": {
                "extendedResourceClaimStatus": {
                    "resourceClaimName": EXTENDED,
                    "requestMappings": [mapping],
                }
            }
        }
    ]
    assert world.taken() == {"n1/d0"}
    assert not list(world.devices.allocated.in_flight())
    created = "dynamic_resource_allocation_resourceclaim_creates_total"
    assert (created, "success", "false", "", "Pod") in world.counted


def test_the_claim_that_prebind_made_is_not_stale_when_the_node_is_filtered_again() -> None:
    """Before the bind, if another writer changed the node."""
    world, subject = extended_world()
    state, table = world.reserved(subject), world.cluster.table
    assert world.pre_bind(state, subject) is None
    again = CycleState(state.now, dict(state.data))
    again.info = state.info
    assert world.plugin.pre_filter(again, subject, table) is None
    assert world.plugin.filter(again, subject, table.node_info(0)) is None
    world.plugin.unreserve(state, subject, "n1")
    world.finish()
    assert not world.api.stored


def test_the_deletion_of_another_claim_leaves_the_one_that_the_pod_has() -> None:
    """After a creation without response there may be two."""
    world, subject = extended_world()
    assert world.pre_bind(world.reserved(subject), subject) is None
    extra = world.api.stored[EXTENDED]
    metadata = {**extra["metadata"], "name": "second", "uid": "second"}
    for name in ("second", EXTENDED):
        world.api.put({**extra, "metadata": metadata} if name == "second" else extra)
    world.api.remove("second")
    found = world.devices.extra_claim(subject)
    assert found is not None
    assert found.metadata.name == EXTENDED


def test_unreserve_deletes_the_claim_for_extended_resources() -> None:
    world, subject = extended_world()
    state = world.reserved(subject)
    world.pre_bind(state, subject)
    world.plugin.unreserve(state, subject, "n1")
    world.finish()
    assert not world.api.stored
    assert not world.taken()


def test_a_claim_left_over_from_an_earlier_attempt_is_deleted_by_post_filter() -> None:
    world, subject = extended_world()
    world.pre_bind(world.reserved(subject), subject)
    state, found = world.filtered(subject)
    assert found == {"n1": "cannot schedule extended resource claim"}
    result = world.plugin.post_filter(state, subject, None)  # type: ignore[arg-type]
    assert result.status is not None
    assert result.status.message == "deletion of ResourceClaim completed"
    world.finish()
    assert not world.api.stored
    assert not world.taken()


# -- binding conditions --------------------------------------------------------------------------


def conditions_world() -> tuple[DeviceCluster, Any, Any]:
    """Return a cluster whose device has to be attached, a pod, and its state after Reserve."""
    world = DeviceCluster("n1")
    world.add_class()
    conditions = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
    world.add_slice("n1", device("d0", **conditions))
    world.add_claim()
    subject = world.pod("c")
    return world, subject, world.reserved(subject)


def report(world: DeviceCluster, condition: str) -> None:
    """Let the driver report a condition of the device."""
    stored = world.api.stored["c"]
    reported = {
        "driver": "gpu.example.com",
        "pool": "n1",
        "device": "d0",
        "conditions": [{"type": condition, "status": "True", "reason": "R", "message": "m"}],
    }
    world.api.put({**stored, "status": {**stored["status"], "devices": [reported]}})


def test_prebind_waits_for_the_conditions_of_devices() -> None:
    world, subject, state = conditions_world()
    world.api.meanwhile = [lambda: report(world, "Attached")]
    assert world.pre_bind(state, subject) is None
    assert world.events == [
        "BindingConditionsPending: waiting for binding conditions for device on node n1"
    ]
    labels = "scheduler_dra_bindingconditions_allocations_total", "kubestow", "gpu.example.com"
    assert (*labels, "success") in world.counted


def test_a_device_that_fails_ends_prebind_and_is_given_up() -> None:
    world, subject, state = conditions_world()
    world.api.meanwhile = [lambda: report(world, "Broken")]
    assert failed(world, state, subject) == (
        'device binding failed: claim=c, reason=R, message="m"'
    )
    world.finish()
    state, found = world.filtered(subject)
    assert found == {"n1": "resourceclaim not available on the node"}
    result = world.plugin.post_filter(state, subject, None)  # type: ignore[arg-type]
    assert result.status is not None
    assert result.status.message == "deallocation of ResourceClaim completed"
    world.finish()
    assert not world.taken()


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        (0.0, "device binding timeout: context deadline exceeded"),
        (600.0, "device binding timeout: claim=c"),
    ],
)
def test_a_device_that_is_not_ready_in_time_ends_prebind(passed: float, text: str) -> None:
    world, subject, state = conditions_world()

    def pass_time() -> None:
        world.now = NOW + passed

    world.api.meanwhile = [pass_time]
    assert failed(world, state, subject) == text
    world.finish()
    assert world.status_of("c")["reservedFor"] == []


def test_a_claim_that_vanishes_ends_the_wait() -> None:
    world, subject, state = conditions_world()
    world.api.meanwhile = [lambda: world.api.remove("c")]
    assert failed(world, state, subject) == 'could not find ResourceClaim "default/c"'
    assert not world.taken()
    with pytest.raises(WriteConflictError):
        world.finish()


def test_with_the_gate_off_devices_with_conditions_are_not_allocated() -> None:
    world = DeviceCluster("n1", DRADeviceBindingConditions=False)
    world.add_class()
    world.add_slice("n1", device("d0", bindingConditions=["Attached"]))
    world.add_claim()
    assert world.filtered(world.pod("c"))[1] == {"n1": "cannot allocate all claims"}
