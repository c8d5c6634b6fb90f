"""Scoring: from feasible rows to totals, reusing raw scores of the pod's signature.

Order of work as upstream: PreScore with the feasible nodes, Score, NormalizeScore per plugin over
the feasible nodes, weights, sum (runtime/framework.go: RunScorePlugins). Raw scores of reusable
plugins are kept for every row; what needs normalising is normalised again whenever the feasible set
or a raw score changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.errors import failed
from scheduler.engine.metrics import Stopwatch, no_stopwatch
from scheduler.engine.plugin_calls import (
    FEW_ROWS,
    NORMALIZE_SCORES,
    SCORE,
    SCORE_ROWS,
    call,
    call_rows,
)
from scheduler.engine.plugin_slots import ScoreSlot, changed_rows, score_slots
from scheduler.engine.result_cache import CachedResult
from scheduler.engine.runtime import Framework
from scheduler.engine.ties import Ties
from scheduler.framework import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    CycleState,
    Int64Column,
    NodeInfo,
    Rows,
    Status,
)

INFEASIBLE: Final = -1


class Scoring:
    """Runs Score and NormalizeScore of one profile."""

    def __init__(
        self, framework: Framework, table: NodeTable, stopwatch: Stopwatch | None = None
    ) -> None:
        self._table = table
        self._stopwatch = stopwatch or no_stopwatch()
        self.slots = score_slots(framework)
        self._reusable = tuple(slot for slot in self.slots if slot.reusable)
        self._uncacheable = tuple(slot for slot in self.slots if not slot.reusable)
        self.all_columnar = all(slot.columnar for slot in self.slots)

    # -- totals with reuse -----------------------------------------------------------------------

    def totals(
        self, state: CycleState, pod: Pod, entry: CachedResult, feasible: Rows
    ) -> Int64Column:
        """Return int64[capacity] totals, -1 where infeasible; do not modify the result."""
        changed = self._refresh_raw(entry, state, pod)
        self._check_doubtful(entry, state, feasible)
        self._refresh_base(entry, changed)
        if entry.normalized_dirty:
            self._normalize(entry, state, pod, feasible)
            changed = None
        all_reusable = self._all_reusable(state)
        total = entry.total
        base, normalized = entry.base, entry.normalized
        if total is None or changed is None or len(changed) > FEW_ROWS:
            total = np.full(entry.capacity, INFEASIBLE, dtype=np.int64)
            values = np.zeros(len(feasible), dtype=np.int64)
            if base is not None:
                values += base[feasible]
            if normalized is not None:
                values += normalized[feasible]
            total[feasible] = values
            entry.total, entry.ties = total, None
        else:
            self._change_totals(entry, total, changed, keep_ties=all_reusable)
        if all_reusable:
            return total
        uncacheable = self._summed(self._uncacheable, state, pod, feasible)
        if uncacheable is not None:
            total = total.copy()
            total[feasible] += uncacheable
        return total

    def _all_reusable(self, state: CycleState) -> bool:
        """Whether every plugin that scores the pod is reusable."""
        skipped = state.skip_score
        return all(slot.name in skipped for slot in self._uncacheable)

    def _change_totals(
        self, entry: CachedResult, total: Int64Column, changed: list[int], *, keep_ties: bool
    ) -> None:
        base, normalized, rejected_by = entry.base, entry.normalized, entry.rejected_by
        ties = entry.ties
        if not keep_ties:
            ties = entry.ties = None
        elif ties is None:
            ties = entry.ties = Ties(total)
        for row in changed:
            if rejected_by[row] == 0:
                value = 0 if base is None else int(base[row])
                if normalized is not None:
                    value += int(normalized[row])
            else:
                value = INFEASIBLE
            if ties is not None:
                ties.change(row, int(total[row]), value)
            total[row] = value
        if ties is not None and not ties.rows:
            entry.ties = None

    def ties(self, entry: CachedResult, state: CycleState) -> Ties | None:
        """Return the rows with the highest total after `totals`, None where they are not known."""
        return entry.ties if self._all_reusable(state) else None

    def subset_totals(
        self, state: CycleState, pod: Pod, entry: CachedResult, rows: Rows
    ) -> Int64Column:
        """Return the total of each of `rows`, a subset of the signature's feasible rows."""
        changed = self._refresh_raw(entry, state, pod)
        self._check_doubtful(entry, state, rows)
        self._refresh_base(entry, changed)
        if changed is None or changed:
            # The next cycle over the signature's own feasible rows will not see these changes.
            entry.total = None
        base = entry.base
        total = np.zeros(len(rows), dtype=np.int64) if base is None else base[rows]
        normalized = self._normalized_sum(entry, state, pod, rows)
        if normalized is not None:
            total += normalized
        uncacheable = self._summed(self._uncacheable, state, pod, rows)
        return total if uncacheable is None else total + uncacheable

    def _refresh_raw(self, entry: CachedResult, state: CycleState, pod: Pod) -> list[int] | None:
        """Bring raw scores up to date; returns rows that changed, None for all."""
        table = self._table
        changes = changed_rows(table, entry.score_sequence)
        whole = changes is None
        # A plugin that raises leaves the entry half renewed: until the end nothing in it is valid.
        entry.score_sequence = -1
        for slot in self._reusable:
            if slot.name in state.skip_score:
                if entry.scored[slot.index] or entry.raw[slot.index] is not None:
                    entry.scored[slot.index] = False
                    entry.raw[slot.index] = None
                    entry.normalized_dirty = True
                    whole = True
                continue
            if changes is None or self._is_stale(entry, slot):
                self._score_column(entry, slot, state, pod)
                whole = True
                continue
            self._score_changed(entry, slot, state, pod, changes)
        entry.score_sequence = table.sequence
        return None if whole or changes is None else list(changes)

    def _is_stale(self, entry: CachedResult, slot: ScoreSlot) -> bool:
        if not entry.scored[slot.index]:
            return True
        if not slot.versions:
            return False
        return entry.score_versions[slot.index] != slot.present_versions(self._table)

    def _score_column(
        self, entry: CachedResult, slot: ScoreSlot, state: CycleState, pod: Pod
    ) -> None:
        rows = self._table.rows
        scores = self._call(slot, state, pod, rows)
        if scores.any():
            column = np.zeros(entry.capacity, dtype=np.int64)
            column[rows] = scores
            entry.raw[slot.index] = column
        else:
            entry.raw[slot.index] = None
        entry.scored[slot.index] = _may_be_kept(slot, scores)
        entry.base_dirty = True
        if slot.normalizer is not None:
            entry.normalized_dirty = True
        if slot.versions:
            entry.score_versions[slot.index] = slot.present_versions(self._table)

    def _score_changed(
        self,
        entry: CachedResult,
        slot: ScoreSlot,
        state: CycleState,
        pod: Pod,
        changes: dict[int, int],
    ) -> None:
        valid, columns = self._table.valid, slot.columns
        picked = [row for row, mask in changes.items() if mask & columns and valid[row]]
        if not picked:
            return
        rows = np.array(picked, dtype=np.intp)
        scores = self._call(slot, state, pod, rows)
        if len(picked) <= FEW_ROWS:
            self._take_scores(entry, slot, picked, scores.tolist())
            return
        if not _may_be_kept(slot, scores):
            entry.scored[slot.index] = False
        column = entry.raw[slot.index]
        if column is None:
            if not scores.any():
                return
            column = entry.raw[slot.index] = np.zeros(entry.capacity, dtype=np.int64)
        # With many templates many rows change between two pods of one.
        if slot.normalizer is not None and not np.array_equal(column[rows], scores):
            entry.normalized_dirty = True
        column[rows] = scores

    def _take_scores(
        self, entry: CachedResult, slot: ScoreSlot, rows: list[int], scores: list[int]
    ) -> None:
        """Write the scores of a few rows: for these, plain Python is quicker than NumPy."""
        column = entry.raw[slot.index]
        if column is None:
            if not any(scores):
                return
            column = entry.raw[slot.index] = np.zeros(entry.capacity, dtype=np.int64)
        normalized = slot.normalizer is not None
        if not normalized and (min(scores) < MIN_NODE_SCORE or max(scores) > MAX_NODE_SCORE):
            entry.scored[slot.index] = False
        for row, score in zip(rows, scores, strict=True):
            if column[row] != score:
                column[row] = score
                if normalized:
                    entry.normalized_dirty = True

    def _check_doubtful(self, entry: CachedResult, state: CycleState, rows: Rows) -> None:
        """Raise AttemptError when a final raw score of one of `rows` is out of range.

        A column that holds such a score anywhere is scored again next time: its row may be feasible
        then.
        """
        for slot in self._reusable:
            if entry.scored[slot.index] or slot.name in state.skip_score:
                continue
            raw = entry.raw[slot.index]
            entry.total = None
            if raw is not None:
                _check_range(slot.name, raw[rows])

    def _refresh_base(self, entry: CachedResult, changed: list[int] | None) -> None:
        parts = [
            (slot.weight, column)
            for slot in self._reusable
            if slot.normalizer is None and (column := entry.raw[slot.index]) is not None
        ]
        if entry.base is None or entry.base_dirty or changed is None or len(changed) > FEW_ROWS:
            base = np.zeros(entry.capacity, dtype=np.int64)
            for weight, column in parts:
                base += column if weight == 1 else weight * column
            entry.base = base
            entry.base_dirty = False
            return
        for row in changed:
            entry.base[row] = sum(weight * int(column[row]) for weight, column in parts)

    def _normalized_sum(
        self, entry: CachedResult, state: CycleState, pod: Pod, rows: Rows
    ) -> Int64Column | None:
        """Return the weighted sum of the normalised scores of each of `rows`, None for zeros."""
        total: Int64Column | None = None
        for slot in self._reusable:
            if slot.normalizer is None or slot.name in state.skip_score:
                continue
            raw = entry.raw[slot.index]
            scores = np.zeros(len(rows), dtype=np.int64) if raw is None else raw[rows]
            weighted = self._normalized(slot, state, pod, rows, scores) * slot.weight
            total = weighted if total is None else total + weighted
        return total

    def _normalize(self, entry: CachedResult, state: CycleState, pod: Pod, feasible: Rows) -> None:
        total = self._normalized_sum(entry, state, pod, feasible)
        if total is None:
            entry.normalized = None
        else:
            column = np.zeros(entry.capacity, dtype=np.int64)
            column[feasible] = total
            entry.normalized = column
        entry.normalized_dirty = False

    # -- without reuse ---------------------------------------------------------------------------

    def totals_of(self, state: CycleState, pod: Pod, rows: Rows) -> Int64Column:
        """Return the total of each of `rows`, without reuse."""
        total = self._summed(self.slots, state, pod, rows)
        return np.zeros(len(rows), dtype=np.int64) if total is None else total

    def _summed(
        self, slots: Sequence[ScoreSlot], state: CycleState, pod: Pod, rows: Rows
    ) -> Int64Column | None:
        """Return the weighted sum of new scores of each of `rows`, None for zeros."""
        total: Int64Column | None = None
        for slot in slots:
            if slot.name not in state.skip_score:
                weighted = slot.weight * self.scores_of(slot, state, pod, rows)[1]
                total = weighted if total is None else total + weighted
        return total

    def scores_of(
        self, slot: ScoreSlot, state: CycleState, pod: Pod, rows: Rows
    ) -> tuple[Int64Column, Int64Column]:
        """Return (raw, normalised) scores of one plugin for each of `rows`."""
        if slot.columnar:
            raw = self._call(slot, state, pod, rows)
        else:
            stopwatch = self._stopwatch
            started = stopwatch.monotonic()
            raw = np.array(self._score_each(slot, state, pod, rows), dtype=np.int64)
            stopwatch.rows(slot.name, "Score", len(rows), None)
            stopwatch.scalar(slot.name, "Score", stopwatch.monotonic() - started)
        return raw, self._normalized(slot, state, pod, rows, raw)

    def _score_each(self, slot: ScoreSlot, state: CycleState, pod: Pod, rows: Rows) -> list[int]:
        """Run the scalar Score for every row, within the budget of the cycle."""
        check = self._stopwatch.cycle.check
        scores = []
        for row in rows.tolist():
            scores.append(call_score(slot.plugin, state, pod, self._table.node_info(row)))
            check()
        return scores

    def _call(self, slot: ScoreSlot, state: CycleState, pod: Pod, rows: Rows) -> Int64Column:
        return call_rows(SCORE_ROWS, slot.plugin, state, pod, self._table, rows, self._stopwatch)

    def _normalized(
        self, slot: ScoreSlot, state: CycleState, pod: Pod, rows: Rows, raw: Int64Column
    ) -> Int64Column:
        scores: Int64Column = raw
        if slot.normalizer is not None:
            normalized = call(NORMALIZE_SCORES, slot.normalizer, state, pod, self._table, rows, raw)
            if isinstance(normalized, Status):
                raise NORMALIZE_SCORES.failed(slot.name, normalized.message)
            scores = normalized
        _check_range(slot.name, scores)
        return scores


def _may_be_kept(slot: ScoreSlot, scores: Int64Column) -> bool:
    """Whether raw scores need no check later: they are in range, or will be normalised."""
    if slot.normalizer is not None or not len(scores):
        return True
    return bool(scores.min() >= MIN_NODE_SCORE and scores.max() <= MAX_NODE_SCORE)


def _check_range(plugin: str, scores: Int64Column) -> None:
    """Raise AttemptError when a final score of a feasible node is outside 0 to 100."""
    if not len(scores):
        return
    for extreme in (int(scores.min()), int(scores.max())):
        if not MIN_NODE_SCORE <= extreme <= MAX_NODE_SCORE:
            raise failed(
                f'applying score defaultWeights on Score plugins: plugin "{plugin}" '
                f"returns an invalid score {extreme}, it should in the range of "
                f"[{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
            )


def call_score(plugin: Any, state: CycleState, pod: Pod, node: NodeInfo) -> int:
    """Run one plugin's scalar Score. Raises AttemptError."""
    score: int | Status = call(SCORE, plugin, state, pod, node)
    if isinstance(score, Status):
        raise SCORE.failed(plugin.name, score.message)
    return score
