"""Requests and limits of pods, summed over containers (upstream: `resource/helpers.go`).

Invariant: amounts are summed as exact quantities and rounded up to integers once per pod. Only
single pods are summed here; node totals belong to the node table.

Upstream computes five different sums of a pod, and so does this module:

* `incoming_requests`: for the fit filter; the spec alone.
* `assigned_requests`: of a bound pod; in a resize, the largest of the totals of what is specified,
  allocated and actuated, for each resource.
* `non_zero_requests`: the same, with defaults for containers without requests, for scoring.
* `scoring_requests`: of the incoming pod in the NodeResourcesFit score; containers and overhead.
* `pod_limits`: for quota and reports; no placement depends on limits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from scheduler.api.meta import ResourceList
from scheduler.api.node import Node
from scheduler.api.pod import Container, ContainerStatus, Pod
from scheduler.api.quantity import NANO, Quantity, milli_value, parse, value
from scheduler.sanitizing.names import is_object_name, is_qualified_name, is_simple_name

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

DEFAULT_MILLI_CPU: Final = 100
"""Millicores assumed for scoring where a container states no CPU request."""
DEFAULT_MEMORY: Final = 200 * 1024 * 1024
"""Bytes assumed for scoring where a container states no memory request."""

_DEFAULTS: Final = {
    CPU: Quantity(DEFAULT_MILLI_CPU * NANO // 1000),
    MEMORY: Quantity(DEFAULT_MEMORY * NANO),
}
_HUGE_PAGES: Final = "hugepages-"
_ATTACHABLE_VOLUMES: Final = "attachable-volumes-"
_NATIVE_DOMAIN: Final = "kubernetes.io/"
_QUOTA_PREFIX: Final = "requests."

_FEW_NAMES: Final = 16
_UNKNOWN: Final = object()
_Amounts = dict[str, Quantity]


class Resources(msgspec.Struct, frozen=True, gc=False):
    """Amounts as integers: millicores, bytes, and whole counts. Hashable."""

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    scalars: tuple[tuple[str, int], ...] = ()
    """(name, count) of extended and other scalar resources, sorted; a stated 0 is present."""

    def scalar(self, name: str) -> int:
        """Return the count of a scalar resource, 0 when absent."""
        scalars = self.scalars
        # A pod may name thousands, and each may be looked up.
        at = bisect_left(scalars, (name,))
        return scalars[at][1] if at < len(scalars) and scalars[at][0] == name else 0

    @property
    def empty(self) -> bool:
        """Whether all amounts are 0 and no scalar is even named."""
        return not (self.milli_cpu or self.memory or self.ephemeral_storage or self.scalars)


def is_extended_resource_name(name: str) -> bool:
    """Whether this is a vendor's resource (`example.com/gpu`); no other can be ignored."""
    return (
        "/" in name
        and _NATIVE_DOMAIN not in name
        and not name.startswith(_QUOTA_PREFIX)
        and is_qualified_name(_QUOTA_PREFIX + name)
    )


def scalar_resource_names(names: Iterable[str]) -> list[str]:
    """Return the `names` that the scheduler counts besides CPU, memory and ephemeral storage.

    A pod or a node may have 20,000 names, most of one domain: each domain is examined once.
    """
    found = []
    domains: dict[str, bool | None] = {}
    for name in names:
        domain, slash, own = name.rpartition("/")
        if not slash:
            if name.startswith((_HUGE_PAGES, _ATTACHABLE_VOLUMES)):
                found.append(name)
            continue
        scalar = domains.get(domain, _UNKNOWN)
        if scalar is _UNKNOWN:
            scalar = domains[domain] = _all_scalar(domain)
        if scalar or (scalar is None and is_simple_name(own)):
            found.append(name)
    return found


def _all_scalar(domain: str) -> bool | None:
    """Whether the resources of a domain are scalar; None if the rest of the name decides."""
    if domain.startswith((_HUGE_PAGES, _ATTACHABLE_VOLUMES)) or _NATIVE_DOMAIN in f"{domain}/":
        return True
    if domain.startswith(_QUOTA_PREFIX) or not is_object_name(_QUOTA_PREFIX + domain):
        return False
    return None


