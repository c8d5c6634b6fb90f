"""Constraints of a pod: its own, or else the profile's defaults.

Upstream: `podtopologyspread/common.go`. A pod with any constraint of its own gets no default. The
selector of the defaults is derived from the Services that select the pod and from its controller
(`helper/spread.go: DefaultSelector`); a pod without either has no default constraints.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from plugins.pod_topology_spread.arguments import (
    DO_NOT_SCHEDULE,
    HONOR,
    SCHEDULE_ANYWAY,
    PodTopologySpreadArgs,
)
from plugins.pod_topology_spread.services import ServiceSelectors
from scheduler.api.bounded_cache import BoundedCache
from scheduler.api.limits import MAX_SPREAD_CONSTRAINTS, spread_excess
from scheduler.api.meta import OwnerReference
from scheduler.api.packed_labels import MAX_PLAIN_LABELS, labels_key
from scheduler.api.pod import Pod, TopologySpreadConstraint
from scheduler.api.selectors import (
    EVERYTHING,
    IN,
    NOTHING,
    CompiledLabelSelector,
    Requirement,
    SelectorError,
    compile_label_selector,
    compile_map_selector,
)
from scheduler.api.signatures.signature import PodSignature
from scheduler.framework import Handle

MATCH_LABEL_KEYS_GATE: Final = "MatchLabelKeysInPodTopologySpread"
"""Feature gate of `matchLabelKeys`; on in v1.36."""

OWNER_PLURALS: Final = {
    ("v1", "ReplicationController"): "replicationcontrollers",
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("apps/v1", "StatefulSet"): "statefulsets",
}
REQUIRED_RESOURCES: Final = ("services", *OWNER_PLURALS.values())

_MAX_BYTES: Final = 8 << 20
"""Memory for parsed constraints, enough for about 1,000 ordinary signatures; half of it for
`Written`."""
_MAX_SELECTOR_BYTES: Final = 8 << 20
"""Memory for derived selectors with the labels they derive from; about 4,000 ordinary ones."""
_BYTES_PER_SELECTOR: Final = 500
_BYTES_PER_LABEL: Final = 170
"""Overhead of a label in a cache key, without its text."""
_BYTES_PER_REQUIREMENT: Final = 900
"""Overhead of a selector's requirement; the Service or controller owns the text."""


class Constraint(NamedTuple):
    """A constraint with its compiled selector and upstream's defaults."""

    max_skew: int
    topology_key: str
    selector: CompiledLabelSelector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool

    def matches(self, pod: Pod) -> bool:
        """Whether a pod's labels satisfy the selector; the namespace is ignored."""
        return self.selector.matches(pod.metadata.labels)


class _Parsed(NamedTuple):
    """Constraints of one kind, with the `matchLabelKeys` of each."""

    constraints: tuple[Constraint, ...]
    match_label_keys: tuple[tuple[str, ...], ...]
    error: SelectorError | None = None


class _Own(NamedTuple):
    """Constraints of one signature; `excess` is the error text if there are too many."""

    hard: _Parsed
    soft: _Parsed
    excess: str


class Written(NamedTuple):
    """Topology keys and criteria of a pod's hard constraints, for the fallback."""

    #: Whether the constraints are the pod's own; False for the profile's defaults.
    own: bool
    #: Topology keys in the order of the constraints; unique.
    hard_keys: tuple[str, ...]
    #: Topology key to `fallbackCriteria`, where there are any.
    criteria: Mapping[str, tuple[str, ...]]


