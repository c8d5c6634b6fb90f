"""Pod signatures: the scheduling inputs of a pod, interned, and the values derived from them.

Invariant: scheduling treats all pods of a signature alike, except for what belongs to single pods:
namespace, labels, nomination and `Pod.pin`. Derived values are computed once per signature, on
first use. `interner.PodSignatures` creates signatures.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from scheduler.api.images import pod_images
from scheduler.api.limits import node_selector_excess
from scheduler.api.meta import OwnerReference
from scheduler.api.node_selectors import (
    METADATA_NAME,
    CompiledNodeSelector,
    CompiledNodeSelectorTerm,
    PreferredTerms,
    RequiredNodeAffinity,
    compile_node_selector_term,
    compile_preferred_terms,
    compile_required_node_affinity,
)
from scheduler.api.pod import (
    Affinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodResourceClaim,
    PodSpec,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from scheduler.api.pod_affinity import PodAffinityTerms, compile_pod_affinity
from scheduler.api.ports import HostPort, host_ports
from scheduler.api.requests import (
    Resources,
    assigned_requests,
    countable,
    incoming_requests,
    non_zero_requests,
    scoring_requests,
    within_count,
)
from scheduler.api.selectors import IN, compile_map_selector
from scheduler.api.signatures.key import Resize, unpinned_affinity
from scheduler.api.signatures.packed_spec import PackedSpec, pack
from scheduler.api.signatures.unpacked_cache import Packed, UnpackedCache
from scheduler.api.sizes import deep_size
from scheduler.api.tolerations import TolerationIndex

FEATURE_RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
"""Declared feature a node needs for pods with a rule that restarts all containers."""
FEATURE_USER_NAMESPACES_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"
"""Declared feature a node needs for pods on the host network with a user namespace of their own."""

_RESTART_ALL_CONTAINERS: Final = "RestartAllContainers"
_MAX_NAMESPACES: Final = 8
"""Namespaces for which a signature keeps compiled terms; nearly all signatures have one."""


class PodSignature:
    """One signature. Compared by identity; `id` is never reused. Read only.

    `spec` is a canonical PodSpec shared by all pods of the signature: no node, gates or group, only
    volumes with a source, `PIN_PLACEHOLDER` for the node of pinned pods. Attributes below the blank
    line are computed on first use.
    """

    __slots__ = (
        "assigned",
        "controller_owner",
        "host_ports",
        "id",
        "images",
        "named_nodes",
        "nbytes",
        "non_zero",
        "pinned",
        "preferred_node_affinity",
        "requests",
        "required_features",
        "required_node_affinity",
        "resize",
        "scoring",
        "spec",
        "terms_by_namespace",
        "toleration_index",
    )

    id: int
    spec: PodSpec
    nbytes: int
    """Estimate of the memory that the signature holds, or anything else derived from it."""
    pinned: bool
    """Whether each pod of this signature may run on its own `pin` only."""
    controller_owner: OwnerReference | None
    """Controller, if default spreading reads selectors of its kind (`SELECTING_OWNERS`)."""
    resize: Resize
    """Requests that an in-place resize in progress changes; included in `assigned`."""
    requests: Resources
    """Requests of the pod before it is bound (spec alone)."""
    assigned: Resources
    """Usage of the pod on its node (in-place resize included)."""
    non_zero: tuple[int, int]
    """(millicores, bytes) an assigned pod counts with in scoring."""

    scoring: Resources
    """Requests in the NodeResourcesFit score of the incoming pod, with defaults."""
    required_node_affinity: RequiredNodeAffinity | None
    """Required node constraints besides the pin, or None."""
    named_nodes: frozenset[str] | None
    """Node names that field requirements allow; None if they allow all, empty if terms contradict
    each other. Always None for pinned signatures, whose pods carry the one name."""
    preferred_node_affinity: PreferredTerms | None
    """Soft node preferences, `error` set if one cannot be parsed; None for an empty list."""
    host_ports: tuple[HostPort, ...]
    images: tuple[str, ...]
    """References of the images that the pod needs, for image locality; duplicates stay."""
    required_features: tuple[str, ...]
    """Features a node must declare, sorted."""
    toleration_index: TolerationIndex
    """`tolerations`, indexed."""
    terms_by_namespace: dict[str, PodAffinityTerms]
    """Cache of `pod_affinity_terms`."""

    def __init__(
        self,
        signature_id: int,
        pod: Pod,
        *,
        pinned: bool,
        volumes: tuple[Volume, ...],
        owner: OwnerReference | None,
        resize: Resize,
        nbytes: int = 0,
    ) -> None:
        """Take the signature from its first pod. Raises `QuantityError` for unreadable amounts."""
        spec = pod.spec
        affinity = unpinned_affinity(spec.affinity) if pinned and spec.affinity else spec.affinity
        self.id = signature_id
        self.nbytes = nbytes
        self.spec = msgspec.structs.replace(
            spec,
            node_name="",
            scheduling_gates=(),
            scheduling_group=None,
            volumes=volumes,
            affinity=affinity,
        )
        self.pinned = pinned
        self.controller_owner = owner
        self.resize = resize
        self.requests = incoming_requests(pod)
        self.assigned = countable(assigned_requests(pod) if resize else self.requests)
        cpu, memory = non_zero_requests(pod)
        self.non_zero = (within_count(cpu), within_count(memory))

    if not TYPE_CHECKING:
        # Called only while a slot is empty; afterwards reads are plain slot accesses.
        def __getattr__(self, name: str) -> Any:
            derive = _DERIVED.get(name)
            if derive is None:
                msg = f"'PodSignature' object has no attribute {name!r}"
                raise AttributeError(msg)
            value = derive(self)
            setattr(self, name, value)
            return value

    def weigh(self, value: object) -> int:
        """Estimate the bytes of a value derived from the signature."""
        return self.nbytes

    def __repr__(self) -> str:
        return f"<PodSignature {self.id}>"

    @property
    def scheduler_name(self) -> str:
        """`spec.schedulerName`."""
        return self.spec.scheduler_name

    @property
    def priority(self) -> int:
        """`spec.priority`, 0 when unset."""
        return self.spec.priority or 0

    @property
    def preemption_policy(self) -> str | None:
        """`spec.preemptionPolicy`; None means PreemptLowerPriority."""
        return self.spec.preemption_policy

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """`spec.tolerations`."""
        return self.spec.tolerations

    @property
    def affinity(self) -> Affinity | None:
        """`spec.affinity`, with the placeholder for the pin."""
        return self.spec.affinity

    def pod_affinity_terms(self, namespace: str) -> PodAffinityTerms:
        """Return the compiled terms about other pods, for a pod in `namespace`."""
        known = self.terms_by_namespace
        found = known.get(namespace)
        if found is None:
            if len(known) >= _MAX_NAMESPACES:
                known.clear()
            found = known[namespace] = compile_pod_affinity(self.spec.affinity, namespace)
        return found

    def forget_terms(self, namespace: str) -> None:
        """Drop the cached terms: the caller keeps them in another form."""
        self.terms_by_namespace.pop(namespace, None)

    @property
    def topology_spread_constraints(self) -> tuple[TopologySpreadConstraint, ...]:
        """`spec.topologySpreadConstraints`."""
        return self.spec.topology_spread_constraints

    @property
    def resource_claims(self) -> tuple[PodResourceClaim, ...]:
        """`spec.resourceClaims`."""
        return self.spec.resource_claims

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """`spec.volumes` that scheduling reads; only the names of ephemeral ones mean anything."""
        return self.spec.volumes

    @property
    def claims(self) -> tuple[str, ...]:
        """Names of persistent volume claims in `volumes`; not those of ephemeral volumes."""
        return tuple(
            each.persistent_volume_claim.claim_name
            for each in self.spec.volumes
            if each.persistent_volume_claim is not None
        )


class PackedSignature(PodSignature):
    """The signature of a large pod: a compressed spec, and few derived values kept."""

    __slots__ = ("packed",)

    packed: Packed[PodSpec]

    @classmethod
    def of(cls, signature: PodSignature, cache: UnpackedCache) -> PackedSignature:
        """Return the packed form, which replaces `signature`."""
        made = cls.__new__(cls)
        made.packed = pack(signature.spec, cache)
        made.spec = PackedSpec.of(made.packed, signature.spec)
        made.nbytes = made.packed.unpacked_bytes
        for name in _KEPT:
            setattr(made, name, getattr(signature, name))
        # Preemption dry runs remove and restore hundreds of pods, which should not unpack them.
        # Large values stay packed.
        for name in ("requests", "assigned"):
            amounts: Resources = getattr(signature, name)
            if signature.resize or len(amounts.scalars) <= _FEW:
                setattr(made, name, amounts)
            else:
                made.packed.derived(name, partial(getattr, signature, name))
        if len(signature.host_ports) <= _FEW:
            made.host_ports = signature.host_ports
        return made

    def weigh(self, value: object) -> int:
        """Measure the value: the spec's size says little about it."""
        return deep_size(value)

    def pod_affinity_terms(self, namespace: str) -> PodAffinityTerms:
        """Return the compiled terms; compiled again after eviction."""
        found: PodAffinityTerms = self.packed.derived(
            f"terms of {namespace}", lambda: compile_pod_affinity(self.spec.affinity, namespace)
        )
        return found

    def forget_terms(self, namespace: str) -> None:
        """Do nothing: the terms are evictable anyway."""

    if not TYPE_CHECKING:
        # Slots of derived values stay empty, so every read comes here.
        def __getattr__(self, name: str) -> Any:
            derive = _DERIVED.get(name) or _AMOUNTS.get(name)
            if derive is None:
                msg = f"'PackedSignature' object has no attribute {name!r}"
                raise AttributeError(msg)
            return self.packed.derived(name, lambda: derive(self))


