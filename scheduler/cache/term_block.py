"""TermBlock: thousands of affinity terms, of one or several owners, as a few arrays.

A pod may have 7,000 terms with different labels. As objects they take ten times the memory of the
pod's JSON; here a term with one label takes about 40 bytes, and a pod is matched with all terms in
one pass. Namespaces, like labels, are compared by hash: see `scheduler/api/hashed_conditions.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.api.hashed_conditions import Conditions, HashedLabels, consecutive, renumbered
from scheduler.api.pod_affinity import AffinityTerm
from scheduler.framework.nodes import BoolColumn, Int32Column, Int64Column, TermKind

TermClass = tuple[TermKind, str]
"""Kind and topology key of a term."""

ClassMatch = tuple[TermClass, Int64Column]
"""A class, and (owners,): the number of matching terms, or the sum of their weights."""

_PREFERRED = (TermKind.PREFERRED, TermKind.PREFERRED_ANTI)


class HashedPod:
    """The pod to match, hashed once for all blocks."""

    __slots__ = ("labels", "namespace", "namespace_labels")

    def __init__(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> None:
        self.namespace = hash(namespace)
        self.labels = HashedLabels(labels)
        self.namespace_labels = HashedLabels(namespace_labels)


@dataclass(frozen=True, slots=True, eq=False)
class TermBlock:
    """Immutable arrays of terms; terms and owners are numbered from 0."""

    owners: int
    """Number of owners."""
    owner_of: Int32Column
    """(terms,): number of the owner."""
    classes: tuple[TermClass, ...]
    """Distinct classes."""
    class_of: Int32Column
    """(terms,): index into `classes`."""
    amounts: Int32Column
    """(terms,): the weight of a preferred term, else 1."""
    on_pods: Conditions
    nothing: BoolColumn
    """(terms,): whether the term matches no pod at all."""
    named: Int64Column
    """(names,): hashes of the namespaces that terms list."""
    named_terms: Int32Column
    """(names,): the term that lists it."""
    selecting: BoolColumn | None
    """(terms,): whether the term selects namespaces by label; None if no term does."""
    on_namespaces: Conditions

    @classmethod
    def of(cls, terms: Sequence[tuple[TermKind, int, AffinityTerm]]) -> TermBlock:
        """Build the block of one owner from (kind, weight, term)."""
        count = len(terms)
        numbers: dict[TermClass, int] = {}
        classes = [
            numbers.setdefault((kind, term.topology_key), len(numbers)) for kind, _, term in terms
        ]
        amounts = [weight if kind in _PREFERRED else 1 for kind, weight, _ in terms]
        listed = [term for _, _, term in terms]
        chosen = [each.namespace_selector for each in listed]
        sizes = [len(each.namespaces) for each in listed]
        selecting = np.array([each is not None and not each.nothing for each in chosen])
        return cls(
            owners=1,
            owner_of=np.zeros(count, dtype=np.int32),
            classes=tuple(numbers),
            class_of=np.array(classes, dtype=np.int32),
            amounts=np.array(amounts, dtype=np.int32),
            on_pods=Conditions.of(count, enumerate(each.selector for each in listed)),
            nothing=np.array([each.selector.nothing for each in listed], dtype=np.bool_),
            named=np.fromiter(
                (hash(name) for each in listed for name in each.namespaces), np.int64, sum(sizes)
            ),
            named_terms=np.repeat(np.arange(count, dtype=np.int32), sizes),
            selecting=_or_none(selecting),
            on_namespaces=Conditions.of(
                count, [(number, each) for number, each in enumerate(chosen) if each is not None]
            ),
        )

    def joined(self, other: TermBlock) -> TermBlock:
        """Return a block of both, with terms and owners of `other` numbered after these."""
        numbers = {known: number for number, known in enumerate(self.classes)}
        classes = [numbers.setdefault(known, len(numbers)) for known in other.classes]
        selecting = [
            np.zeros(len(each), dtype=np.bool_) if each.selecting is None else each.selecting
            for each in (self, other)
        ]
        both, sizes = (self, other), (len(self), len(other))
        return TermBlock(
            owners=self.owners + other.owners,
            owner_of=consecutive([each.owner_of for each in both], (self.owners, other.owners)),
            classes=tuple(numbers),
            class_of=np.concatenate(
                [self.class_of, np.array(classes, dtype=np.int32)[other.class_of]]
            ),
            amounts=np.concatenate([each.amounts for each in both]),
            on_pods=Conditions.joined([each.on_pods for each in both]),
            nothing=np.concatenate([each.nothing for each in both]),
            named=np.concatenate([each.named for each in both]),
            named_terms=consecutive([each.named_terms for each in both], sizes),
            selecting=_or_none(np.concatenate(selecting)),
            on_namespaces=Conditions.joined([each.on_namespaces for each in both]),
        )

    def without(self, owner: int) -> TermBlock:
        """Return the block without one owner; later owners are renumbered."""
        kept = self.owner_of != owner
        left = self.owner_of[kept]
        found, class_of = np.unique(self.class_of[kept], return_inverse=True)
        keep_name = kept[self.named_terms]
        return TermBlock(
            owners=self.owners - 1,
            owner_of=left - (left > owner),
            classes=tuple(self.classes[number] for number in found.tolist()),
            class_of=class_of.astype(np.int32),
            amounts=self.amounts[kept],
            on_pods=self.on_pods.of_terms(kept),
            nothing=self.nothing[kept],
            named=self.named[keep_name],
            named_terms=renumbered(kept)[self.named_terms[keep_name]],
            selecting=None if self.selecting is None else _or_none(self.selecting[kept]),
            on_namespaces=self.on_namespaces.of_terms(kept),
        )

    def __len__(self) -> int:
        return len(self.class_of)

    @property
    def selects_namespaces(self) -> bool:
        """Whether a match depends on the labels of the pod's namespace."""
        return self.selecting is not None

    @property
    def nbytes(self) -> int:
        """Estimate of the memory held."""
        arrays = (
            self.class_of, self.owner_of, self.amounts, self.nothing, self.named,
            self.named_terms,
        )  # fmt: skip
        held = sum(each.nbytes for each in arrays) + sum(150 + len(key) for _, key in self.classes)
        return held + self.on_pods.nbytes + self.on_namespaces.nbytes

    def cache_key(self, pod: HashedPod) -> bytes | None:
        """Return a cache key, equal for pods with the same result of `matching`.

        None: no term covers the pod's namespace. Far cheaper than `matching`: terms mention few
        labels of an ordinary pod.
        """
        named = bool((self.named == pod.namespace).any())
        if self.selecting is None:
            if not named:
                return None
            return pod.namespace.to_bytes(8, "big", signed=True) + self.on_pods.cache_key(
                pod.labels
            )
        namespace = pod.namespace.to_bytes(8, "big", signed=True) if named else b""
        parts = (self.on_pods.cache_key(pod.labels), namespace)
        return b"||".join((*parts, self.on_namespaces.cache_key(pod.namespace_labels)))

    def matching(self, pod: HashedPod, counting: BoolColumn) -> list[ClassMatch]:
        """Return the classes with matching terms, of those whose entry in `counting` is True."""
        matches: BoolColumn = np.zeros(len(self), dtype=np.bool_)
        matches[self.named_terms[self.named == pod.namespace]] = True
        if self.selecting is not None:
            matches |= self.selecting & self.on_namespaces.hold(pod.namespace_labels)
        matches &= counting[self.class_of]
        if not matches.any():
            return []
        matches &= ~self.nothing
        matches &= self.on_pods.hold(pod.labels)
        found, position = np.unique(self.class_of[matches], return_inverse=True)
        # One sum per pair of class and owner, in float64, which is exact up to 2**53.
        pairs = position * self.owners + self.owner_of[matches]
        sums = np.bincount(pairs, self.amounts[matches], len(found) * self.owners)
        per_class = sums.astype(np.int64).reshape(len(found), self.owners)
        return [
            (self.classes[index], amounts)
            for index, amounts in zip(found.tolist(), per_class, strict=True)
        ]


def _or_none(selecting: BoolColumn) -> BoolColumn | None:
    return selecting if selecting.any() else None
