"""ManyTerms: what thousands of terms of one pod say about other pods, asked pod by pod.

A term that is asked for alone is counted over all pods at once, and remembered. With 2,500 terms
about labels in use that is 2,500 walks over all pods. Here the walk is one: most pods have none of
the label keys that the terms mention, and all of these are answered alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.api.hashed_conditions import Conditions, HashedLabels
from scheduler.api.selectors import CompiledLabelSelector

MANY_TERMS: Final = 64
"""A pod with more terms is asked about with `ManyTerms`. What people write has one to five."""
_MAX_ANSWERS: Final = 4096

_Answer = tuple[int, int]
_NO: Final[_Answer] = 0, 0


class ManyTerms:
    """Terms, each about the pods of some namespaces (None: of all) that a selector matches."""

    __slots__ = (
        "_answers", "_conditions", "_everywhere", "_given_weights", "_keys", "_matchable", "_named",
        "_ready", "_terms", "_together", "_values", "_weights",
    )  # fmt: skip

    def __init__(
        self,
        terms: Sequence[tuple[frozenset[str] | None, CompiledLabelSelector]],
        weights: Sequence[int] | None = None,
        *,
        together: bool = False,
    ) -> None:
        """`together`: they count as one term, which matches where all of them do."""
        self._terms = terms
        self._given_weights = weights
        self._together = together
        self._ready = False

    def _prepare(self) -> None:
        # When first asked: of thousands of topology keys nodes may have few.
        terms, weights = self._terms, self._given_weights
        self._ready = True
        count = len(terms)
        self._weights = np.array(weights or [0] * count, dtype=np.int64)
        self._conditions = Conditions.of(count, enumerate(selector for _, selector in terms))
        self._matchable = np.array([not selector.nothing for _, selector in terms])
        self._everywhere = np.array([namespaces is None for namespaces, _ in terms])
        self._named: dict[str, list[int]] = {}
        for number, (namespaces, _) in enumerate(terms):
            for each in namespaces or ():
                self._named.setdefault(each, []).append(number)
        requirements = [each for _, selector in terms for each in selector.requirements]
        self._keys = {each.key for each in requirements}
        self._values = {(each.key, value) for each in requirements for value in each.values}
        self._answers: dict[object, _Answer] = {}

    def concerns_namespace(self, namespace: str) -> bool:
        """Whether any term is about a namespace."""
        if not self._ready:
            self._prepare()
        return namespace in self._named or bool(self._everywhere.any())

    def matching(self, namespace: str, labels: Mapping[str, str]) -> tuple[int, int]:
        """(number, sum of the weights) of the terms that match a pod."""
        if not self._ready:
            self._prepare()
        keys, values = self._keys, self._values
        mentioned: dict[str, str] = {}
        if not keys.isdisjoint(labels):
            mentioned = {key: value for key, value in labels.items() if key in keys}
        # Values that no term mentions are all alike.
        said = frozenset([label if label in values else label[0] for label in mentioned.items()])
        key = (namespace if namespace in self._named else None, said)
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _MAX_ANSWERS:
                self._answers.clear()
            answer = self._answers[key] = self._held_against(namespace, mentioned)
        return answer

    def _held_against(self, namespace: str, labels: Mapping[str, str]) -> _Answer:
        match = self._everywhere.copy()
        match[self._named.get(namespace, [])] = True
        match &= self._matchable
        if not match.any():
            return _NO
        match &= self._conditions.hold(HashedLabels(labels))
        if self._together:
            return (1, 0) if match.all() else _NO
        return int(match.sum()), int(self._weights[match].sum())
