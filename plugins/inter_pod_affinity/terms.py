"""Terms of an incoming pod, with namespace selectors resolved to names.

Upstream resolves them too (`plugin.go: mergeAffinityTermNamespacesIfNotEmpty`), but then matches
the selector against an empty label set as well, so that one with only negative requirements covers
every namespace. Here, as the API says, only the labels of each namespace count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.api.bounded_cache import BoundedCache
from scheduler.api.many_terms import MANY_TERMS, ManyTerms
from scheduler.api.pod import Pod
from scheduler.api.pod_affinity import AffinityTerm, PodAffinityTerms
from scheduler.framework import Handle, PodTerm

NAMESPACES: Final = "namespaces"

_MAX_BYTES: Final = 8 << 20
"""Of resolved terms; those of some 1,000 ordinary signatures."""
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The label with the namespace's own name, which the API server gives to every namespace."""


class OwnTerm(NamedTuple):
    """One term of the incoming pod."""

    pods: PodTerm
    topology_key: str
    weight: int = 0

    def matches(self, pod: Pod) -> bool:
        """Whether the term matches `pod`."""
        namespaces, selector = self.pods
        if namespaces is not None and pod.metadata.namespace not in namespaces:
            return False
        return selector.matches(pod.metadata.labels)


@dataclass(frozen=True, slots=True)
class OwnTerms:
    """All terms of the incoming pod; preferred anti-affinity has negative weights."""

    required: tuple[OwnTerm, ...]
    required_anti: tuple[OwnTerm, ...]
    preferred: tuple[OwnTerm, ...]
    parsing_problem: str
    """Upstream's text if a list cannot be parsed, else empty."""
    required_keys: Mapping[str, int]
    """Topology keys of `required` with their numbers of terms."""

    many_required: ManyTerms | None
    """`required` as a conjunction, if there are very many terms."""
    many_anti: Mapping[str, ManyTerms]
    """`required_anti` by topology key, if there are very many terms."""
    many_preferred: Mapping[str, ManyTerms]
    """`preferred` by topology key, if there are very many terms."""

    def all_required_match(self, pod: Pod) -> bool:
        """Whether every required affinity term matches `pod`; False without terms."""
        if self.many_required is not None:
            metadata = pod.metadata
            return bool(self.many_required.matching(metadata.namespace, metadata.labels)[0])
        return bool(self.required) and all(each.matches(pod) for each in self.required)

    def anti_matching(self, pod: Pod) -> Mapping[str, int]:
        """Count by topology key the required anti-affinity terms that match `pod`."""
        if self.many_anti:
            namespace, labels = pod.metadata.namespace, pod.metadata.labels
            numbers = {
                key: terms.matching(namespace, labels)[0] for key, terms in self.many_anti.items()
            }
            return {key: number for key, number in numbers.items() if number}
        found: dict[str, int] = {}
        for each in self.required_anti:
            if each.matches(pod):
                found[each.topology_key] = found.get(each.topology_key, 0) + 1
        return found


def compiled_terms(pod: Pod) -> PodAffinityTerms:
    """Return the pod's terms with namespace selectors unresolved."""
    return pod.signature.pod_affinity_terms(pod.metadata.namespace)


class Terms:
    """Resolves terms and caches them by signature and namespace until a namespace changes."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._version = -1
        self._own: BoundedCache[tuple[int, str], OwnTerms] = BoundedCache(_MAX_BYTES)

    def own(self, pod: Pod) -> OwnTerms:
        """Return the resolved terms of an incoming pod."""
        version = self._handle.table.version(NAMESPACES)
        if version != self._version:
            self._version = version
            self._own.clear()
        # By id: a reference would keep the signature of a large pod alive.
        key = (pod.signature.id, pod.metadata.namespace)
        found = self._own.get(key)
        if found is None:
            found = self._resolved(compiled_terms(pod))
            self._own.put(key, found, pod.signature.weigh(found))
        return found

    def namespace_labels(self, pod: Pod) -> Mapping[str, str]:
        """Return the labels of the pod's namespace; if it is unknown, the one that all have."""
        namespace = self._handle.listers[NAMESPACES].get(pod.metadata.namespace)
        if namespace is None:
            return {_NAME_LABEL: pod.metadata.namespace}
        labels: Mapping[str, str] = namespace.metadata.labels
        return labels

    def _resolved(self, terms: PodAffinityTerms) -> OwnTerms:
        required = tuple(self._term(each) for each in terms.required)
        required_anti = tuple(self._term(each) for each in terms.required_anti)
        preferred = (
            *(self._term(each, weight) for weight, each in terms.preferred),
            *(self._term(each, -weight) for weight, each in terms.preferred_anti),
        )
        return OwnTerms(
            required=required,
            required_anti=required_anti,
            preferred=preferred,
            parsing_problem=terms.parsing_problem,
            required_keys=Counter(each.topology_key for each in terms.required),
            many_required=(
                ManyTerms([each.pods for each in required], together=True)
                if len(required) > MANY_TERMS
                else None
            ),
            many_anti=_many_by_key(required_anti),
            many_preferred=_many_by_key(preferred),
        )

    def _term(self, term: AffinityTerm, weight: int = 0) -> OwnTerm:
        pods = PodTerm(self._namespaces(term), term.selector)
        return OwnTerm(pods, term.topology_key, weight)

    def _namespaces(self, term: AffinityTerm) -> frozenset[str] | None:
        chosen = term.namespace_selector
        if chosen is None:
            return term.namespaces
        if chosen.empty:
            return None
        known: Iterable[str] = (
            each.metadata.name
            for each in self._handle.listers[NAMESPACES].list()
            if chosen.matches(each.metadata.labels)
        )
        return term.namespaces.union(known)


def _many_by_key(terms: Sequence[OwnTerm]) -> Mapping[str, ManyTerms]:
    """Group terms by topology key; empty if they are few."""
    if len(terms) <= MANY_TERMS:
        return {}
    by_key: dict[str, list[OwnTerm]] = {}
    for each in terms:
        by_key.setdefault(each.topology_key, []).append(each)
    return {
        key: ManyTerms([each.pods for each in alike], [each.weight for each in alike])
        for key, alike in by_key.items()
    }
