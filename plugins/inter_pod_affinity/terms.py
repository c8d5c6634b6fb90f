"""What an incoming pod asks of other pods, with namespace selectors resolved (plugins.md 4.12).

Upstream resolves a selector to names, and yet holds it against an empty label set later on. A
selector that accepts a namespace without labels therefore covers every namespace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.api.bounded_memory import BoundedMemory
from scheduler.api.pod import Pod
from scheduler.api.pod_affinity import AffinityTerm, PodAffinityTerms
from scheduler.framework import Handle, PodTerm

NAMESPACES: Final = "namespaces"

_MAX_BYTES: Final = 8 << 20
"""Of resolved terms; those of some 1,000 ordinary shapes."""
_NO_LABELS: Final[Mapping[str, str]] = {}


class OwnTerm(NamedTuple):
    """One term of the incoming pod."""

    pods: PodTerm
    topology_key: str
    weight: int = 0

    def matches(self, pod: Pod) -> bool:
        """Whether the term speaks of `pod`."""
        namespaces, selector = self.pods
        if namespaces is not None and pod.metadata.namespace not in namespaces:
            return False
        return selector.matches(pod.metadata.labels)


@dataclass(frozen=True, slots=True)
class OwnTerms:
    """All terms of the incoming pod; anti-affinity that is preferred has a negative weight."""

    required: tuple[OwnTerm, ...]
    required_anti: tuple[OwnTerm, ...]
    preferred: tuple[OwnTerm, ...]
    parsing_problem: str
    """Upstream's text when some list cannot be parsed, else empty."""
    required_keys: Mapping[str, int]
    """Topology keys of `required`, and how many terms have each."""

    def all_required_match(self, pod: Pod) -> bool:
        """Whether every required affinity term speaks of `pod`; False without terms."""
        return bool(self.required) and all(each.matches(pod) for each in self.required)


class Terms:
    """Compiles terms; remembers them by shape and namespace until some namespace changes."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._version = -1
        self._own: BoundedMemory[tuple[int, str], OwnTerms] = BoundedMemory(_MAX_BYTES)

    def compiled(self, pod: Pod) -> PodAffinityTerms:
        """The terms as they stand in the pod, with namespace selectors unresolved."""
        return pod.shape.pod_affinity_terms(pod.metadata.namespace)

    def own(self, pod: Pod) -> OwnTerms:
        """The terms of an incoming pod."""
        version = self._handle.table.version(NAMESPACES)
        if version != self._version:
            self._version = version
            self._own.clear()
        # Not the shape itself: that of a large pod must go with its last pod.
        key = (pod.shape.id, pod.metadata.namespace)
        found = self._own.get(key)
        if found is None:
            found = self._resolved(self.compiled(pod))
            self._own.put(key, found, pod.shape.weigh(found))
        return found

    def namespace_labels(self, pod: Pod) -> Mapping[str, str]:
        """Labels of the pod's namespace; none when it is not known."""
        namespace = self._handle.listers[NAMESPACES].get(pod.metadata.namespace)
        if namespace is None:
            return _NO_LABELS
        labels: Mapping[str, str] = namespace.metadata.labels
        return labels

    def _resolved(self, terms: PodAffinityTerms) -> OwnTerms:
        return OwnTerms(
            required=tuple(self._term(each) for each in terms.required),
            required_anti=tuple(self._term(each) for each in terms.required_anti),
            preferred=(
                *(self._term(each, weight) for weight, each in terms.preferred),
                *(self._term(each, -weight) for weight, each in terms.preferred_anti),
            ),
            parsing_problem=terms.parsing_problem if terms.errors else "",
            required_keys=Counter(each.topology_key for each in terms.required),
        )

    def _term(self, term: AffinityTerm, weight: int = 0) -> OwnTerm:
        pods = PodTerm(self._namespaces(term), term.selector)
        return OwnTerm(pods, term.topology_key, weight)

    def _namespaces(self, term: AffinityTerm) -> frozenset[str] | None:
        chosen = term.namespace_selector
        if chosen is None:
            return term.namespaces
        if chosen.matches(_NO_LABELS):
            return None
        known: Iterable[str] = (
            each.metadata.name
            for each in self._handle.listers[NAMESPACES].list()
            if chosen.matches(each.metadata.labels)
        )
        return term.namespaces.union(known)
