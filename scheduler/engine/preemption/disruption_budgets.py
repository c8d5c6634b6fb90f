"""PodDisruptionBudgets and the victims they protect.

Follows default_preemption.go: filterPodsWithPDBViolation.

The dry run of each node starts from the current budgets; evictions on other nodes do not count. An
eviction changes the status of a budget, but that invalidates the results of only a few nodes: those
with more pods under the budget than it allows, before or after the change.

A user may create 10,000 budgets with 500 expressions each. So a selector is compiled only when the
first victim in its namespace is examined, and kept when other budgets or the status change. Only
budgets that may select a pod are matched, once for all pods with the same labels. If very many
budgets select one pod, victims are charged to all of them in one array operation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.api.meta import LabelSelector
from scheduler.api.packed_labels import labels_key
from scheduler.api.pod import Pod
from scheduler.api.policy import PodDisruptionBudget
from scheduler.api.selectors import CompiledLabelSelector, SelectorError, compile_label_selector
from scheduler.framework import Int64Column

BudgetKey = tuple[str, str]
"""Namespace and name."""

UNLIMITED: Final = int(np.iinfo(np.int64).max)
"""A limit of claims that is never reached."""

_MAX_ALLOWED: Final = 1 << 31
"""Limit for `disruptionsAllowed`, 32 bits at the API server; larger numbers might overflow."""
_MAX_REMEMBERED: Final = 4096
"""Maximum number of label sets whose budgets are cached."""
_MANY_BUDGETS: Final = 32
"""If more budgets than this select one pod, array operations are faster than a loop."""


class Selection:
    """The budgets that select the pods with some labels, by their indices in the list of all."""

    __slots__ = ("indices",)

    def __init__(self, indices: Sequence[int]) -> None:
        self.indices = np.array(indices, dtype=np.int32)


Claims = Mapping[Selection, int]
"""The number of pods that each selection of budgets applies to."""

NO_CLAIMS: Final[Claims] = {}

_Selecting = tuple[int, CompiledLabelSelector]
"""The index of a budget, and its selector."""
_ByLabel = dict[tuple[str, str] | None, list[_Selecting]]
"""Budgets by a label that every selected pod has; None: budgets without such a label."""
_Compiled = dict[BudgetKey, tuple[LabelSelector, CompiledLabelSelector]]


class DisruptionBudgets:
    """Budgets by namespace, with parsed selectors. Immutable."""

    def __init__(
        self, budgets: Iterable[PodDisruptionBudget] = (), before: DisruptionBudgets | None = None
    ) -> None:
        """Index `budgets`; the compiled selectors of the earlier budgets `before` are reused."""
        self._listed = tuple(budgets)
        self._keys = [(b.metadata.namespace, b.metadata.name) for b in self._listed]
        self._by_namespace: dict[str, list[int]] = {}
        for index, budget in enumerate(self._listed):
            if budget.spec.selector is not None:
                self._by_namespace.setdefault(budget.metadata.namespace, []).append(index)
        self._compiled: _Compiled = {}
        self._by_label: dict[str, _ByLabel] = {}
        self._selecting: dict[tuple[str, Hashable], Selection] = {}
        if before is not None:
            self._keep(before)
        #: (budgets,): the disruptions that each budget allows; None until first used.
        self._allowed: Int64Column | None = None
        self._disrupted: dict[tuple[str, str], list[int]] | None = None
        self._forbidding: dict[Selection, bool] = {}

    def renewed(self, budgets: Iterable[PodDisruptionBudget]) -> DisruptionBudgets:
        """Return an object for the current budgets; this one if none has changed."""
        listed = tuple(budgets)
        return self if listed == self._listed else DisruptionBudgets(listed, self)

    def _keep(self, before: DisruptionBudgets) -> None:
        present = set(self._keys)
        self._compiled = {key: each for key, each in before._compiled.items() if key in present}
        if self._select_as(before):
            self._by_label, self._selecting = before._by_label, before._selecting

    def _select_as(self, before: DisruptionBudgets) -> bool:
        """Whether the budgets differ only in their status, and have the same indices."""
        return self._keys == before._keys and all(
            new is old or new.spec == old.spec
            for new, old in zip(self._listed, before._listed, strict=True)
        )

    def limits_since(self, before: DisruptionBudgets) -> Int64Column | None:
        """Return int64[budgets]: the maximum number of claims with the same result as `before`.

        `UNLIMITED` for budgets that did not change. None if other budgets exist, or if a selector
        changed.
        """
        if not self._select_as(before):
            return None
        limits = np.full(len(self._listed), UNLIMITED, dtype=np.int64)
        for index, (old, new) in enumerate(zip(before._listed, self._listed, strict=True)):
            if new is old:
                continue
            if old.status.disrupted_pods != new.status.disrupted_pods:
                limits[index] = 0
            elif old.status.disruptions_allowed != new.status.disruptions_allowed:
                limits[index] = max(min(_allowed(old), _allowed(new)), 0)
        return limits

    def split(self, pods: Sequence[Pod]) -> tuple[list[Pod], list[Pod], Claims]:
        """Split `pods`, most important first, into those that violate a budget and the others.

        Also returns the claims of all `pods`.
        """
        if not self._by_namespace:
            return [], list(pods), NO_CLAIMS
        selections = [self._selection(pod) for pod in pods]
        claims: dict[Selection, int] = defaultdict(int)
        many = False
        for selection in selections:
            if selection is not None:
                claims[selection] += 1
                many = many or len(selection.indices) > _MANY_BUDGETS
        if not claims:
            return [], list(pods), NO_CLAIMS
        charge = self._charge_arrays if many else self._charge
        violating: list[Pod] = []
        others: list[Pod] = []
        for pod, violates in zip(pods, charge(pods, selections), strict=True):
            (violating if violates else others).append(pod)
        return violating, others, claims

    def forbid_all(self, pods: Iterable[Pod]) -> bool:
        """Whether evicting any single one of `pods` violates a budget that allows no disruption.

        False if that depends on which evictions are already under way.
        """
        return bool(self._by_namespace) and all(
            selection is not None and self._forbids(selection)
            for selection in map(self._selection, pods)
        )

    def _forbids(self, selection: Selection) -> bool:
        found = self._forbidding.get(selection)
        if found is None:
            budgets = (self._listed[index] for index in selection.indices.tolist())
            found = self._forbidding[selection] = any(
                _allowed(budget) <= 0 and not budget.status.disrupted_pods for budget in budgets
            )
        return found

    def _charge(
        self, pods: Sequence[Pod], selections: Sequence[Selection | None]
    ) -> Iterable[bool]:
        """Return for each pod whether evicting it after the previous ones violates a budget.

        The budgets after the first that is violated are not charged (`util.go:
        FilterVictimsWithPDBViolation`).
        """
        left: dict[int, int] = {}
        for pod, selection in zip(pods, selections, strict=True):
            violates = False
            for index in () if selection is None else selection.indices.tolist():
                budget = self._listed[index]
                if pod.metadata.name in budget.status.disrupted_pods:
                    continue
                left[index] = left.get(index, _allowed(budget)) - 1
                if left[index] < 0:
                    violates = True
                    break
            yield violates

    def _charge_arrays(
        self, pods: Sequence[Pod], selections: Sequence[Selection | None]
    ) -> Iterable[bool]:
        """Like `_charge`, but faster if thousands of budgets select a pod."""
        if self._allowed is None or self._disrupted is None:
            self._allowed = np.array([_allowed(budget) for budget in self._listed], dtype=np.int64)
            self._disrupted = {}
            for index, budget in enumerate(self._listed):
                for name in budget.status.disrupted_pods:
                    key = budget.metadata.namespace, name
                    self._disrupted.setdefault(key, []).append(index)
        left = self._allowed.copy()
        for pod, selection in zip(pods, selections, strict=True):
            if selection is None:
                yield False
                continue
            indices = selection.indices
            disrupted = self._disrupted.get((pod.metadata.namespace, pod.metadata.name))
            if disrupted is not None:
                indices = np.setdiff1d(indices, np.array(disrupted, dtype=np.int32))
            exhausted = left[indices] <= 0
            violates = bool(exhausted.any())
            if violates:
                indices = indices[: exhausted.argmax() + 1]
            left[indices] -= 1
            yield violates

    def _selection(self, pod: Pod) -> Selection | None:
        """Return the budgets that select a pod; None if there are none."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        if not labels or namespace not in self._by_namespace:
            return None
        key = (namespace, labels_key(labels))
        found = self._selecting.get(key)
        if found is None:
            by_label = self._by_label.get(namespace)
            if by_label is None:
                by_label = self._by_label[namespace] = self._labelled(namespace)
            if len(self._selecting) >= _MAX_REMEMBERED:
                self._selecting.clear()
            # A budget may be indexed under several values of a label, but a pod has only one.
            # In the order of their names, because the order decides which ones are charged.
            found = self._selecting[key] = Selection(
                sorted(
                    (
                        index
                        for label in (None, *labels.items())
                        for index, selector in by_label.get(label, ())
                        if selector.matches(labels)
                    ),
                    key=self._keys.__getitem__,
                )
            )
        return found if len(found.indices) else None

    def _labelled(self, namespace: str) -> _ByLabel:
        by_label: _ByLabel = {}
        for index in self._by_namespace[namespace]:
            selector = self._selector(self._listed[index])
            if selector is None or selector.empty:
                continue
            needed = selector.needed_labels
            for label in (None,) if needed is None else needed:
                by_label.setdefault(label, []).append((index, selector))
        return by_label

    def _selector(self, budget: PodDisruptionBudget) -> CompiledLabelSelector | None:
        key, written = (budget.metadata.namespace, budget.metadata.name), budget.spec.selector
        compiled = self._compiled.get(key)
        if compiled is not None and compiled[0] == written:
            return compiled[1]
        try:
            selector = compile_label_selector(written)
        except SelectorError:
            return None  # As upstream, it protects no pod. The API server rejects such budgets.
        if written is not None:
            self._compiled[key] = written, selector
        return selector


def _allowed(budget: PodDisruptionBudget) -> int:
    return max(-_MAX_ALLOWED, min(budget.status.disruptions_allowed, _MAX_ALLOWED))
