"""Dynamic resource allocation (`resource.k8s.io/v1`): slices, classes, claims, and taint rules.

Parameters of drivers stay JSON: they are copied into allocations and never read.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.api.meta import Condition, Named, Object, ObjectMeta, RawQuantity, ResourceList
from scheduler.api.node import Taint
from scheduler.api.pod import NodeSelector, Toleration

EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"


class DeviceAttribute(Object):
    """One attribute of a device; exactly one of the fields is set."""

    boolean: bool | None = msgspec.field(default=None, name="bool")
    integer: int | None = msgspec.field(default=None, name="int")
    string: str | None = None
    version: str | None = None
    # Feature gate DRAListTypeAttributes, off in v1.36.
    bools: tuple[bool, ...] | None = None
    ints: tuple[int, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class CapacityRange(Object):
    """Amounts from `min` to `max` in steps; an absent bound is none."""

    min: RawQuantity | None = None
    max: RawQuantity | None = None
    step: RawQuantity | None = None


class CapacityRequestPolicy(Object):
    """Amounts of a capacity that may be taken, and the one that is without a request."""

    default: RawQuantity | None = None
    valid_range: CapacityRange | None = None
    valid_values: tuple[RawQuantity, ...] = ()


class DeviceCapacity(Object):
    """One capacity of a device."""

    value: RawQuantity = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(Object):
    """An amount of a shared counter."""

    value: RawQuantity = "0"


class CounterSet(Object):
    """`spec.sharedCounters[]`: counters that the devices of the pool consume together."""

    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(Object):
    """`consumesCounters[]` of a device."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}
    compatibility_groups: tuple[str, ...] = ()


class Device(Object):
    """`spec.devices[]`. An empty tuple of binding conditions differs from None."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool | None = None


class ResourcePool(Object):
    """`spec.pool`: the slice is one of `resource_slice_count` of this generation."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Object):
    """`spec` of a slice."""

    driver: str = ""
    pool: ResourcePool = msgspec.field(default_factory=ResourcePool)
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Named):
    """A ResourceSlice: devices of one driver, or counters that devices of its pool share."""

    spec: ResourceSliceSpec = msgspec.field(default_factory=ResourceSliceSpec)


class CELSelector(Object):
    """A CEL expression over the variable `device`."""

    expression: str = ""


class DeviceSelector(Object):
    """`selectors[]`: without `cel` it is of a kind that is not known."""

    cel: CELSelector | None = None


class OpaqueConfiguration(Object):
    """Configuration for a driver, as JSON."""

    driver: str = ""
    parameters: msgspec.Raw = msgspec.Raw(b"null")


class ClassConfiguration(Object):
    """`spec.config[]` of a class."""

    opaque: OpaqueConfiguration | None = None


class DeviceClassSpec(Object):
    """`spec` of a class."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[ClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Named):
    """A DeviceClass: selectors and configuration that claims refer to by name."""

    spec: DeviceClassSpec = msgspec.field(default_factory=DeviceClassSpec)


class CapacityRequirements(Object):
    """`capacity` of a request."""

    requests: ResourceList = {}


class ExactDeviceRequest(Object):
    """`exactly`: how many devices of which class and properties."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[msgspec.Raw, ...] = ()


class DeviceSubRequest(Object):
    """`firstAvailable[]`: one alternative of a request."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[msgspec.Raw, ...] = ()


class DeviceRequest(Object):
    """`spec.devices.requests[]`: either `exactly` or alternatives, of which the first wins."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Object):
    """`spec.devices.constraints[]`; without requests it covers all of them."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class ClaimConfiguration(Object):
    """`config[]` of a claim, and of an allocation, where `source` says from whom it is."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueConfiguration | None = None


class DeviceClaim(Object):
    """`spec.devices` of a claim."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[ClaimConfiguration, ...] = ()


class ResourceClaimSpec(Object):
    """`spec` of a claim; immutable."""

    devices: DeviceClaim = msgspec.field(default_factory=DeviceClaim)


class DeviceRequestAllocationResult(Object):
    """`status.allocation.devices.results[]`: one device for one request."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: ResourceList = {}


class DeviceAllocationResult(Object):
    """`status.allocation.devices`."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[ClaimConfiguration, ...] = ()


class AllocationResult(Object):
    """`status.allocation`; without node selector the devices are available everywhere."""

    devices: DeviceAllocationResult = msgspec.field(default_factory=DeviceAllocationResult)
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(Object):
    """`status.reservedFor[]`."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Object):
    """`status.devices[]`, written by drivers."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(Object):
    """`status` of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Named):
    """A ResourceClaim: devices that pods ask for, and those that they got."""

    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = msgspec.field(default_factory=ResourceClaimStatus)


class ResourceClaimTemplateSpec(Object):
    """`spec` of a template: the claims made from it; labels and annotations are copied."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)


class ResourceClaimTemplate(Named):
    """A ResourceClaimTemplate: the controller makes a claim of it for each pod that names it."""

    spec: ResourceClaimTemplateSpec = msgspec.field(default_factory=ResourceClaimTemplateSpec)


class DeviceTaintSelector(Object):
    """`spec.deviceSelector` of a taint rule; an absent field selects all."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Object):
    """`spec` of a taint rule."""

    device_selector: DeviceTaintSelector | None = None
    taint: Taint = msgspec.field(default_factory=Taint)


class DeviceTaintRule(Named):
    """A DeviceTaintRule: a taint of all devices that it selects."""

    spec: DeviceTaintRuleSpec = msgspec.field(default_factory=DeviceTaintRuleSpec)