_KEPT: Final = ("id", "pinned", "controller_owner", "resize", "non_zero")
"""Slots that a packed signature stores."""
_FEW: Final = 16
"""Maximum number of scalar resources, and of host ports, that it stores as well."""


def _scoring(signature: PodSignature) -> Resources:
    return countable(scoring_requests(Pod(spec=signature.spec)))


def _required_node_affinity(signature: PodSignature) -> RequiredNodeAffinity | None:
    spec = signature.spec
    required = _required(spec)
    if required is None and not spec.node_selector:
        return None
    if (
        not signature.pinned
        or required is None
        or node_selector_excess(spec.node_selector, required)
    ):
        return compile_required_node_affinity(spec.node_selector, required)
    selector = _residue(required)
    if selector is None and not spec.node_selector:
        return None
    return RequiredNodeAffinity(compile_map_selector(spec.node_selector), selector)


def _residue(required: NodeSelector) -> CompiledNodeSelector | None:
    """Return the terms of a pinned pod without their pin; None if nothing is left."""
    terms: list[CompiledNodeSelectorTerm] = []
    for index, each in enumerate(required.node_selector_terms):
        stripped = NodeSelectorTerm(match_expressions=each.match_expressions)
        term = compile_node_selector_term(stripped, f"nodeSelectorTerms[{index}]")
        if term.unconditional:
            return None
        terms.append(term)
    return CompiledNodeSelector(tuple(terms))


