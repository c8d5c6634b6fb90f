"""Lookahead: results of filters and scores for nodes with further members of a group, in advance.

Between two equal members only the node of the first changes, and its usage grows by the member's
requests. So filters and scores that read only amounts (`ReuseRule.amounts_only`) are evaluated in
one pass for many nodes: with one further member, with two, and so on. After each member the results
of its node are looked up instead of being evaluated.

Nodes with equal amounts share their results, so few evaluations suffice in a homogeneous cluster.

Invariant, proved by a property test: if `follow` returns True, the cached results equal those of an
ordinary refresh. Otherwise it has changed nothing, and the caller must run an ordinary refresh.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.filtering import Filtering
from scheduler.engine.leaders import highest_rows
from scheduler.engine.plugin_slots import FilterSlot, ScoreSlot
from scheduler.engine.result_cache import CachedResult, narrow_zeros, wide_enough
from scheduler.engine.row_columns import INFEASIBLE
from scheduler.engine.score_range import are_final
from scheduler.engine.scoring import Scoring, add_column
from scheduler.engine.ties import Ties
from scheduler.framework import Columns, CycleState, Int64Column, Rows

MIN_MEMBERS: Final = 8
"""Looking ahead pays off from this number of remaining members on."""
_MAX_SCALARS: Final = 32
"""Maximum number of a pod's scalar resources; some pods have thousands."""
_MAX_DEPTH: Final = 64
"""Maximum number of further members per node in the first pass."""
_DEPTH: Final = 16
"""Number of further members per node in later passes."""
_USAGE: Final = int(Columns.USAGE)

_Step = tuple[int, tuple[int, ...], tuple[int, ...]]
"""The results of a node with one member more than in the previous step: the change of the weighted
sum of scores, the scores, and the codes of the filters."""


