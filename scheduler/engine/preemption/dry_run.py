"""Dry runs: a minimal set of victims on one node, found with scalar filters.

They change only overlays of nodes and clones of the cycle state. See preemption.go:
DryRunPreemption and default_preemption.go: SelectVictimsOnNode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeOverlay, NodeTable
from scheduler.engine.errors import AttemptError
from scheduler.engine.plugin_slots import named_versions
from scheduler.engine.preemption.candidates import importance, ranked
from scheduler.engine.preemption.disruption_budgets import NO_CLAIMS, Claims
from scheduler.engine.preemption.outcomes import Outcomes
from scheduler.engine.preemption.trial import (
    AFFECTED_FILTERS,
    ALL_FILTERS,
    NO_VICTIMS,
    PreemptionTrial,
    ScreenedRows,
    SearchOutcome,
)
from scheduler.engine.row_cache import RowCache
from scheduler.engine.runtime import Framework
from scheduler.framework import CycleState, Rows, Status
from scheduler.framework.preemption import Candidate


class DryRunner:
    """Performs the dry runs of one profile, and caches their results while they are valid."""

    def __init__(self, framework: Framework, table: NodeTable, check: Callable[[], None]) -> None:
        """Create a runner; `check` raises CycleBudgetError if the search has taken too long."""
        self._framework = framework
        self._table = table
        self._check = check
        self._outcomes = RowCache(table, Outcomes)

    def run(
        self,
        full: PreemptionTrial,
        screen: ScreenedRows,
        enough: int,
        outcome: SearchOutcome,
        *,
        remember: bool = True,
    ) -> None:
        """Dry-run the rows that screening left, until there are `enough` candidates.

        With `remember`, results that are valid for other pods of the signature are cached.
        Candidates, rejections and errors are added to `outcome`.
        """
        without_followers = self._without_followers(full)
        outcomes = self._earlier_outcomes(without_followers, remember=remember)
        keep = remember and not full.followed
        left = np.flatnonzero(
            (screen.rejected_by == AFFECTED_FILTERS) | (screen.rejected_by == ALL_FILTERS)
        )
        rows, unfollowed = screen.rows[left], screen.unfollowed[left]
        lasting = unfollowed | keep
        if full.own_row is not None:
            lasting &= rows != full.own_row
        rejected = lasting & outcomes.rejected[rows]
        clean: list[Candidate] = []
        violating: list[Candidate] = []
        exact = screen.rejected_by[left] == ALL_FILTERS
        undecided = np.flatnonzero(~rejected)
        for row, all_filters, unfollowed_row, lasts in zip(
            rows[undecided].tolist(),
            exact[undecided].tolist(),
            unfollowed[undecided].tolist(),
            lasting[undecided].tolist(),
            strict=True,
        ):
            trial = without_followers if unfollowed_row else full
            slots = trial.slots if all_filters else trial.affected
            plugins = [slot.plugin for slot in slots]
            result = outcomes.get(row) if lasts else None
            if result is None:
                self._check()
                if len(violating) >= enough and self._must_violate(trial, row):
                    continue  # Only a candidate without violations could still be preferred.
                result = self._try_node(trial, row, plugins, outcomes if lasts else None, outcome)
                if result is None:
                    continue
            candidate = _candidate(result, self._table.names[row], outcome)
            if candidate is None:
                continue
            same = violating if candidate.pdb_violations else clean
            if len(same) < enough:
                same.append(candidate)
            if clean and len(clean) + len(violating) >= enough:
                break
        outcome.candidates = clean + violating
        if not outcome.candidates:
            self._reject_again(rows[rejected], outcomes, outcome)

    def _reject_again(self, rows: Rows, outcomes: Outcomes, outcome: SearchOutcome) -> None:
        for row in rows.tolist():
            status = outcomes.get(row)
            assert isinstance(status, Status)
            outcome.reject(self._table.names[row], status)

    def _try_node(
        self,
        trial: PreemptionTrial,
        row: int,
        plugins: Sequence[Any],
        outcomes: Outcomes | None,
        outcome: SearchOutcome,
    ) -> Candidate | Status | None:
        """Dry-run one node, and cache the result in `outcomes`; return None after an error."""
        try:
            result, claims = self._without_victims(trial, row, plugins)
        except AttemptError as error:
            outcome.errors[error.status.message] = None
            return None
        if outcomes is not None:
            outcomes.note(row, result, claims)
        return result

    def _must_violate(self, trial: PreemptionTrial, row: int) -> bool:
        """Whether every choice of victims on a node violates a disruption budget."""
        pods, victims = self._table.pods[row].values(), trial.victims
        return trial.budgets.forbid_all(
            pod for pod in pods if victims.includes(pod.priority, pod.spec.scheduler_name)
        )

    def _without_victims(
        self, trial: PreemptionTrial, row: int, plugins: Sequence[Any]
    ) -> tuple[Candidate | Status, Claims]:
        """Find a minimal set of victims on one node, or why evicting all of them does not help.

        Also returns the claims of all potential victims on disruption budgets, if these matter.
        """
        node, victims = NodeOverlay(self._table, row), trial.victims
        potential = [
            pod for pod in node.pods if victims.includes(pod.priority, pod.spec.scheduler_name)
        ]
        if not potential:
            return NO_VICTIMS, NO_CLAIMS
        state = trial.state.clone() if trial.followed else trial.state
        for pod in potential:
            self._remove(trial, state, pod, node)
        status = self._fits(trial, state, node, plugins)
        if status is not None:
            return status, NO_CLAIMS
        potential.sort(key=importance)
        violating, others, claims = trial.budgets.split(potential)
        evicted = [p for p in violating if not self._reprieved(trial, state, p, node, plugins)]
        violations = len(evicted)
        evicted += [p for p in others if not self._reprieved(trial, state, p, node, plugins)]
        if violating and others:
            evicted.sort(key=importance)
        found = Candidate(node.name, tuple(evicted), violations)
        # Ranked here once, since every search that reuses the result compares it.
        return (ranked(found) if evicted else found), claims

    def _reprieved(
        self,
        trial: PreemptionTrial,
        state: CycleState,
        pod: Pod,
        node: NodeOverlay,
        plugins: Sequence[Any],
    ) -> bool:
        """Reprieve `pod` if the incoming pod still fits with it; return whether it does."""
        self._check()
        node.add_pod(pod)
        if trial.followed:
            self._framework.add_pod(state, trial.pod, pod, node)
        if self._fits(trial, state, node, plugins) is None:
            return True
        self._remove(trial, state, pod, node)
        return False

    def _remove(
        self, trial: PreemptionTrial, state: CycleState, pod: Pod, node: NodeOverlay
    ) -> None:
        node.remove_pod(pod)
        if trial.followed:
            self._framework.remove_pod(state, trial.pod, pod, node)

    def _fits(
        self, trial: PreemptionTrial, state: CycleState, node: NodeOverlay, plugins: Sequence[Any]
    ) -> Status | None:
        return self._framework.run_filters_with_nominated_pods(
            state, trial.pod, node, self._table, plugins
        )

    def _without_followers(self, trial: PreemptionTrial) -> PreemptionTrial:
        """Return the same search without the plugins that have AddPod and RemovePod."""
        if not trial.followed:
            return trial
        ignored = self._framework.pod_followers
        return replace(
            trial,
            slots=tuple([slot for slot in trial.slots if slot.name not in ignored]),
            affected=tuple([slot for slot in trial.affected if slot.name not in ignored]),
            followed=False,
        )

    def _earlier_outcomes(self, trial: PreemptionTrial, *, remember: bool) -> Outcomes:
        """Return cached results of earlier dry runs, if they depend on signature and node only."""
        state, pod = trial.state, trial.pod
        if (
            not remember
            or trial.followed
            or pod.signature.volumes  # Ephemeral claims are named after their pod.
            or not all(slot.reusable for slot in trial.slots)
        ):
            return Outcomes(self._table.capacity)
        filters = tuple([slot.index for slot in trial.slots])
        pins = pod.pin, pod.spec.node_name
        versions = named_versions(trial.slots, self._table)
        kind = (pod.signature.id, *pins, trial.rules, state.variant, filters)
        outcomes = self._outcomes.recall(kind, versions)
        outcomes.follow(trial.budgets)
        return outcomes


def _candidate(result: Candidate | Status, node: str, outcome: SearchOutcome) -> Candidate | None:
    """Return the result if it is a candidate; otherwise record the rejection in `outcome`."""
    if isinstance(result, Status):
        outcome.reject(node, result)
        return None
    if not result.victims:
        outcome.errors[f'expected at least one victim pod on node "{node}"'] = None
        return None
    return result
