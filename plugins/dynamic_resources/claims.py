"""The claims of a pod: their names, whether they can be allocated, and their score.

Pure functions of API objects. Upstream: `resourceclaim.go: Name`, `dynamicresources.go:
foreachPodResourceClaim, PreFilter, isSchedulableAfterClaimChange`, `claimPriorityScore`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Final

import msgspec

from scheduler.api.devices import (
    AllocationResult,
    DeviceRequest,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from scheduler.api.pod import Pod, PodResourceClaim
from scheduler.framework import Status, error, unresolvable

NO_FIELD: Final = 'pod "{pod}", spec.resourceClaim "{entry}": none of the supported fields are set'
NOT_CREATED: Final = 'pod "{pod}": ResourceClaim not created yet'
NOT_FOUND: Final = 'could not find ResourceClaim "{claim}"'
BEING_DELETED: Final = 'resourceclaim "{name}" is being deleted'
NOT_OWNER: Final = "ResourceClaim {claim} was not created for Pod {pod} (Pod is not owner)"
IN_FLIGHT: Final = "resource claim {claim} is in the process of being allocated"
NO_CLASS: Final = "request {request}: unsupported request type"
UNKNOWN_CLASS: Final = "request {request}: device class {name} does not exist"
UNKNOWN_REQUEST: Final = "resource claim {claim}, request {request}: unknown request type"
ALTERNATIVES_OFF: Final = (
    "resource claim {claim}, request {request}: has subrequests, but the DRAPrioritizedList "
    "feature is disabled"
)

MAX_SCORE: Final = 8
"""Score of a request's first alternative, so that the last possible one scores 1
(`resource.k8s.io/v1`, `FirstAvailableDeviceRequestMaxSize`)."""

GetClaim = Callable[[str, str], ResourceClaim | None]
"""`get_claim(name, namespace)` returns a claim; None if it does not exist."""


class ClaimsUnavailableError(Exception):
    """A claim of a pod does not exist, or the pod may not use it; the text is the reason."""


def claim_key(claim: ResourceClaim) -> str:
    """Return `namespace/name`."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def pod_claims(pod: Pod, get_claim: GetClaim) -> list[ResourceClaim]:
    """Return the claims of a pod in the order of its spec.

    Entries for which the controller deliberately created no claim are omitted. Raises
    `ClaimsUnavailableError` for the first claim that is not available.
    """
    found = []
    for entry in pod.signature.resource_claims:
        name = _claim_name(pod, entry)
        if name is None:
            continue
        namespace = pod.metadata.namespace
        claim = get_claim(name, namespace)
        if claim is None:
            raise ClaimsUnavailableError(NOT_FOUND.format(claim=f"{namespace}/{name}"))
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimsUnavailableError(BEING_DELETED.format(name=name))
        if entry.resource_claim_name is None and not made_for(claim, pod):
            raise ClaimsUnavailableError(NOT_OWNER.format(claim=claim_key(claim), pod=_key(pod)))
        found.append(claim)
    return found


def _claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise ClaimsUnavailableError(NO_FIELD.format(pod=_key(pod), entry=entry.name))
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    raise ClaimsUnavailableError(NOT_CREATED.format(pod=_key(pod)))


def templates_without_claim(pod: Pod) -> list[str]:
    """Return the names of the templates from which no claim of a pod was made yet, each once."""
    made = {each.name for each in pod.status.resource_claim_statuses}
    names = (
        each.resource_claim_template_name
        for each in pod.signature.resource_claims
        if each.name not in made
    )
    return list(dict.fromkeys(name for name in names if name))


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def made_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a pod controls a claim, as required for a claim created from a template."""
    owner = next((each for each in claim.metadata.owner_references if each.controller), None)
    return owner is not None and owner.uid == pod.metadata.uid


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether a pod is in `status.reservedFor` of a claim."""
    return any(each.uid == pod.metadata.uid for each in claim.status.reserved_for)


def only_used_by(claim: ResourceClaim, *pods: Pod) -> bool:
    """Whether no other pods use a claim, so that it may be deallocated."""
    users = {pod.metadata.uid for pod in pods}
    return all(each.uid in users for each in claim.status.reserved_for)


