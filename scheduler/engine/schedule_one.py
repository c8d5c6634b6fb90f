"""The scheduling cycle of one profile: search, PostFilter, score, choose.

Follows framework-cycle-config.md section 2. Pure and synchronous: no yield between its first and
last line, so the live table needs no snapshot.
"""

from __future__ import annotations

import reprlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypedDict

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.cycle_budget import CycleBudget, CycleBudgetError
from scheduler.engine.diagnosis import Diagnosis, FitError
from scheduler.engine.metrics import EngineMetrics, Stopwatch
from scheduler.engine.runtime import AttemptError, Framework
from scheduler.engine.scoring import INFEASIBLE, Scoring
from scheduler.engine.search import FeasibleNodes, Search
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


class RandomSource(Protocol):
    """The source of random choices, seedable; `random.Random` fits."""

    def randrange(self, stop: int, /) -> int:
        """An integer from 0 to `stop` - 1."""
        ...


class NoNodesError(Exception):
    """There is no node at all; the pod is retried with backoff, without waiting for an event."""

    def __init__(self, unschedulable_reason: tuple[str, str] | None) -> None:
        super().__init__(NO_NODES)
        self.unschedulable_reason = unschedulable_reason


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """The chosen node."""

    node_name: str
    row: int
    #: Nodes looked at, and those the pod could run on.
    evaluated_nodes: int
    feasible_nodes: int


@dataclass(slots=True)
class Unschedulable:
    """No node fits; `nominating` is what PostFilter made of it (None: leave it alone)."""

    error: FitError
    nominating: NominatingInfo | None
    post_filter: PostFilterOutcome = PostFilterOutcome.NOT_RUN


class AlgorithmOptions(TypedDict, total=False):
    """What a SchedulingAlgorithm is told by name."""

    clock: Clock
    random: RandomSource
    metrics: EngineMetrics
    percentage: int | None
    reuse: bool
    plugin_time_budget: float
    cycle_budget: CycleBudget


