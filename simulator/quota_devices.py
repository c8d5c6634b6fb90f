"""Quota of resource claims: devices by class, and by the extended resources of the classes.

A claim counts under the implicit extended resource of each class that it names, and under the one
that the class names (`resource_claims.go: Usage`). A claim that the scheduler made for extended
resources of a pod counts under those only that the pod does not ask for, as the pod counts itself.
So the usage of a claim depends on classes and pods, and may change while the claim does not.
"""

from __future__ import annotations

from typing import Final

from scheduler.api.quantity import parse
from simulator.objects import JsonObject, dig
from simulator.quota_usage import (
    DEVICE_CLASS,
    ONE,
    REQUESTS,
    Amounts,
    added,
    is_extended_key,
    larger,
    pod_usage,
)
from simulator.store import Store

_BY_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
_COUNT: Final = "count/resourceclaims.resource.k8s.io"
_MADE_BY_SCHEDULER: Final = "resource.kubernetes.io/extended-resource-claim"
MAX_RESULTS: Final = 32
"""Devices of a request for all of them: as many as a claim can have."""


class DeviceClaimUsage:
    """Computes the usage of claims, with the classes and pods of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self, claim: JsonObject, now: float) -> Amounts:
        """Return the usage of a claim, by quota key."""
        used: Amounts = {_COUNT: ONE}
        extended: Amounts = {}
        for request in dig(claim, "spec", "devices", "requests") or ():
            for class_name, count in _devices(request).items():
                used = added(used, {f"{class_name}{_BY_CLASS}": count})
                extended = added(extended, dict.fromkeys(self._keys(class_name), count))
        pod = self._pod_served(claim)
        counted = {} if pod is None else pod_usage(pod, now)
        return used | {key: count for key, count in extended.items() if key not in counted}

    def _keys(self, class_name: str) -> list[str]:
        found = self._store.get("deviceclasses.resource.k8s.io", "", class_name)
        explicit = found and dig(found.obj, "spec", "extendedResourceName")
        return [f"{REQUESTS}{name}" for name in (f"{DEVICE_CLASS}{class_name}", explicit) if name]

    def _pod_served(self, claim: JsonObject) -> JsonObject | None:
        """Return the pod whose extended resources the claim is for."""
        metadata = claim["metadata"]
        if (metadata.get("annotations") or {}).get(_MADE_BY_SCHEDULER) != "true":
            return None
        owners: list[JsonObject] = metadata.get("ownerReferences") or []
        owner: JsonObject = next((each for each in owners if each.get("controller")), {})
        pod = self._store.get("pods", metadata.get("namespace", ""), owner.get("name", ""))
        return pod.obj if pod and pod.obj["metadata"]["uid"] == owner.get("uid") else None


def is_device_claim_key(key: str) -> bool:
    """Whether a quota key is about resource claims, perhaps among others."""
    return key == _COUNT or key.endswith(_BY_CLASS) or is_extended_key(key)


def _devices(request: JsonObject) -> Amounts:
    """Return the devices of a request by class; of alternatives the largest number of each."""
    found: Amounts = {}
    for each in request.get("firstAvailable") or [request.get("exactly") or {}]:
        exact = each.get("allocationMode", "ExactCount") == "ExactCount"
        count = parse(each.get("count", 1) if exact else MAX_RESULTS)
        found = larger(found, {str(each.get("deviceClassName", "")): count})
    return found
