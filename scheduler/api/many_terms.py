"""ManyTerms: thousands of terms of one pod about other pods, matched pod by pod.

A single term is counted over all pods at once and cached. For 2,500 terms about labels in use this
takes 2,500 walks over all pods. Here one walk suffices: most pods have none of the label keys that
the terms mention, and all of these share one cached result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.api.hashed_conditions import Conditions, HashedLabels
from scheduler.api.selectors import CompiledLabelSelector

MANY_TERMS: Final = 64
"""A pod with more terms is matched by `ManyTerms`. Workloads have one to five."""
_MAX_CACHED: Final = 4096

_Result = tuple[int, int]
_NO_MATCH: Final[_Result] = 0, 0


class ManyTerms:
    """Terms, each of which selects pods of some namespaces (None: of all)."""

    __slots__ = (
        "_cache", "_conditions", "_everywhere", "_given_weights", "_keys", "_matchable", "_named",
        "_ready", "_terms", "_together", "_values", "_weights",
    )  # fmt: skip

    def __init__(
        self,
        terms: Sequence[tuple[frozenset[str] | None, CompiledLabelSelector]],
        weights: Sequence[int] | None = None,
        *,
        together: bool = False,
    ) -> None:
        """With `together` the terms count as one, which matches if all of them do."""
        self._terms = terms
        self._given_weights = weights
        self._together = together
        self._ready = False

    def _prepare(self) -> None:
        # On first use: nodes may have few of thousands of topology keys.
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
        self._cache: dict[object, _Result] = {}

    def concerns_namespace(self, namespace: str) -> bool:
        """Whether any term selects pods of a namespace."""
        if not self._ready:
            self._prepare()
        return namespace in self._named or bool(self._everywhere.any())

    def matching(self, namespace: str, labels: Mapping[str, str]) -> tuple[int, int]:
        """Return (number, sum of the weights) of the terms that match a pod."""
        if not self._ready:
            self._prepare()
        keys, values = self._keys, self._values
        mentioned: dict[str, str] = {}
        if not keys.isdisjoint(labels):
            mentioned = {key: value for key, value in labels.items() if key in keys}
        # Values that no term mentions are equivalent: the key alone stands for them.
        relevant = frozenset(
            [label if label in values else label[0] for label in mentioned.items()]
        )
        key = (namespace if namespace in self._named else None, relevant)
        result = self._cache.get(key)
        if result is None:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            result = self._cache[key] = self._match(namespace, mentioned)
        return result

    def _match(self, namespace: str, labels: Mapping[str, str]) -> _Result:
        match = self._everywhere.copy()
        match[self._named.get(namespace, [])] = True
        match &= self._matchable
        if not match.any():
            return _NO_MATCH
        match &= self._conditions.hold(HashedLabels(labels))
        if self._together:
            return (1, 0) if match.all() else _NO_MATCH
        return int(match.sum()), int(self._weights[match].sum())
