"""A bound that rules out claims for which there are too few devices, before the search.

If requests together need one device more than there are, a search tries exponentially many ways to
distribute the devices; upstream's search then runs into its timeout. But each device that is not
shareable serves one request only, so there must be a matching of requests and devices (Hall's
theorem), which can be found or ruled out in polynomial time. Counters and constraints only restrict
the search further.

Invariant, proved by a property test: if the bound rules claims out, the search finds nothing and
raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from plugins.dynamic_resources.devices import DeviceID, DeviceView
from plugins.dynamic_resources.errors import AllocationError
from plugins.dynamic_resources.requests import MAX_DEVICES, ClaimView, RequestView

MAX_TOTAL: Final = 128
"""Maximum number of requested devices; with more, a matching might take longer than it saves."""

Fits = Callable[[RequestView, DeviceView], bool]
"""Whether a device may serve a request if no other is taken; raises `AllocationError`."""


@dataclass(slots=True)
class _Demand:
    """A request that needs unshared devices."""

    #: The request, or its alternatives.
    options: Sequence[RequestView]
    number: int
    devices: list[DeviceID] = field(default_factory=list)


def is_short(
    claims: Sequence[ClaimView],
    devices: Sequence[DeviceView],
    fits: Fits,
    is_shareable: Callable[[DeviceView], bool],
) -> bool:
    """Whether there are certainly too few devices for all claims.

    False if unknown: for a single request, which the search rejects quickly, or if the search may
    raise an error, which takes precedence.
    """
    if any(_may_fail(claim) for claim in claims):
        return False
    demands = [
        _Demand(request.alternatives or (request,), request.least_devices)
        for claim in claims
        for request in claim.requests
        if not request.admin_access
    ]
    total = sum(each.number for each in demands)
    if len(demands) < 2 or total > MAX_TOTAL:
        return False
    scans = [_Scan(each, devices, fits, is_shareable, total) for each in demands]
    try:
        # A request with this many candidates gets its devices regardless of other requests.
        few = [scan.demand for scan in scans if not scan.finds_enough()]
        if _have_matching(few):
            return False
        for scan in scans:
            scan.finish()
    except AllocationError:
        return False
    return True


def _may_fail(claim: ClaimView) -> bool:
    """Whether the search may raise an error other than that of a selector."""
    most = 0
    for request in claim.requests:
        options = request.alternatives or (request,)
        if claim.constraints and any(each.is_all for each in options):
            return True
        most += max(each.number for each in options)
    return most > MAX_DEVICES


class _Scan:
    """The devices that may serve a request, evaluated lazily."""

    def __init__(
        self,
        demand: _Demand,
        devices: Sequence[DeviceView],
        fits: Fits,
        is_shareable: Callable[[DeviceView], bool],
        enough: int,
    ) -> None:
        self.demand = demand
        self._enough = enough
        self._is_shareable = is_shareable
        self._fitting = self._all_fitting(devices, fits)

    def _all_fitting(self, devices: Sequence[DeviceView], fits: Fits) -> Iterator[DeviceView]:
        for option in self.demand.options:
            of_option: Iterable[DeviceView] = devices
            if option.is_all:
                of_option = (device for _, device in option.all_devices)
            for device in of_option:
                if fits(option, device):
                    yield device

    def finds_enough(self) -> bool:
        """Whether the request has enough devices even if others take all that they need."""
        found: dict[DeviceID, None] = {}
        for device in self._fitting:
            if self._is_shareable(device):
                return True
            found[device.id] = None
            if len(found) >= self._enough:
                return True
        self.demand.devices = list(found)
        return False

    def finish(self) -> None:
        """Evaluate the remaining devices, since an error of a selector precedes a shortage."""
        for _ in self._fitting:
            pass


def _have_matching(demands: Sequence[_Demand]) -> bool:
    """Whether all demands can get distinct devices (matching by augmenting paths)."""
    holders: dict[DeviceID, int] = {}

    def take(index: int, seen: set[DeviceID]) -> bool:
        for device in demands[index].devices:
            if device in seen:
                continue
            seen.add(device)
            holder = holders.get(device)
            if holder is None or take(holder, seen):
                holders[device] = index
                return True
        return False

    return all(
        take(index, set()) for index, demand in enumerate(demands) for _ in range(demand.number)
    )
