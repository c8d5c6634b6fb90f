"""The scheduling cycle of one profile (search, PostFilter, score, choose), and its record.

Follows schedule_one.go: schedulePod. The cycle is one coroutine. It suspends only where an
`ExtenderTransport` is awaited: by extenders, and by async PreFilter and PostFilter plugins. For all
other pods it runs from start to end without suspending, so the live table needs no snapshot. While
a cycle is suspended, its owner defers all changes of cache, queue and nominations
(docs/decisions/0006).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.cycle_time import CycleBudget, Stopwatch
from scheduler.engine.diagnosis import FitError
from scheduler.engine.errors import AttemptError
from scheduler.engine.failure import Failure
from scheduler.engine.lookahead import Lookahead
from scheduler.engine.metrics import EngineMetrics
from scheduler.engine.plugin_calls import POST_FILTER
from scheduler.engine.reserved_room import reserved_room
from scheduler.engine.result_cache import CachedResult
from scheduler.engine.row_columns import INFEASIBLE
from scheduler.engine.runtime import Framework
from scheduler.engine.scoring import Scoring
from scheduler.engine.search import FeasibleNodes, Search
from scheduler.engine.template_capacity import TemplateCapacities
from scheduler.engine.tie_rules import tie_rule
from scheduler.engine.waiting import WaitingPod
from scheduler.extenders.extender import ExtenderRound, Extenders
from scheduler.framework import (
    CLEAR_NOMINATION,
    Clock,
    Code,
    CycleState,
    Int64Column,
    NominatingInfo,
    Nominator,
    PostFilterOutcome,
    QueuedPodInfo,
    RandomSource,
    Rows,
    Status,
)

NO_NODES = "no nodes available to schedule pods"

NOT_HELPFUL: Final = (
    "preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
)
"""The message of upstream's preemption after a PreFilter rejection; ours does not run then."""


class NoNodesError(Exception):
    """Raised if there is no node; the pod is retried after backoff, not after an event."""

    def __init__(self, unschedulable_reason: tuple[str, str] | None) -> None:
        super().__init__(NO_NODES)
        self.unschedulable_reason = unschedulable_reason


class ScheduleResult(msgspec.Struct, frozen=True):
    """The chosen node."""

    node_name: str
    row: int
    #: Number of nodes that were evaluated, and number of nodes on which the pod fits.
    evaluated_nodes: int
    feasible_nodes: int


@dataclass(slots=True)
class Unschedulable:
    """No node fits. `nominating` comes from PostFilter; None leaves the nomination unchanged."""

    error: FitError
    nominating: NominatingInfo | None
    post_filter: PostFilterOutcome = PostFilterOutcome.NOT_RUN
    #: `namespace/name` of the pods that PostFilter evicts.
    victims: tuple[str, ...] = ()
    #: The error of a PostFilter plugin that raised.
    raised: AttemptError | None = None


ScoredNodes = tuple[FeasibleNodes, Int64Column, Rows | None, Rows | Sequence[int] | None]
"""For the decision record: the nodes, their totals as `score` returns them plus the scores of
extenders, and the indices of the highest total (None if they are in `CachedResult.ties`)."""


