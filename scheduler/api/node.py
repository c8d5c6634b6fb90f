"""The Node."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.api.meta import Condition, Named, Object, ResourceList, Value

HOSTNAME: Final = "kubernetes.io/hostname"
"""The label that a kubelet gives its node."""


class Taint(Value, frozen=True):
    """`spec.taints[]`. `time_added` matters for update events only."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Object):
    """`spec` of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")


class ContainerImage(Object):
    """`status.images[]`."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Object):
    """`status` of a node."""

    allocatable: ResourceList = {}
    capacity: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Named):
    """A v1 Node."""

    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name
