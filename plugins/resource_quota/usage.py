"""Usage of a pod under every quota name, counted like upstream (`pods.go: PodUsageFunc`).

The sums themselves are `scheduler.api.requests`': init containers, sidecars, overhead, pod-level
resources, in-place resize. This module maps resources to quota names, once per signature.

Invariant: exact integers in billionths; amounts of 0 are left out. The ledger decides whether a
pod counts at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from plugins.resource_quota.keys import (
    HUGE_PAGES,
    LIMITS,
    REQUESTS,
    is_quota_extended,
)
from scheduler.api.bounded_cache import BoundedCache
from scheduler.api.pod import Pod
from scheduler.api.quantity import NANO, Quantity
from scheduler.api.requests import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    limits_differ,
    pod_limits,
    pod_requests,
)

Usage = Mapping[str, int]
"""Quota name to billionths, e.g. `{"requests.cpu": 1_500_000_000}`. Never modified."""

PODS: Final = "pods"
COUNT_PODS: Final = "count/pods"

_BASIC: Final = frozenset((CPU, MEMORY, EPHEMERAL_STORAGE))
_MAX_CACHED_BYTES: Final = 8 << 20
"""Enough for some 1,000 ordinary signatures."""


def pod_usage(pod: Pod) -> Usage:
    """Return the usage of one pod, in-place resize included. Raises `QuantityError`.

    Limits of extended resources and huge pages, which no built-in quota counts, are included under
    `limits.NAME` for deferred keys.
    """
    found = {PODS: NANO, COUNT_PODS: NANO, **dict(_requests(pod_requests(pod, with_status=True)))}
    for resource, quantity in pod_limits(pod, with_status=True).items():
        if quantity.nano > 0:
            found[LIMITS + resource] = quantity.nano
    return found


class UsageCache:
    """Usage by pod signature. Bounded; touched from one event loop."""

    __slots__ = ("_by_signature",)

    def __init__(self) -> None:
        self._by_signature: BoundedCache[int, Usage] = BoundedCache(_MAX_CACHED_BYTES)

    def of(self, pod: Pod) -> Usage:
        """Return `pod_usage(pod)`, one mapping per signature. Raises `QuantityError`."""
        if pod.interned is None or pod.status.resources is not None or limits_differ(pod):
            return pod_usage(pod)
        signature = pod.signature.id
        usage = self._by_signature.get(signature)
        if usage is None:
            usage = pod_usage(pod)
            self._by_signature.put(signature, usage, pod.signature.weigh(usage))
        return usage


def _requests(amounts: Mapping[str, Quantity]) -> Iterator[tuple[str, int]]:
    for resource, quantity in amounts.items():
        if quantity.nano <= 0:
            continue
        if resource in _BASIC or resource.startswith(HUGE_PAGES):
            yield resource, quantity.nano
            yield REQUESTS + resource, quantity.nano
        elif is_quota_extended(resource):
            yield REQUESTS + resource, quantity.nano
