"""Paths of the quantities of an object, to name the field of one that cannot be parsed.

Used only after parsing has failed; parsing itself does not track fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.api.meta import ResourceList
from scheduler.api.node import Node
from scheduler.api.pod import Container, Pod, ResourceRequirements
from scheduler.api.quantity import QuantityError, parse

Amounts = tuple[str, ResourceList]
"""The path of a map of quantities, and the map."""


def located(error: QuantityError, amounts: Iterable[Amounts]) -> QuantityError:
    """Return the error with the path of the first of `amounts` that cannot be parsed."""
    for path, stated in amounts:
        for name, raw in stated.items():
            try:
                parse(raw)
            except QuantityError as found:
                return QuantityError(found.text, found.reason, f"{path}[{name}]")
    return error


def node_amounts(node: Node) -> Iterator[Amounts]:
    """Yield every map of quantities that scheduling reads of a node."""
    yield "status.allocatable", node.status.allocatable


def pod_amounts(pod: Pod) -> Iterator[Amounts]:
    """Yield every map of quantities that scheduling reads of a pod."""
    spec, status = pod.spec, pod.status
    yield from _containers("spec.containers", spec.containers)
    yield from _containers("spec.initContainers", spec.init_containers)
    yield "spec.overhead", spec.overhead
    yield from _requirements("spec.resources", spec.resources)
    for kind, statuses in (
        ("containerStatuses", status.container_statuses),
        ("initContainerStatuses", status.init_container_statuses),
    ):
        for index, each in enumerate(statuses):
            path = f"status.{kind}[{index}]"
            yield f"{path}.allocatedResources", each.allocated_resources
            yield from _requirements(f"{path}.resources", each.resources)
    yield "status.allocatedResources", status.allocated_resources
    yield from _requirements("status.resources", status.resources)


def _containers(path: str, containers: tuple[Container, ...]) -> Iterator[Amounts]:
    for index, each in enumerate(containers):
        yield from _requirements(f"{path}[{index}].resources", each.resources)


def _requirements(path: str, stated: ResourceRequirements | None) -> Iterator[Amounts]:
    if stated is not None:
        yield f"{path}.requests", stated.requests
        yield f"{path}.limits", stated.limits
