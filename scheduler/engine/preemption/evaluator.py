"""Preemption: the search for a node where the pod would fit without pods of lower priority.

Follows preemption.go: Evaluator. The node table does not change. There are three steps:

1. `screening` rules out nodes, all at once, with columnar filters;
2. `dry_run` tries the remaining nodes one by one, with the filters that removals can affect;
3. `candidates` chooses the best candidate.

If a search finds no candidate, this result is cached by signature until the node table changes. The
result of a dry run that depends only on its node and on disruption budgets is cached until a change
of one of these affects it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from scheduler.api.packed_labels import labels_key
from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.diagnosis import fit_message, rows_for_code, status_reasons
from scheduler.engine.nominated_pods_fit import NominatedRows
from scheduler.engine.plugin_slots import POD_COLUMNS, FilterSlot, named_versions
from scheduler.engine.preemption.candidates import importance, pick_one_node
from scheduler.engine.preemption.disruption_budgets import DisruptionBudgets
from scheduler.engine.preemption.disruption_units import DisruptionUnits
from scheduler.engine.preemption.dry_run import DryRunner
from scheduler.engine.preemption.screening import Screening, ruled_out
from scheduler.engine.preemption.trial import (
    ALL_FILTERS,
    NO_VICTIMS,
    VICTIMLESS,
    PreemptionTrial,
    ScreenedRows,
    SearchOutcome,
)
from scheduler.engine.runtime import Framework
from scheduler.extenders.extender import ExtenderError
from scheduler.framework import (
    Code,
    CycleState,
    Listers,
    NodeToStatus,
    Nominator,
    PotentialVictims,
    RandomSource,
    Rows,
)
from scheduler.framework.preemption import (
    Candidate,
    Harm,
    PreemptionFinding,
    PreemptionRules,
)

NO_NODES: Final = "no nodes available"
NO_CANDIDATE: Final = "no candidate node for preemption"
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"

_MAX_REMEMBERED: Final = 512

CandidateReview = Callable[[Pod, Sequence[Candidate]], Coroutine[Any, Any, list[Candidate]] | None]
"""Lets extenders drop candidates; returns None if no extender is interested in the pod."""


class Evaluator:
    """Implements `framework.PreemptionSearch` for one profile."""

    def __init__(  # noqa: PLR0913 - all dependencies are injected
        self,
        framework: Framework,
        table: NodeTable,
        nominator: Nominator,
        listers: Listers,
        *,
        random: RandomSource,
        own_schedulers: Sequence[str],
        observe: Callable[[int], None] = lambda _victims: None,
        review: CandidateReview = lambda _pod, _candidates: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Wire the search.

        `observe` is called with the number of victims of every attempt. `check` is called often,
        and raises CycleBudgetError if the search has taken too long. `review` lets extenders drop
        candidates; its coroutine raises ExtenderError if an extender fails.
        """
        self._review = review
        self._table = table
        self._nominated = NominatedRows(table, nominator)
        self._listers = listers
        self._random = random
        self._own = frozenset(own_schedulers)
        self._observe = observe
        self._slots = framework.filter_slots
        self._table_only = tuple(filter(_depends_only_on_table, self._slots))
        self._followers = framework.pod_followers
        self._screening = Screening(framework, table)
        self._dry_runner = DryRunner(framework, table, check)
        #: (signature, pin, rules, variant) to (stamp, finding) of searches without a candidate.
        self._negative_cache: dict[Any, tuple[tuple[object, ...], PreemptionFinding]] = {}
        self._budgets = DisruptionBudgets()
        self._units = DisruptionUnits(framework, table)

    def observe(self, victims: int) -> None:
        """Record a preemption attempt and its number of victims."""
        self._observe(victims)

    def own(self, pod: Pod) -> bool:
        """Whether a pod's scheduler is one of this process's profiles."""
        return pod.spec.scheduler_name in self._own

    def others_below(self, pod: Pod) -> dict[str, int]:
        """Count placed pods of lower priority that other schedulers placed, by their name."""
        return self._table.priorities.others_below(pod.priority, self._own)

    def find(
        self,
        state: CycleState,
        pod: Pod,
        statuses: NodeToStatus,
        rules: PreemptionRules,
        harm: Harm | None = None,
    ) -> PreemptionFinding:
        """Find candidates among the nodes where preemption may help, and choose one."""
        if not self._table.node_count:
            return PreemptionFinding(error=NO_NODES)
        key, stamp = self._cache_key(state, pod, rules)
        if key is not None:
            remembered = self._negative_cache.get(key)
            if remembered is not None and remembered[0] == stamp:
                return remembered[1]
        rows = rows_for_code(statuses, self._table, Code.UNSCHEDULABLE)
        outcome = SearchOutcome()
        if len(rows):
            wanted = max(
                len(rows) * rules.min_candidate_nodes_percentage // 100,
                rules.min_candidate_nodes_absolute,
            )
            offset = self._random.randrange(len(rows))
            order = np.concatenate((rows[offset:], rows[:offset]))
            self._examine(self._trial(state, pod, rules), order, wanted, outcome)
        if outcome.candidates:
            reviewed = self._review(pod, outcome.candidates)
            if reviewed is not None:
                return PreemptionFinding(pending=self._reviewed(reviewed))
            return self._choose(pod, outcome.candidates, harm)
        if outcome.errors:
            return PreemptionFinding(error=_aggregate(list(outcome.errors)))
        not_helpful = self._table.node_count - len(rows)
        if not_helpful > 0:
            outcome.count((NOT_HELPFUL,), not_helpful)
        finding = PreemptionFinding(
            message=fit_message(self._table.node_count, outcome.counts),
            rejectors=frozenset(outcome.rejectors),
        )
        if key is not None:
            if len(self._negative_cache) >= _MAX_REMEMBERED:
                self._negative_cache.clear()
            self._negative_cache[key] = stamp, finding
        return finding

    def _choose(
        self, pod: Pod, candidates: Sequence[Candidate], harm: Harm | None
    ) -> PreemptionFinding:
        candidates = self._units.others(pod, candidates)
        if not candidates:
            return PreemptionFinding(message=NO_CANDIDATE)
        if harm is not None:
            candidates = _least(candidates, harm)
        elif self._units.exist:
            candidates = self._units.least_harmful(pod, candidates)
            if not candidates:
                return PreemptionFinding(message=NO_CANDIDATE)
        return PreemptionFinding(chosen=pick_one_node(candidates, self._random))

    async def _reviewed(self, reviewed: Coroutine[Any, Any, list[Candidate]]) -> PreemptionFinding:
        """Choose among the candidates that the extenders left."""
        try:
            candidates = await reviewed
        except ExtenderError as error:
            return PreemptionFinding(error=str(error))
        if not candidates:
            return PreemptionFinding(error=NO_CANDIDATE)
        sorted_victims = [
            replace(each, victims=tuple(sorted(each.victims, key=importance)))
            for each in candidates
        ]
        return PreemptionFinding(chosen=pick_one_node(sorted_victims, self._random))

    def dry_run(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, rules: PreemptionRules
    ) -> SearchOutcome:
        """Return all candidates, and for other nodes why they are none; for inspection."""
        rows, outcome = rows_for_code(statuses, self._table, Code.UNSCHEDULABLE), SearchOutcome()
        trial = self._trial(state, pod, rules)
        screen = ScreenedRows(
            rows,
            np.full(len(rows), ALL_FILTERS, dtype=np.int32),
            np.zeros(len(rows), dtype=np.int32),
            np.zeros(len(rows), dtype=np.bool_),
        )
        self._dry_runner.run(trial, screen, len(rows) + 1, outcome, remember=False)
        return outcome

    # -- preparation -----------------------------------------------------------------------------

    def _trial(self, state: CycleState, pod: Pod, rules: PreemptionRules) -> PreemptionTrial:
        slots = tuple(slot for slot in self._slots if slot.name not in state.skip_filter)
        self._budgets = self._budgets.renewed(self._listers["poddisruptionbudgets"].list())
        return PreemptionTrial(
            state,
            pod,
            rules,
            slots,
            affected=tuple(slot for slot in slots if self._affected(slot)),
            followed=bool(self._followers - state.skip_filter),
            victims=PotentialVictims(pod.priority, self._own if rules.own_victims_only else None),
            budgets=self._budgets,
            nominated=self._nominated.at_least(pod.priority, pod.metadata.uid),
            own_row=self._nominated.own_row(pod.metadata.uid),
        )

    def _affected(self, slot: FilterSlot) -> bool:
        """Whether the result of a filter may depend on the pods of a node."""
        return not slot.reusable or bool(slot.columns & POD_COLUMNS) or slot.name in self._followers

    # -- step 1: numbers -------------------------------------------------------------------------

    def _examine(
        self, trial: PreemptionTrial, rows: Rows, wanted: int, outcome: SearchOutcome
    ) -> None:
        screen = self._screening.screen(trial, rows)
        for rejected_by, code, count in ruled_out(screen):
            status = NO_VICTIMS
            if rejected_by != VICTIMLESS:
                slot = self._slots[rejected_by - 1]
                status = slot.plugin.filter_status(trial.state, trial.pod, code)
                outcome.rejectors.add(slot.name)
            outcome.count(status_reasons(status), count)
        self._dry_runner.run(trial, screen, wanted, outcome)

    def _cache_key(
        self, state: CycleState, pod: Pod, rules: PreemptionRules
    ) -> tuple[Any, tuple[object, ...]]:
        """Return the key and the stamp for the negative cache; without a key nothing is cached.

        A result is cached only if every filter depends only on the pod and the node table.
        """
        table = self._table
        stamp = table.sequence, table.revision, named_versions(self._table_only, table)
        if (
            # Ephemeral claims are named after their pod.
            pod.signature.volumes
            # A nominated pod does not count against itself, so its result differs from others'.
            or self._nominated.own_row(pod.metadata.uid) is not None
            or not all(
                _depends_only_on_table(slot) or slot.name in state.skip_filter
                for slot in self._slots
            )
        ):
            return None, stamp
        metadata = pod.metadata
        own = metadata.namespace, labels_key(metadata.labels), pod.pin, pod.spec.node_name
        return (pod.signature.id, own, rules, state.variant), stamp


def _depends_only_on_table(slot: FilterSlot) -> bool:
    """Whether a filter's results change only with the node table and its named versions."""
    return slot.reusable or bool(getattr(slot.plugin, "filter_depends_only_on_table", False))


def _least(candidates: Sequence[Candidate], harm: Harm) -> list[Candidate]:
    harms = [harm(each) for each in candidates]
    least = min(harms)
    return [each for each, own in zip(candidates, harms, strict=True) if own == least]


def _aggregate(texts: Sequence[str]) -> str:
    """Join distinct errors as Kubernetes does."""
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
