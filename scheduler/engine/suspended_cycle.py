"""The scheduling cycle where it may be suspended: extenders, async PreFilter and PostFilter.

The same steps as in `search` and `cycle`, as coroutines. They await nothing but an
`ExtenderTransport`, which the service implements; the core itself knows no event loop. While a
coroutine here is suspended its owner keeps all changes of cache, queue and nominations back, so
that the cycle sees one world from its first to its last line. What changed is let in before the
choice is committed, and `check_again` filters the chosen node once more if it is among that.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any, Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.diagnosis import Diagnosis, FitError
from scheduler.engine.result_cache import CachedResult
from scheduler.engine.runtime import AttemptError, Framework, failed, pre_filter_result
from scheduler.engine.schedule_one import (
    NoNodesError,
    ScheduleResult,
    SchedulingAlgorithm,
    Unschedulable,
)
from scheduler.engine.search import (
    FeasibleNodes,
    NodeStatuses,
    PreFilterNodes,
    Search,
    entry_codes,
    pre_filter_failed,
)
from scheduler.extenders.extender import (
    ExtenderError,
    ExtenderRound,
    Extenders,
    ExtenderTransport,
    FailedNodes,
    TooLateError,
)
from scheduler.framework import (
    Code,
    CycleState,
    Nominator,
    PostFilterResult,
    PreFilterResult,
    Rows,
    Status,
    error,
    unresolvable,
)
from scheduler.queue import EXTENDER

DEFAULT_TIMEOUT: Final = 5.0
"""Seconds an async PreFilter or PostFilter may take whose plugin sets no `timeout`."""


class SuspendedSearch(Search):
    """A search that can wait for async PreFilter plugins and for extenders that filter."""

    async def find_suspended(
        self, state: CycleState, pod: Pod, consultation: ExtenderRound, outside: ExtenderTransport
    ) -> FeasibleNodes:
        """As `find`; raises the same."""
        entry = self._entry(pod)
        diagnosis = Diagnosis(node_count=self._table.node_count)
        started, outcome = self._stopwatch.monotonic(), Code.SUCCESS
        try:
            narrowing = await self._pre_filter_suspended(state, pod, entry, diagnosis, outside)
        except FitError:
            outcome = diagnosis.statuses.absent.code
            raise
        except AttemptError:
            outcome = Code.ERROR
            raise
        finally:
            self._stopwatch.point("PreFilter", outcome.label, started)
        diagnosis.unschedulable_plugins.update(narrowing.plugins)
        started = self._stopwatch.start()
        try:
            return await self._filter_suspended(
                state, pod, entry, narrowing, diagnosis, consultation
            )
        except AttemptError:
            outcome = Code.ERROR
            raise
        finally:
            self.filtering.report_scalar(state)
            self._stopwatch.point("Filter", outcome.label, started)

    # -- PreFilter -------------------------------------------------------------------------------

    async def _pre_filter_suspended(
        self,
        state: CycleState,
        pod: Pod,
        entry: CachedResult | None,
        diagnosis: Diagnosis,
        outside: ExtenderTransport,
    ) -> PreFilterNodes:
        narrowing = PreFilterNodes()
        for slot in self.pre_filters:
            self._stopwatch.cycle.check()
            answer: PreFilterResult | Status | None
            if slot.awaited:
                answer = await _awaited_pre_filter(slot.plugin, state, pod, self._table, outside)
            else:
                answer = self._call_pre_filter(slot, state, pod, entry)
            if answer is not None:
                self.merge_pre_filter_result(slot.plugin, answer, state, narrowing, diagnosis)
        return self._narrowed(narrowing, diagnosis)

    # -- Filter ----------------------------------------------------------------------------------

    async def _filter_suspended(
        self,
        state: CycleState,
        pod: Pod,
        entry: CachedResult | None,
        narrowing: PreFilterNodes,
        diagnosis: Diagnosis,
        consultation: ExtenderRound,
    ) -> FeasibleNodes:
        nominated = pod.status.nominated_node_name
        row = self._table.row_of(nominated) if nominated else None
        if row is not None and self._nominated_fits(state, pod, row):
            try:
                left, _ = await consultation.filter([nominated])
            except ExtenderError:
                # Upstream only logs an error here; a real one comes back with all nodes.
                left = ()
            if left:
                return FeasibleNodes(np.array([row], dtype=np.intp), None, False, 0, nominated=True)
        found = self._search_nodes(state, pod, entry, narrowing, diagnosis, consultation.filters)
        if not consultation.filters:
            return found
        names = self._table.names
        asked = [names[row] for row in found.rows.tolist()]
        try:
            left, refusals = await consultation.filter(asked)
        except ExtenderError as error:
            raise failed(str(error), error) from error
        if len(left) == len(asked):
            return found
        return self._without_refused(state, pod, found, set(left), refusals, diagnosis)

    def _search_nodes(
        self,
        state: CycleState,
        pod: Pod,
        entry: CachedResult | None,
        narrowing: PreFilterNodes,
        diagnosis: Diagnosis,
        sampled: bool,
    ) -> FeasibleNodes:
        """The plugins' part. Where an extender filters, no more nodes than upstream would find."""
        complete = self._complete
        # An explicit percentage of 100 is honoured.
        self._complete = complete and not (sampled and not self._percentage)
        try:
            return self._filter_unnominated(state, pod, entry, narrowing, diagnosis)
        finally:
            self._complete = complete

    def _without_refused(
        self,
        state: CycleState,
        pod: Pod,
        found: FeasibleNodes,
        left: set[str],
        refusals: FailedNodes,
        diagnosis: Diagnosis,
    ) -> FeasibleNodes:
        """What extenders left of the nodes found; raises FitError when that is nothing."""
        names = self._table.names
        rows: Rows = np.array(
            [row for row in found.rows.tolist() if names[row] in left], dtype=np.intp
        )
        if len(rows):
            rejected = found.rejected + len(found.rows) - len(rows)
            return FeasibleNodes(rows, found.entry, False, rejected, verdicts=found.verdicts)
        verdicts = found.verdicts
        if verdicts is None:
            assert found.entry is not None
            verdicts = NodeStatuses(self._table.rows, found.entry.verdict, entry_codes(found.entry))
        absent = diagnosis.statuses.absent
        for row in found.rows.tolist():
            verdicts.explicit[row] = refusals.statuses.get(names[row], absent)
        diagnosis.unschedulable_plugins.add(EXTENDER)
        raise self._unfit(state, pod, verdicts, diagnosis)

    # -- after the suspension --------------------------------------------------------------------

    def check_row(self, state: CycleState, pod: Pod, row: int) -> Status | None:
        """Filter one row against the world as it is now; the first rejection.

        PreFilter runs again, so that what later points read of `state` is new as well; what async
        PreFilter plugins wrote stays. Raises AttemptError.
        """
        awaited = self._framework.awaited_pre_filters
        state.skip_filter.intersection_update(awaited)
        narrowing, diagnosis = PreFilterNodes(), Diagnosis(node_count=self._table.node_count)
        try:
            for slot in self.pre_filters:
                if slot.awaited:
                    continue
                answer = self._call_pre_filter(slot, state, pod, None)
                if answer is not None:
                    self.merge_pre_filter_result(slot.plugin, answer, state, narrowing, diagnosis)
            self._narrowed(narrowing, diagnosis)
        except FitError:
            return diagnosis.statuses.absent
        if narrowing.names is not None and self._table.names[row] not in narrowing.names:
            plugins = " ".join(sorted(set(narrowing.plugins)))
            return unresolvable(f"node(s) didn't satisfy plugin(s) [{plugins}]")
        return self._with_nominated(state, pod, row) or self._framework.run_filters(
            state, pod, self._table.node_info(row)
        )


