"""The feature gates of the allocator and of the plugin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Features:
    """Enabled features (upstream: `structured.Features`).

    The defaults are those of kube-scheduler v1.37.
    """

    #: DRAAdminAccess.
    admin_access: bool = True
    #: DRAPrioritizedList.
    prioritized_list: bool = True
    #: DRAPartitionableDevices.
    partitionable_devices: bool = True
    #: DRADeviceTaints.
    device_taints: bool = True
    #: DRAConsumableCapacity.
    consumable_capacity: bool = True
    #: DRADeviceBindingConditions together with DRAResourceClaimDeviceStatus.
    binding_conditions: bool = True
    #: DRAListTypeAttributes.
    list_attributes: bool = False
    #: DRAExtendedResource; it affects the claims that the allocator gets.
    extended_resources: bool = True
    #: DRADeviceTaintRules; it affects the slices that the allocator gets.
    taint_rules: bool = True
    #: DRASchedulerFilterTimeout: whether the search of an attempt has a time limit.
    filter_timeout: bool = True

    @classmethod
    def of_gates(cls, gates: Mapping[str, bool]) -> Features:
        """Return the features that the feature gates switch on."""

        def on(name: str, *, default: bool = True) -> bool:
            return gates.get(name, default)

        return cls(
            admin_access=on("DRAAdminAccess"),
            prioritized_list=on("DRAPrioritizedList"),
            partitionable_devices=on("DRAPartitionableDevices"),
            device_taints=on("DRADeviceTaints"),
            consumable_capacity=on("DRAConsumableCapacity"),
            binding_conditions=on("DRADeviceBindingConditions")
            and on("DRAResourceClaimDeviceStatus"),
            # kube-scheduler does not pass DRAListTypeAttributes to the allocator either.
            extended_resources=on("DRAExtendedResource"),
            taint_rules=on("DRADeviceTaintRules") and on("DRADeviceTaints"),
            filter_timeout=on("DRASchedulerFilterTimeout"),
        )
