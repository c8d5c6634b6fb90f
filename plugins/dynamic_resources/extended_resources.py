"""Extended resources that are served by devices of a DeviceClass (gate DRAExtendedResource).

If a container requests `example.com/gpu: 2`, and the node's device plugin does not offer it, the
scheduler creates a claim for two devices of the class with that resource name. Upstream:
`extendedresourcecache.go`, `extendeddynamicresources.go: createRequestsAndMappings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.api.devices import (
    EXACT_COUNT,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from scheduler.api.meta import Object, ObjectMeta, OwnerReference
from scheduler.api.pod import Container, Pod
from scheduler.api.quantity import value
from scheduler.api.requests import is_extended_resource_name

IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that every class implicitly serves; the class name follows."""


ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of the claims that the scheduler creates."""
UNNAMED: Final = "<extended-resources>"
"""Name of such a claim before it is created."""


class RequestMapping(Object):
    """`status.extendedResourceClaimStatus.requestMappings[]` of a pod."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


def considered(pod: Pod) -> list[str]:
    """Return the extended resources that a pod requests; devices may serve some of them."""
    return [
        name
        for name, amount in pod.signature.requests.scalars
        if amount > 0 and (name.startswith(IMPLICIT_PREFIX) or is_extended_resource_name(name))
    ]


def owner_of_extra_claim(claim: ResourceClaim) -> str:
    """Return the UID of the pod for whose extended resources a claim was created, else empty."""
    metadata = claim.metadata
    if metadata.annotations.get(ANNOTATION) != "true":
        return ""
    return next(
        (each.uid for each in metadata.owner_references if each.controller and each.kind == "Pod"),
        "",
    )


def unnamed_claim(pod: Pod, uid: str) -> ResourceClaim:
    """Return a claim, not created yet, for the extended resources of a pod."""
    owner = OwnerReference(
        api_version="v1",
        kind="Pod",
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        controller=True,
    )
    return ResourceClaim(
        metadata=ObjectMeta(
            name=UNNAMED,
            namespace=pod.metadata.namespace,
            uid=uid,
            generate_name=f"{pod.metadata.name}-extended-resources-",
            annotations={ANNOTATION: "true"},
            owner_references=(owner,),
        )
    )


def with_requests(claim: ResourceClaim, requests: tuple[DeviceRequest, ...]) -> ResourceClaim:
    """Return the claim with the requests for one node."""
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=requests))
    return msgspec.structs.replace(claim, spec=spec)


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Return the class that serves each extended resource.

    If several classes have the same resource name, the newest wins, then the one with the smaller
    name. As upstream, the others serve nothing, not even their implicit resource name.
    """
    found: dict[str, DeviceClass] = {}
    unnamed = []
    for each in sorted(classes, key=lambda each: each.metadata.name):
        name = each.spec.extended_resource_name
        if not name:
            unnamed.append(each)
        elif name not in found or _created(each) > _created(found[name]):
            found[name] = each
    for each in (*found.values(), *unnamed):
        found[IMPLICIT_PREFIX + each.metadata.name] = each
    return found


def _created(device_class: DeviceClass) -> str:
    # RFC 3339 in UTC with whole seconds, so that the strings sort like the times.
    return device_class.metadata.creation_timestamp or ""


@dataclass(slots=True)
class _Request:
    """A request of the claim, and the container for which it was made."""

    container: int
    name: str
    count: int


@dataclass(slots=True)
class _Resource:
    """The requests and mappings for one extended resource."""

    name: str
    requests: list[_Request] = field(default_factory=list)
    mappings: list[RequestMapping] = field(default_factory=list)

    def map(self, container: Container, request: str) -> None:
        """Map a container to a request whose devices it uses."""
        self.mappings.append(
            RequestMapping(
                container_name=container.name, resource_name=self.name, request_name=request
            )
        )


def claim_requests(
    pod: Pod, served: Mapping[str, str]
) -> tuple[tuple[DeviceRequest, ...], tuple[RequestMapping, ...]]:
    """Return the requests of a pod's claim, and the mappings of containers to requests.

    `served` maps the extended resources that devices serve on the node to class names. Raises
    `QuantityError`.
    """
    spec = pod.spec
    containers = list(enumerate((*spec.init_containers, *spec.containers)))
    first = len(spec.init_containers)
    lasting = [(i, each) for i, each in containers if i >= first or each.restart_policy == "Always"]
    passing = [(i, each) for i, each in containers if i < first and each.restart_policy != "Always"]
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for name in sorted(served):
        resource = _Resource(name)
        _add_lasting(resource, lasting)
        _add_passing(resource, passing)
        mappings += resource.mappings
        requests += (_device_request(each, served[name]) for each in resource.requests)
    return tuple(sorted(requests, key=lambda each: each.name)), tuple(mappings)


def _device_request(request: _Request, class_name: str) -> DeviceRequest:
    exactly = ExactDeviceRequest(
        device_class_name=class_name, allocation_mode=EXACT_COUNT, count=request.count
    )
    return DeviceRequest(name=request.name, exactly=exactly)


def _add_lasting(resource: _Resource, containers: Iterable[tuple[int, Container]]) -> None:
    """Add containers that run at the same time, each with its own devices."""
    for i, container in containers:
        count = _requested(container, resource.name)
        if count > 0:
            request = _Request(i, _request_name(i, container, resource.name), count)
            resource.requests.append(request)
            resource.map(container, request.name)


def _add_passing(resource: _Resource, containers: Iterable[tuple[int, Container]]) -> None:
    """Add init containers, which run one at a time and reuse devices of later containers."""
    lasting = list(resource.requests)
    largest: _Request | None = None
    waiting: list[tuple[int, Container]] = []
    for i, container in containers:
        missing = _requested(container, resource.name)
        for each in lasting:
            if missing > 0 and each.container >= i:
                resource.map(container, each.name)
                missing -= each.count
        if missing > 0:
            waiting.append((len(resource.mappings), container))
            if largest is None or missing > largest.count:
                largest = _Request(i, _request_name(i, container, resource.name), missing)
    if largest is None:
        return
    resource.requests.append(largest)
    for inserted, (position, container) in enumerate(waiting):
        mapping = RequestMapping(
            container_name=container.name,
            resource_name=resource.name,
            request_name=largest.name,
        )
        resource.mappings.insert(position + inserted, mapping)


def _requested(container: Container, name: str) -> int:
    raw = container.resources.requests.get(name)
    return 0 if raw is None else value(raw)


def _request_name(index: int, container: Container, resource: str) -> str:
    names = sorted(container.resources.requests)
    return f"container-{index}-request-{names.index(resource)}"