class SchedulingAlgorithm:
    """Chooses a node for pods of one profile."""

    def __init__(  # noqa: PLR0913 - what it is wired to
        self,
        framework: Framework,
        table: NodeTable,
        nominator: Nominator,
        *,
        clock: Clock,
        random: RandomSource,
        metrics: EngineMetrics,
        percentage: int | None = None,
        reuse: bool = True,
        plugin_time_budget: float = float("inf"),
        cycle_budget: CycleBudget | None = None,
    ) -> None:
        self._framework = framework
        self._table = table
        self._random = random
        self._stopwatch = Stopwatch(
            clock.monotonic, metrics, framework.profile_name, plugin_time_budget, cycle_budget
        )
        self.scoring = Scoring(framework, table, self._stopwatch)
        self.search = self._search(
            framework,
            table,
            nominator,
            percentage=percentage,
            reuse=reuse,
            all_columnar_scores=self.scoring.all_columnar,
            scores_anything=self._scores_anything(framework),
            stopwatch=self._stopwatch,
        )

    #: The kind of search; `suspended_cycle` has another one.
    _search: type[Search] = Search

    def _scores_anything(self, framework: Framework) -> bool:
        """Whether it matters which of the feasible nodes is taken."""
        return bool(framework.score)

    def schedule(self, state: CycleState, pod: Pod) -> ScheduleResult | Unschedulable:
        """The node for `pod`, or why there is none.

        Raises NoNodesError in an empty cluster, AttemptError when a plugin failed.
        """
        if not self._table.node_count:
            raise NoNodesError(self._framework.unschedulable_reason(pod))
        try:
            return self._choose(state, pod, self._find(state, pod))
        except FitError as unfit:
            return self._post_filter(state, pod, unfit)
        finally:
            self.search.settle(pod)

    def _find(self, state: CycleState, pod: Pod) -> FeasibleNodes:
        """The feasible rows, in a second pass if a plugin relaxes its demands after the first."""
        try:
            return self.search.find(state, pod)
        except FitError:
            if not self._framework.relax(state, pod):
                raise
        state.skip_filter.clear()
        return self.search.find(state, pod)

    # -- host selection --------------------------------------------------------------------------

    def _choose(self, state: CycleState, pod: Pod, found: FeasibleNodes) -> ScheduleResult:
        rows = found.rows
        feasible = len(rows)
        if feasible == 1 or found.nominated:
            row = int(rows[0])
            return self._result(row, found.rejected + 1, 1)
        if not self._framework.score:
            row = int(rows[self._random.randrange(feasible)])
            return self._result(row, feasible + found.rejected, feasible)
        totals, where = self.score(state, pod, found)
        ties = None
        if where is None and found.entry is not None:
            ties = self.scoring.ties(found.entry, state)
        row = self._best(totals, where) if ties is None else self._choose_one(ties.rows)
        return self._result(row, feasible + found.rejected, feasible)

    def score(
        self, state: CycleState, pod: Pod, found: FeasibleNodes
    ) -> tuple[Int64Column, Rows | None]:
        """Run PreScore and all Score plugins on the feasible rows.

        Returns totals per entry of the rows returned with them; when those are None, per row of the
        whole table, `INFEASIBLE` where the pod does not fit. Do not modify the result.
        """
        stopwatch = self._stopwatch
        started, outcome = stopwatch.start(), Code.SUCCESS
        try:
            self.scoring.pre_score(state, pod, found.rows, found.entry)
        except AttemptError:
            outcome = Code.ERROR
            raise
        finally:
            stopwatch.point("PreScore", outcome.label, started)
        started = stopwatch.start()
        try:
            return self._totals(state, pod, found)
        except AttemptError:
            outcome = Code.ERROR
            raise
        finally:
            stopwatch.point("Score", outcome.label, started)

    def _totals(
        self, state: CycleState, pod: Pod, found: FeasibleNodes
    ) -> tuple[Int64Column, Rows | None]:
        rows, scoring = found.rows, self.scoring
        if found.entry is None:
            return scoring.totals_of(state, pod, rows), rows
        if found.shared:
            return scoring.totals(state, pod, found.entry, rows), None
        return scoring.subset_totals(state, pod, found.entry, rows), rows

    def _best(self, totals: Int64Column, rows: Rows | None) -> int:
        """A row with the highest total, ties broken at random."""
        highest = totals.max()
        position = self._choose_one(np.flatnonzero(totals == highest))
        assert highest != INFEASIBLE or rows is not None
        return position if rows is None else int(rows[position])

    def _choose_one(self, ties: Sequence[int] | Rows) -> int:
        return int(ties[0] if len(ties) == 1 else ties[self._random.randrange(len(ties))])

    def _result(self, row: int, evaluated: int, feasible: int) -> ScheduleResult:
        return ScheduleResult(self._table.names[row], row, evaluated, feasible)

    # -- PostFilter ------------------------------------------------------------------------------

    def _post_filter(self, state: CycleState, pod: Pod, unfit: FitError) -> Unschedulable:
        diagnosis = unfit.diagnosis
        without = self._without_post_filter(unfit)
        if without is not None:
            return without
        started = self._stopwatch.monotonic()
        return self._after_post_filter(unfit, self._run_post_filter(state, pod, diagnosis), started)

    def _run_post_filter(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """Ask all plugins whose answer has not to be awaited."""
        steps = self._post_filters(state)
        try:
            plugin = next(steps)
            while True:
                plugin = steps.send(self._call_post_filter(plugin, state, pod, diagnosis))
        except StopIteration as end:
            result: PostFilterResult = end.value
            return result

    def _without_post_filter(self, unfit: FitError) -> Unschedulable | None:
        """The outcome where PostFilter does not run."""
        if not self._framework.post_filter:
            return Unschedulable(unfit, CLEAR_NOMINATION, PostFilterOutcome.NO_PLUGIN)
        diagnosis = unfit.diagnosis
        if not diagnosis.skip_post_filter:
            return None
        if diagnosis.pre_filter_message:
            diagnosis.post_filter_message = NOT_HELPFUL.format(nodes=diagnosis.node_count)
        return Unschedulable(unfit, CLEAR_NOMINATION)

    def _after_post_filter(
        self, unfit: FitError, result: PostFilterResult, started: float
    ) -> Unschedulable:
        status = result.status or Status(Code.SUCCESS)
        self._stopwatch.point("PostFilter", status.code.label, started)
        unfit.diagnosis.post_filter_message = status.message
        return Unschedulable(unfit, result.nominating, result.outcome or _outcome(status))

    def _call_post_filter(
        self, plugin: Any, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """One plugin; what it raises is an Error status, but for the end of the cycle's budget."""
        self._stopwatch.cycle.check()
        try:
            answer: PostFilterResult = plugin.post_filter(state, pod, diagnosis.statuses)
        except CycleBudgetError:
            raise
        except Exception as problem:  # noqa: BLE001 - plugin boundary
            return PostFilterResult(error(problem).by(plugin.name))
        return answer

    def _post_filters(
        self, state: CycleState
    ) -> Generator[Any, PostFilterResult, PostFilterResult]:
        """Upstream's aggregation (framework-cycle-config.md 1.4).

        Yields the plugin to ask next, is sent its answer, returns the result.
        """
        if state.skip_post_filter:
            return PostFilterResult(
                Status(Code.UNSCHEDULABLE, ("All PostFilter plugins are skipped",))
            )
        reasons: list[str] = []
        first_rejector = ""
        nominating: NominatingInfo | None = None
        outcome: PostFilterOutcome | None = None
        for plugin in self._framework.post_filter:
            answer = _post_filter_result(plugin.name, (yield plugin))
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


def _post_filter_result(plugin: str, answer: object) -> PostFilterResult:
    """The answer; an Error where it is of another kind."""
    if isinstance(answer, PostFilterResult):
        return answer
    text = f'PostFilter plugin "{plugin}" answered {reprlib.repr(answer)}, not a PostFilterResult'
    return PostFilterResult(error(text).by(plugin))


def _outcome(status: Status) -> PostFilterOutcome:
    """How PostFilter ended, where its plugins do not say so themselves."""
    if status.success:
        return PostFilterOutcome.NOMINATED
    return PostFilterOutcome.FAILED if status.rejected else PostFilterOutcome.NOT_RUN
