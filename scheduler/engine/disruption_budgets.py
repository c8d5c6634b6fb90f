"""Which victims a PodDisruptionBudget protects (framework-cycle-config.md 5.5).

Every node's dry run starts from the budgets as they are: what would be evicted elsewhere does not
count. Each eviction changes the status of a budget, which matters to few of the nodes looked at
before: those with more pods under the budget than it allows, before or after.

Whoever may create a budget may create 10,000 with 500 expressions each. Selectors are compiled when
a victim of their namespace is looked at, once, whatever becomes of other budgets or of the status;
only those that may select it are held against a pod, once for all pods with its labels.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

from scheduler.api.label_sets import labels_key
from scheduler.api.meta import LabelSelector
from scheduler.api.pod import Pod
from scheduler.api.policy import PodDisruptionBudget
from scheduler.api.selectors import CompiledLabelSelector, SelectorError, compile_label_selector

BudgetKey = tuple[str, str]
"""Namespace and name."""
Claims = Mapping[BudgetKey, int]
"""How many of some pods each budget selects."""

NO_CLAIMS: Final[Claims] = {}
_MAX_REMEMBERED: Final = 4096
"""Sets of labels whose budgets are remembered."""

_Selecting = tuple[PodDisruptionBudget, CompiledLabelSelector]
_ByLabel = dict[tuple[str, str] | None, list[_Selecting]]
"""By labels of which every pod selected has one; None: nobody can tell."""
_Compiled = dict[BudgetKey, tuple[LabelSelector, CompiledLabelSelector]]


class DisruptionBudgets:
    """Budgets by namespace, with parsed selectors. What they say never changes."""

    def __init__(
        self, budgets: Iterable[PodDisruptionBudget] = (), compiled: _Compiled | None = None
    ) -> None:
        """`compiled` are selectors of earlier budgets, by what they were compiled from."""
        self._listed = tuple(budgets)
        self._by_key = {(b.metadata.namespace, b.metadata.name): b for b in self._listed}
        self._by_namespace: dict[str, list[PodDisruptionBudget]] = {}
        for budget in self._listed:
            if budget.spec.selector is not None:
                self._by_namespace.setdefault(budget.metadata.namespace, []).append(budget)
        known = compiled or {}
        self._compiled = {key: each for key, each in known.items() if key in self._by_key}
        self._by_label: dict[str, _ByLabel] = {}
        self._selecting: dict[tuple[str, Hashable], list[PodDisruptionBudget]] = {}

    def renewed(self, budgets: Iterable[PodDisruptionBudget]) -> DisruptionBudgets:
        """As they are now; the same object when none changed."""
        listed = tuple(budgets)
        return self if listed == self._listed else DisruptionBudgets(listed, self._compiled)

    def limits_since(self, before: DisruptionBudgets) -> Mapping[BudgetKey, int] | None:
        """Budgets that changed, and how many claims on each are judged as they were before.

        None: the budgets are others, or select otherwise.
        """
        if self._by_key.keys() != before._by_key.keys():
            return None
        limits: dict[BudgetKey, int] = {}
        for key, budget in self._by_key.items():
            known = before._by_key[key]
            if budget is known:
                continue
            if budget.spec != known.spec:
                return None
            old, new = known.status, budget.status
            if old.disrupted_pods != new.disrupted_pods:
                limits[key] = 0
            elif old.disruptions_allowed != new.disruptions_allowed:
                limits[key] = max(min(old.disruptions_allowed, new.disruptions_allowed), 0)
        return limits

    def split(self, pods: Sequence[Pod]) -> tuple[list[Pod], list[Pod], Claims]:
        """(violating, not violating, claims); pods in the order given: most important first."""
        if not self._by_namespace:
            return [], list(pods), NO_CLAIMS
        left: dict[int, int] = {}
        claims: dict[BudgetKey, int] = {}
        violating: list[Pod] = []
        others: list[Pod] = []
        for pod in pods:
            (violating if self._violates(pod, left, claims) else others).append(pod)
        return violating, others, claims

    def _violates(self, pod: Pod, left: dict[int, int], claims: dict[BudgetKey, int]) -> bool:
        """Whether evicting `pod` overdraws a budget; `left` is what earlier victims left over."""
        labels = pod.metadata.labels
        if not labels:
            return False
        violates = False
        for budget in self._selecting_pod(pod):
            name = budget.metadata.namespace, budget.metadata.name
            claims[name] = claims.get(name, 0) + 1
            if pod.metadata.name in budget.status.disrupted_pods:
                continue
            key = id(budget)
            left[key] = left.get(key, budget.status.disruptions_allowed) - 1
            violates = violates or left[key] < 0
        return violates

    def _selecting_pod(self, pod: Pod) -> Sequence[PodDisruptionBudget]:
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        if namespace not in self._by_namespace:
            return ()
        key = (namespace, labels_key(labels))
        found = self._selecting.get(key)
        if found is None:
            by_label = self._by_label.get(namespace)
            if by_label is None:
                by_label = self._by_label[namespace] = self._labelled(namespace)
            if len(self._selecting) >= _MAX_REMEMBERED:
                self._selecting.clear()
            # A budget may be kept under several values of one label, of which a pod has one.
            found = self._selecting[key] = [
                budget
                for label in (None, *labels.items())
                for budget, selector in by_label.get(label, ())
                if selector.matches(labels)
            ]
        return found

    def _labelled(self, namespace: str) -> _ByLabel:
        by_label: _ByLabel = {}
        for budget in self._by_namespace[namespace]:
            selector = self._selector(budget)
            if selector is None or selector.empty:
                continue
            needed = selector.needed_labels
            for label in (None,) if needed is None else needed:
                by_label.setdefault(label, []).append((budget, selector))
        return by_label

    def _selector(self, budget: PodDisruptionBudget) -> CompiledLabelSelector | None:
        key, written = (budget.metadata.namespace, budget.metadata.name), budget.spec.selector
        known = self._compiled.get(key)
        if known is not None and known[0] == written:
            return known[1]
        try:
            selector = compile_label_selector(written)
        except SelectorError:
            return None  # As upstream: it protects nothing. The API server refuses such budgets.
        if written is not None:
            self._compiled[key] = written, selector
        return selector
