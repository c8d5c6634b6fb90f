"""The structured allocator: finds devices for claims on one node.

It is a pure function of the state at the start of a pod's attempt. Upstream: `structured.Allocator`
with the implementation `incubating`, which the default feature gates select.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from plugins.dynamic_resources.budget import Check
from plugins.dynamic_resources.devices import DeviceView
from plugins.dynamic_resources.errors import AllocationError, NodeAllocationError
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.pools import Pool, SliceIndex, gather_pools
from plugins.dynamic_resources.requests import RequestView, Validator
from plugins.dynamic_resources.results import allocation_result
from plugins.dynamic_resources.search import Allocated, DeviceSearch
from plugins.dynamic_resources.selectors import SelectorError as DeviceSelectorError
from plugins.dynamic_resources.selectors import Selectors
from scheduler.api.devices import AllocationResult, DeviceClass, DeviceSelector, ResourceClaim
from scheduler.api.node import Node
from scheduler.api.selectors import SelectorError

INVALID_POOLS = "invalid resource pools were encountered"


class Allocator:
    """Allocates the claims of one pod, node by node."""

    def __init__(
        self,
        features: Features,
        allocated: Allocated,
        classes: Mapping[str, DeviceClass],
        slices: SliceIndex,
        selectors: Selectors,
        new_share_id: Callable[[], str],
        *,
        pools: Callable[[Node, Check | None], list[Pool]] | None = None,
        exhaustive: bool = False,
    ) -> None:
        """Create an allocator.

        `new_share_id` returns a new UUID for each share of a device. `pools` returns the pools of a
        node; by default they are gathered for each search. With `exhaustive` a search takes as many
        steps as upstream's; the result is the same.
        """
        self._pools = pools or self._gather
        self._exhaustive = exhaustive
        self._features = features
        if not features.consumable_capacity:
            allocated = Allocated(frozenset((*allocated.exclusive, *allocated.shared)))
        self._allocated = allocated
        self._classes = classes
        self._slices = slices
        self._selectors = selectors
        self._new_share_id = new_share_id
        #: Number of steps of the last search.
        self.steps = 0

    def allocate(
        self, node: Node, claims: Sequence[ResourceClaim], check: Check | None = None
    ) -> list[AllocationResult] | None:
        """Return an allocation for each claim; None if there are not enough devices.

        `check` is called at every step, and raises its own exception to end the search. Raises
        `NodeAllocationError` for a failure that concerns this node only, and `AllocationError` for
        one that concerns the pod.
        """
        search = self._search(node, claims, check)
        if search is None:
            return None
        return [
            allocation_result(view, taken, node.metadata.name, self._features, self._new_share_id)
            for view, taken in zip(search.claims, search.results, strict=True)
        ]

    def chosen(
        self, node: Node, claims: Sequence[ResourceClaim], check: Check | None = None
    ) -> list[set[str]] | None:
        """Return for each claim the names of the requests and alternatives that get devices.

        None if there are not enough devices. Finds the same devices as `allocate`, and raises the
        same errors.
        """
        search = self._search(node, claims, check)
        if search is None:
            return None
        return [{each.request.qualified_name for each in taken} for taken in search.results]

    def fits(self, node: Node, claims: Sequence[ResourceClaim], check: Check | None = None) -> bool:
        """Whether `allocate` would return allocations; raises the same errors."""
        return self._search(node, claims, check) is not None

    def _search(
        self, node: Node, claims: Sequence[ResourceClaim], check: Check | None
    ) -> DeviceSearch | None:
        self.steps = 0

        def selects(request: RequestView, device: DeviceView) -> bool:
            return self._selects(request, device, node, check)

        pools = self._pools(node, check)
        validator = Validator(self._features, self._classes, pools, selects)
        views = [validator.claim(each) for each in claims]
        search = DeviceSearch(
            self._features,
            views,
            pools,
            self._allocated,
            selects,
            check,
            exhaustive=self._exhaustive,
        )
        try:
            found = search.run()
        finally:
            self.steps = search.steps
        if found:
            return search
        if any(each.invalid_reason for each in pools):
            raise NodeAllocationError(INVALID_POOLS)
        return None

    def _gather(self, node: Node, check: Check | None) -> list[Pool]:
        return gather_pools(self._slices, node, self._features, check)

    def _selects(
        self, request: RequestView, device: DeviceView, node: Node, check: Check | None
    ) -> bool:
        """Whether a device matches the selectors of a request and of its class."""
        if device.spec.binding_conditions and not self._features.binding_conditions:
            return False
        device_class = request.device_class
        assert device_class is not None
        where = f"class {device_class.metadata.name}"
        if not self._all_match(where, device_class.spec.selectors, device, check):
            return False
        if not self._all_match(request.claim, request.selectors, device, check):
            return False
        if not device.slice.per_device:
            return True
        try:
            return device.nodes.matches(node)
        except SelectorError as error:
            raise AllocationError(
                f"failed to perform node selection for device {device.id}: {error}"
            ) from None

    def _all_match(
        self,
        where: str,
        selectors: Sequence[DeviceSelector],
        device: DeviceView,
        check: Check | None,
    ) -> bool:
        for i, each in enumerate(selectors):
            if each.cel is None:
                continue
            try:
                if not self._selectors.matches(each.cel.expression, device, check):
                    return False
            except DeviceSelectorError as error:
                at = f" on device {device.id}" if error.at_run_time else ""
                raise AllocationError(f"{where}: selector #{i}{at}: {error}") from None
        return True