def _named_nodes(signature: PodSignature) -> frozenset[str] | None:
    required = _required(signature.spec)
    if signature.pinned or required is None or not required.node_selector_terms:
        return None
    if node_selector_excess(None, required):
        return None
    names: set[str] = set()
    for term in required.node_selector_terms:
        listed = [
            set(each.values)
            for each in term.match_fields
            if each.key == METADATA_NAME and each.operator == IN
        ]
        if not listed:
            return None
        names |= set.intersection(*listed)
    return frozenset(names)


def _preferred_node_affinity(signature: PodSignature) -> PreferredTerms | None:
    affinity = signature.spec.affinity.node_affinity if signature.spec.affinity else None
    return compile_preferred_terms(affinity.preferred) if affinity and affinity.preferred else None


def _required_features(signature: PodSignature) -> tuple[str, ...]:
    spec = signature.spec
    found = []
    containers = (*spec.init_containers, *spec.containers)
    if any(
        rule.action == _RESTART_ALL_CONTAINERS
        for each in containers
        for rule in each.restart_policy_rules
    ):
        found.append(FEATURE_RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.host_users is False:
        found.append(FEATURE_USER_NAMESPACES_HOST_NETWORK)
    return tuple(found)


def _required(spec: PodSpec) -> NodeSelector | None:
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return affinity.required if affinity else None


_AMOUNTS: Final[dict[str, Callable[[PodSignature], object]]] = {
    "requests": lambda signature: incoming_requests(Pod(spec=signature.spec)),
    "assigned": lambda signature: countable(signature.requests),
}
"""Values that an unpacked signature computes from its first pod."""

_DERIVED: Final[dict[str, Callable[[PodSignature], object]]] = {
    "scoring": _scoring,
    "required_node_affinity": _required_node_affinity,
    "named_nodes": _named_nodes,
    "preferred_node_affinity": _preferred_node_affinity,
    "host_ports": lambda signature: host_ports(signature.spec),
    "images": lambda signature: pod_images(signature.spec),
    "required_features": _required_features,
    "terms_by_namespace": lambda _signature: {},
    "toleration_index": lambda signature: TolerationIndex(signature.spec.tolerations),
}
