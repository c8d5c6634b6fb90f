"""The search for devices: depth first, the first solution wins.

Upstream: `allocator_incubating.go: allocateOne`. The order of candidates and checks is upstream's,
since it determines which devices a claim gets. Each level of the search is a generator on an
explicit stack, since a pod may have more claims than Python's recursion limit allows.

Invariant: checks change nothing, and every change that taking a device makes has its inverse in one
journal. A level that fails, or is left by an error, undoes its part of the journal, so the state
depends only on the devices that are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from plugins.dynamic_resources import capacity
from plugins.dynamic_resources.budget import Check
from plugins.dynamic_resources.capacity import Amounts
from plugins.dynamic_resources.constraints import Constraint
from plugins.dynamic_resources.counters import CounterTable
from plugins.dynamic_resources.devices import DeviceID, DeviceView
from plugins.dynamic_resources.errors import AllocationError, TooManyDevicesError
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.pools import Pool
from plugins.dynamic_resources.requests import MAX_DEVICES, ClaimView, RequestView, Selects
from plugins.dynamic_resources.shortage import is_short
from scheduler.api.quantity import Quantity
from scheduler.api.tolerations import tolerates


@dataclass(frozen=True, slots=True)
class Allocated:
    """Devices that are already allocated, including allocations in flight."""

    #: Devices held exclusively by one claim.
    exclusive: AbstractSet[DeviceID] = frozenset()
    #: Devices that several claims may share.
    shared: AbstractSet[DeviceID] = frozenset()
    #: Amounts that claims consume of the capacities of shared devices.
    consumed: Mapping[DeviceID, Mapping[str, Quantity]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Taken:
    """A device that the search chose for a request."""

    request: RequestView
    device: DeviceView
    is_shared: bool
    consumed: Amounts


_LOOKS: Final = 64
"""Number of candidates between two calls of `check`, since one step may examine ten thousand."""

Step = Generator["Step", bool, bool]
"""One level of the search: yields the level below, receives its result, and returns its own."""


class DeviceSearch:
    """One search: `run` may be called once."""

    def __init__(
        self,
        features: Features,
        claims: list[ClaimView],
        pools: list[Pool],
        allocated: Allocated,
        selects: Selects,
        check: Check | None = None,
        *,
        exhaustive: bool = False,
    ) -> None:
        """With `exhaustive` the search takes all of upstream's steps, even those bound to fail."""
        self._features = features
        self._exhaustive = exhaustive
        #: The claims to allocate.
        self.claims = claims
        self._candidates = [
            (pool, device) for pool in pools if pool.is_usable for device in pool.devices
        ]
        self._has_counters = any(device.consumption for _, device in self._candidates)
        # Whether a request failed only because no candidates were left.
        self._ran_out = False
        self._allocated = allocated
        self._selects = selects
        self._check = check
        #: The chosen devices of each claim.
        self.results: list[list[Taken]] = [[] for _ in claims]
        #: Number of steps so far, each a call of upstream's recursive function.
        self.steps = 0
        self._taken: dict[DeviceID, set[int]] = {}
        self._consumed: dict[DeviceID, list[Amounts]] = {}
        self._counters = CounterTable(
            lambda device: device in allocated.exclusive or device in allocated.shared
        )
        #: What undoes each change since the start, the latest last.
        self._journal: list[Callable[[], object]] = []

    def run(self) -> bool:
        """Return whether all claims get devices; raises `AllocationError` and errors of `check`."""
        if not (self._exhaustive or self._has_counters) and self._is_short():
            return False
        stack = [self._claim(0, 0)]
        result: bool | None = None
        failure: BaseException | None = None
        while stack:
            level = stack[-1]
            try:
                if failure is not None:
                    error, failure = failure, None
                    below = level.throw(error)
                else:
                    below = level.send(result)  # type: ignore[arg-type]
            except StopIteration as stop:
                stack.pop()
                result = stop.value
            except (AllocationError, TooManyDevicesError) as error:
                stack.pop()
                failure = error
            else:
                stack.append(below)
                result = None
        if failure is not None:
            raise failure
        return bool(result)

    def _is_short(self) -> bool:
        devices = [device for _, device in self._candidates]
        return is_short(self.claims, devices, self._may_serve, self._is_shareable)

    def _may_serve(self, request: RequestView, device: DeviceView) -> bool:
        """Whether a device may serve a request if no other devices are taken."""
        features = self._features
        if self._check is not None:
            self._check()
        if not request.admin_access and device.id in self._allocated.exclusive:
            return False
        if not request.is_all and not self._selects(request, device):
            return False
        if features.consumable_capacity and self._capacity(request, device) is None:
            return False
        return not features.device_taints or _tolerated(request, device)

    def _is_shareable(self, device: DeviceView) -> bool:
        return self._features.consumable_capacity and device.shareable

    def _count(self) -> None:
        self.steps += 1
        if self._check is not None:
            self._check()

    def _claim(self, claim: int, number: int) -> Step:
        """Search for the requests of a claim from index `number` on, then for all later claims."""
        self._count()
        if claim == len(self.claims):
            return True
        requests = self.claims[claim].requests
        if number == len(requests):
            try:
                return (yield self._claim(claim + 1, 0))
            except TooManyDevicesError:
                return False
        request = requests[number]
        if request.alternatives:
            return (yield from self._alternatives(claim, number, request))
        return (yield from self._devices(claim, number, request, 0, 0))

    def _alternatives(self, claim: int, number: int, request: RequestView) -> Step:
        all_too_many = True
        for alternative in request.alternatives:
            try:
                found = yield self._device(claim, number, alternative, 0, 0)
            except TooManyDevicesError:
                continue
            all_too_many = False
            if found:
                return True
        if all_too_many:
            raise TooManyDevicesError
        return False

    def _device(
        self, claim: int, number: int, request: RequestView, device: int, start: int
    ) -> Step:
        """Search for the devices of a request from the one with index `device` on."""
        self._count()
        return (yield from self._devices(claim, number, request, device, start))

    def _devices(
        self, claim: int, number: int, request: RequestView, device: int, start: int
    ) -> Step:
        if request.is_all and not request.all_devices:
            return False
        if device >= request.number:
            return (yield self._claim(claim, number + 1))
        if len(self.results[claim]) + request.number - device > MAX_DEVICES:
            raise TooManyDevicesError
        if request.is_all:
            pool, view = request.all_devices[device]
            if not self._may_take(claim, request, pool, view):
                return False
            return (yield from self._taking(claim, number, request, device, 0, pool, view))
        return (yield from self._first_fitting(claim, number, request, device, start))

    def _first_fitting(
        self, claim: int, number: int, request: RequestView, device: int, start: int
    ) -> Step:
        """Try each candidate from `start` on.

        If the level below fails because no candidate is left, later candidates on this level cannot
        help either, and are skipped. Upstream tries them, which takes 2^n steps if n equal devices
        are free and n + 1 are requested. A failure by constraints or counters is different, since
        these depend on the devices taken.
        """
        took_one = False
        for position in range(start, len(self._candidates)):
            if position % _LOOKS == _LOOKS - 1 and self._check is not None:
                self._check(_LOOKS)
            pool, view = self._candidates[position]
            if not self._may_take(claim, request, pool, view):
                continue
            took_one = True
            following = position + 1
            if (yield from self._taking(claim, number, request, device, following, pool, view)):
                return True
            if self._ran_out:
                self._ran_out = device > 0
                return False
        self._ran_out = (
            not took_one
            and device > 0
            and not (self._exhaustive or self._has_counters or self.claims[claim].constraints)
        )
        return False

    def _taking(
        self,
        claim: int,
        number: int,
        request: RequestView,
        device: int,
        start: int,
        pool: Pool,
        view: DeviceView,
    ) -> Step:
        """Take a device, and search for the next ones; without success, undo all changes."""
        before, found = len(self._journal), False
        try:
            self._take(claim, request, pool, view)
            found = yield self._device(claim, number, request, device + 1, start)
        finally:
            if not found:
                while len(self._journal) > before:
                    self._journal.pop()()
        return found

    def _may_take(self, claim: int, request: RequestView, pool: Pool, device: DeviceView) -> bool:
        """Whether a device passes all checks for a request, in upstream's order."""
        features = self._features
        return (
            not self._in_use(claim, request, device)
            and (request.is_all or self._selects(request, device))
            and (not features.consumable_capacity or self._capacity(request, device) is not None)
            and self._has_counters_for(request, pool, device)
            and (not features.device_taints or _tolerated(request, device))
            and self._meets_constraints(claim, request, device)
        )

    def _take(self, claim: int, request: RequestView, pool: Pool, device: DeviceView) -> None:
        """Take a device that passes all checks; each change adds its inverse to the journal."""
        undo = self._journal.append
        is_shared = self._is_shareable(device)
        amounts = (self._capacity(request, device) if is_shared else None) or {}
        if self._needs_counters(request, device):
            self._counters.take(pool, device)
            undo(partial(self._counters.give_back, pool, device))
        for each in self._constraints(claim, request):
            each.add(device)
            undo(each.remove)
        if not is_shared:
            holders = self._taken.setdefault(device.id, set())
            holders.add(claim)
            undo(partial(holders.discard, claim))
        elif not request.admin_access:
            consumed = self._consumed.setdefault(device.id, [])
            consumed.append(amounts)
            undo(consumed.pop)
        self.results[claim].append(Taken(request, device, is_shared, amounts))
        undo(self.results[claim].pop)

    def _in_use(self, claim: int, request: RequestView, device: DeviceView) -> bool:
        taken = self._taken.get(device.id, ())
        if request.admin_access:
            return claim in taken
        return bool(taken) or device.id in self._allocated.exclusive

    def _capacity(self, request: RequestView, device: DeviceView) -> Amounts | None:
        """Return the amounts that a request consumes; None if the device has too little left.

        Admin access needs no more than the device has: it ignores what others consume
        (`resource.k8s.io/v1`, `ExactDeviceRequest.adminAccess`).
        """
        consumed: tuple[Mapping[str, Quantity], ...] = ()
        if not request.admin_access:
            consumed = (
                self._allocated.consumed.get(device.id, {}),
                *self._consumed.get(device.id, ()),
            )
        try:
            return capacity.consumption(device, request.requested, consumed)
        except capacity.AmountError as error:
            raise AllocationError(
                f"{request.claim}, request {request.name}: checking capacity for device "
                f"{device.id}: {error}"
            ) from None

    def _needs_counters(self, request: RequestView, device: DeviceView) -> bool:
        """Whether a device consumes counters for a request.

        Those of a shared device in use are already consumed, and admin access consumes nothing
        (KEP-5018).
        """
        if not device.consumption or request.admin_access:
            return False
        return not self._is_shareable(device) or not (
            device.id in self._allocated.shared or self._consumed.get(device.id)
        )

    def _has_counters_for(self, request: RequestView, pool: Pool, device: DeviceView) -> bool:
        if device.consumption and not self._features.partitionable_devices:
            return False
        return not self._needs_counters(request, device) or self._counters.suffice(pool, device)

    def _meets_constraints(self, claim: int, request: RequestView, device: DeviceView) -> bool:
        if all(each.allows(device) for each in self._constraints(claim, request)):
            return True
        if request.is_all:
            raise AllocationError(
                f"{request.claim}, request {request.name}: cannot add device {device.id} "
                "because a claim constraint would not be satisfied"
            )
        return False

    def _constraints(self, claim: int, request: RequestView) -> list[Constraint]:
        constraints = self.claims[claim].constraints
        return [each for each in constraints if each.covers(request.parent, request.alternative)]


def _tolerated(request: RequestView, device: DeviceView) -> bool:
    return all(
        any(tolerates(each, taint) for each in request.tolerations)
        for taint in device.blocking_taints
    )
