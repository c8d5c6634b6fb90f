"""Pods and PodGroup objects of these tests."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.api.meta import ObjectMeta
from scheduler.api.pod import Pod, PodSchedulingGate, PodSchedulingGroup, PodSpec
from scheduler.api.pod_groups import (
    POD_GROUP_LABEL,
    ManagedObjectMeta,
    NativePodGroup,
    PodGroup,
    PodGroupSpec,
)


def member(
    name: str,
    group: str = "g",
    *,
    node: str = "",
    gated: bool = False,
    profile: str = "kubestow",
    namespace: str = "default",
    field: str = "",
) -> Pod:
    """Return a pod with the label of a group, or without one, and perhaps with the field."""
    gates = (PodSchedulingGate(name="example.com/wait"),) if gated else ()
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{name}",
            labels={POD_GROUP_LABEL: group} if group else {},
        ),
        spec=PodSpec(
            scheduler_name=profile,
            node_name=node,
            scheduling_gates=gates,
            scheduling_group=PodSchedulingGroup(pod_group_name=field) if field else None,
        ),
    )


def pod_group(
    minimum: int,
    name: str = "g",
    *,
    uid: str = "pg-1",
    namespace: str = "default",
    annotations: dict[str, str] | None = None,
) -> PodGroup:
    """Return a PodGroup object."""
    return PodGroup(
        metadata=ManagedObjectMeta(
            name=name, namespace=namespace, uid=uid, annotations=annotations or {}
        ),
        spec=PodGroupSpec(min_member=minimum),
    )


def native_group(
    spec: dict[str, Any] | int, name: str = "g", *, uid: str = "pg-1", **metadata: Any
) -> NativePodGroup:
    """Return a PodGroup object of the built-in API; a number is the minimum of a gang."""
    if isinstance(spec, int):
        spec = {"schedulingPolicy": {"gang": {"minCount": spec}}}
    named = {"name": name, "namespace": "default", "uid": uid, **metadata}
    return msgspec.convert({"metadata": named, "spec": spec}, NativePodGroup)