class SchedulingAlgorithm:
    """Chooses a node for pods of one profile."""

    def __init__(  # noqa: PLR0913 - all dependencies are injected
        self,
        framework: Framework,
        table: NodeTable,
        nominator: Nominator,
        extenders: Extenders | None = None,
        *,
        clock: Clock,
        random: RandomSource,
        metrics: EngineMetrics,
        percentage: int | None = None,
        reuse: bool = True,
        plugin_time_budget: float = float("inf"),
        cycle_budget: CycleBudget | None = None,
    ) -> None:
        """Wire the algorithm; without `extenders` no cycle can be suspended."""
        self.framework = framework
        self._table = table
        #: Chooses among nodes with equal totals.
        self.choose_tied = tie_rule(framework.tie_breaking, table, random)
        self._extenders = extenders
        self._transport = None if extenders is None else extenders.transport
        #: Whether `suspends` may return True for any pod.
        self.may_suspend = extenders is not None and bool(extenders or framework.asynchronous)
        self.stopwatch = Stopwatch(
            clock.monotonic, metrics, framework.profile_name, plugin_time_budget, cycle_budget
        )
        self.scoring = Scoring(framework.score_slots, table, self.stopwatch)
        #: The nodes that the last cycle scored; None if it chose without scoring.
        self.scored: ScoredNodes | None = None
        self.search = Search(
            framework,
            table,
            nominator,
            percentage=percentage,
            reuse=reuse,
            all_columnar_scores=self.scoring.all_columnar,
            # Whether it matters which of the feasible nodes is taken.
            scores_anything=bool(framework.score)
            or (extenders is not None and extenders.evaluates),
            stopwatch=self.stopwatch,
        )
        #: Upper bounds for waiting groups.
        self.capacities = TemplateCapacities(self.search.filtering.slots, table)

    def suspends(self, pod: Pod) -> bool:
        """Whether the pod's cycle may be suspended."""
        extenders = self._extenders
        return extenders is not None and (self.framework.asynchronous or extenders.suspends(pod))

    async def schedule(self, state: CycleState, pod: Pod) -> ScheduleResult | Unschedulable:
        """Choose a node for `pod`, or return why none fits.

        Raises NoNodesError in an empty cluster, and AttemptError if a plugin or an extender fails.
        """
        self.scored = None
        if not self._table.node_count:
            raise NoNodesError(self.framework.unschedulable_reason(pod))
        search, transport, extenders = self.search, self._transport, None
        if self._extenders and self._extenders.suspends(pod):
            extenders = self._extenders.begin_round(pod)
        try:
            try:
                nodes = await search.find(state, pod, extenders, transport)
            except FitError:
                # There is a second pass if a plugin relaxes its requirements after the first.
                if not self.framework.relax(state, pod):
                    raise
                state.skip_filter.clear()
                nodes = await search.find(state, pod, extenders, transport)
            if extenders is None or not extenders.scorers:
                return self._select_host(state, pod, nodes)
            return await self._select_host_with_extenders(state, pod, nodes, extenders)
        except FitError as fit_error:
            rejected = fit_error.diagnosis.rejected
            for room in reserved_room(self.framework, self._table, pod, rejected):
                state.note_failure(str(room))
            return await self._post_filter(state, pod, fit_error)
        finally:
            search.settle(pod)

    async def pre_filtered(self, pod: Pod, now: float) -> CycleState | None:
        """Run PreFilter only, for an upper bound of how many such pods fit; None if it fails."""
        state = CycleState(now)
        try:
            found = await self.framework.run_pre_filter(
                state, pod, self._table, stopwatch=self.stopwatch, transport=self._transport
            )
        except AttemptError:
            # An attempt at the pod will report it.
            return None
        return None if found.rejections else state

    # -- repetition ------------------------------------------------------------------------------

    def repeatable(self, pod: Pod, state: CycleState) -> CachedResult | None:
        """Return the cached results with which `choose_again` can choose for an equal pod.

        None if filters or scores must run for every pod, or if not all nodes were evaluated.
        """
        if self.suspends(pod):
            return None
        if state.within is not None and len(state.within) == 1:
            entry = self.search.results.get(pod.signature.id, pod.uid)
            known = entry is not None and self.search.holds(entry, pod)
            return entry if known and self.search.repeatable(state) else None
        if self.scored is None:
            return None
        nodes, _, where, _ = self.scored
        if nodes.statuses is not None or self.scoring.has_uncacheable(state):
            return None
        if state.within is None and (where is not None or not nodes.shared):
            return None
        return nodes.entry if self.search.repeatable(state) else None

    def look_ahead(
        self, state: CycleState, pod: Pod, entry: CachedResult, more: int
    ) -> Lookahead | None:
        """Prepare a `Lookahead` for `more` equal pods after `choose_again`; None: impossible."""
        ahead = Lookahead(self.search.filtering, self.scoring, self._table, entry, state, pod)
        return ahead if ahead.begin(more) else None

    def choose_ahead(self, entry: CachedResult, ahead: Lookahead) -> ScheduleResult | None:
        """Like `choose_again`, with the results of `ahead`; None if these are unknown."""
        if not ahead.follow():
            return None
        rows, totals, ties = entry.normalized_rows, entry.total, entry.ties
        assert rows is not None
        assert totals is not None
        assert ties is not None
        feasible = len(rows)
        if feasible <= 1:
            # A single node is chosen without scores.
            return None
        count = self._table.node_count if ahead.within is None else len(ahead.within)
        nodes, equal = FeasibleNodes(rows, entry, True, count - feasible), ties.rows
        self.scored = nodes, totals, None, equal if self.scoring.fresh else None
        return self._result(self._choose_one(equal), count, feasible)

    def choose_again(
        self, state: CycleState, pod: Pod, entry: CachedResult
    ) -> ScheduleResult | None:
        """Choose a node with cached results of PreFilter and PreScore; None if no node fits."""
        self.scored = None
        self.search.filtering.refresh(entry, state, pod)
        within = state.within
        rows = entry.feasible_within(within)
        if not len(rows):
            return None
        count = self._table.node_count if within is None else len(within)
        nodes = FeasibleNodes(rows, entry, True, count - len(rows))
        return self._select_host(state, pod, nodes, prepared=True)

    # -- host selection --------------------------------------------------------------------------

    def _select_host(
        self, state: CycleState, pod: Pod, nodes: FeasibleNodes, *, prepared: bool = False
    ) -> ScheduleResult:
        rows = nodes.rows
        feasible = len(rows)
        if feasible == 1 or nodes.nominated:
            row = int(rows[0])
            return self._result(row, nodes.rejected + 1, 1)
        if not self.framework.score:
            row = self.choose_tied(rows)
            return self._result(row, feasible + nodes.rejected, feasible)
        totals, where = self.score(state, pod, nodes, prepared=prepared)
        ties = None
        if where is None and nodes.entry is not None:
            ties = self.scoring.ties(nodes.entry, totals)
        if ties is not None:
            # The recorder's data of a signature exclude scores of plugins without reuse.
            equal = ties.rows
            self.scored = nodes, totals, where, equal if self.scoring.fresh else None
            row = self._choose_one(equal)
        else:
            row = self._best(nodes, totals, where)
        return self._result(row, feasible + nodes.rejected, feasible)

    async def _select_host_with_extenders(
        self, state: CycleState, pod: Pod, nodes: FeasibleNodes, extenders: ExtenderRound
    ) -> ScheduleResult:
        """Run `_select_host` with the scores of extenders added."""
        rows, names = nodes.rows, self._table.names
        feasible = len(rows)
        if feasible == 1 or nodes.nominated:
            return self._select_host(state, pod, nodes)
        if self.framework.score:
            totals, where = self.score(state, pod, nodes)
        else:
            totals, where = np.zeros(feasible, dtype=np.int64), rows
        candidates = [names[row] for row in rows.tolist()]
        scores = await extenders.prioritize(candidates)
        if scores:
            totals = totals.copy()
            added = np.array([scores.get(name, 0) for name in candidates], dtype=np.int64)
            totals[rows if where is None else slice(None)] += added
        row = self._best(nodes, totals, where)
        return self._result(row, feasible + nodes.rejected, feasible)

    def score(
        self, state: CycleState, pod: Pod, nodes: FeasibleNodes, *, prepared: bool = False
    ) -> tuple[Int64Column, Rows | None]:
        """Run PreScore (unless `prepared`) and the Score plugins on the feasible rows.

        Returns (totals, rows) with one total for each of `rows`. If `rows` is None, the totals are
        a column of the whole table, `INFEASIBLE` where the pod does not fit. Do not modify them.
        """
        stopwatch, rows, entry, scoring = self.stopwatch, nodes.rows, nodes.entry, self.scoring
        if not prepared:
            with stopwatch.points["PreScore"]:
                recorded = None if entry is None else entry.pre_score
                self.framework.run_pre_score(
                    state, pod, self._table, rows, recorded=recorded, stopwatch=stopwatch
                )
        with stopwatch.points["Score"]:
            if entry is None:
                return scoring.totals_of(state, pod, rows), rows
            if nodes.shared:
                return scoring.totals(state, pod, entry, rows)
            return scoring.subset_totals(state, pod, entry, rows), rows

    def _best(self, nodes: FeasibleNodes, totals: Int64Column, rows: Rows | None) -> int:
        """Return a row with the highest total."""
        highest = totals.item(totals.argmax())
        equal = (totals == highest).nonzero()[0]
        self.scored = nodes, totals, rows, equal
        assert highest != INFEASIBLE or rows is not None
        return self._choose_one(equal if rows is None else rows[equal])

    def _choose_one(self, ties: Sequence[int] | Rows) -> int:
        return int(ties[0]) if len(ties) == 1 else self.choose_tied(ties)

    def _result(self, row: int, evaluated: int, feasible: int) -> ScheduleResult:
        return ScheduleResult(self._table.names[row], row, evaluated, feasible)

    # -- PostFilter ------------------------------------------------------------------------------

    async def _post_filter(self, state: CycleState, pod: Pod, fit_error: FitError) -> Unschedulable:
        diagnosis = fit_error.diagnosis
        if not self.framework.post_filter:
            return Unschedulable(fit_error, CLEAR_NOMINATION, PostFilterOutcome.NO_PLUGIN)
        if diagnosis.skip_post_filter:
            if diagnosis.pre_filter_message:
                diagnosis.post_filter_message = NOT_HELPFUL.format(nodes=diagnosis.node_count)
            return Unschedulable(fit_error, CLEAR_NOMINATION)
        with self.stopwatch.points["PostFilter"] as point:
            result = await self.framework.run_post_filter(
                state,
                pod,
                diagnosis.statuses,
                stopwatch=self.stopwatch,
                transport=self._transport,
            )
            status = result.status or Status(Code.SUCCESS)
            point.status = status.code.label
        diagnosis.post_filter_message = status.message
        outcome = result.outcome or _outcome(status)
        raised = None
        if status.error is not None and status.error.__traceback__ is not None:
            raised = POST_FILTER.failed(status.plugin, status.error, status.error)
        return Unschedulable(fit_error, result.nominating, outcome, result.victims, raised)


