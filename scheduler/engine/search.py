"""Search: PreFilter, Filter and the set of feasible rows for one pod.

Follows schedule_one.go: findNodesThatFitPod. It is one coroutine for all pods, which suspends only
to await an async PreFilter plugin or an extender.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec
import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeOverlay, NodeTable
from scheduler.engine.attendance import NOBODY
from scheduler.engine.cycle_time import Stopwatch, no_stopwatch
from scheduler.engine.diagnosis import Diagnosis, FitError, RejectedRows, TableStatuses
from scheduler.engine.errors import AttemptError, failed
from scheduler.engine.filtering import Filtering
from scheduler.engine.node_statuses import NodeStatuses
from scheduler.engine.nominated_pods_fit import NominatedPodsFit, NominatedRows
from scheduler.engine.pre_filter import PreFilterNodes, rejected_by_pre_filter
from scheduler.engine.result_cache import NOT_A_NODE, CachedResult, ResultCache
from scheduler.engine.row_cache import RowCache
from scheduler.engine.runtime import Framework
from scheduler.extenders.extender import (
    ExtenderError,
    ExtenderRound,
    ExtenderTransport,
)
from scheduler.framework import CycleState, NodeToStatus, Nominator, Rows, Status
from scheduler.queue import EXTENDER

_MIN_FEASIBLE = 100
_MIN_PERCENTAGE = 5
_EVERY_NODE = 100


class FeasibleNodes(msgspec.Struct, eq=False):
    """The outcome of a search that found at least one node."""

    #: Feasible rows.
    rows: Rows
    #: The signature's cached results, if `rows` are its feasible rows or its scores can be reused.
    entry: CachedResult | None
    #: Whether `rows` is the signature's own feasible set.
    shared: bool
    #: Number of rejected nodes, for `evaluated_nodes`.
    rejected: int
    #: Whether this is the nominated node, which is chosen without scoring.
    nominated: bool = False
    #: The outcome of the evaluated nodes; None if `entry` has it.
    statuses: NodeStatuses | None = None


class Search:
    """Finds feasible rows for pods of one profile; has its own rotation index and result cache."""

    def __init__(
        self,
        framework: Framework,
        table: NodeTable,
        nominator: Nominator,
        *,
        percentage: int | None,
        reuse: bool = True,
        all_columnar_scores: bool = True,
        scores_anything: bool = True,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        self._framework = framework
        self._table = table
        self._stopwatch = stopwatch or no_stopwatch()
        self.filtering = Filtering(framework.filter_slots, table, self._stopwatch)
        self.results = ResultCache()
        self._nominated = NominatedRows(table, nominator)
        self._nominated_fits = RowCache(table, NominatedPodsFit)
        self._reuse = reuse
        self._percentage = percentage or 0
        self._scores_anything = scores_anything
        #: Whether every node is evaluated, since all plugins are columnar and no percentage is set.
        self._complete = (
            not self.filtering.scalar
            and all_columnar_scores
            and (not self._percentage or self._percentage >= _EVERY_NODE)
        )
        #: Position among the nodes where the next search begins.
        self.rotation = 0

    @property
    def nodes_to_find(self) -> int | None:
        """The number of feasible nodes that ends a search; None: every node is evaluated."""
        return None if self._complete else self._feasible_to_find(self._table.node_count)

    # -- entry point -----------------------------------------------------------------------------

    async def find(
        self,
        state: CycleState,
        pod: Pod,
        extenders: ExtenderRound | None = None,
        transport: ExtenderTransport | None = None,
    ) -> FeasibleNodes:
        """Find the feasible rows.

        Suspends for `extenders` that filter, and for async PreFilter plugins, which need a
        `transport`. Raises FitError with the diagnosis if no row is feasible, and AttemptError if a
        plugin or an extender fails.
        """
        entry, framework = self._entry(pod), self._framework
        with self._stopwatch.points["PreFilter"] as point:
            revision = self._table.revision
            if entry is not None and entry.absent_revision != revision:
                framework.attendance.find_absent(entry, pod, revision)
            pre_filtered = await framework.run_pre_filter(
                state,
                pod,
                self._table,
                recorded=None if entry is None else entry.pre_filter,
                stopwatch=self._stopwatch,
                transport=transport,
                absent=NOBODY if entry is None else entry.absent,
            )
            if pre_filtered.rejections:
                point.status = pre_filtered.rejections[-1].code.label
                diagnosis = Diagnosis(node_count=self._candidates(state))
                raise rejected_by_pre_filter(pre_filtered, diagnosis)
        with self._stopwatch.points["Filter"]:
            try:
                if extenders is not None and not extenders.filters:
                    extenders = None
                nominated = pod.status.nominated_node_name
                row = self._fitting_nominated_row(state, pod) if nominated else None
                if row is not None and (
                    extenders is None or await _passes(extenders, self._table.names[row])
                ):
                    return _nominated(row)
                if extenders is None:
                    complete = self._complete
                    return self._filter_nodes(state, pod, entry, pre_filtered, complete=complete)
                return await self._filter_with_extenders(state, pod, entry, pre_filtered, extenders)
            finally:
                if self.filtering.scalar:
                    self.filtering.report_scalar(state)

    def _filter_nodes(
        self,
        state: CycleState,
        pod: Pod,
        entry: CachedResult | None,
        pre_filtered: PreFilterNodes,
        *,
        complete: bool,
    ) -> FeasibleNodes:
        """Filter the nodes that PreFilter left: all if `complete`, else until enough fit."""
        if pre_filtered.names is not None:
            rows = self._rows_of(pre_filtered.names, state.within)
        elif entry is not None:
            return self._filter_cached(state, pod, entry, pre_filtered, complete=complete)
        else:
            rows = self._table.rows if state.within is None else state.within
        statuses = self.filtering.evaluate(state, pod, rows)
        nominated = self._nominated_rows(pod)
        return self._select(state, pod, statuses, None, nominated, pre_filtered, complete=complete)

    # -- results of the signature ----------------------------------------------------------------

    def _entry(self, pod: Pod) -> CachedResult | None:
        if not self._reusable(pod):
            return None
        # `interned` is `signature` without a call, here and elsewhere.
        key = pod.interned.id
        entry = self.results.get(key, pod.metadata.uid)
        if entry is None or entry.capacity != self._table.capacity:
            entry = CachedResult(
                self._table.capacity,
                len(self.filtering.slots),
                len(self._framework.score),
                recorded_bytes=pod.signature.nbytes,
            )
            self.results.discard(key)
            self.results.put(key, entry, pod.uid)
        return entry

    def cached_feasible_rows(self, pod: Pod, since: int, within: Rows | None = None) -> Rows | None:
        """Return the rows (among `within`) that passed in the last search for the signature.

        Only reusable filters count. None if no search has evaluated all rows since the entry
        `since` of the change log; a pod that fits on its nominated node needs no such search.
        """
        entry = self.results.get(pod.signature.id, pod.uid) if self._reusable(pod) else None
        return None if entry is None or entry.sequence < since else entry.feasible_within(within)

    def repeatable(self, state: CycleState) -> bool:
        """Whether the reusable filters alone determine the feasible rows."""
        return self._complete and not self.filtering.has_uncacheable(state)

    def holds(self, entry: CachedResult, pod: Pod) -> bool:
        """Whether `entry` is valid for the pod, and no nominated pods have to be considered."""
        return (
            self._reusable(pod)
            and entry.capacity == self._table.capacity
            and self.results.get(pod.signature.id, pod.uid) is entry
            and not len(self._nominated_rows(pod))
        )

    def settle(self, pod: Pod) -> None:
        """Account for the memory of the signature's cached results; call once per attempt."""
        if self._reusable(pod):
            self.results.settle(pod.interned.id)

    def forget(self, pod: Pod) -> None:
        """Drop the cached results of the pod's signature."""
        if self._reusable(pod):
            self.results.discard(pod.signature.id)

    def _reusable(self, pod: Pod) -> bool:
        """Whether results of the signature are valid for this pod: it has no pin or node name."""
        return self._reuse and not pod.pin and not pod.spec.node_name

    def _filter_cached(
        self,
        state: CycleState,
        pod: Pod,
        entry: CachedResult,
        pre_filtered: PreFilterNodes,
        *,
        complete: bool,
    ) -> FeasibleNodes:
        """Filter all nodes, reusing the cached results of the signature."""
        filtering = self.filtering
        filtering.refresh(entry, state, pod)
        nominated = self._nominated_rows(pod)
        statuses = filtering.filter_uncacheable(state, pod, entry)
        if statuses is None and complete and not len(nominated):
            rows = entry.feasible_within(state.within)
            if len(rows):
                within = state.within
                count = self._table.node_count if within is None else len(within)
                return FeasibleNodes(rows, entry, within is None, count - len(rows))
        if statuses is None:
            statuses = NodeStatuses.of_entry(self._table.rows, entry)
        if state.within is not None:
            statuses.keep(state.within)
        return self._select(state, pod, statuses, entry, nominated, pre_filtered, complete=complete)

    # -- from columnar results to feasible rows --------------------------------------------------

    def _select(
        self,
        state: CycleState,
        pod: Pod,
        statuses: NodeStatuses,
        entry: CachedResult | None,
        nominated: Rows,
        pre_filtered: PreFilterNodes,
        *,
        complete: bool,
    ) -> FeasibleNodes:
        """Apply nominated pods, scalar plugins and sampling to the columnar results."""
        rejected_by = statuses.rejected_by
        others = nominated = nominated[rejected_by[nominated] != NOT_A_NODE]
        if len(nominated):
            otherwise_fit = rejected_by[nominated] == 0
            others, fit = nominated[~otherwise_fit], nominated[otherwise_fit]
            self._filter_beside_nominated(state, pod, fit, statuses)
            statuses.beside_nominated = fit[rejected_by[fit] > 0]
        visited = statuses.rows
        if complete:
            rows = (rejected_by == 0).nonzero()[0]
        else:
            rows, visited = self._sample(state, pod, statuses)
        if len(rows):
            statuses.rows = visited
            return FeasibleNodes(rows, entry, False, len(visited) - len(rows), statuses=statuses)
        # Upstream filters with nominated pods first, so the rejection of that pass is reported.
        reported = others[rejected_by[others] > self.filtering.first_pod_dependent]
        self._filter_beside_nominated(state, pod, reported, statuses)
        raise self._fit_error(state, pod, statuses, self._diagnosis(state, pre_filtered))

    def _sample(self, state: CycleState, pod: Pod, statuses: NodeStatuses) -> tuple[Rows, Rows]:
        """Return the first feasible rows in rotating order, and all evaluated rows."""
        start = self.rotation % len(statuses.rows) if len(statuses.rows) else 0
        order = np.concatenate((statuses.rows[start:], statuses.rows[:start]))
        enough = self._feasible_to_find(len(order))
        rejected_by = statuses.rejected_by
        feasible: list[int] = []
        visited = 0
        scalar = self.filtering.scalar
        for row in order.tolist():
            visited += 1
            rejecting = int(rejected_by[row])
            if scalar and not statuses.has_status(row):
                rejecting, status = self.filtering.filter_scalar(state, pod, row, rejecting)
                if status is not None:
                    statuses.reject(row, rejecting, status)
            if rejecting == 0:
                feasible.append(row)
                if len(feasible) >= enough:
                    break
        count = max(self._table.node_count, 1)
        self.rotation = (self.rotation + visited) % count
        return np.array(sorted(feasible), dtype=np.intp), order[:visited]

    def _feasible_to_find(self, nodes: int) -> int:
        """Return how many feasible nodes are enough (schedule_one.go: numFeasibleNodesToFind)."""
        if not self._scores_anything:
            return 1
        if nodes < _MIN_FEASIBLE:
            return nodes
        percentage = self._percentage or max(50 - nodes // 125, _MIN_PERCENTAGE)
        return max(nodes * percentage // 100, _MIN_FEASIBLE)

    def _rows_of(self, names: frozenset[str], within: Rows | None) -> Rows:
        rows = (self._table.row_of(name) for name in names)
        found = np.array(sorted(row for row in rows if row is not None), dtype=np.intp)
        return found if within is None else np.intersect1d(found, within, assume_unique=True)

    def _candidates(self, state: CycleState) -> int:
        """Return the number of candidate nodes of the search."""
        return self._table.node_count if state.within is None else len(state.within)

    # -- extenders -------------------------------------------------------------------------------

    async def _filter_with_extenders(
        self,
        state: CycleState,
        pod: Pod,
        entry: CachedResult | None,
        pre_filtered: PreFilterNodes,
        extenders: ExtenderRound,
    ) -> FeasibleNodes:
        """Filter with plugins, then extenders (schedule_one.go: findNodesThatPassExtenders)."""
        names = self._table.names
        # Extenders get no more nodes than from upstream; an explicit percentage of 100 counts.
        complete = self._complete and bool(self._percentage)
        nodes = self._filter_nodes(state, pod, entry, pre_filtered, complete=complete)
        candidates = [names[row] for row in nodes.rows.tolist()]
        try:
            passing, rejected = await extenders.filter(candidates)
        except ExtenderError as error:
            raise failed(str(error), error) from error
        if len(passing) == len(candidates):
            return nodes
        diagnosis = self._diagnosis(state, pre_filtered)
        return self._without_rejected(state, pod, nodes, set(passing), rejected, diagnosis)

    def _without_rejected(
        self,
        state: CycleState,
        pod: Pod,
        nodes: FeasibleNodes,
        passing: set[str],
        rejected: Mapping[str, Status],
        diagnosis: Diagnosis,
    ) -> FeasibleNodes:
        """Keep the nodes that passed the extenders; raises FitError if there are none."""
        names = self._table.names
        rows: Rows = np.array(
            [row for row in nodes.rows.tolist() if names[row] in passing], dtype=np.intp
        )
        if len(rows):
            count = nodes.rejected + len(nodes.rows) - len(rows)
            return FeasibleNodes(rows, nodes.entry, False, count, statuses=nodes.statuses)
        statuses = nodes.statuses
        if statuses is None:
            assert nodes.entry is not None
            statuses = NodeStatuses.of_entry(self._table.rows, nodes.entry)
            if state.within is not None:
                statuses.keep(state.within)
        absent, last = diagnosis.statuses.absent, len(self.filtering.slots)
        for row in nodes.rows.tolist():
            statuses.reject(row, last + 1, rejected.get(names[row], absent))
        diagnosis.unschedulable_plugins.add(EXTENDER)
        raise self._fit_error(state, pod, statuses, diagnosis)

    # -- nominated pods --------------------------------------------------------------------------

    def _nominated_rows(self, pod: Pod) -> Rows:
        return self._nominated.at_least(pod.priority, pod.metadata.uid)

    def _fitting_nominated_row(self, state: CycleState, pod: Pod) -> int | None:
        """Return the row to which the pod is nominated, if the pod fits there.

        See schedule_one.go: evaluateNominatedNode.
        """
        row = self._table.row_of(pod.status.nominated_node_name)
        if row is None or (state.within is not None and row not in state.within):
            return None
        try:
            node = self._table.node_info(row)
            status = self._framework.run_filters_with_nominated_pods(state, pod, node, self._table)
        except AttemptError:
            # As upstream, go on with all nodes; a persistent error will occur there again.
            return None
        return row if status is None else None

    def filter_beside_nominated(self, state: CycleState, pod: Pod, row: int) -> Status | None:
        """Filter a row with its nominated pods added; None if it passes, or has no such pods."""
        nominees = self._nominated.pods(row, pod.priority, pod.metadata.uid)
        if not nominees:
            return None
        self._stopwatch.cycle.check()
        node = NodeOverlay(self._table, row)
        return self._framework.run_filters_beside(state, pod, nominees, node)

    def _filter_beside_nominated(
        self, state: CycleState, pod: Pod, rows: Rows, statuses: NodeStatuses
    ) -> None:
        """Filter rows again with their nominated pods added, reusing earlier results."""
        if not len(rows):
            return
        fits = self._nominated_pods_fit(state, pod)
        if fits is None:
            for row in rows.tolist():
                self._reject_beside_nominated(state, pod, row, statuses)
            return
        own = self._nominated.own_row(pod.metadata.uid)
        if own is not None and own in rows:
            # The pod itself does not count there, but it would in the cached result.
            self._reject_beside_nominated(state, pod, own, statuses)
            rows = rows[rows != own]
        for row in fits.unknown(rows):
            status = self.filter_beside_nominated(state, pod, row)
            index = -1 if status is None else self._index_of(status) - 1
            fits.note(row, index, status)
        rejected_by, codes = fits.results(rows)
        rejected = rejected_by > 0
        if rejected.any():
            statuses.reject_nominated(
                rows[rejected], rejected_by[rejected], codes[rejected], fits.statuses
            )

    def _nominated_pods_fit(self, state: CycleState, pod: Pod) -> NominatedPodsFit | None:
        """Return cached results; None if signature and node do not determine the result."""
        skipped = state.skip_filter
        if (
            not self._reusable(pod)
            or pod.signature.volumes  # Ephemeral claims are named after their pod.
            or not self.filtering.depend_only_on_rows(skipped)
            or not self._framework.pod_followers <= skipped
        ):
            return None
        kind = (pod.signature.id, state.variant, frozenset(skipped))
        return self._nominated_fits.recall(kind, self.filtering.versions())

    def _reject_beside_nominated(
        self, state: CycleState, pod: Pod, row: int, statuses: NodeStatuses
    ) -> None:
        status = self.filter_beside_nominated(state, pod, row)
        if status is not None:
            statuses.reject(row, self._index_of(status), status)

    def _index_of(self, status: Status) -> int:
        slots = self.filtering.slots
        return next((each.index + 1 for each in slots if each.name == status.plugin), len(slots))

    # -- diagnosis -------------------------------------------------------------------------------

    def rejected(self, state: CycleState, pod: Pod, statuses: NodeStatuses) -> RejectedRows:
        """Return the rejected rows with their statuses."""
        return statuses.rejected(partial(self.filtering.status_of, state, pod))

    def _diagnosis(self, state: CycleState, pre_filtered: PreFilterNodes) -> Diagnosis:
        """Create the diagnosis of a pod that fits on none of the nodes that PreFilter left."""
        plugins = pre_filtered.plugins
        diagnosis = Diagnosis(self._candidates(state), unschedulable_plugins=set(plugins))
        if pre_filtered.names is not None:
            diagnosis.statuses = NodeToStatus(absent=pre_filtered.left_out())
            diagnosis.narrowed_by = tuple(plugins)
        return diagnosis

    def _fit_error(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses, diagnosis: Diagnosis
    ) -> FitError:
        rejected = self.rejected(state, pod, statuses)
        distinct = [status for status, _ in rejected.groups()]
        for status in distinct:
            diagnosis.add(status)
        diagnosis.add_rejectors(distinct)
        if len(rejected.rows) < diagnosis.node_count:
            # The nodes that PreFilter excluded have no status, so not all reasons agree.
            diagnosis.condition_reason = ""
        diagnosis.rejected = rejected
        diagnosis.statuses = TableStatuses(rejected, self._table, diagnosis.statuses.absent)
        return FitError(diagnosis)


def _nominated(row: int) -> FeasibleNodes:
    return FeasibleNodes(np.array([row], dtype=np.intp), None, False, 0, nominated=True)


async def _passes(extenders: ExtenderRound, node_name: str) -> bool:
    """Whether all extenders pass a nominated node."""
    try:
        passing, _ = await extenders.filter([node_name])
    except ExtenderError:
        # As upstream, ignore the error; a persistent one will occur again with all nodes.
        return False
    return bool(passing)