def rejection(
    claim: ResourceClaim,
    classes: Container[str],
    *,
    is_in_flight: bool,
    prioritized_list: bool = True,
) -> Status | None:
    """Return why no node can serve an unallocated claim; None if a node may serve it.

    All alternatives of a request need an existing class, even those that would not be chosen.
    """
    key = claim_key(claim)
    if is_in_flight:
        return unresolvable(IN_FLIGHT.format(claim=key))
    for request in claim.spec.devices.requests:
        if request.exactly is None and not request.first_available:
            return unresolvable(UNKNOWN_REQUEST.format(claim=key, request=request.name))
        if request.exactly is None and not prioritized_list:
            return unresolvable(ALTERNATIVES_OFF.format(claim=key, request=request.name))
        for name, class_name in _classes(request):
            if not class_name:
                return error(NO_CLASS.format(request=name))
            if class_name not in classes:
                return unresolvable(UNKNOWN_CLASS.format(request=name, name=class_name))
    return None


def _classes(request: DeviceRequest) -> Iterator[tuple[str, str]]:
    """Yield the name of each request or alternative, with the class that it refers to."""
    if request.exactly is not None:
        yield request.name, request.exactly.device_class_name
        return
    for each in request.first_available:
        yield f"{request.name}/{each.name}", each.device_class_name


def allocated_requests(allocation: AllocationResult) -> set[str]:
    """Return the names of the requests and alternatives that got devices."""
    return {each.request for each in allocation.devices.results}


def preference_score(claim: ResourceClaim, used: Container[str]) -> int:
    """Sum up 8 for each request that got its first alternative, 7 for its second, and so on.

    `used` has the names of the chosen alternatives: `request/alternative`.
    """
    return sum(
        MAX_SCORE - position
        for request in claim.spec.devices.requests
        for position, each in enumerate(request.first_available)
        if f"{request.name}/{each.name}" in used
    )


class DeviceNotReadyError(Exception):
    """A driver reports that its device cannot be bound; the text is the reason."""


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all binding conditions of an allocated claim are true.

    Raises `DeviceNotReadyError` if a binding failure condition is true.
    """
    for result in _results(claim):
        if not result.binding_conditions:
            continue
        status = next((each for each in claim.status.devices if _is_of(each, result)), None)
        if status is None:
            return False
        for each in status.conditions:
            if each.status == "True" and each.type in result.binding_failure_conditions:
                raise DeviceNotReadyError(
                    f"device binding failed: claim={claim.metadata.name}, reason={each.reason}, "
                    f'message="{each.message}"'
                )
        met = {each.type for each in status.conditions if each.status == "True"}
        if not met.issuperset(result.binding_conditions):
            return False
    return True


def has_binding_conditions(claim: ResourceClaim) -> bool:
    """Whether any device of the claim has binding conditions, for which binding waits."""
    return any(each.binding_conditions for each in _results(claim))


def _results(claim: ResourceClaim) -> Iterable[DeviceRequestAllocationResult]:
    allocation = claim.status.allocation
    return () if allocation is None else allocation.devices.results


def _is_of(status: object, result: DeviceRequestAllocationResult) -> bool:
    names = ("driver", "pool", "device", "share_id")
    return all(getattr(status, each) == getattr(result, each) for each in names)


def gives_back(old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
    """Whether a change of a claim frees its devices."""
    return (
        old is not None
        and bool(old.status.allocation)
        and (new is None or new.status.allocation is None)
    )


def claim_change_helps(
    pod: Pod, old: ResourceClaim | None, new: ResourceClaim | None, get_claim: GetClaim
) -> bool:
    """Whether a pod rejected because of its claims may fit after a claim changed.

    `old` is None for an addition, `new` for a deletion.
    """
    try:
        claims = pod_claims(pod, get_claim)
    except ClaimsUnavailableError:
        return False
    if gives_back(old, new):
        return True
    if new is None:
        return False
    if all(each.metadata.uid != new.metadata.uid for each in claims):
        return False
    return old is None or msgspec.structs.asdict(old.status) != msgspec.structs.asdict(new.status)
