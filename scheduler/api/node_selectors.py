"""Node selectors, compiled: required terms, preferred terms and the plain nodeSelector map.

Invariant: a term that cannot be parsed matches nothing, keeps its error, and does not affect other
terms (upstream: `nodeaffinity.go: LazyErrorNodeSelector`). Field requirements know one field,
`metadata.name`; any other reads as empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from scheduler.api.limits import node_selector_excess, preferred_terms_excess
from scheduler.api.pod import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from scheduler.api.selectors import (
    EVERYTHING,
    IN,
    NOT_IN,
    CompiledLabelSelector,
    Requirement,
    SelectorError,
    compile_map_selector,
    in_order,
)

METADATA_NAME: Final = "metadata.name"
"""The only node field that field requirements can read."""


class CompiledNodeSelectorTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """Requirements on labels and fields that must all hold, each in canonical order.

    `error` is set when the term could not be parsed; it then has no requirements and matches
    nothing. A term without requirements and without error matches every node (only a pinned pod's
    residue has one).
    """

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    error: SelectorError | None = None

    @property
    def unconditional(self) -> bool:
        """Whether every node matches."""
        return self.error is None and not self.labels and not self.fields

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node with these labels and this name satisfies the term."""
        if self.error is not None:
            return False
        if not all(each.matches(labels) for each in self.labels):
            return False
        # Upstream does not look at fields of a node without a name.
        return not name or all(
            each.accepts(name if each.key == METADATA_NAME else "") for each in self.fields
        )


class CompiledNodeSelector(msgspec.Struct, frozen=True, cache_hash=True):
    """Terms of which one must hold; no terms match no node."""

    terms: tuple[CompiledNodeSelectorTerm, ...]

    @property
    def errors(self) -> tuple[SelectorError, ...]:
        """Parse errors, one per invalid term."""
        return tuple(each.error for each in self.terms if each.error is not None)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node with these labels and this name satisfies a term; invalid ones do not."""
        return any(each.matches(labels, name) for each in self.terms)


class RequiredNodeAffinity(msgspec.Struct, frozen=True, cache_hash=True):
    """The required node constraints of a pod: the nodeSelector map and the required affinity."""

    node_selector: CompiledLabelSelector
    selector: CompiledNodeSelector | None
    """None if there is no required affinity."""

    @property
    def errors(self) -> tuple[SelectorError, ...]:
        """Parse errors of terms; they matter only where nothing matched."""
        return self.selector.errors if self.selector else ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node with these labels and this name matches; invalid terms do not."""
        if not self.node_selector.matches(labels):
            return False
        return self.selector is None or self.selector.matches(labels, name)


class PreferredTerms(msgspec.Struct, frozen=True, cache_hash=True):
    """Weighted terms; one that cannot be parsed makes the whole list an error."""

    terms: tuple[tuple[int, CompiledNodeSelectorTerm], ...]
    error: SelectorError | None
    """The merged errors of the terms."""

    @classmethod
    def of(cls, terms: Iterable[tuple[int, CompiledNodeSelectorTerm]]) -> PreferredTerms:
        """Build the list from pairs of weight and term."""
        kept = tuple(terms)
        errors = [term.error for _, term in kept if term.error]
        return cls(kept, SelectorError.of(errors) if errors else None)

    def score(self, labels: Mapping[str, str], name: str) -> int:
        """Add up the weights of matching terms; raises the list's `SelectorError` if it has one."""
        if self.error is not None:
            # A new error: raising the kept one would accumulate tracebacks on a shared object.
            raise SelectorError.of(self.error.parts)
        return sum(weight for weight, term in self.terms if term.matches(labels, name))


def compile_node_selector(
    selector: NodeSelector, path: str = "nodeSelectorTerms"
) -> CompiledNodeSelector:
    """Compile required terms. Never raises: errors stay in their terms. Empty terms are dropped."""
    return CompiledNodeSelector(
        tuple(
            compile_node_selector_term(term, f"{path}[{index}]")
            for index, term in enumerate(selector.node_selector_terms)
            if term.match_expressions or term.match_fields
        )
    )


def compile_node_selector_term(term: NodeSelectorTerm, path: str) -> CompiledNodeSelectorTerm:
    """Compile one term and keep a parse error in it; without requirements it matches all."""
    labels: list[Requirement] = []
    fields: list[Requirement] = []
    errors: list[SelectorError] = []
    for i, each in enumerate(term.match_expressions):
        made = Requirement.valid(each.key, each.operator, each.values, node=True)
        if made is not None:
            labels.append(made)
            continue
        where = f"{path}.matchExpressions[{i}]"
        try:
            labels.append(
                Requirement.checked(each.key, each.operator, each.values, where, node=True)
            )
        except SelectorError as error:
            errors.append(error.with_traceback(None))
    for i, each in enumerate(term.match_fields):
        try:
            fields.append(_field_requirement(each, f"{path}.matchFields[{i}]"))
        except SelectorError as error:
            errors.append(error.with_traceback(None))
    if errors:
        return CompiledNodeSelectorTerm(error=SelectorError.of(errors))
    return CompiledNodeSelectorTerm(in_order(labels), in_order(fields))


def compile_required_node_affinity(
    node_selector: Mapping[str, str] | None, required: NodeSelector | None
) -> RequiredNodeAffinity:
    """Compile the two hard node constraints of a pod. Never raises.

    Beyond `limits` it is one term that cannot be parsed.
    """
    excess = node_selector_excess(node_selector, required)
    if excess:
        return RequiredNodeAffinity(EVERYTHING, CompiledNodeSelector((_unread(excess),)))
    return RequiredNodeAffinity(
        compile_map_selector(node_selector),
        None if required is None else compile_node_selector(required),
    )


def compile_preferred_terms(terms: Iterable[PreferredSchedulingTerm]) -> PreferredTerms:
    """Compile weighted terms. Weight 0 and empty preferences are dropped unparsed. Never raises.

    Beyond `limits` it is one term that cannot be parsed.
    """
    terms = tuple(terms)
    excess = preferred_terms_excess(terms)
    if excess:
        return PreferredTerms.of([(1, _unread(excess))])
    return PreferredTerms.of(
        (term.weight, compile_node_selector_term(term.preference, f"[{index}]"))
        for index, term in enumerate(terms)
        if term.weight and (term.preference.match_expressions or term.preference.match_fields)
    )


def _unread(excess: str) -> CompiledNodeSelectorTerm:
    what, _, reason = excess.partition(": ")
    return CompiledNodeSelectorTerm(error=SelectorError("nodeAffinity", what, reason))


def _field_requirement(requirement: NodeSelectorRequirement, path: str) -> Requirement:
    if requirement.operator not in {IN, NOT_IN}:
        raise SelectorError(
            f"{path}.operator", requirement.operator, "not a valid field selector operator"
        )
    if len(requirement.values) != 1:
        shown = f"[{' '.join(requirement.values)}]"
        raise SelectorError(f"{path}.values", shown, "exactly one value is needed")
    return Requirement(requirement.key, requirement.operator, requirement.values)
