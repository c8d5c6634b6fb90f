"""Devices requested by claims, counted like the API server's quota counts them.

A claim counts from its creation on, under the extended resources of its classes: the implicit one,
and the one that the class names (`resource_claims.go: Usage`). A claim that the scheduler created
for extended resources counts only under those that its pod does not request, since pods count too.

Invariant: the sums depend on the reported claims and classes, but not on the order of reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from plugins.resource_quota.keys import DEVICE_CLASS, REQUESTS
from plugins.resource_quota.usage import Usage, pod_usage
from scheduler.api.devices import (
    EXACT_COUNT,
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from scheduler.api.pod import Pod
from scheduler.api.quantity import NANO

EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of claims that the scheduler created."""

MAX_RESULTS: Final = 32
"""Maximum devices of a claim; a request for all devices counts as this number."""


class DeviceClaims:
    """The claims of all namespaces. Used from one event loop only."""

    def __init__(
        self, set_devices: Callable[[str, Usage], None], pod: Callable[[str, str], Pod | None]
    ) -> None:
        """`set_devices(namespace, usage)` gets live sums; `pod(name, namespace)` finds a pod."""
        self._set_devices = set_devices
        self._pod = pod
        #: By UID: each claim and its usage.
        self._claims: dict[str, tuple[ResourceClaim, Usage]] = {}
        #: UIDs of the claims that name a class.
        self._by_class: dict[str, set[str]] = {}
        #: By namespace.
        self._sums: dict[str, dict[str, int]] = {}
        #: The extended resource of each class that has one.
        self._named: dict[str, str] = {}

    def claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Handle an event of a claim, whose spec is immutable."""
        if new is not None and old is not None and old.metadata.uid == new.metadata.uid:
            return
        for each in (old, new):
            if each is not None:
                self._remove(each.metadata.uid)
        if new is not None:
            self._add(new)
        for namespace in {each.metadata.namespace for each in (old, new) if each is not None}:
            self._report(namespace)

    def device_class(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        """Handle an event of a class; its claims may now count under another name."""
        found = old if new is None else new
        if found is None:
            return
        name = found.metadata.name
        resource = "" if new is None else new.spec.extended_resource_name or ""
        if resource == self._named.get(name, ""):
            return
        if resource:
            self._named[name] = resource
        else:
            del self._named[name]
        self._recount(self._by_class.get(name, ()))

    def recount(self) -> None:
        """Recount all claims, once all pods are known."""
        self._recount(self._claims)

    def _recount(self, uids: Iterable[str]) -> None:
        namespaces = set()
        for uid in list(uids):
            claim = self._claims[uid][0]
            self._remove(uid)
            self._add(claim)
            namespaces.add(claim.metadata.namespace)
        for namespace in namespaces:
            self._report(namespace)

    def _add(self, claim: ResourceClaim) -> None:
        usage = self._usage(claim)
        self._claims[claim.metadata.uid] = claim, usage
        for name in _classes(claim):
            self._by_class.setdefault(name, set()).add(claim.metadata.uid)
        self._change(claim.metadata.namespace, usage, 1)

    def _remove(self, uid: str) -> None:
        found = self._claims.pop(uid, None)
        if found is None:
            return
        claim, usage = found
        for name in _classes(claim):
            self._by_class[name].discard(uid)
            if not self._by_class[name]:
                del self._by_class[name]
        self._change(claim.metadata.namespace, usage, -1)

    def _change(self, namespace: str, usage: Usage, sign: int) -> None:
        sums = self._sums.setdefault(namespace, {})
        for name, amount in usage.items():
            sums[name] = sums.get(name, 0) + sign * amount
            if not sums[name]:
                del sums[name]

    def _report(self, namespace: str) -> None:
        sums = self._sums.get(namespace, {})
        if not sums:
            self._sums.pop(namespace, None)
        self._set_devices(namespace, sums)

    def _usage(self, claim: ResourceClaim) -> Usage:
        found: dict[str, int] = {}
        for request in claim.spec.devices.requests:
            for class_name, count in _devices(request).items():
                for name in self._names(class_name):
                    found[name] = found.get(name, 0) + count * NANO
        if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true":
            owner = next((e for e in claim.metadata.owner_references if e.controller), None)
            pod = None if owner is None else self._pod(owner.name, claim.metadata.namespace)
            if pod is not None and owner is not None and pod.metadata.uid == owner.uid:
                counted = pod_usage(pod)
                found = {name: amount for name, amount in found.items() if name not in counted}
        return found

    def _names(self, class_name: str) -> Iterator[str]:
        yield f"{REQUESTS}{DEVICE_CLASS}{class_name}"
        if resource := self._named.get(class_name):
            yield REQUESTS + resource


def _classes(claim: ResourceClaim) -> set[str]:
    return {name for request in claim.spec.devices.requests for name in _devices(request)}


def _devices(request: DeviceRequest) -> dict[str, int]:
    """Return the devices of a request by class; for alternatives, the maximum of each class."""
    found: dict[str, int] = {}
    alternatives: tuple[ExactDeviceRequest | DeviceSubRequest, ...] = request.first_available
    if request.exactly is not None:
        alternatives = (request.exactly,)
    for each in alternatives:
        count = each.count if each.allocation_mode == EXACT_COUNT else MAX_RESULTS
        found[each.device_class_name] = max(found.get(each.device_class_name, 0), count)
    return found
