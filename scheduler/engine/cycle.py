"""The scheduling cycle of one profile: search, PostFilter, score, choose.

Follows framework-cycle-config.md section 2. Pure and synchronous: no yield between its first and
last line, so the live table needs no snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.diagnosis import Diagnosis, FitError
from scheduler.engine.metrics import EngineMetrics, Stopwatch
from scheduler.engine.runtime import AttemptError, Framework
from scheduler.engine.scoring import INFEASIBLE, Scoring
from scheduler.engine.search import Found, Search
from scheduler.framework import (
    CLEAR_NOMINATION,
    Clock,
    Code,
    CycleState,
    Int64Column,
    NominatingInfo,
    Nominator,
    PostFilterOutcome,
    PostFilterResult,
    Rows,
    Status,
    error,
)

NO_NODES = "no nodes available to schedule pods"

NOT_HELPFUL: Final = (
    "preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
)
"""What preemption would say of a PreFilter rejection about which it is not even asked."""


class Randomness(Protocol):
    """The source of random choices, seedable; `random.Random` fits."""

    def randrange(self, stop: int, /) -> int:
        """An integer from 0 to `stop` - 1."""
        ...


class NoNodesError(Exception):
    """There is no node at all; the pod is retried with backoff, without waiting for an event."""

    def __init__(self) -> None:
        super().__init__(NO_NODES)


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """The chosen node."""

    node_name: str
    row: int
    #: Nodes looked at, and those the pod could run on.
    evaluated_nodes: int
    feasible_nodes: int


@dataclass(slots=True)
class Unfit:
    """No node fits; `nominating` is what PostFilter made of it (None: leave it alone)."""

    error: FitError
    nominating: NominatingInfo | None
    post_filter: PostFilterOutcome = PostFilterOutcome.NOT_RUN


class SchedulingAlgorithm:
    """Chooses a node for pods of one profile."""

    def __init__(  # noqa: PLR0913 - what it is wired to
        self,
        framework: Framework,
        table: NodeTable,
        nominator: Nominator,
        *,
        clock: Clock,
        random: Randomness,
        metrics: EngineMetrics,
        percentage: int | None = None,
        reuse: bool = True,
        plugin_time_budget: float = float("inf"),
    ) -> None:
        self._framework = framework
        self._table = table
        self._random = random
        self._stopwatch = Stopwatch(
            clock.monotonic, metrics, framework.profile_name, plugin_time_budget
        )
        self.scoring = Scoring(framework, table, self._stopwatch)
        self.search = Search(
            framework,
            table,
            nominator,
            percentage=percentage,
            reuse=reuse,
            all_columnar_scores=self.scoring.all_columnar,
            scores_anything=bool(framework.score),
            stopwatch=self._stopwatch,
        )

    def schedule(self, state: CycleState, pod: Pod) -> ScheduleResult | Unfit:
        """The node for `pod`, or why there is none.

        Raises NoNodesError in an empty cluster, AttemptError when a plugin failed.
        """
        if not self._table.node_count:
            raise NoNodesError
        try:
            return self._choose(state, pod, self._find(state, pod))
        except FitError as unfit:
            return self._post_filter(state, pod, unfit)
        finally:
            self.search.settle(pod)

    def _find(self, state: CycleState, pod: Pod) -> Found:
        """The feasible rows, in a second pass if a plugin relaxes its demands after the first."""
        try:
            return self.search.find(state, pod)
        except FitError:
            if not self._framework.relax(state, pod):
                raise
        state.skip_filter.clear()
        return self.search.find(state, pod)

    # -- host selection --------------------------------------------------------------------------

    def _choose(self, state: CycleState, pod: Pod, found: Found) -> ScheduleResult:
        rows = found.rows
        feasible = len(rows)
        if feasible == 1 or found.nominated:
            row = int(rows[0])
            return self._result(row, found.rejected + 1, 1)
        if not self._framework.score:
            row = int(rows[self._random.randrange(feasible)])
            return self._result(row, feasible + found.rejected, feasible)
        row = self._best(*self.score(state, pod, found))
        return self._result(row, feasible + found.rejected, feasible)

    def score(self, state: CycleState, pod: Pod, found: Found) -> tuple[Int64Column, Rows | None]:
        """Run PreScore and all Score plugins on the feasible rows.

        Returns totals per entry of the rows returned with them; when those are None, per row of the
        whole table, `INFEASIBLE` where the pod does not fit. Do not modify the result.
        """
        stopwatch = self._stopwatch
        started, outcome = stopwatch.monotonic(), Code.SUCCESS
        try:
            self.scoring.pre_score(state, pod, found.rows, found.entry)
        except AttemptError:
            outcome = Code.ERROR
            raise
        finally:
            stopwatch.point("PreScore", outcome.label, started)
        started = stopwatch.monotonic()
        try:
            return self._totals(state, pod, found)
        except AttemptError:
            outcome = Code.ERROR
            raise
        finally:
            stopwatch.point("Score", outcome.label, started)

    def _totals(self, state: CycleState, pod: Pod, found: Found) -> tuple[Int64Column, Rows | None]:
        rows, scoring = found.rows, self.scoring
        if found.entry is None:
            return scoring.totals_of(state, pod, rows), rows
        if found.shared:
            return scoring.totals(state, pod, found.entry, rows), None
        return scoring.subset_totals(state, pod, found.entry, rows), rows

    def _best(self, totals: Int64Column, rows: Rows | None) -> int:
        """A row with the highest total, ties broken at random."""
        highest = totals.max()
        ties = np.flatnonzero(totals == highest)
        position = int(ties[0] if len(ties) == 1 else ties[self._random.randrange(len(ties))])
        assert highest != INFEASIBLE or rows is not None
        return position if rows is None else int(rows[position])

    def _result(self, row: int, evaluated: int, feasible: int) -> ScheduleResult:
        return ScheduleResult(self._table.names[row], row, evaluated, feasible)

    # -- PostFilter ------------------------------------------------------------------------------

    def _post_filter(self, state: CycleState, pod: Pod, unfit: FitError) -> Unfit:
        diagnosis = unfit.diagnosis
        if not self._framework.post_filter:
            return Unfit(unfit, CLEAR_NOMINATION, PostFilterOutcome.NO_PLUGIN)
        if diagnosis.skip_post_filter:
            if diagnosis.pre_filter_message:
                diagnosis.post_filter_message = NOT_HELPFUL.format(nodes=diagnosis.node_count)
            return Unfit(unfit, CLEAR_NOMINATION)
        started = self._stopwatch.monotonic()
        result = self._run_post_filter(state, pod, diagnosis)
        status = result.status or Status(Code.SUCCESS)
        self._stopwatch.point("PostFilter", status.code.label, started)
        diagnosis.post_filter_message = status.message
        return Unfit(unfit, result.nominating, result.outcome or _outcome(status))

    def _run_post_filter(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """Upstream's aggregation (framework-cycle-config.md 1.4)."""
        if state.skip_post_filter:
            return PostFilterResult(
                Status(Code.UNSCHEDULABLE, ("All PostFilter plugins are skipped",))
            )
        reasons: list[str] = []
        first_rejector = ""
        nominating: NominatingInfo | None = None
        outcome: PostFilterOutcome | None = None
        for plugin in self._framework.post_filter:
            try:
                answer: PostFilterResult = plugin.post_filter(state, pod, diagnosis.statuses)
            except Exception as problem:  # noqa: BLE001 - plugin boundary
                return PostFilterResult(error(problem).by(plugin.name))
            status = answer.status
            if status is None or status.success:
                return answer
            if status.code.label == "UnschedulableAndUnresolvable":
                return PostFilterResult(status.by(plugin.name), answer.nominating, answer.outcome)
            if not status.rejected:
                return PostFilterResult(
                    Status(Code.ERROR, status.reasons, plugin.name, status.error),
                    outcome=answer.outcome,
                )
            reasons += status.reasons
            first_rejector = first_rejector or plugin.name
            nominating = answer.nominating or nominating
            outcome = answer.outcome or outcome
        return PostFilterResult(
            Status(Code.UNSCHEDULABLE, tuple(reasons), first_rejector), nominating, outcome
        )


def _outcome(status: Status) -> PostFilterOutcome:
    """How PostFilter ended, where its plugins do not say so themselves."""
    if status.success:
        return PostFilterOutcome.NOMINATED
    return PostFilterOutcome.FAILED if status.rejected else PostFilterOutcome.NOT_RUN