def _outcome(status: Status) -> PostFilterOutcome:
    """Derive the outcome from the status of PostFilter, for plugins that do not set one."""
    if status.success:
        return PostFilterOutcome.NOMINATED
    return PostFilterOutcome.FAILED if status.rejected else PostFilterOutcome.NOT_RUN


class Attempt(msgspec.Struct, eq=False):
    """One attempt to schedule a pod. At its end exactly one of `result` and `failure` is set."""

    info: QueuedPodInfo
    #: The framework of the pod's profile; the attempt keeps it if the configuration is reloaded.
    framework: Framework
    state: CycleState
    #: Monotonic time at which the cycle began.
    started: float
    #: The pod; once it is assumed, with its node name.
    pod: Pod
    result: ScheduleResult | None = None
    #: The node that the cycle chose. Unlike `result`, a later failure does not clear it.
    chosen: ScheduleResult | None = None
    failure: Failure | None = None
    waiting: WaitingPod | None = None
    #: `Cache.external_changes` when the chosen node was last found to fit.
    seen: int = 0
    #: Whether the attempt is part of the cycle of a pod group.
    member: bool = False
    #: Sequence number of the node table's change log when the cycle began.
    sequence: int = 0
    #: An unexpected exception, which is a bug of the engine or of a plugin.
    fault: BaseException | None = None
    #: CPU time of the cycle in seconds; 0 if it was too short to be measured.
    cost: float = 0.0
    #: The algorithm that runs `framework`.
    algorithm: SchedulingAlgorithm | None = None
    #: Seconds that the binding cycle has spent so far in Permit, PreBind and Bind.
    binding_seconds: dict[str, float] | None = None
    #: Names of the plugins whose PreBind is under way.
    pre_binding: tuple[str, ...] = ()
    #: The group for whose other members the binding waits; empty: for none.
    awaited_group: str = ""

    @property
    def node_name(self) -> str:
        """Return the name of the chosen node."""
        assert self.result is not None
        return self.result.node_name

    @property
    def ended_before_filter(self) -> bool:
        """Whether the cycle ended before Filter, or its end is unknown (no diagnosis)."""
        if self.chosen is not None:
            return False
        diagnosis = None if self.failure is None else self.failure.diagnosis
        return diagnosis is None or bool(diagnosis.pre_filter_message)
