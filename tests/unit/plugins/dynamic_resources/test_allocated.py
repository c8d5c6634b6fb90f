"""Devices stay taken exactly as long as a claim holds them."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.dynamic_resources.allocated import AllocatedDevices
from plugins.dynamic_resources.devices import DeviceID
from plugins.dynamic_resources.features import Features
from scheduler.api.devices import AllocationResult, ResourceClaim
from tests.unit.plugins.dynamic_resources.worlds import DRIVER, decoded


def allocation(*devices: str, **fields: Any) -> AllocationResult:
    """Return an allocation of devices of one pool."""
    results = [
        {"request": "r", "driver": DRIVER, "pool": "p", "device": each, **fields}
        for each in devices
    ]
    return decoded({"devices": {"results": results}}, AllocationResult)


def held(uid: str, allocated: AllocationResult | None) -> ResourceClaim:
    """Return a claim with an allocation."""
    claim = decoded({"metadata": {"name": uid, "uid": uid}}, ResourceClaim)
    claim.status.allocation = allocated
    return claim


def device(name: str) -> DeviceID:
    """Return the identity of a device."""
    return DeviceID(DRIVER, "p", name)


def test_an_allocation_begins_and_ends_with_its_claim() -> None:
    devices = AllocatedDevices(Features())
    claim = held("a", allocation("d0", "d1"))
    devices.claim_changed(None, claim)
    assert devices.state().exclusive == {device("d0"), device("d1")}
    devices.claim_changed(claim, held("a", None))
    assert not devices.state().exclusive
    devices.claim_changed(held("a", None), claim)
    devices.claim_changed(claim, None)
    assert not devices.state().exclusive
    assert len(devices) == 0


def test_an_allocation_in_flight_counts_once_when_it_is_stored() -> None:
    devices = AllocatedDevices(Features())
    decided = allocation("d0")
    devices.begin("a", decided)
    assert devices.is_in_flight("a")
    devices.claim_changed(held("a", None), held("a", decided))
    devices.end("a")
    assert not devices.is_in_flight("a")
    assert devices.state().exclusive == {device("d0")}
    devices.claim_changed(held("a", decided), None)
    assert not devices.state().exclusive


def test_an_allocation_that_failed_is_given_back() -> None:
    devices = AllocatedDevices(Features())
    devices.begin("a", allocation("d0"))
    devices.end("a")
    devices.end("a")
    assert not devices.state().exclusive


def test_a_device_of_two_claims_is_free_after_both() -> None:
    devices = AllocatedDevices(Features())
    for uid in ("a", "b"):
        devices.claim_changed(None, held(uid, allocation("d0")))
    devices.claim_changed(held("a", allocation("d0")), None)
    assert devices.state().exclusive == {device("d0")}
    devices.claim_changed(held("b", allocation("d0")), None)
    assert not devices.state().exclusive


def test_admin_access_keeps_a_device_from_nobody() -> None:
    devices = AllocatedDevices(Features())
    devices.claim_changed(None, held("a", allocation("d0", adminAccess=True)))
    assert not devices.state().exclusive


def test_shares_of_a_device_add_up() -> None:
    devices = AllocatedDevices(Features())
    shares = [
        held(uid, allocation("d0", shareID=uid, consumedCapacity={"memory": amount}))
        for uid, amount in (("a", "4Gi"), ("b", "512Mi"))
    ]
    for each in shares:
        devices.claim_changed(None, each)
    assert devices.state().shared == {device("d0")}
    assert str(devices.state().consumed[device("d0")]["memory"]) == "4608Mi"
    devices.claim_changed(shares[0], None)
    assert str(devices.state().consumed[device("d0")]["memory"]) == "512Mi"
    devices.claim_changed(shares[1], None)
    assert not devices.state().consumed
    assert not devices.state().shared


def test_a_share_is_exclusive_if_the_feature_is_off() -> None:
    devices = AllocatedDevices(Features(consumable_capacity=False))
    devices.claim_changed(None, held("a", allocation("d0", shareID="x")))
    assert devices.state().exclusive == {device("d0")}


steps = st.lists(
    st.tuples(
        st.sampled_from(["store", "delete", "begin", "end"]),
        st.sampled_from("abc"),
        st.sets(st.sampled_from(["d0", "d1", "d2"]), max_size=2),
    ),
    max_size=12,
)


@given(steps)
@settings(max_examples=40, deadline=None)
def test_what_is_taken_is_what_the_claims_hold(changes: list[tuple[str, str, set[str]]]) -> None:
    devices = AllocatedDevices(Features())
    stored: dict[str, ResourceClaim] = {}
    in_flight: dict[str, AllocationResult] = {}
    for change, uid, names in changes:
        decided = allocation(*sorted(names))
        if change == "store":
            claim = held(uid, decided if names else None)
            devices.claim_changed(stored.get(uid), claim)
            stored[uid] = claim
        elif change == "delete":
            devices.claim_changed(stored.pop(uid, None), None)
        elif change == "begin":
            devices.begin(uid, decided)
            in_flight[uid] = decided
        else:
            devices.end(uid)
            in_flight.pop(uid, None)
        allocations = [each.status.allocation for each in stored.values()]
        taken = {
            result.device
            for each in (*allocations, *in_flight.values())
            if each is not None
            for result in each.devices.results
        }
        assert {each.device for each in devices.state().exclusive} == taken
