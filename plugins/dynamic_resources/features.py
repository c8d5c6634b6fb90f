"""The feature gates that the allocator knows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Features:
    """Parts of the allocator that are on (upstream: `structured.Features`).

    The defaults are those of kube-scheduler v1.36.
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
