"""Which victims a PodDisruptionBudget protects (framework-cycle-config.md 5.5).

Budgets are read once per search. Every node's dry run starts from the budgets as they are: what
would be evicted elsewhere does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.api.pod import Pod
from scheduler.api.policy import PodDisruptionBudget
from scheduler.api.selectors import CompiledLabelSelector, SelectorError, compile_label_selector


class DisruptionBudgets:
    """Budgets by namespace, with parsed selectors. Immutable."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[tuple[PodDisruptionBudget, CompiledLabelSelector]]] = {}
        for budget in budgets:
            if budget.spec.selector is None:
                continue
            try:
                selector = compile_label_selector(budget.spec.selector)
            except SelectorError:
                continue  # As upstream: it protects nothing. The API server refuses such budgets.
            if not selector.empty:
                known = self._by_namespace.setdefault(budget.metadata.namespace, [])
                known.append((budget, selector))

    def split(self, pods: Sequence[Pod]) -> tuple[list[Pod], list[Pod]]:
        """(violating, not violating), both in the order given: most important first."""
        if not self._by_namespace:
            return [], list(pods)
        left: dict[int, int] = {}
        violating: list[Pod] = []
        others: list[Pod] = []
        for pod in pods:
            (violating if self._violates(pod, left) else others).append(pod)
        return violating, others

    def _violates(self, pod: Pod, left: dict[int, int]) -> bool:
        """Whether evicting `pod` overdraws a budget; `left` is what earlier victims left over."""
        labels = pod.metadata.labels
        if not labels:
            return False
        violates = False
        for budget, selector in self._by_namespace.get(pod.metadata.namespace, ()):
            if not selector.matches(labels) or pod.metadata.name in budget.status.disrupted_pods:
                continue
            key = id(budget)
            left[key] = left.get(key, budget.status.disruptions_allowed) - 1
            violates = violates or left[key] < 0
        return violates
