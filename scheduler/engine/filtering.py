"""Filtering: which filter rejects each row, reusing cached results of the pod's signature.

There are three kinds of Filter plugins: reusable columnar ones, whose codes are cached in
`CachedResult`; columnar ones that must run for every pod; and scalar ones, which run node by node
in rotating order until enough feasible nodes are found (schedule_one.go: findNodesThatPassFilters).
In all cases the first plugin in profile order that rejects a node is reported.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.cache.change_log import Changes
from scheduler.engine.columnar_calls import FILTER_ROWS, call_rows
from scheduler.engine.cycle_time import Stopwatch, no_stopwatch
from scheduler.engine.node_statuses import NodeStatuses
from scheduler.engine.plugin_calls import FILTER_STATUS, call, call_filter
from scheduler.engine.plugin_slots import FilterSlot, named_versions
from scheduler.engine.result_cache import (
    NOT_A_NODE,
    CachedResult,
    filter_index_type,
    narrow_zeros,
    wide_enough,
)
from scheduler.engine.row_columns import FEW_VALUES, changed_rows, rows_index
from scheduler.framework import Codes, Columns, CycleState, NodeAmounts, Rows, Status

_EXISTENCE: Final = int(Columns.EXISTENCE)
_CODES: Final = frozenset("?bBhHi")
"""Characters of the NumPy dtypes whose values all fit in int32."""


class Filtering:
    """Runs the Filter plugins of one profile against the live table."""

    def __init__(
        self,
        slots: Sequence[FilterSlot],
        table: NodeTable,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        self._table = table
        self._stopwatch = stopwatch or no_stopwatch()
        self.slots = slots
        self._index_type = filter_index_type(len(self.slots))
        self._reusable = tuple(slot for slot in self.slots if slot.reusable)
        self._uncacheable = tuple(
            slot for slot in self.slots if slot.columnar and not slot.reusable
        )
        self._uncacheable_names = frozenset(slot.name for slot in self._uncacheable)
        self.scalar = tuple(slot for slot in self.slots if not slot.columnar)
        #: Seconds and calls of scalar plugins in the current search, by filter index.
        self._used = [0.0] * len(self.slots)
        self._calls = [0] * len(self.slots)
        #: Index of the first filter whose result depends on the pods of a node.
        self.first_pod_dependent = next(
            (slot.index for slot in self.slots if slot.depends_on_pods), len(self.slots)
        )

    # -- reusable plugins over all rows ----------------------------------------------------------

    def refresh(self, entry: CachedResult, state: CycleState, pod: Pod) -> None:
        """Bring `codes` and `rejected_by` of `entry` up to date with the table."""
        table = self._table
        changes, bumps = changed_rows(table, entry.sequence), table.bumps
        # A plugin that raises leaves the entry half updated, so it is invalid until the end.
        entry.sequence = -1
        others = state.skip_filter != entry.skipped
        if others:
            self._skip(entry, frozenset(state.skip_filter))
        if changes is None:
            entry.evaluated = [False] * len(self.slots)
            for slot in entry.filters_run:
                self._evaluate_column(entry, slot, state, pod)
            self._combine_all(entry)
        else:
            stale: list[FilterSlot] = []
            if others or entry.filter_bumps != bumps:
                stale = self._stale(entry)
            for slot in stale:
                self._evaluate_column(entry, slot, state, pod)
            touched = self._evaluate_changed(entry, state, pod, stale, changes)
            if stale or others:
                self._combine_all(entry)
            elif touched:
                self._combine(entry, touched)
        entry.filter_bumps, entry.sequence = bumps, table.change_log.sequence

    def _skip(self, entry: CachedResult, skipped: frozenset[str]) -> None:
        """Drop the codes of skipped plugins, since these are not kept up to date."""
        entry.skipped = skipped
        entry.filters_run = tuple(slot for slot in self._reusable if slot.name not in skipped)
        for slot in self._reusable:
            if slot.name in skipped:
                entry.evaluated[slot.index] = False
                entry.codes[slot.index] = None

    def _stale(self, entry: CachedResult) -> list[FilterSlot]:
        """Return the plugins without codes, and those with a changed named version."""
        table = self._table
        return [
            slot
            for slot in entry.filters_run
            if not entry.evaluated[slot.index]
            or (slot.versions and entry.filter_versions[slot.index] != slot.present_versions(table))
        ]

    def _evaluate_column(
        self, entry: CachedResult, slot: FilterSlot, state: CycleState, pod: Pod
    ) -> None:
        rows = self._table.rows
        codes = self.codes_of(slot, state, pod, rows)
        column = None
        if len(codes.nonzero()[0]):
            column = narrow_zeros(entry.capacity, codes)
            column[rows_index(rows)] = codes
        entry.codes[slot.index] = column
        entry.evaluated[slot.index] = True
        if slot.versions:
            entry.filter_versions[slot.index] = slot.present_versions(self._table)

    def _evaluate_changed(
        self,
        entry: CachedResult,
        state: CycleState,
        pod: Pod,
        fresh: list[FilterSlot],
        changes: Changes,
    ) -> dict[int, None]:
        """Re-evaluate changed rows; return those whose rejecting filter may have changed."""
        touched: dict[int, None] = {}
        valid, anywhere = self._table.valid, changes.anywhere
        if anywhere & _EXISTENCE:
            touched = {row: None for row, mask in changes.items() if mask & _EXISTENCE}
        for slot in entry.filters_run:
            if not slot.columns & anywhere or slot in fresh:
                continue
            picked, rows = changes.picked(slot.columns, valid)
            if not picked:
                continue
            codes = self.codes_of(slot, state, pod, rows)
            column = entry.codes[slot.index]
            if len(picked) > FEW_VALUES:
                if column is None:
                    if not len(codes.nonzero()[0]):
                        continue
                    column = narrow_zeros(entry.capacity, codes)
                else:
                    column = wide_enough(column, codes)
                # Comparing and copying arrays of the same dtype is several times as fast.
                codes = codes.astype(column.dtype)
                differs = (column[rows] != codes).nonzero()[0]
                column[rows] = codes
                touched.update(dict.fromkeys(rows[differs].tolist()))
            else:
                values = codes.tolist()
                if column is None:
                    if not any(values):
                        continue
                    column = narrow_zeros(entry.capacity, codes)
                else:
                    column = wide_enough(column, codes, values)
                for row, code in zip(picked, values, strict=True):
                    if column.item(row) != code:
                        column[row] = code
                        touched[row] = None
            entry.codes[slot.index] = column
        return touched

    def _combine(self, entry: CachedResult, touched: Collection[int]) -> None:
        valid, rejected_by = self._table.valid, entry.rejected_by
        columns = [
            (slot.index + 1, column)
            for slot in entry.filters_run
            if (column := entry.codes[slot.index]) is not None
        ]
        if len(touched) > FEW_VALUES:
            rows = np.fromiter(touched, dtype=np.intp, count=len(touched))
            first = np.zeros(len(rows), dtype=self._index_type)
            for number, column in reversed(columns):
                first[column[rows] != 0] = number
            first[~valid[rows]] = NOT_A_NODE
            if len(((rejected_by[rows] == 0) != (first == 0)).nonzero()[0]):
                entry.feasible = None
            rejected_by[rows] = first
            return
        for row in touched:
            new = 0
            for number, column in columns:
                if column.item(row):
                    new = number
                    break
            if not valid.item(row):
                new = NOT_A_NODE
            old = rejected_by.item(row)
            if old != new:
                if old == 0 or new == 0:
                    entry.feasible = None
                rejected_by[row] = new

    def _combine_all(self, entry: CachedResult) -> None:
        rejected_by = np.zeros(entry.capacity, dtype=self._index_type)
        for slot in reversed(entry.filters_run):
            column = entry.codes[slot.index]
            if column is not None:
                np.copyto(rejected_by, slot.index + 1, where=column != 0)
        np.copyto(rejected_by, NOT_A_NODE, where=~self._table.valid)
        entry.rejected_by = rejected_by
        entry.feasible = None

    # -- everything else -------------------------------------------------------------------------

    def depend_only_on_rows(self, skipped: Collection[str]) -> bool:
        """Whether all filters but those `skipped` depend only on the signature and the row."""
        return all(slot.reusable or slot.name in skipped for slot in self.slots)

    def has_uncacheable(self, state: CycleState) -> bool:
        """Whether any filter that is not skipped must run for every pod."""
        return any(
            slot.name not in state.skip_filter for slot in (*self._uncacheable, *self.scalar)
        )

    def versions(self) -> tuple[int, ...]:
        """`named_versions` of reusable plugins."""
        return named_versions(self._reusable, self._table)

    def filter_uncacheable(
        self, state: CycleState, pod: Pod, entry: CachedResult
    ) -> NodeStatuses | None:
        """Run the columnar plugins without reuse, on rows that no earlier filter rejected.

        Returns None if they rejected nothing, so that `entry` has the outcome of every row.
        """
        statuses: NodeStatuses | None = None
        if self._uncacheable_names <= state.skip_filter:
            return None
        for slot in self._uncacheable:
            if slot.name in state.skip_filter:
                continue
            rejected_by = entry.rejected_by if statuses is None else statuses.rejected_by
            if statuses is None and _is_last(entry, slot):
                rows = entry.feasible_rows()
            else:
                rows = np.flatnonzero((rejected_by == 0) | (rejected_by > slot.index + 1))
            if not len(rows):
                continue
            codes = self.codes_of(slot, state, pod, rows)
            rejected = codes.nonzero()[0]
            if not len(rejected):
                continue
            if statuses is None:
                statuses = NodeStatuses.of_entry(self._table.rows, entry)
            rows = rows[rejected]
            statuses.rejected_by[rows] = slot.index + 1
            column = np.zeros(entry.capacity, dtype=np.int32)
            column[rows] = codes[rejected]
            statuses.add_codes(slot.index, column)
        return statuses

    def evaluate(self, state: CycleState, pod: Pod, rows: Rows) -> NodeStatuses:
        """Run the columnar plugins on some rows without caches, each until its first rejection."""
        capacity = self._table.capacity
        rejected_by = np.full(capacity, NOT_A_NODE, dtype=np.int16)
        rejected_by[rows] = 0
        column = np.zeros(capacity, dtype=np.int32)
        left = rows
        for slot in self.slots:
            if not slot.columnar or slot.name in state.skip_filter or not len(left):
                continue
            codes = self.codes_of(slot, state, pod, left)
            rejected = codes != 0
            if rejected.any():
                rejected_by[left[rejected]] = slot.index + 1
                column[left[rejected]] = codes[rejected]
                left = left[~rejected]
        # Each row is rejected by at most one filter, so one column holds the codes of all filters.
        return NodeStatuses(rows, rejected_by, dict.fromkeys(range(len(self.slots)), column))

    def codes_of(
        self,
        slot: FilterSlot,
        state: CycleState,
        pod: Pod,
        rows: Rows,
        amounts: NodeAmounts | None = None,
    ) -> Codes:
        """Call `filter_rows` of one plugin, on the table or on hypothetical `amounts`.

        Only plugins with `amounts_only` may be called with `amounts`.
        """
        plugin, table = slot.plugin, self._table if amounts is None else amounts
        codes = call_rows(FILTER_ROWS, plugin, state, pod, table, rows, self._stopwatch)
        if codes.dtype.char in _CODES:
            return codes
        # A larger code would be truncated to another one in the cache.
        narrow = codes.astype(np.int32)
        if (narrow != codes).any():
            raise FILTER_ROWS.failed(plugin.name, "filter_rows returned a code beyond 32 bits")
        return narrow

    def filter_scalar(
        self, state: CycleState, pod: Pod, row: int, rejected_by: int
    ) -> tuple[int, Status | None]:
        """Run the scalar plugins on a row; the first rejection in profile order counts.

        `rejected_by` is the result of the columnar plugins. Returns the combined value, and the
        status if a scalar plugin rejected the row.
        """
        node = self._table.node_info(row)
        cycle = self._stopwatch.cycle
        for slot in self.scalar:
            if rejected_by and rejected_by <= slot.index:
                break
            if slot.name in state.skip_filter:
                continue
            started = self._stopwatch.monotonic()
            status = call_filter(slot.plugin, state, pod, node)
            now = self._stopwatch.monotonic()
            self._used[slot.index] += now - started
            self._calls[slot.index] += 1
            if now > cycle.deadline:
                cycle.check_cpu_time(now)
            if status is not None:
                return slot.index + 1, status
        return rejected_by, None

    def report_scalar(self, state: CycleState) -> None:
        """Record the time of the scalar plugins since the last call; called once per search."""
        stopwatch = self._stopwatch
        for slot in self.scalar:
            used, calls = self._used[slot.index], self._calls[slot.index]
            if not calls:
                continue
            self._used[slot.index], self._calls[slot.index] = 0.0, 0
            stopwatch.rows(slot.name, "Filter", calls, None)
            stopwatch.scalar(slot.name, "Filter", used)
            if state.record_plugin_metrics and stopwatch.metrics is not None:
                stopwatch.metrics.plugin(slot.name, "Filter", "Success", used / calls)

    def status_of(self, state: CycleState, pod: Pod, index: int, code: int) -> Status:
        """Translate a code of the filter with this index into a status attributed to it."""
        plugin = self.slots[index].plugin
        status: Status | None = call(FILTER_STATUS, plugin, state, pod, code)
        if status is None or not status.rejected:
            text = f"code {code} is no rejection" if status is None else status.message
            raise FILTER_STATUS.failed(plugin.name, text)
        return status.by(plugin.name)


def _is_last(entry: CachedResult, slot: FilterSlot) -> bool:
    """Whether no later filter with cached results rejects any row."""
    for codes in entry.codes[slot.index + 1 :]:  # noqa: SIM110 - a generator would double the cost
        if codes is not None:
            return False
    return True
