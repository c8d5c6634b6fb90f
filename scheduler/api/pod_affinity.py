"""Terms of inter-pod affinity, compiled (upstream: `types.go: AffinityTerm`).

Invariant: equivalent terms compile to equal, hashable values, so that identical terms of many pods
share one entry of an index. A list that cannot be parsed, or exceeds `limits`, is empty and
reported in `errors`; the caller decides whether that matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.api.limits import pod_affinity_excess
from scheduler.api.pod import Affinity, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from scheduler.api.selectors import (
    CompiledLabelSelector,
    SelectorError,
    compile_label_selector,
)


class AffinityTerm(NamedTuple):
    """One term: pods that match, in nodes with the same value of `topology_key`."""

    namespaces: frozenset[str]
    """The names listed, or the owner's namespace when neither names nor a selector are given."""
    namespace_selector: CompiledLabelSelector | None
    """Adds the namespaces with matching labels; None adds none."""
    selector: CompiledLabelSelector
    topology_key: str

    def matches(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> bool:
        """Whether a pod with `labels`, in a namespace with `namespace_labels`, is selected."""
        if namespace not in self.namespaces and (
            self.namespace_selector is None or not self.namespace_selector.matches(namespace_labels)
        ):
            return False
        return self.selector.matches(labels)


class WeightedAffinityTerm(NamedTuple):
    """A preferred term."""

    weight: int
    term: AffinityTerm


@dataclass(frozen=True, slots=True)
class PodAffinityTerms:
    """All terms of one pod."""

    required: tuple[AffinityTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedAffinityTerm, ...] = ()
    preferred_anti: tuple[WeightedAffinityTerm, ...] = ()
    errors: tuple[str, ...] = ()
    """`<list>: <problem>` for every list that could not be parsed, in upstream's order."""

    @property
    def parsing_problem(self) -> str:
        """The errors as upstream joins them; empty if there are none."""
        return f"[{', '.join(self.errors)}]" if len(self.errors) > 1 else "".join(self.errors)


NO_TERMS = PodAffinityTerms()


def compile_pod_affinity(affinity: Affinity | None, namespace: str) -> PodAffinityTerms:
    """Compile the affinity of a pod in `namespace`. Never raises."""
    if affinity is None:
        return NO_TERMS
    if affinity.pod_affinity is None and affinity.pod_anti_affinity is None:
        return NO_TERMS
    excess = pod_affinity_excess(affinity)
    if excess:
        return PodAffinityTerms(errors=(excess,))
    near = affinity.pod_affinity or PodAffinity()
    far = affinity.pod_anti_affinity or PodAffinity()
    errors: list[str] = []
    return PodAffinityTerms(
        required=_terms(near.required, namespace, "requiredAffinityTerms", errors),
        required_anti=_terms(far.required, namespace, "requiredAntiAffinityTerms", errors),
        preferred=_weighted(near.preferred, namespace, "preferredAffinityTerms", errors),
        preferred_anti=_weighted(far.preferred, namespace, "preferredAntiAffinityTerms", errors),
        errors=tuple(errors),
    )


def _terms(
    terms: Iterable[PodAffinityTerm], namespace: str, name: str, errors: list[str]
) -> tuple[AffinityTerm, ...]:
    try:
        return tuple(_term(each, namespace, f"[{i}]") for i, each in enumerate(terms))
    except SelectorError as error:
        errors.append(f"{name}: {error}")
        return ()


def _weighted(
    terms: Iterable[WeightedPodAffinityTerm], namespace: str, name: str, errors: list[str]
) -> tuple[WeightedAffinityTerm, ...]:
    try:
        return tuple(
            WeightedAffinityTerm(
                each.weight, _term(each.pod_affinity_term, namespace, f"[{i}].podAffinityTerm")
            )
            for i, each in enumerate(terms)
        )
    except SelectorError as error:
        errors.append(f"{name}: {error}")
        return ()


def _term(term: PodAffinityTerm, namespace: str, path: str) -> AffinityTerm:
    names, chosen = term.namespaces, term.namespace_selector
    if not names and chosen is None:
        names = (namespace,)
    return AffinityTerm(
        frozenset(names),
        None if chosen is None else compile_label_selector(chosen, f"{path}.namespaceSelector."),
        compile_label_selector(term.label_selector, f"{path}.labelSelector."),
        term.topology_key,
    )
