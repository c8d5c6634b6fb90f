"""DynamicResources in the cycle: PreEnqueue to Reserve, PostFilter, hints, explanations."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from plugins import DynamicResources
from plugins.dynamic_resources.allocator import Allocator
from plugins.dynamic_resources.arguments import DynamicResourcesArgs
from plugins.dynamic_resources.budget import MAX_STEPS
from plugins.dynamic_resources.permissions import CLASSES, SLICES
from plugins.dynamic_resources.taint_rules import RULES
from scheduler.api.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from scheduler.framework import (
    SKIP,
    ActionType,
    ClusterEvent,
    Code,
    CycleState,
    EventResource,
    NodeToStatus,
    RejectedNodes,
    unschedulable,
)
from tests.unit.plugins.clusters import Cluster, hint, node, pod
from tests.unit.plugins.dynamic_resources.objects import DeviceCluster, device
from tests.unit.plugins.dynamic_resources.worlds import decoded, request

NO_DEVICES = "cannot allocate all claims"


def world_of(*nodes: str, devices: int = 2, **gates: bool) -> DeviceCluster:
    """Return a cluster with devices on each node, and a class for them."""
    world = DeviceCluster(*nodes, **gates)
    world.add_class()
    for name in nodes or ("n1", "n2"):
        world.add_slice(name, *(device(f"d{each}") for each in range(devices)))
    return world


def test_a_pod_without_claims_is_skipped() -> None:
    world = world_of()
    subject, state = world.pod(), CycleState()
    assert world.plugin.pre_enqueue(subject) is None
    assert world.plugin.pre_filter(state, subject, world.cluster.table) is SKIP
    assert world.plugin.name in state.skip_score
    assert world.plugin.reserve(state, subject, "n1") is None
    assert world.plugin.pre_bind_pre_flight(state, subject, "n1") is SKIP
    world.plugin.unreserve(state, subject, "n1")
    assert not world.background


def test_a_pod_waits_at_the_gate_until_its_claims_exist() -> None:
    world = world_of()
    subject = world.pod("c")
    status = world.plugin.pre_enqueue(subject)
    assert status is not None
    assert status.message == 'could not find ResourceClaim "default/c"'
    world.add_claim("c")
    assert world.plugin.pre_enqueue(subject) is None


def test_without_permission_to_read_pods_with_claims_wait() -> None:
    world = world_of()
    world.cluster.forbidden.add(("list", SLICES))
    world.add_claim()
    _, found = world.filtered(world.pod("c"))
    assert found == {
        "*": "the scheduler may not list resourceslices, so pods with resource claims wait"
    }
    assert world.plugin.pre_filter(CycleState(), world.pod(), world.cluster.table) is SKIP


def test_a_claim_fits_where_enough_devices_are_free() -> None:
    world = world_of()
    world.add_claim("c", request(count=2))
    world.add_claim("other")
    world.reserved(world.pod("other", name="q"))
    assert world.filtered(world.pod("c"))[1] == {"n1": NO_DEVICES}


def test_a_claim_that_another_pod_is_getting_is_not_allocated_twice() -> None:
    world = world_of()
    world.add_claim("c")
    state = world.reserved(world.pod("c"))
    second = world.pod("c", name="q")
    assert world.filtered(second)[1] == {
        "*": "resource claim default/c is in the process of being allocated"
    }
    world.plugin.unreserve(state, world.pod("c"), "n1")
    assert world.filtered(second)[1] == {}
    assert not world.taken()


def test_only_nodes_whose_devices_changed_are_searched_again() -> None:
    world = world_of("n1", "n2", "n3")
    for each in range(4):
        world.add_claim(f"c{each}")
    world.filtered(world.pod("c0"))
    searched: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        fits = Allocator.fits

        def noted(self: Allocator, node: Any, *rest: Any) -> bool:
            searched.append(node.metadata.name)
            return fits(self, node, *rest)

        patch.setattr(Allocator, "fits", noted)
        state, table = CycleState(), world.cluster.table

        def codes(name: str) -> list[int]:
            subject = world.pod(name, name=f"pod-{name}")
            assert world.plugin.pre_filter(state, subject, table) is None
            found: list[int] = world.plugin.filter_rows(state, subject, table, table.rows).tolist()
            return found

        assert codes("c1") == [0, 0, 0]
        assert searched == []
        assert world.plugin.reserve(state, world.pod("c1"), "n2") is None
        assert codes("c2") == [0, 0, 0]
        assert searched == ["n2"]
        searched.clear()
        world.add_slice("n3")
        assert [bool(each) for each in codes("c3")] == [False, False, True]
        assert searched == ["n3"]


def test_nodes_without_slices_share_one_result() -> None:
    world = DeviceCluster("n1", "n2", "n3", "n4")
    world.add_class()
    world.add_slice("n3", device("d"))
    world.add_claim()
    assert world.filtered(world.pod("c"))[1] == dict.fromkeys(("n1", "n2", "n4"), NO_DEVICES)


def test_a_class_that_vanishes_rejects_the_pod() -> None:
    world = world_of()
    world.add_claim()
    assert world.filtered(world.pod("c"))[1] == {}
    known = world.cluster.objects[CLASSES].get("gpu")
    world.cluster.delete_object(CLASSES, known)
    assert world.filtered(world.pod("c"))[1] == {"*": "request r: device class gpu does not exist"}


def test_an_allocated_claim_is_available_on_its_node_only() -> None:
    world = world_of()
    world.add_claim()
    subject = world.pod("c")
    state = world.reserved(subject)
    assert world.pre_bind(state, subject) is None
    other = world.pod("c", name="q")
    state, found = world.filtered(other)
    assert found == {"n2": "resourceclaim not available on the node"}
    result = world.plugin.post_filter(state, other, NodeToStatus())
    assert result.status is not None
    # The first pod still uses it.
    assert result.status == unschedulable()


def test_post_filter_gives_up_an_allocation_that_nobody_uses() -> None:
    world = world_of()
    world.add_claim()
    subject = world.pod("c")
    world.pre_bind(world.reserved(subject), subject)
    state, _ = world.filtered(subject)
    result = world.plugin.post_filter(state, subject, NodeToStatus())
    assert result.status is not None
    assert result.status.message == "deallocation of ResourceClaim completed"
    world.finish()
    assert world.status_of("c") == {}
    assert not world.taken()


def test_a_trial_of_post_filter_writes_nothing() -> None:
    world = world_of()
    world.add_claim()
    subject = world.pod("c")
    world.pre_bind(world.reserved(subject), subject)
    state, _ = world.filtered(subject)
    state.info = None
    world.plugin.post_filter(state, subject, NodeToStatus())
    assert not world.background


def test_a_failed_deallocation_wakes_the_pod() -> None:
    world = world_of()
    world.add_claim()
    subject = world.pod("c")
    world.pre_bind(world.reserved(subject), subject)
    state, _ = world.filtered(subject)
    world.plugin.post_filter(state, subject, NodeToStatus())
    world.api.failures = [(False, RuntimeError("down"))]
    with pytest.raises(RuntimeError, match="down"):
        world.finish()
    assert world.woken == ["uid-p"]


@pytest.mark.parametrize("ran", [True, False])
def test_post_filter_without_claims(ran: bool) -> None:
    plugin = DynamicResources(None, Cluster().handle())
    state = CycleState()
    if ran:
        plugin.pre_filter(state, pod(), Cluster().table)
    result = plugin.post_filter(state, pod(), NodeToStatus())
    assert result.status is not None
    expected = (Code.UNSCHEDULABLE, "") if ran else (Code.ERROR, "not found")
    assert (result.status.code, result.status.message) == expected


def test_the_first_alternative_is_preferred() -> None:
    world = world_of("n1", "n2", "n3")
    world.add_class("large", 'device.attributes["gpu.example.com"].large')
    world.add_slice("n1", device("d", attributes={"large": {"bool": True}}))
    for name in ("n2", "n3"):
        world.add_slice(name, device("d", attributes={"large": {"bool": False}}))
    world.add_slice("n3")
    small = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    alternatives = [{"name": "l", **small, "deviceClassName": "large"}, {"name": "s", **small}]
    world.add_claim("c", {"name": "r", "firstAvailable": alternatives})
    subject, table = world.pod("c"), world.cluster.table
    state, found = world.filtered(subject)
    assert found == {"n3": NO_DEVICES}
    rows = table.rows[:2]
    assert world.plugin.name not in state.skip_score
    raw = world.plugin.score_rows(state, subject, table, rows)
    assert raw.tolist() == [8, 7]
    assert [world.plugin.score(state, subject, table.node_info(int(each))) for each in rows] == [
        8,
        7,
    ]
    assert world.plugin.normalize_scores(state, subject, table, rows, raw).tolist() == [100, 87]


def test_pods_without_alternatives_are_not_scored() -> None:
    world = world_of()
    world.add_claim()
    state, _ = world.filtered(world.pod("c"))
    assert world.plugin.name in state.skip_score


def test_an_error_on_a_node_is_an_error_of_the_attempt_and_no_fault_of_the_plugin() -> None:
    world = world_of()
    world.add_class("gpu", "device.attributes['nowhere'].x == 1")
    world.add_claim()
    subject, table = world.pod("c"), world.cluster.table
    state = CycleState()
    assert world.plugin.pre_filter(state, subject, table) is None
    status = world.plugin.filter(state, subject, table.node_info(0))
    assert status is not None
    assert status.code is Code.ERROR
    assert status.message == (
        "class gpu: selector #0 on device gpu.example.com/n1/d0: CEL runtime error: "
        "no such key: x. consider using CEL optional chaining (.? followed by orValue()) or "
        "guarding the check with has() for optional fields"
    )


def test_a_search_ends_after_its_time_and_goes_on_in_the_next_attempt() -> None:
    world = world_of("n1")
    # More devices than are there, all different for the constraint: the search is exponential.
    world.add_slice("n1", *(device(f"d{n}", attributes={"a": {"int": n % 29}}) for n in range(30)))
    constraint = {"distinctAttribute": "gpu.example.com/a", "requests": []}
    world.api.put(
        {
            "metadata": {"name": "c", "namespace": "default", "uid": "uid-c"},
            "spec": {"devices": {"requests": [request(count=31)], "constraints": [constraint]}},
        }
    )

    def passing() -> float:
        world.monotonic += 0.1
        return world.monotonic

    world.handle.clock.monotonic = passing
    plugin = DynamicResources(DynamicResourcesArgs(), world.handle)
    state, table = CycleState(), world.cluster.table
    assert plugin.pre_filter(state, world.pod("c"), table) is None
    status = plugin.filter(state, world.pod("c"), table.node_info(0))
    assert status is not None
    assert (status.code, status.message) == (
        Code.ERROR,
        "node n1: timed out trying to allocate devices",
    )
    assert world.monotonic < MAX_STEPS


def test_ten_thousand_devices_on_a_node_are_searched_once() -> None:
    world = DeviceCluster("n1", "n2")
    world.add_class("gpu", 'device.driver == "gpu.example.com"')
    for number in range(79):
        devices = [device(f"d{number}-{each}") for each in range(128)]
        raw = {
            "driver": "gpu.example.com",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 79},
            "nodeName": "n1",
            "devices": devices,
        }
        made = decoded({"metadata": {"name": f"s{number:02}"}, "spec": raw}, ResourceSlice)
        world.cluster.add_object(SLICES, made)
    world.add_claim("c", request(count=32))
    assert world.filtered(world.pod("c"))[1] == {"n2": NO_DEVICES}
    assert world.devices.selectors.evaluations <= 32


def test_extended_resources_are_served_by_devices_where_the_node_has_none() -> None:
    world = DeviceCluster("n1", "n2", "n3")
    world.cluster.cache.set_node(node("n3", allocatable={"example.com/gpu": 4, "cpu": 4}))
    world.add_class(extendedResourceName="example.com/gpu")
    world.add_slice("n1", device("d0"), device("d1"))
    requests = {"requests": {"example.com/gpu": "2"}}
    subject = world.pod(containers=[{"name": "main", "resources": requests}])
    state, found = world.filtered(subject)
    assert found == {"n2": NO_DEVICES}
    assert world.plugin.reserve(state, subject, "n3") is None
    assert not world.taken()
    assert world.plugin.reserve(state, subject, "n1") is None
    assert world.taken() == {"n1/d0", "n1/d1"}
    world.plugin.unreserve(state, subject, "n1")
    assert not world.taken()


def test_with_the_gate_off_extended_resources_are_not_looked_at() -> None:
    world = DeviceCluster("n1", DRAExtendedResource=False)
    world.add_class(extendedResourceName="example.com/gpu")
    requests = {"requests": {"example.com/gpu": "2"}}
    subject = world.pod(containers=[{"name": "main", "resources": requests}])
    assert world.filtered(subject)[1] == {"*": "Skip"}


def test_taint_rules_count_with_their_gate() -> None:
    world = world_of("n1", DRADeviceTaintRules=True)
    world.add_claim()
    assert RULES in world.plugin.required_resources
    assert world.filtered(world.pod("c"))[1] == {}
    rule = {
        "metadata": {"name": "broken"},
        "spec": {"deviceSelector": {"pool": "n1"}, "taint": {"key": "k", "effect": "NoSchedule"}},
    }
    made = decoded(rule, DeviceTaintRule)
    world.cluster.add_object(RULES, made)
    assert world.filtered(world.pod("c"))[1] == {"n1": NO_DEVICES}
    world.cluster.delete_object(RULES, made)
    assert world.filtered(world.pod("c"))[1] == {}


# -- hints ---------------------------------------------------------------------------------------


def claim_of(name: str, **status: Any) -> ResourceClaim:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return decoded({"metadata": metadata, "status": status}, ResourceClaim)


def test_hints_of_claims() -> None:
    world = world_of()
    world.add_claim()
    subject = world.pod("c")
    update = ClusterEvent(EventResource.RESOURCE_CLAIM, ActionType.UPDATE)
    add = ClusterEvent(EventResource.RESOURCE_CLAIM, ActionType.ADD)
    allocated: dict[str, Any] = {"allocation": {"devices": {}}}
    own, other = claim_of("c"), claim_of("x")
    assert hint(world.plugin, add, subject, None, own)
    assert not hint(world.plugin, add, subject, None, other)
    assert hint(world.plugin, update, subject, claim_of("x", **allocated), other)
    assert not hint(world.plugin, update, subject, own, claim_of("c"))
    assert hint(world.plugin, update, subject, own, claim_of("c", **allocated))
    # The pod still waits for its other claim.
    assert not hint(
        world.plugin, update, world.pod("c", "missing"), own, claim_of("c", **allocated)
    )


def test_hints_of_other_objects() -> None:
    world = world_of()
    world.add_claim()
    subject = world.pod("c")
    generated = ClusterEvent(
        EventResource.TARGET_POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
    )
    assert hint(world.plugin, generated, subject, subject, subject)
    assert not hint(world.plugin, generated, subject, None, world.pod("c", name="q"))
    assert not hint(world.plugin, generated, subject, None, world.pod("missing"))
    for resource in (EventResource.DEVICE_CLASS, EventResource.RESOURCE_SLICE, EventResource.NODE):
        assert hint(world.plugin, ClusterEvent(resource, ActionType.ADD), subject, None, node())
    deleted = ClusterEvent(EventResource.DEVICE_CLASS, ActionType.DELETE)
    assert not hint(world.plugin, deleted, subject, decoded({}, DeviceClass), None)


# -- explanations, arguments ---------------------------------------------------------------------


def test_the_explanation_counts_devices_and_what_they_lack() -> None:
    world = DeviceCluster("n1")
    world.add_class("gpu", 'device.driver == "gpu.example.com"')
    sizes = ["40Gi"] * 3 + ["20Gi"] * 5
    world.add_slice(
        "n1",
        *(
            device(f"d{number}", capacity={"memory": {"value": size}})
            for number, size in enumerate(sizes)
        ),
    )
    large = 'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'
    world.add_claim("taken", request(selectors=[{"cel": {"expression": large}}]))
    world.reserved(world.pod("taken", name="q"))
    world.add_claim("c", request(count=3, selectors=[{"cel": {"expression": large}}]))
    subject, table = world.pod("c"), world.cluster.table
    state, found = world.filtered(subject)
    assert found == {"n1": NO_DEVICES}
    rows = RejectedNodes(
        world.plugin.filter_status(state, subject, 1), table.rows, lambda: table.rows
    )
    assert world.plugin.explain_rejection(state, subject, table, rows) == (
        "claim c, request r: wants 3 of class gpu; 3 of 8 devices on n1 match, 2 of them free; "
        "5 with memory below 40Gi"
    )


def test_timeouts_are_checked() -> None:
    second = dt.timedelta(seconds=1)
    bad = DynamicResourcesArgs(filter_timeout=-second, binding_timeout=second / 2)
    good = DynamicResourcesArgs(filter_timeout=0 * second, binding_timeout=second)

    assert [
        (path, message.rpartition(": ")[2]) for path, message in DynamicResources.validate_args(bad)
    ] == [
        ("filterTimeout", "must be zero or positive"),
        ("bindingTimeout", "must be at least 1 second"),
    ]
    assert not list(DynamicResources.validate_args(good))
