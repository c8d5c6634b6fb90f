"""Which victims a PodDisruptionBudget protects (framework-cycle-config.md 5.5).

Every node's dry run starts from the budgets as they are: what would be evicted elsewhere does not
count. Each eviction changes the status of a budget, which matters to few of the nodes looked at
before: those with more pods under the budget than it allows, before or after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from scheduler.api.pod import Pod
from scheduler.api.policy import PodDisruptionBudget
from scheduler.api.selectors import CompiledLabelSelector, SelectorError, compile_label_selector

BudgetKey = tuple[str, str]
"""Namespace and name."""
Claims = Mapping[BudgetKey, int]
"""How many of some pods each budget selects."""

NO_CLAIMS: Final[Claims] = {}


class DisruptionBudgets:
    """Budgets by namespace, with parsed selectors. Immutable."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget] = ()) -> None:
        self._listed = tuple(budgets)
        self._by_key = {(b.metadata.namespace, b.metadata.name): b for b in self._listed}
        self._by_namespace: dict[str, list[tuple[PodDisruptionBudget, CompiledLabelSelector]]] = {}
        for budget in self._listed:
            if budget.spec.selector is None:
                continue
            try:
                selector = compile_label_selector(budget.spec.selector)
            except SelectorError:
                continue  # As upstream: it protects nothing. The API server refuses such budgets.
            if not selector.empty:
                known = self._by_namespace.setdefault(budget.metadata.namespace, [])
                known.append((budget, selector))

    def renewed(self, budgets: Iterable[PodDisruptionBudget]) -> DisruptionBudgets:
        """As they are now; the same object when none changed."""
        listed = tuple(budgets)
        return self if listed == self._listed else DisruptionBudgets(listed)

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
        for budget, selector in self._by_namespace.get(pod.metadata.namespace, ()):
            if not selector.matches(labels):
                continue
            name = budget.metadata.namespace, budget.metadata.name
            claims[name] = claims.get(name, 0) + 1
            if pod.metadata.name in budget.status.disrupted_pods:
                continue
            key = id(budget)
            left[key] = left.get(key, budget.status.disruptions_allowed) - 1
            violates = violates or left[key] < 0
        return violates