class SuspendedAlgorithm(SchedulingAlgorithm):
    """Chooses a node. For pods that nothing has to be awaited for `schedule` will do."""

    search: SuspendedSearch
    _search = SuspendedSearch

    def __init__(
        self,
        framework: Framework,
        table: NodeTable,
        nominator: Nominator,
        extenders: Extenders,
        **options: Any,
    ) -> None:
        self._extenders = extenders
        self._outside = extenders.outside
        super().__init__(framework, table, nominator, **options)

    def _scores_anything(self, framework: Framework) -> bool:
        return bool(framework.score) or self._extenders.filter or self._extenders.score

    def suspends(self, pod: Pod) -> bool:
        """Whether something may have to be awaited for this pod."""
        return self._framework.asynchronous or self._extenders.suspends(pod)

    async def schedule_suspended(
        self, state: CycleState, pod: Pod
    ) -> ScheduleResult | Unschedulable:
        """As `schedule`; raises the same."""
        if not self._table.node_count:
            raise NoNodesError(self._framework.unschedulable_reason(pod))
        consultation = self._extenders.consultation(pod)
        try:
            found = await self._find_suspended(state, pod, consultation)
            return await self._choose_suspended(state, pod, found, consultation)
        except FitError as unfit:
            return await self._post_filter_suspended(state, pod, unfit)
        finally:
            self.search.settle(pod)

    async def _find_suspended(
        self, state: CycleState, pod: Pod, consultation: ExtenderRound
    ) -> FeasibleNodes:
        """As `_find`."""
        try:
            return await self.search.find_suspended(state, pod, consultation, self._outside)
        except FitError:
            if not self._framework.relax(state, pod):
                raise
        state.skip_filter.clear()
        return await self.search.find_suspended(state, pod, consultation, self._outside)

    async def _choose_suspended(
        self, state: CycleState, pod: Pod, found: FeasibleNodes, consultation: ExtenderRound
    ) -> ScheduleResult:
        rows, names = found.rows, self._table.names
        feasible = len(rows)
        if feasible == 1 or found.nominated or not consultation.scores:
            return self._choose(state, pod, found)
        if self._framework.score:
            totals, where = self.score(state, pod, found)
        else:
            totals, where = np.zeros(feasible, dtype=np.int64), rows
        extra = await consultation.prioritize([names[row] for row in rows.tolist()])
        if extra:
            totals = totals.copy()
            added = np.array([extra.get(names[row], 0) for row in rows.tolist()], dtype=np.int64)
            totals[rows if where is None else slice(None)] += added
        return self._result(self._best(totals, where), feasible + found.rejected, feasible)

    async def _post_filter_suspended(
        self, state: CycleState, pod: Pod, unfit: FitError
    ) -> Unschedulable:
        without = self._without_post_filter(unfit)
        if without is not None:
            return without
        started = self._stopwatch.monotonic()
        steps = self._post_filters(state)
        try:
            plugin = next(steps)
            while True:
                answer: Any = self._call_post_filter(plugin, state, pod, unfit.diagnosis)
                if inspect.isawaitable(answer):
                    answer = await self._awaited_post_filter(plugin, answer)
                plugin = steps.send(answer)
        except StopIteration as end:
            return self._after_post_filter(unfit, end.value, started)

    async def _awaited_post_filter(
        self, plugin: Any, answer: Awaitable[PostFilterResult]
    ) -> PostFilterResult:
        seconds = _timeout(plugin)
        try:
            return await self._outside.within(answer, seconds)
        except TooLateError:
            status = error(f'PostFilter plugin "{plugin.name}" {_late(seconds)}')
        except Exception as problem:  # noqa: BLE001 - plugin boundary
            status = error(problem)
        return PostFilterResult(status.by(plugin.name))

    # -- after the suspension --------------------------------------------------------------------

    def check_again(
        self, state: CycleState, pod: Pod, result: ScheduleResult, sequence: int
    ) -> None:
        """Filter the chosen node again if it changed since `sequence` of the change log.

        Raises:
            AttemptError: it is gone, or the pod does not fit any more; the pod is retried.
        """
        name, table = result.node_name, self._table
        row = table.row_of(name)
        if row is None:
            raise failed(f'node "{name}" vanished while {_WAITED}')
        changes = table.change_log.since(sequence)
        if row == result.row and changes is not None and row not in changes:
            return
        status = self.search.check_row(state, pod, row)
        if status is not None:
            text = f'node "{name}" changed while {_WAITED}: {status.message}'
            raise failed(text, None, status.plugin)


_WAITED: Final = "the scheduling cycle waited for an extender or an async plugin"


async def _awaited_pre_filter(
    plugin: Any, state: CycleState, pod: Pod, table: NodeTable, outside: ExtenderTransport
) -> PreFilterResult | Status | None:
    seconds = _timeout(plugin)
    try:
        work = plugin.pre_filter(state, pod, table)
        return pre_filter_result(await outside.within(work, seconds))
    except TooLateError as error:
        raise pre_filter_failed(plugin, TooLateError(_late(seconds))) from error
    except Exception as error:
        raise pre_filter_failed(plugin, error) from error


def _timeout(plugin: Any) -> float:
    return float(getattr(plugin, "timeout", DEFAULT_TIMEOUT))


def _late(seconds: float) -> str:
    return f"gave no answer within {seconds:g}s"
