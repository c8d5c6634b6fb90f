"""TermBlock: thousands of affinity terms of one shape as a few arrays.

A pod may have 7,000 terms, each about other labels. As objects they take ten times the pod's JSON;
here a term with one label takes about 40 bytes, and all are held against a pod in one pass.

Namespaces are compared by hash, as labels are: see `scheduler/api/hashed_conditions.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.api.hashed_conditions import Conditions, HashedLabels
from scheduler.api.pod_affinity import AffinityTerm
from scheduler.framework.nodes import BoolColumn, TermKind

TermClass = tuple[TermKind, str]
"""Kind and topology key: what of a matching term counts, besides its weight."""

ClassMatch = tuple[TermClass, int, int]
"""Of a class the number of matching terms, and the sum of their weights."""


class HashedPod:
    """A pod that is asked about; hashed once for all blocks."""

    __slots__ = ("labels", "namespace", "namespace_labels")

    def __init__(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> None:
        self.namespace = hash(namespace)
        self.labels = HashedLabels(labels)
        self.namespace_labels = HashedLabels(namespace_labels)


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
        self._on_pods = Conditions(count, enumerate(each.selector for each in listed))
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
        self._on_namespaces = Conditions(
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