class Lookahead:
    """Results for pods of one signature in advance, valid while only such pods are placed."""

    def __init__(
        self,
        filtering: Filtering,
        scoring: Scoring,
        table: NodeTable,
        entry: CachedResult,
        state: CycleState,
        pod: Pod,
    ) -> None:
        """Prepare it; call `begin` before use.

        `entry` must be up to date, and no plugin without reuse may take part.
        """
        self._filtering, self._scoring, self._table = filtering, scoring, table
        self._entry, self._state, self._pod = entry, state, pod
        self._filters = [s for s in filtering.slots if _follows_usage(s, state.skip_filter)]
        self._scores = [s for s in scoring.slots if _follows_usage(s, state.skip_score)]
        self._normalizing = [
            slot
            for slot in scoring.slots
            if slot.normalizer is not None and slot.name not in state.skip_score
        ]
        signature = pod.signature
        requested = (signature.assigned, signature.requests, signature.scoring)
        self._scalars = sorted({name for each in requested for name, _ in each.scalars})
        #: The versions that the table has if only such pods were placed.
        self._bumps, self._sequence = table.bumps, table.sequence
        #: The rows to which the last member was limited, see `CycleState.within`.
        self.within = state.within
        #: Number of members placed on each row since the start, and the row of the last one.
        self._placed = np.zeros(table.capacity, dtype=np.int64)
        self._row = -1
        #: Steps by row, and by amounts at the start; rows with equal amounts share one list.
        self._steps: dict[int, list[_Step]] = {}
        self._known: dict[bytes, list[_Step]] = {}

    def begin(self, more: int) -> bool:
        """Look ahead for `more` members; return False if that is not possible."""
        entry, total, signature = self._entry, self._entry.total, self._pod.signature
        if (
            total is None
            or not self._is_current(self._sequence)
            or signature.host_ports
            or signature.volumes
            or len(self._scalars) > _MAX_SCALARS
            or not all(slot.amounts_only for slot in (*self._filters, *self._scores))
            or any(slot.normalizer is not None for slot in self._scores)
        ):
            return False
        for slot in self._scores:
            if entry.raw[slot.index] is None:
                add_column(entry, slot)
        # Apart from ties, these are all rows that can be chosen before one of them is chosen again.
        tied: Sequence[int] = () if entry.ties is None else entry.ties.rows
        rows = np.array(tied[:more], dtype=np.intp)
        if len(rows) < more:
            rows = highest_rows(total, more)
        rows = rows[total[rows] != INFEASIBLE]
        keys = self._amounts(rows, np.zeros(len(rows), dtype=np.int64)).keys(self._scalars)
        distinct = dict(zip(keys, rows.tolist(), strict=True))
        depth = min(max(2 * more // len(distinct), 1), _MAX_DEPTH)
        steps = self._evaluate(np.fromiter(distinct.values(), np.intp), 0, depth)
        if steps is None:
            return False
        self._known = dict(zip(distinct, steps, strict=True))
        return True

    def place(self, row: int) -> None:
        """Record that the next member will be placed on `row`."""
        if row not in self._steps:
            self._steps[row] = self._known.setdefault(self._key(row), [])
        self._row = row
        self._placed[row] += 1
        self._sequence += 1

    def follow(self) -> bool:
        """Update the cached results after the last member; return False if that is impossible."""
        entry, table, row = self._entry, self._table, self._row
        sequence, total, base = self._sequence, entry.total, entry.base
        if (
            table.sequence != sequence
            or table.bumps != self._bumps
            or total is None
            or base is None
            or not self._is_current(sequence - 1)
            or table.change_log.newest != (row, _USAGE)
        ):
            return False
        step = self._step(row)
        if step is None:
            return False
        change, scores, codes = step
        rejected = any(codes)
        if rejected and not self._others_keep_scores(row):
            return False
        for slot, score in zip(self._scores, scores, strict=True):
            column = entry.raw[slot.index]
            assert column is not None
            column[row] = score
        base[row] += change
        before = total.item(row)
        after = INFEASIBLE if rejected else before + change
        self._follow_total(total, row, before, after)
        if rejected:
            self._reject(row, codes)
        entry.sequence = entry.score_sequence = sequence
        return True

    def _follow_total(self, total: Int64Column, row: int, before: int, after: int) -> None:
        entry = self._entry
        leaders, ties = entry.leaders, entry.ties
        if leaders is not None:
            if leaders.totals is not total:
                leaders = entry.leaders = None
            else:
                leaders.forget(row)
        if after != before:
            total[row] = after
            if ties is not None:
                ties.change(row, before, after)
            if leaders is not None:
                leaders.change(row, before, after)
        if ties is None:
            entry.ties = Ties(total)

    def _others_keep_scores(self, row: int) -> bool:
        """Whether the scores of other rows stay the same once the pod does not fit on `row`."""
        entry = self._entry
        rows = entry.normalized_rows
        for slot in self._normalizing:
            if rows is None or not getattr(slot.normalizer, "normalizes_by_highest", False):
                return False
            raw = entry.raw[slot.index]
            if raw is not None and raw.item(row) == raw[rows].max():
                # Other rows may have the same score, but checking that is not worth it.
                return False
        return True

    def _reject(self, row: int, codes: Sequence[int]) -> None:
        """Remove a row from the feasible rows, because some filters now reject it."""
        entry = self._entry
        rejecting = []
        for slot, code in zip(self._filters, codes, strict=True):
            if not code:
                continue
            rejecting.append(slot.index + 1)
            column, value = entry.codes[slot.index], np.array([code], dtype=np.int32)
            column = (
                narrow_zeros(entry.capacity, value)
                if column is None
                else wide_enough(column, value)
            )
            column[row] = code
            entry.codes[slot.index] = column
        entry.rejected_by[row] = min(rejecting)
        rows = entry.normalized_rows
        assert rows is not None
        place = int(rows.searchsorted(row))
        entry.feasible, entry.normalized_rows = None, _without(rows, place)
        if entry.normalized is not None:
            entry.normalized = _without(entry.normalized, place)
        for index, scores in entry.normalized_scores.items():
            entry.normalized_scores[index] = _without(scores, place)
        if entry.leaders is not None:
            entry.leaders.source = None

    def _is_current(self, sequence: int) -> bool:
        entry = self._entry
        return entry.sequence == entry.score_sequence == sequence and not entry.total_follows

    # -- steps -----------------------------------------------------------------------------------

    def _key(self, row: int) -> bytes:
        """Return `NodesWithMore.keys` of a row of the table."""
        table = self._table
        parts = [table.allocatable[:, row], table.requested[:, row]]
        parts += [table.non_zero_requested[:, row], table.pod_count[row], table.pod_limit[row]]
        amounts = [np.array(table.scalar_amounts_at(name, row)) for name in self._scalars]
        return b"".join([each.tobytes() for each in (*parts, *amounts)])

    def _step(self, row: int) -> _Step | None:
        """Return the results of a row with the members placed there so far; None: unknown."""
        steps, placed = self._steps[row], self._placed.item(row)
        if len(steps) < placed:
            found = self._evaluate(np.array([row], dtype=np.intp), len(steps), _DEPTH)
            if found is None:
                return None
            steps += found[0]
        return steps[placed - 1]

    def _amounts(self, rows: Rows, pods: Int64Column) -> NodesWithMore:
        """Return the amounts of rows as they were at the start, plus `pods` members each."""
        return NodesWithMore(self._table, rows, pods - self._placed[rows], self._pod)

    def _evaluate(self, rows: Rows, known: int, depth: int) -> list[list[_Step]] | None:
        """Return `depth` steps of each row after the `known` ones; None if a score is invalid."""
        shape = len(rows), depth + 1
        pods = np.tile(np.arange(known, known + depth + 1), len(rows))
        amounts = self._amounts(np.repeat(rows, depth + 1), pods)
        state, pod, places = self._state, self._pod, amounts.rows
        scores = [self._scoring.raw_of(s, state, pod, places, amounts) for s in self._scores]
        if not all(map(are_final, scores)):
            return None
        codes = [self._filtering.codes_of(s, state, pod, places, amounts) for s in self._filters]
        total = np.zeros(len(pods), dtype=np.int64)
        for slot, each in zip(self._scores, scores, strict=True):
            total += slot.weight * each
        changes = np.diff(total.reshape(shape)).ravel().tolist()
        count = len(changes)
        steps = list(
            zip(changes, _tuples(scores, shape, count), _tuples(codes, shape, count), strict=True)
        )
        return [steps[at : at + depth] for at in range(0, count, depth)]


class NodesWithMore:
    """Amounts of nodes with additional pods. Implements `framework.NodeAmounts`."""

    def __init__(self, table: NodeTable, rows: Rows, pods: Int64Column, pod: Pod) -> None:
        """Add `pods[i]` pods like `pod` to the node of `rows[i]`; the number may be negative."""
        assigned, non_zero = pod.signature.assigned, pod.signature.non_zero
        native = assigned.milli_cpu, assigned.memory, assigned.ephemeral_storage
        self._table, self._rows, self._pods = table, rows, pods
        self._scalars = dict(assigned.scalars)
        self.rows: Rows = np.arange(len(rows), dtype=np.intp)
        self.allocatable: Int64Column = table.allocatable.take(rows, axis=1)
        self.requested: Int64Column = table.requested.take(rows, axis=1)
        self.requested += np.array(native)[:, np.newaxis] * pods
        self.non_zero_requested: Int64Column = table.non_zero_requested.take(rows, axis=1)
        self.non_zero_requested += np.array(non_zero)[:, np.newaxis] * pods
        self.pod_count: Int64Column = table.pod_count[rows] + pods
        self.pod_limit: Int64Column = table.pod_limit[rows]

    def scalar_amounts(self, name: str, index: slice | Rows) -> tuple[Int64Column, Int64Column]:
        """Return (allocatable, requested) of a scalar resource on some rows."""
        allocatable, requested = self._table.scalar_amounts(name, self._rows[index])
        return allocatable, requested + self._scalars.get(name, 0) * self._pods[index]

    def scalar_amounts_at(self, name: str, row: int) -> tuple[int, int]:
        """Return (allocatable, requested) of a scalar resource on one row."""
        allocatable, requested = self._table.scalar_amounts_at(name, self._rows.item(row))
        return allocatable, requested + self._scalars.get(name, 0) * self._pods.item(row)

    def keys(self, scalars: Iterable[str]) -> list[bytes]:
        """Return for each row a key of all its amounts, including these scalar resources."""
        columns = [*self.allocatable, *self.requested, *self.non_zero_requested]
        columns += [self.pod_count, self.pod_limit]
        for name in scalars:
            columns += self.scalar_amounts(name, slice(None))
        packed, width = np.stack(columns, axis=1).tobytes(), 8 * len(columns)
        return [packed[at : at + width] for at in range(0, len(packed), width)]


def _follows_usage(slot: FilterSlot | ScoreSlot, skipped: set[str]) -> bool:
    """Whether a plugin that is not skipped must run again after a pod was placed."""
    return bool(slot.columns & _USAGE) and slot.name not in skipped


def _tuples(
    results: Sequence[NDArray[Any]], shape: tuple[int, int], count: int
) -> Iterable[tuple[int, ...]]:
    """Return the results of all plugins by step, without the first (known) step of each row."""
    if not results:
        return [()] * count
    return zip(*[each.reshape(shape)[:, 1:].ravel().tolist() for each in results], strict=True)


def _without(values: NDArray[Any], place: int) -> NDArray[Any]:
    return np.concatenate((values[:place], values[place + 1 :]))