class Constraints:
    """Finds the constraints of pods; caches parsed constraints and derived selectors."""

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        self._handle = handle
        self._uses_label_keys = handle.feature_gates.get(MATCH_LABEL_KEYS_GATE, True)
        self._default_hard = self._parse(args.constraints, DO_NOT_SCHEDULE)
        self._default_soft = self._parse(args.constraints, SCHEDULE_ANYWAY)
        self._default_written = _written(args.constraints, own=False)
        self._default_order = _order(args.constraints)
        #: By id of the signature: a reference would keep the signature of a large pod alive.
        self._parsed: BoundedCache[int, _Own] = BoundedCache(_MAX_BYTES)
        self._written: BoundedCache[int, Written] = BoundedCache(_MAX_BYTES // 2)
        self._services = ServiceSelectors()
        self._selectors: BoundedCache[tuple[object, ...], CompiledLabelSelector]
        self._selectors = BoundedCache(_MAX_SELECTOR_BYTES)
        self._versions: tuple[int, ...] = ()

    @property
    def any_hard_default(self) -> bool:
        """Whether pods without constraints of their own may get hard ones."""
        return bool(self._default_hard.constraints)

    def excess(self, pod: Pod) -> str:
        """Return the error text of a pod with too many constraints; empty for all others."""
        signature = pod.signature
        return self._own(signature).excess if signature.spec.topology_spread_constraints else ""

    def hard(self, pod: Pod) -> tuple[Constraint, ...]:
        """Return DoNotSchedule constraints in the pod's order. Raises SelectorError."""
        signature = pod.signature
        if not signature.spec.topology_spread_constraints:
            return self._derived(self._default_hard, pod)
        return _of(self._own(signature).hard, pod)

    def soft(self, pod: Pod) -> tuple[Constraint, ...]:
        """Return ScheduleAnyway constraints in the pod's order. Raises SelectorError."""
        signature = pod.signature
        if not signature.spec.topology_spread_constraints:
            return self._derived(self._default_soft, pod)
        return _of(self._own(signature).soft, pod)

    def written(self, pod: Pod) -> Written:
        """Return the keys and criteria of the hard constraints."""
        signature = pod.signature
        listed = signature.spec.topology_spread_constraints
        if not listed:
            return self._default_written
        found = self._written.get(signature.id)
        if found is None:
            listed = listed[:MAX_SPREAD_CONSTRAINTS]
            found = _written(listed, own=True)
            self._written.put(signature.id, found, signature.weigh(found))
        return found

    def divided(
        self, pod: Pod, soft_keys: Collection[str]
    ) -> tuple[tuple[Constraint, ...], tuple[Constraint, ...]]:
        """Return (hard, soft), the hard constraints of `soft_keys` moved to soft, in order."""
        hard, soft = self.hard(pod), self.soft(pod)
        listed = pod.signature.spec.topology_spread_constraints
        order = _order(listed) if listed else self._default_order
        relaxed = [each for each in hard if each.topology_key in soft_keys]
        merged = [(order[each.topology_key, DO_NOT_SCHEDULE], each) for each in relaxed]
        merged += [(order[each.topology_key, SCHEDULE_ANYWAY], each) for each in soft]
        merged.sort(key=lambda pair: pair[0])
        return (
            tuple(each for each in hard if each.topology_key not in soft_keys),
            tuple(each for _, each in merged),
        )

    def _own(self, signature: PodSignature) -> _Own:
        found = self._parsed.get(signature.id)
        if found is None:
            listed = signature.spec.topology_spread_constraints
            excess = spread_excess(listed)
            if excess:
                listed = ()
            hard, soft = self._parse(listed, DO_NOT_SCHEDULE), self._parse(listed, SCHEDULE_ANYWAY)
            found = _Own(hard, soft, excess)
            self._parsed.put(signature.id, found, signature.weigh(found))
        return found

    def _parse(self, listed: tuple[TopologySpreadConstraint, ...], kind: str) -> _Parsed:
        selected = [each for each in listed if each.when_unsatisfiable == kind]
        try:
            constraints = tuple(
                _constraint(each, f"[{index}].labelSelector.")
                for index, each in enumerate(listed)
                if each.when_unsatisfiable == kind
            )
        except SelectorError as error:
            return _Parsed((), (), error.with_traceback(None))
        if not self._uses_label_keys:
            return _Parsed(constraints, ((),) * len(constraints))
        return _Parsed(constraints, tuple(each.match_label_keys for each in selected))

    # -- defaults --------------------------------------------------------------------------------

    def _derived(self, defaults: _Parsed, pod: Pod) -> tuple[Constraint, ...]:
        if not defaults.constraints:
            return ()
        selector = self._default_selector(pod)
        if selector.empty:
            return ()
        return tuple(each._replace(selector=selector) for each in defaults.constraints)

    def _default_selector(self, pod: Pod) -> CompiledLabelSelector:
        metadata, owner = pod.metadata, pod.signature.controller_owner
        if owner is None and not any(self._handle.listers["services"].list(metadata.namespace)):
            return EVERYTHING
        version = self._handle.table.version
        versions = tuple([version(plural) for plural in REQUIRED_RESOURCES])
        if versions != self._versions:
            self._selectors.clear()
            self._versions = versions
        key = (metadata.namespace, owner, labels_key(metadata.labels))
        found = self._selectors.get(key)
        if found is None:
            found = self._select(pod, owner)
            self._selectors.put(key, found, _bytes_of(metadata.labels, found))
        return found

    def _select(self, pod: Pod, owner: OwnerReference | None) -> CompiledLabelSelector:
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        services = self._handle.listers["services"].list(namespace)
        merged = self._services.merged(namespace, services, labels)
        controller = self._controller(owner, namespace)
        if controller is None:
            return compile_map_selector(merged)
        chosen = controller.spec.selector
        if owner is not None and owner.kind == "ReplicationController":
            return compile_map_selector(merged | (chosen or {}))
        return compile_map_selector(merged).also(_readable(chosen).requirements)

    def _controller(self, owner: OwnerReference | None, namespace: str) -> Any | None:
        if owner is None:
            return None
        plural = OWNER_PLURALS.get((owner.api_version, owner.kind))
        if plural is None:
            return None
        return self._handle.listers[plural].get(owner.name, namespace)


def _of(parsed: _Parsed, pod: Pod) -> tuple[Constraint, ...]:
    """Return the constraints with the pod's own labels of `matchLabelKeys` added."""
    constraints, keys, problem = parsed
    if problem is not None:
        raise problem
    if not any(keys):
        return constraints
    labels = pod.metadata.labels
    return tuple(
        each._replace(
            selector=each.selector.also(
                [Requirement(key, IN, (labels[key],)) for key in names if key in labels]
            )
        )
        for each, names in zip(constraints, keys, strict=True)
    )


def _bytes_of(labels: Mapping[str, str], selector: CompiledLabelSelector) -> int:
    """Estimate the bytes of a derived selector and its key: 64 labels may have 24 kB."""
    nbytes = _BYTES_PER_SELECTOR + _BYTES_PER_REQUIREMENT * len(selector.requirements)
    if len(labels) > MAX_PLAIN_LABELS:
        # The key has a digest of them.
        return nbytes
    return nbytes + sum(_BYTES_PER_LABEL + len(key) + len(value) for key, value in labels.items())


def _readable(selector: Any) -> CompiledLabelSelector:
    """Compile a controller's selector; as upstream, one that does not parse adds nothing."""
    try:
        return compile_label_selector(selector)
    except SelectorError:
        return NOTHING


def _written(listed: tuple[TopologySpreadConstraint, ...], *, own: bool) -> Written:
    hard = [each for each in listed if each.when_unsatisfiable == DO_NOT_SCHEDULE]
    return Written(
        own,
        tuple(each.topology_key for each in hard),
        {each.topology_key: each.fallback_criteria for each in hard if each.fallback_criteria},
    )


def _order(listed: tuple[TopologySpreadConstraint, ...]) -> dict[tuple[str, str], int]:
    return {(each.topology_key, each.when_unsatisfiable): at for at, each in enumerate(listed)}


def _constraint(constraint: TopologySpreadConstraint, path: str) -> Constraint:
    return Constraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        selector=compile_label_selector(constraint.label_selector, path),
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honors_affinity=constraint.node_affinity_policy in (None, HONOR),
        honors_taints=constraint.node_taints_policy == HONOR,
    )
