"""The parts of a pod that enter its signature, and the key that equal pods share.

Invariant: two pods have the same key exactly if all that scheduling derives from them, except
labels, namespace and group, is equal. Irrelevant differences between siblings are left out: names,
gates, the node of a running pod, volumes without a source that scheduling reads (service-account
tokens have random names), names of other volumes, sizes that the kubelet merely echoes, and the
node a DaemonSet pod is pinned to.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.api.meta import OwnerReference
from scheduler.api.node_selectors import METADATA_NAME
from scheduler.api.pod import (
    Affinity,
    Container,
    ContainerStatus,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Volume,
)
from scheduler.api.quantity import Quantity
from scheduler.api.requests import (
    container_statuses,
    is_resize_infeasible,
    non_zero_requests,
    pod_requests,
)
from scheduler.api.selectors import IN

PIN_PLACEHOLDER: Final = "kubestow.io:pin"
"""Stands for the node name in the shared spec of pinned pods; no node can be called so."""

SELECTING_OWNERS: Final = frozenset({"ReplicationController", "ReplicaSet", "StatefulSet"})
"""Kinds of controllers whose selectors default spreading reads; others would only multiply
signatures (a CronJob makes a Job, with its own UID, for every run)."""

Resize = tuple[()] | tuple[tuple[tuple[str, str], ...], tuple[int, int]]
"""The pod's requests where they differ from the spec, as ((resource, nano as text), ...), and those
that count for scoring; else ()."""

_encode: Final = msgspec.msgpack.Encoder().encode
_FIELDS_OF_PIN: Final = (
    NodeSelectorRequirement(key=METADATA_NAME, operator=IN, values=(PIN_PLACEHOLDER,)),
)


def pod_pin(spec: PodSpec) -> str:
    """Return the node that every required term names as its only field requirement, else "".

    The DaemonSet controller writes such terms; their other requirements stay in the signature.
    """
    affinity = spec.affinity
    if (
        affinity is None
        or affinity.node_affinity is None
        or affinity.node_affinity.required is None
    ):
        return ""
    pin = ""
    for term in affinity.node_affinity.required.node_selector_terms:
        if len(term.match_fields) != 1:
            return ""
        only = term.match_fields[0]
        if only.key != METADATA_NAME or only.operator != IN or len(only.values) != 1:
            return ""
        if pin not in ("", only.values[0]):
            return ""
        pin = only.values[0]
    return pin


def unpinned_affinity(affinity: Affinity) -> Affinity:
    """Return the affinity of a pinned pod with `PIN_PLACEHOLDER` instead of its node."""
    node_affinity = affinity.node_affinity
    if node_affinity is None or node_affinity.required is None:
        return affinity
    required = NodeSelector(
        node_selector_terms=tuple(
            NodeSelectorTerm(match_expressions=term.match_expressions, match_fields=_FIELDS_OF_PIN)
            for term in node_affinity.required.node_selector_terms
        )
    )
    replaced = NodeAffinity(required=required, preferred=node_affinity.preferred)
    return msgspec.structs.replace(affinity, node_affinity=replaced)


def relevant_volumes(volumes: tuple[Volume, ...]) -> tuple[Volume, ...]:
    """Return the volumes with a source that scheduling reads."""
    if not volumes:
        return volumes
    kept = tuple([each for each in volumes if each != Volume(name=each.name)])
    return volumes if len(kept) == len(volumes) else kept


def controller_owner(pod: Pod) -> OwnerReference | None:
    """Return the controller reference if its kind is in `SELECTING_OWNERS`."""
    for each in pod.metadata.owner_references:
        if each.controller:
            return each if each.kind in SELECTING_OWNERS else None
    return None


def resize_of(pod: Pod) -> Resize:
    """Return the requests that a resize in progress changes; () for nearly all pods.

    Raises `QuantityError`.
    """
    status = pod.status
    if not is_resize_infeasible(pod) and status.resources is None:
        if not status.container_statuses and not status.init_container_statuses:
            return ()
        if all(_echoes(container, each) for container, each in container_statuses(pod)):
            return ()
    resized = pod_requests(pod, with_status=True)
    if resized == pod_requests(pod):
        return ()
    return (_frozen(resized), non_zero_requests(pod))


def signature_key(
    pod: Pod,
    *,
    pin: str,
    volumes: tuple[Volume, ...],
    owner: OwnerReference | None,
    resize: Resize,
) -> bytes:
    """Return the key of a pod's signature; the other functions extract the parts."""
    spec = pod.spec
    affinity = unpinned_affinity(spec.affinity) if pin and spec.affinity else spec.affinity
    return _encode(
        (
            spec.containers,
            spec.init_containers,
            spec.scheduler_name,
            spec.priority,
            spec.priority_class_name,
            spec.preemption_policy,
            spec.node_selector,
            affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            spec.resource_claims,
            [_volume_key(each) for each in volumes],
            spec.overhead,
            spec.resources,
            spec.host_network,
            spec.host_users,
            spec.active_deadline_seconds,
            spec.termination_grace_period_seconds,
            owner,
            resize,
        )
    )


def _volume_key(volume: Volume) -> Volume:
    if volume.ephemeral is not None or not volume.name:
        return volume
    return msgspec.structs.replace(volume, name="")


def _echoes(container: Container, status: ContainerStatus | None) -> bool:
    """Whether a status repeats the spec exactly, as it does unless a resize is in progress."""
    if status is None:
        return True
    stated, allocated = container.resources.requests, status.allocated_resources
    actuated = None if status.resources is None else status.resources.requests
    return (not allocated or allocated == stated) and (not actuated or actuated == stated)


def _frozen(amounts: dict[str, Quantity]) -> tuple[tuple[str, str], ...]:
    # As text: nano-units exceed the 64 bits of a msgpack integer.
    return tuple(sorted((name, str(amount.nano)) for name, amount in amounts.items()))
