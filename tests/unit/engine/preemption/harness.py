"""A cluster whose pods may be preempted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from plugins import NodePorts, NodeResourcesFit, NodeUnschedulable
from scheduler.api import Pod, PodDisruptionBudget
from scheduler.engine import Evaluator, FitError
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.framework import CycleState, NodeToStatus
from scheduler.framework.preemption import Candidate, PreemptionFinding, PreemptionRules
from tests.unit.engine.harness import PROFILE, World

ANY = PreemptionRules(own_victims_only=False)
ALLOCATABLE = {"cpu": "4", "memory": "8Gi", "pods": "10"}
WEB = {"matchLabels": {"app": "web"}}


class Budgets:
    """Listers of disruption budgets only."""

    def __init__(self, budgets: list[PodDisruptionBudget]) -> None:
        self._budgets = budgets

    def __getitem__(self, plural: str) -> Budgets:
        assert plural == "poddisruptionbudgets"
        return self

    def get(self, name: str, namespace: str = "") -> PodDisruptionBudget | None:
        return None

    def list(self, namespace: str | None = None) -> list[PodDisruptionBudget]:
        return self._budgets


def budget(allowed: int, selector: Any, *disrupted: str) -> PodDisruptionBudget:
    raw = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": selector},
        "status": {
            "disruptionsAllowed": allowed,
            "disruptedPods": dict.fromkeys(disrupted, "2025-01-01T00:00:00Z"),
        },
    }
    return msgspec.convert(raw, PodDisruptionBudget)


class Cluster(World):
    """A world whose incoming pods may preempt."""

    def __init__(self, *plugins: type[Any], seed: int = 0) -> None:
        super().__init__(*(plugins or (NodeUnschedulable, NodePorts, NodeResourcesFit)), seed=seed)
        self.budgets: list[PodDisruptionBudget] = []
        self.observed: list[int] = []
        self.evaluator = Evaluator(
            self.framework,
            self.cache.table,
            self.nominations,
            Budgets(self.budgets),
            random=random.Random(seed),
            own_schedulers=[PROFILE],
            observe=self.observed.append,
        )

    def incoming(self, cpu: str = "4", priority: int = 100, name: str = "p", **spec: Any) -> Pod:
        requests = {"resources": {"requests": {"cpu": cpu}}}
        containers = [{"name": "c", **requests, **spec.pop("container", {})}]
        return self.pod(name, containers=containers, priority=priority, **spec)

    def place(
        self,
        name: str,
        node: str,
        cpu: str = "1",
        priority: int = 0,
        start: str = "",
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> Pod:
        """A running pod."""
        pod = self.incoming(cpu, priority, name, **spec)
        pod.spec.node_name = node
        pod.status.start_time = f"2025-01-01T00:00:{start}Z" if start else None
        pod.metadata.labels = labels or {}
        self.cache.add_pod(pod)
        return pod

    def statuses(self, pod: Pod, state: CycleState) -> NodeToStatus:
        """Return the statuses of the search."""
        with pytest.raises(FitError) as raised:
            run_synchronously(self.algorithm.search.find(state, pod))
        return raised.value.diagnosis.statuses

    def find(self, pod: Pod, rules: PreemptionRules = ANY) -> PreemptionFinding:
        state = CycleState()
        return self.evaluator.find(state, pod, self.statuses(pod, state), rules)

    def decide(self, pod: Pod, rules: PreemptionRules = ANY) -> Candidate:
        found = self.find(pod, rules)
        assert found.chosen is not None, found
        return found.chosen

    def candidates(
        self, pod: Pod, rules: PreemptionRules = ANY
    ) -> dict[str, tuple[list[str], int]]:
        """Node to (names of victims, violations), each node examined by itself."""
        state = CycleState()
        run = self.evaluator.dry_run(state, pod, self.statuses(pod, state), rules)
        return {
            each.node_name: (names(each.victims), each.pdb_violations) for each in run.candidates
        }


def names(pods: Sequence[Pod]) -> list[str]:
    return [pod.metadata.name for pod in pods]


def cluster(nodes: int = 1, *plugins: type[Any]) -> Cluster:
    made = Cluster(*plugins)
    for number in range(1, nodes + 1):
        made.node(f"n{number}", allocatable=ALLOCATABLE)
    return made