def is_huge_pages(name: str) -> bool:
    """Whether the resource is huge pages of some size, which cannot be overcommitted."""
    return name.startswith(_HUGE_PAGES)


def is_pod_level_resource_name(name: str) -> bool:
    """Whether `spec.resources` of a pod may state the resource; other names there are ignored."""
    return name in {CPU, MEMORY} or is_huge_pages(name)


def incoming_requests(pod: Pod) -> Resources:
    """Sum up the requests that NodeResourcesFit checks. Raises `QuantityError`."""
    return to_resources(pod_requests(pod))


def assigned_requests(pod: Pod) -> Resources:
    """Sum up the usage of a bound pod, in-place resize included. Raises `QuantityError`."""
    return to_resources(pod_requests(pod, with_status=True))


def non_zero_requests(pod: Pod) -> tuple[int, int]:
    """Return the (millicores, bytes) of a pod in scoring, in-place resize included.

    A container without a request counts with the defaults; if there are pod-level requests, only
    for a resource that neither they nor a container state. Raises `QuantityError`.
    """
    defaults: Mapping[str, Quantity] = _DEFAULTS
    if _has_pod_level_requests(pod):
        stated = pod_requests(pod, with_status=True)
        defaults = {name: amount for name, amount in _DEFAULTS.items() if name not in stated}
    amounts = pod_requests(pod, with_status=True, defaults=defaults, names=_DEFAULTS)
    zero = Quantity(0)
    return amounts.get(CPU, zero).milli_value(), amounts.get(MEMORY, zero).value()


def scoring_requests(pod: Pod) -> Resources:
    """Sum up the requests of an incoming pod for the NodeResourcesFit score.

    Containers and overhead; CPU and memory with defaults. Raises `QuantityError`.
    """
    return to_resources(pod_requests(pod, defaults=_DEFAULTS, pod_level=False))


def node_allocatable(node: Node) -> tuple[Resources, int]:
    """Return (allocatable resources, allocatable pods) of a node. Raises `QuantityError`."""
    stated = node.status.allocatable
    scalars = [(name, value(stated[name])) for name in scalar_resource_names(stated)]
    resources = Resources(
        milli_cpu=milli_value(stated.get(CPU, 0)),
        memory=value(stated.get(MEMORY, 0)),
        ephemeral_storage=value(stated.get(EPHEMERAL_STORAGE, 0)),
        scalars=tuple(sorted(scalars)),
    )
    return resources, value(stated.get(PODS, 0))


def pod_requests(
    pod: Pod,
    *,
    with_status: bool = False,
    defaults: Mapping[str, Quantity] | None = None,
    pod_level: bool = True,
    names: Mapping[str, object] | None = None,
) -> dict[str, Quantity]:
    """Return the requests of a pod by resource, as exact quantities; `names` are those needed.

    `with_status` counts an in-place resize under way, `defaults` are amounts for containers that do
    not state the resource, `pod_level` lets `spec.resources` replace sums. Raises `QuantityError`.
    """

    def needed(stated: ResourceList) -> _Amounts:
        if names is not None and len(stated) > _FEW_NAMES:
            # Containers may name thousands, which would all be added up.
            stated = {name: amount for name, amount in stated.items() if name in names}
        return _parsed(stated)

    def summed(state: _State) -> _Amounts:
        def amounts(container: Container, status: ContainerStatus | None) -> _Amounts:
            stated = needed(state(container, status))
            return {**defaults, **stated} if defaults else stated

        return _sum_containers(pod, amounts, with_status=with_status)

    total = summed(_specified)
    if with_status and _may_differ(pod):
        infeasible, whole = is_resize_infeasible(pod), pod.status.resources
        if infeasible:
            total = {}
        if pod.status.allocated_resources and whole is not None and whole.requests:
            _raise_to(total, needed(pod.status.allocated_resources))
            _raise_to(total, needed(whole.requests))
        else:
            _raise_to(total, summed(_allocated_if_feasible if infeasible else _allocated))
            _raise_to(total, summed(_actuated_if_feasible if infeasible else _actuated))
    if pod_level:
        total.update(effective_pod_level_requests(pod, with_status=with_status))
    _add(total, _parsed(pod.spec.overhead))
    return total


