"""Requests of claims in the form that the search uses: validated, with their classes.

Upstream: `allocator_incubating.go: validateDeviceRequest`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from plugins.dynamic_resources import capacity
from plugins.dynamic_resources.constraints import Constraint, constraint_of
from plugins.dynamic_resources.devices import DeviceView, quantity
from plugins.dynamic_resources.errors import AllocationError
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.pools import Pool
from scheduler.api.devices import (
    ALL,
    EXACT_COUNT,
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from scheduler.api.pod import Toleration
from scheduler.api.quantity import Quantity

MAX_DEVICES: Final = 32
"""Maximum devices of one claim (`resource.k8s.io/v1`, `AllocationResultsMaxSize`)."""

_NOT_FOUND: Final = 'deviceclasses.resource.k8s.io "{name}" not found'

Selects = Callable[["RequestView", DeviceView], bool]
"""Whether a request selects a device; raises `AllocationError`."""


@dataclass(slots=True, eq=False)
class RequestView:
    """A request, or one alternative of a request."""

    claim: str
    #: Name of the request; for an alternative that of its parent.
    parent: str
    #: Name of the alternative; empty for a request.
    alternative: str
    device_class: DeviceClass | None = None
    selectors: tuple[DeviceSelector, ...] = ()
    #: Number of devices that are needed.
    number: int = 0
    is_all: bool = False
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    requested: Mapping[str, Quantity] = field(default_factory=dict)
    #: The devices, for a request in mode All.
    all_devices: list[tuple[Pool, DeviceView]] = field(default_factory=list)
    #: Alternatives in the order of preference; all other fields are then unused.
    alternatives: tuple[RequestView, ...] = ()

    @property
    def name(self) -> str:
        """The name of the request or alternative in error messages."""
        return self.alternative or self.parent

    @property
    def qualified_name(self) -> str:
        """The name in allocation results: `request`, or `request/alternative`."""
        return f"{self.parent}/{self.alternative}" if self.alternative else self.parent

    @property
    def least_devices(self) -> int:
        """The smallest number of devices that satisfies the request."""
        if self.alternatives:
            return min(each.number for each in self.alternatives)
        return self.number


@dataclass(slots=True, eq=False)
class ClaimView:
    """A claim: its requests and constraints."""

    claim: ResourceClaim
    requests: list[RequestView]
    constraints: list[Constraint]


class Validator:
    """Validates claims and builds their views for one node."""

    def __init__(
        self,
        features: Features,
        classes: Mapping[str, DeviceClass],
        pools: list[Pool],
        selects: Selects,
    ) -> None:
        self._features = features
        self._classes = classes
        self._pools = pools
        self._selects = selects

    def claim(self, claim: ResourceClaim) -> ClaimView:
        """Return the view of a claim; raises `AllocationError` if it cannot be allocated."""
        name = f"claim {claim.metadata.namespace}/{claim.metadata.name}"
        requests: list[RequestView] = []
        total = 0
        for each in claim.spec.devices.requests:
            view = self._request(name, each)
            least = view.least_devices
            if total + least > MAX_DEVICES:
                raise AllocationError(
                    f"{name}, request {view.name}: adding {least} devices exceeds the claim limit "
                    f"of {MAX_DEVICES}, with {total} already accounted for"
                )
            total += least
            requests.append(view)
        return ClaimView(claim, requests, list(self._constraints(name, claim)))

    def _constraints(self, name: str, claim: ResourceClaim) -> Iterable[Constraint]:
        for i, spec in enumerate(claim.spec.devices.constraints):
            made = constraint_of(spec, lists=self._features.list_attributes)
            if made is None:
                raise AllocationError(
                    f"{name}, constraint #{i}: empty constraint (unsupported constraint type?)"
                )
            yield made

    def _request(self, claim: str, request: DeviceRequest) -> RequestView:
        if request.exactly is not None:
            return self._exactly(RequestView(claim, request.name, ""), request.exactly)
        if request.first_available:
            if not self._features.prioritized_list:
                raise AllocationError(
                    f"{claim}, request {request.name}: has subrequests, but the "
                    "DRAPrioritizedList feature is disabled"
                )
            alternatives = tuple(
                self._exactly(RequestView(claim, request.name, each.name), each)
                for each in request.first_available
            )
            return RequestView(claim, request.name, "", alternatives=alternatives)
        raise AllocationError(f"{claim}, request {request.name}: unknown request type")

    def _exactly(
        self, view: RequestView, spec: ExactDeviceRequest | DeviceSubRequest
    ) -> RequestView:
        where = f"{view.claim}, request {view.name}"
        self._check_features(view, spec)
        for i, selector in enumerate(spec.selectors):
            if selector.cel is None:
                raise AllocationError(
                    f"{where}, selector #{i}: CEL expression empty (unsupported selector type?)"
                )
        if isinstance(spec, ExactDeviceRequest) and spec.admin_access is not None:
            if not self._features.admin_access:
                raise AllocationError(
                    f"{where}: admin access is requested, but the feature is disabled"
                )
            view.admin_access = spec.admin_access
        if not spec.device_class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        view.device_class = self._classes.get(spec.device_class_name)
        if view.device_class is None:
            reason = _NOT_FOUND.format(name=spec.device_class_name)
            raise AllocationError(
                f"{where}: could not retrieve device class {spec.device_class_name}: {reason}"
            )
        view.selectors = spec.selectors
        view.tolerations = spec.tolerations
        if spec.capacity is not None:
            view.requested = {name: quantity(each) for name, each in spec.capacity.requests.items()}
        if spec.allocation_mode == EXACT_COUNT:
            view.number = spec.count
        elif spec.allocation_mode == ALL:
            view.is_all = True
            view.all_devices = self._all_devices(where, view)
            view.number = len(view.all_devices)
        else:
            raise AllocationError(f"{where}: unsupported count mode {spec.allocation_mode}")
        return view

    def _check_features(
        self, view: RequestView, spec: ExactDeviceRequest | DeviceSubRequest
    ) -> None:
        if spec.derived_attributes:
            raise AllocationError(
                f"{view.claim}, request {view.name}: cannot handle request with derived "
                "attributes, the feature is disabled"
            )
        if spec.capacity is not None and not self._features.consumable_capacity:
            kind = "subrequest" if view.alternative else "request"
            raise AllocationError(
                f"{view.claim}, {kind} {view.name}: has capacity requests, but the "
                "DRAConsumableCapacity feature is disabled"
            )

    @staticmethod
    def _may_hold(where: str, view: RequestView, device: DeviceView) -> bool:
        try:
            return capacity.consumption(device, view.requested, ()) is not None
        except capacity.AmountError as error:
            name = device.spec.name
            raise AllocationError(
                f"{where}: checking capacity for device {name}: {error}"
            ) from None

    def _all_devices(self, where: str, view: RequestView) -> list[tuple[Pool, DeviceView]]:
        found: list[tuple[Pool, DeviceView]] = []
        for pool in self._pools:
            if not pool.is_usable:
                state = "being updated" if pool.is_incomplete else "invalid"
                raise AllocationError(
                    f"{where}: asks for all devices, but resource pool "
                    f"{pool.driver}/{pool.name} is currently {state}"
                )
            for device in pool.devices:
                if not self._selects(view, device):
                    continue
                # Whether the rest of a capacity suffices is looked at when the device is taken, so
                # that one with too little left makes the request fail.
                if self._features.consumable_capacity and not self._may_hold(where, view, device):
                    continue
                found.append((pool, device))
        return found
