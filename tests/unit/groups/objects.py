"""Pods and PodGroup objects of these tests."""

from __future__ import annotations

from scheduler.api.meta import ObjectMeta
from scheduler.api.pod import Pod, PodSchedulingGate, PodSpec
from scheduler.api.pod_groups import POD_GROUP_LABEL, PodGroup, PodGroupSpec


def member(
    name: str,
    group: str = "g",
    *,
    node: str = "",
    gated: bool = False,
    profile: str = "kubestow",
    namespace: str = "default",
) -> Pod:
    """Return a pod with the label of a group; without a group, a pod without the label."""
    gates = (PodSchedulingGate(name="example.com/wait"),) if gated else ()
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{name}",
            labels={POD_GROUP_LABEL: group} if group else {},
        ),
        spec=PodSpec(scheduler_name=profile, node_name=node, scheduling_gates=gates),
    )


def pod_group(
    minimum: int, name: str = "g", *, uid: str = "pg-1", namespace: str = "default"
) -> PodGroup:
    """Return a PodGroup object."""
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=uid),
        spec=PodGroupSpec(min_member=minimum),
    )
