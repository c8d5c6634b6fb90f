"""All feature gates of dynamic resource allocation: defaults, and what each of them changes."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from config.feature_gates import GATES, FeatureGates, Stage
from plugins import DynamicResources
from plugins.dynamic_resources.arguments import DynamicResourcesArgs
from plugins.dynamic_resources.features import Features
from scheduler.framework import ConfigurationError
from tests.unit.plugins.dynamic_resources.objects import DeviceCluster, device
from tests.unit.plugins.dynamic_resources.worlds import request

LOCKED = "locked"
REFUSED = "refused"
WITHOUT_EFFECT = "of the API server and controllers"

TABLE = {
    # gate: its stage, its default, and the field that it switches, or why it switches none
    "DynamicResourceAllocation": (Stage.GA, True, LOCKED),
    "DRAAdminAccess": (Stage.GA, True, LOCKED),
    "DRAPrioritizedList": (Stage.GA, True, LOCKED),
    "DRAResourceClaimDeviceStatus": (Stage.GA, True, LOCKED),
    "DRASchedulerFilterTimeout": (Stage.BETA, True, "filter_timeout"),
    "DRAConsumableCapacity": (Stage.BETA, True, "consumable_capacity"),
    "DRADeviceBindingConditions": (Stage.BETA, True, "binding_conditions"),
    "DRADeviceTaints": (Stage.GA, True, "device_taints"),
    "DRAPartitionableDevices": (Stage.BETA, True, "partitionable_devices"),
    "DRAExtendedResource": (Stage.GA, True, LOCKED),
    "DRADeviceTaintRules": (Stage.GA, True, "taint_rules"),
    "DRAResourceClaimGranularStatusAuthorization": (Stage.BETA, True, WITHOUT_EFFECT),
    "DRAResourcePoolStatus": (Stage.ALPHA, False, WITHOUT_EFFECT),
    "DRAListTypeAttributes": (Stage.ALPHA, False, REFUSED),
    "DRANodeAllocatableResources": (Stage.ALPHA, False, REFUSED),
    "DRAWorkloadResourceClaims": (Stage.BETA, False, REFUSED),
    "DRAFractionalCapacityRange": (Stage.BETA, False, REFUSED),
    "DRADerivedAttributes": (Stage.ALPHA, False, REFUSED),
    "DRADeviceCompatibilityGroups": (Stage.ALPHA, False, REFUSED),
    "DRAOptionalNodeOperations": (Stage.ALPHA, False, REFUSED),
    "DRAPartitionableDevicesType": (Stage.ALPHA, False, WITHOUT_EFFECT),
}


def test_the_table_is_complete() -> None:
    known = {each for each in GATES if each.startswith(("DRA", "DynamicResource"))}
    assert known == set(TABLE)
    assert Features.of_gates(FeatureGates()) == Features()


@pytest.mark.parametrize("gate", TABLE)
def test_each_gate_switches_its_feature_or_is_refused_by_name(gate: str) -> None:
    stage, default, effect = TABLE[gate]
    assert (GATES[gate].stage, GATES[gate].default) == (stage, default)
    needed = dict.fromkeys(GATES[gate].requires, True)
    if effect in {LOCKED, REFUSED}:
        with pytest.raises(ConfigurationError, match=f"cannot set feature gate {gate} to"):
            FeatureGates({**needed, gate: not default})
        return
    dependents = {each: False for each in GATES if gate in GATES[each].requires}
    changed = Features.of_gates(FeatureGates({**needed, **dependents, gate: not default}))
    before, after = dataclasses.asdict(Features()), dataclasses.asdict(changed)
    switched = {} if effect == WITHOUT_EFFECT else {effect: not default}
    switched |= {TABLE[each][2]: False for each in dependents if TABLE[each][2] in before}
    assert after == {**before, **switched}


@pytest.mark.parametrize("on", [True, False])
def test_the_search_has_a_limit_only_with_the_gate(on: bool) -> None:
    world = DeviceCluster("n1", DRASchedulerFilterTimeout=on)
    world.add_class()
    # No two devices differ, and each pair is tried.
    attributes = {"a": {"string": "same"}}
    world.add_slice("n1", *(device(f"d{each}", attributes=attributes) for each in range(200)))
    constraint = {"distinctAttribute": "gpu.example.com/a", "requests": []}
    spec = {"devices": {"requests": [request(count=2)], "constraints": [constraint]}}
    metadata = {"name": "c", "namespace": "default", "uid": "uid-c"}
    world.api.put({"metadata": metadata, "spec": spec})
    second = dt.timedelta(seconds=1)
    world.plugin = DynamicResources(DynamicResourcesArgs(filter_timeout=second), world.handle)
    readings = iter(range(0, 10**7, 10))
    world.handle.clock.monotonic = lambda: float(next(readings))
    subject, table = world.pod("c"), world.cluster.table
    state = world.state(subject)
    assert world.plugin.pre_filter(state, subject, table) is None
    status = world.plugin.filter(state, subject, table.node_info(0))
    assert status is not None
    assert status.message == (
        "node n1: timed out trying to allocate devices" if on else "cannot allocate all claims"
    )