_State = Callable[[Container, ContainerStatus | None], ResourceList]
"""Returns the requests of a container in one of the states of a resize."""


def _specified(container: Container, _status: ContainerStatus | None) -> ResourceList:
    return container.resources.requests


def _allocated(container: Container, status: ContainerStatus | None) -> ResourceList:
    return _allocated_if_feasible(container, status) or container.resources.requests


def _actuated(container: Container, status: ContainerStatus | None) -> ResourceList:
    return _actuated_if_feasible(container, status) or container.resources.requests


def _allocated_if_feasible(_container: Container, status: ContainerStatus | None) -> ResourceList:
    """Return what is allocated; nothing if that is not known, as the spec does not count."""
    return {} if status is None else status.allocated_resources


def _actuated_if_feasible(_container: Container, status: ContainerStatus | None) -> ResourceList:
    if status is None:
        return {}
    actuated = {} if status.resources is None else status.resources.requests
    return actuated or status.allocated_resources


def _may_differ(pod: Pod) -> bool:
    """Whether the status of a pod may hold other amounts than its spec."""
    status = pod.status
    return bool(
        status.container_statuses
        or status.init_container_statuses
        or status.resources is not None
        or is_resize_infeasible(pod)
    )


def pod_limits(pod: Pod, *, with_status: bool = False) -> dict[str, Quantity]:
    """Return the limits of a pod by resource; overhead raises those that are stated and not 0.

    `with_status` counts an in-place resize under way, as quota does. Raises `QuantityError`.
    """
    infeasible = with_status and is_resize_infeasible(pod)

    def specified(container: Container, _status: ContainerStatus | None) -> _Amounts:
        return _parsed(container.resources.limits)

    def actuated(container: Container, status: ContainerStatus | None) -> _Amounts:
        known = {} if status is None or status.resources is None else status.resources.limits
        return _parsed(known or ({} if infeasible else container.resources.limits))

    total = {} if infeasible else _sum_containers(pod, specified, with_status=with_status)
    whole = pod.status.resources if with_status else None
    if whole is not None and whole.limits:
        _raise_to(total, _parsed(whole.limits))
    elif with_status and _may_differ(pod):
        _raise_to(total, _sum_containers(pod, actuated, with_status=True))
    if pod.spec.resources is not None:
        stated = {} if infeasible and whole is not None else _pod_level(pod.spec.resources.limits)
        _raise_to(stated, _pod_level(whole.limits) if whole is not None else {})
        total.update(stated)
    overhead = _parsed(pod.spec.overhead)
    _add(total, {name: amount for name, amount in overhead.items() if total.get(name)})
    return total


def to_resources(amounts: Mapping[str, Quantity]) -> Resources:
    """Round amounts up to the integers that scheduling counts; other resource names are dropped."""
    zero = Quantity(0)
    scalars = [(name, amounts[name].value()) for name in scalar_resource_names(amounts)]
    return Resources(
        milli_cpu=amounts.get(CPU, zero).milli_value(),
        memory=amounts.get(MEMORY, zero).value(),
        ephemeral_storage=amounts.get(EPHEMERAL_STORAGE, zero).value(),
        scalars=tuple(sorted(scalars)),
    )


MAX_POD_USAGE: Final = 1 << 53
"""Limit of each amount of a pod, so that sums over a node's pods stay within 64 bits. No node has
as much: 9 PB, or 9 x 10^12 CPUs."""


