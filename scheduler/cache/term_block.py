"""TermBlock: thousands of affinity terms of one shape as a few arrays.

A pod may have 7,000 terms, each about other labels. As objects they take ten times the pod's JSON;
here a term with one label takes about 40 bytes, and all are held against a pod in one pass.

Labels, namespaces and label keys are compared by their 64-bit hashes, which Python seeds anew in
each process: that two of them collide by chance does not happen in the life of a cluster, and
nobody can bring it about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod_affinity import AffinityTerm
from scheduler.api.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    CompiledLabelSelector,
    Requirement,
)
from scheduler.framework.nodes import BoolColumn, TermKind

TermClass = tuple[TermKind, str]
"""Kind and topology key: what of a matching term counts, besides its weight."""

ClassMatch = tuple[TermClass, int, int]
"""Of a class the number of matching terms, and the sum of their weights."""

_OPERATORS: Final = {IN: 0, NOT_IN: 1, EXISTS: 2, DOES_NOT_EXIST: 3}


class HashedLabels:
    """Labels as conditions see them: hashes of the keys and of the (key, value) pairs, sorted."""

    __slots__ = ("items", "keys")

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.keys = np.sort(_hashes(labels))
        self.items = np.sort(_hashes(labels.items()))


class HashedPod:
    """A pod that is asked about; hashed once for all blocks."""

    __slots__ = ("labels", "namespace", "namespace_labels")

    def __init__(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> None:
        self.namespace = hash(namespace)
        self.labels = HashedLabels(labels)
        self.namespace_labels = HashedLabels(namespace_labels)


class _Conditions:
    """Requirements of many terms on one set of labels; what has none accepts everything.

    Keys and values are sorted by hash, each with the terms or requirements they belong to.
    """

    __slots__ = ("_count", "_keys", "_of_value", "_operators", "_terms", "_values")

    def __init__(self, count: int, selectors: Iterable[tuple[int, CompiledLabelSelector]]) -> None:
        """`selectors` by number of their term, of `count` terms."""
        listed: list[tuple[int, Requirement]] = [
            (term, each) for term, selector in selectors for each in selector.requirements
        ]
        self._count = count
        keys = np.array([hash(each.key) for _, each in listed], dtype=np.int64)
        by_key = np.argsort(keys, kind="stable")
        listed = [listed[index] for index in by_key.tolist()]
        self._keys = keys[by_key]
        self._terms = np.array([term for term, _ in listed], dtype=np.int32)
        self._operators = np.array([_OPERATORS[each.operator] for _, each in listed], np.int8)
        sizes = [len(each.values) for _, each in listed]
        values = np.fromiter(
            (hash((each.key, value)) for _, each in listed for value in each.values),
            dtype=np.int64,
            count=sum(sizes),
        )
        by_value = np.argsort(values, kind="stable")
        self._values = values[by_value]
        self._of_value = np.repeat(np.arange(len(listed), dtype=np.int32), sizes)[by_value]

    def __len__(self) -> int:
        return len(self._terms)

    def mentioned(self, labels: HashedLabels) -> bytes:
        """What of the labels matters here: equal for labels that `hold` answers alike."""
        if not len(self._terms):
            return b""
        keys = labels.keys[_among(labels.keys, self._keys)]
        items = labels.items[_among(labels.items, self._values)]
        return keys.tobytes() + b"|" + items.tobytes()

    def hold(self, labels: HashedLabels) -> BoolColumn:
        """(count,): whether all requirements of a term accept the labels."""
        holds: BoolColumn = np.ones(self._count, dtype=np.bool_)
        if not len(self._terms):
            return holds
        present = _among(self._keys, labels.keys)
        listed = np.zeros(len(self._terms), dtype=np.bool_)
        listed[self._of_value[_among(self._values, labels.items)]] = True
        accepted = np.choose(self._operators, (listed, ~listed, present, ~present))
        holds[self._terms[~accepted]] = False
        return holds

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = (self._terms, self._operators, self._keys, self._of_value, self._values)
        return sum(each.nbytes for each in arrays)


class TermBlock:
    """Terms by number, in the order given. Immutable."""

    __slots__ = (
        "_class_of", "_named", "_named_terms", "_nothing", "_on_namespaces", "_on_pods",
        "_selecting", "_weights", "classes",
    )  # fmt: skip

    classes: tuple[TermClass, ...]
    """Each distinct one once."""

    def __init__(self, terms: Sequence[tuple[TermKind, int, AffinityTerm]]) -> None:
        count = len(terms)
        numbers: dict[TermClass, int] = {}
        self._class_of = np.array(
            [
                numbers.setdefault((kind, term.topology_key), len(numbers))
                for kind, _, term in terms
            ],
            dtype=np.int32,
        )
        self.classes = tuple(numbers)
        self._weights = np.array([weight for _, weight, _ in terms], dtype=np.int32)
        listed = [term for _, _, term in terms]
        self._on_pods = _Conditions(count, enumerate(each.selector for each in listed))
        self._nothing = np.array([each.selector.nothing for each in listed], dtype=np.bool_)
        sizes = [len(each.namespaces) for each in listed]
        self._named_terms = np.repeat(np.arange(count, dtype=np.int32), sizes)
        self._named = np.fromiter(
            (hash(name) for each in listed for name in each.namespaces), np.int64, sum(sizes)
        )
        #: Whether a term selects namespaces by their labels; None where none does.
        selecting = [
            each.namespace_selector is not None and not each.namespace_selector.nothing
            for each in listed
        ]
        self._selecting: BoolColumn | None = np.array(selecting) if any(selecting) else None
        self._on_namespaces = _Conditions(
            count,
            [
                (number, each.namespace_selector)
                for number, each in enumerate(listed)
                if each.namespace_selector is not None
            ],
        )

    def __len__(self) -> int:
        return len(self._class_of)

    @property
    def selects_namespaces(self) -> bool:
        """Whether an answer depends on the labels of the pod's namespace."""
        return self._selecting is not None

    @property
    def nbytes(self) -> int:
        """Estimate of the memory held."""
        arrays = (self._class_of, self._weights, self._nothing, self._named, self._named_terms)
        held = sum(each.nbytes for each in arrays) + sum(150 + len(key) for _, key in self.classes)
        return held + self._on_pods.nbytes + self._on_namespaces.nbytes

    def mentioned(self, pod: HashedPod) -> bytes | None:
        """What of a pod matters here: equal for pods that `matching` answers alike.

        None: no term is about the pod's namespace. Far cheaper than `matching`, for what terms
        say of labels is about few labels of an ordinary pod.
        """
        named = bool((self._named == pod.namespace).any())
        if self._selecting is None:
            if not named:
                return None
            return pod.namespace.to_bytes(8, "big", signed=True) + self._on_pods.mentioned(
                pod.labels
            )
        namespace = pod.namespace.to_bytes(8, "big", signed=True) if named else b""
        parts = (self._on_pods.mentioned(pod.labels), namespace)
        return b"||".join((*parts, self._on_namespaces.mentioned(pod.namespace_labels)))

    def matching(self, pod: HashedPod, counting: BoolColumn) -> list[ClassMatch]:
        """The classes with terms that match a pod, of those for which `counting` is true."""
        spoken: BoolColumn = np.zeros(len(self), dtype=np.bool_)
        spoken[self._named_terms[self._named == pod.namespace]] = True
        if self._selecting is not None:
            spoken |= self._selecting & self._on_namespaces.hold(pod.namespace_labels)
        spoken &= counting[self._class_of]
        if not spoken.any():
            return []
        spoken &= ~self._nothing
        spoken &= self._on_pods.hold(pod.labels)
        of_class = self._class_of[spoken]
        numbers = np.bincount(of_class, minlength=len(self.classes))
        weights = np.bincount(of_class, self._weights[spoken], len(self.classes))
        return [
            (self.classes[index], int(numbers[index]), int(weights[index]))
            for index in np.flatnonzero(numbers).tolist()
        ]


def _among(values: NDArray[np.int64], known: NDArray[np.int64]) -> BoolColumn:
    """Which of `values` are in `known`, which is sorted; of these, either may be the many."""
    if not len(known):
        return np.zeros(len(values), dtype=np.bool_)
    places = np.searchsorted(known, values)
    places[places == len(known)] = 0
    found: BoolColumn = known[places] == values
    return found


def _hashes(values: Iterable[object]) -> NDArray[np.int64]:
    return np.fromiter(map(hash, values), dtype=np.int64)