def countable(resources: Resources) -> Resources:
    """Clamp every amount to `MAX_POD_USAGE`; return the same object if nothing changes."""
    numbers = [amount for _, amount in resources.scalars]
    numbers += (resources.milli_cpu, resources.memory, resources.ephemeral_storage)
    if min(numbers) >= -MAX_POD_USAGE and max(numbers) <= MAX_POD_USAGE:
        return resources
    return Resources(
        milli_cpu=within_count(resources.milli_cpu),
        memory=within_count(resources.memory),
        ephemeral_storage=within_count(resources.ephemeral_storage),
        scalars=tuple((name, within_count(amount)) for name, amount in resources.scalars),
    )


def within_count(amount: int) -> int:
    """Clamp `amount` to the range from -`MAX_POD_USAGE` to `MAX_POD_USAGE`."""
    return max(-MAX_POD_USAGE, min(MAX_POD_USAGE, amount))


def is_resize_infeasible(pod: Pod) -> bool:
    """Whether the node refused the pod's resize for good, so that its spec no longer counts."""
    return any(
        each.type == "PodResizePending" and each.reason == "Infeasible"
        for each in pod.status.conditions
    )


def effective_pod_level_requests(pod: Pod, *, with_status: bool) -> dict[str, Quantity]:
    """Return the pod-level requests that replace sums; `with_status` includes a resize."""
    stated = pod.spec.resources
    if stated is None:
        return {}
    own = _pod_level(stated.requests)
    actuated = pod.status.resources
    if not own or not with_status or actuated is None:
        return own
    if is_resize_infeasible(pod):
        own = {}
    _raise_to(own, _pod_level(actuated.requests))
    _raise_to(own, _pod_level(pod.status.allocated_resources))
    return own


def container_statuses(pod: Pod) -> Iterable[tuple[Container, ContainerStatus | None]]:
    """Yield the containers of a pod, each with its status."""
    found = _statuses(pod)
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        yield container, found.get(container.name)


def limits_differ(pod: Pod) -> bool:
    """Whether a container status has other limits than the spec."""
    status = pod.status
    if not status.container_statuses and not status.init_container_statuses:
        return False
    return any(
        each is not None
        and each.resources is not None
        and each.resources.limits != container.resources.limits
        for container, each in container_statuses(pod)
    )


def _restartable(container: Container) -> bool:
    return container.restart_policy == "Always"


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    status = pod.status
    return {
        each.name: each for each in (*status.init_container_statuses, *status.container_statuses)
    }


def _parsed(stated: ResourceList) -> _Amounts:
    return {name: parse(raw) for name, raw in stated.items()}


def _pod_level(stated: ResourceList) -> _Amounts:
    return {name: parse(raw) for name, raw in stated.items() if is_pod_level_resource_name(name)}


def _has_pod_level_requests(pod: Pod) -> bool:
    stated = pod.spec.resources
    return stated is not None and any(map(is_pod_level_resource_name, stated.requests))


def _sum_containers(
    pod: Pod,
    amounts: Callable[[Container, ContainerStatus | None], _Amounts],
    *,
    with_status: bool,
) -> _Amounts:
    """Return the most that the containers of a pod need at any time."""
    statuses = _statuses(pod) if with_status else {}
    total: _Amounts = {}
    for container in pod.spec.containers:
        _add(total, amounts(container, statuses.get(container.name)))
    sidecars: _Amounts = {}
    peak: _Amounts = {}
    for container in pod.spec.init_containers:
        footprint = dict(amounts(container, statuses.get(container.name)))
        if _restartable(container):
            _add(total, footprint)
            _add(sidecars, footprint)
        else:
            _add(footprint, sidecars)
            _raise_to(peak, footprint)
    _raise_to(total, peak)
    return total


def _add(total: _Amounts, amounts: _Amounts) -> None:
    if not total:
        total |= amounts
        return
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount


def _raise_to(total: _Amounts, amounts: _Amounts) -> None:
    for name, amount in amounts.items():
        if name not in total or amount > total[name]:
            total[name] = amount
