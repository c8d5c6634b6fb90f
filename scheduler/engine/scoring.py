"""Scoring: the totals of feasible rows, reusing cached raw scores of the pod's signature.

The steps are upstream's: PreScore with the feasible nodes, Score, NormalizeScore per plugin over
the feasible nodes, weights, sum (runtime/framework.go: RunScorePlugins). Raw scores of reusable
plugins are cached for every row; scores are normalised again whenever the feasible rows or a raw
score changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.cache.change_log import Changes, PickedRows
from scheduler.engine.columnar_calls import SCORE_ROWS, call_rows
from scheduler.engine.cycle_time import Stopwatch, no_stopwatch
from scheduler.engine.followed_scores import FollowedScores
from scheduler.engine.plugin_calls import NORMALIZE_SCORES, SCORE, CallErrors, call
from scheduler.engine.plugin_slots import ScoreSlot
from scheduler.engine.result_cache import CachedResult
from scheduler.engine.row_columns import (
    FEW_ROWS,
    FEW_VALUES,
    INFEASIBLE,
    changed_rows,
    rows_index,
    spread,
)
from scheduler.engine.score_range import are_final, highest_score
from scheduler.engine.sums import replace_sums, sums_of, weighted
from scheduler.engine.ties import Ties
from scheduler.framework import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    CycleState,
    Int64Column,
    NodeAmounts,
    NodeInfo,
    Rows,
    Status,
)
from scheduler.framework.results import rows_result


class Scoring:
    """Runs Score and NormalizeScore of one profile."""

    def __init__(
        self,
        slots: Sequence[ScoreSlot],
        table: NodeTable,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        self._table = table
        self._stopwatch = stopwatch or no_stopwatch()
        self.slots = slots
        #: Plugins whose raw scores are cached by signature.
        self.reusable = tuple(slot for slot in self.slots if slot.reusable)
        self._uncacheable = tuple(slot for slot in self.slots if not slot.reusable)
        self._uncacheable_names = frozenset(slot.name for slot in self._uncacheable)
        #: (plugin, raw, normalised) scores of the rows scored last, for plugins without reuse.
        self.fresh: Sequence[tuple[ScoreSlot, Int64Column, Int64Column]] = ()
        self.all_columnar = all(slot.columnar for slot in self.slots)

    def has_uncacheable(self, state: CycleState) -> bool:
        """Whether any plugin that is not skipped must score for every pod."""
        return any(slot.name not in state.skip_score for slot in self._uncacheable)

    # -- totals with reuse -----------------------------------------------------------------------

    def totals(
        self, state: CycleState, pod: Pod, entry: CachedResult, feasible: Rows
    ) -> tuple[Int64Column, Rows | None]:
        """Return totals like `SchedulingAlgorithm.score`; do not modify them."""
        slots = self._uncacheable_of(state)
        following = not any([slot.normalizer for slot in slots])  # noqa: C419 - a generator takes longer
        keep_ties = following and (entry.total_follows or not slots)
        self._refresh(entry, state, pod, feasible, keep_ties=keep_ties)
        if following and slots:
            return self._followed_total(entry, state, pod, slots, feasible)
        total = self._reusable_total(entry, feasible)
        uncacheable = self._summed(slots, state, pod, feasible)
        if uncacheable is None:
            return total, None
        return total[rows_index(feasible)] + uncacheable, feasible

    def _uncacheable_of(self, state: CycleState) -> tuple[ScoreSlot, ...]:
        """Return the plugins without reuse that are not skipped for the pod."""
        slots, skipped = self._uncacheable, state.skip_score
        if self._uncacheable_names <= skipped:
            return ()
        return tuple([slot for slot in slots if slot.name not in skipped])

    def _reusable_total(self, entry: CachedResult, feasible: Rows) -> Int64Column:
        """Return the totals of reusable scores only."""
        if entry.total_follows:
            entry.total, entry.total_follows = None, False
        if entry.total is None:
            entry.total = spread(_reusable_sum(entry, feasible), feasible, entry.capacity)
            entry.ties = None
        return entry.total

    def _followed_total(
        self,
        entry: CachedResult,
        state: CycleState,
        pod: Pod,
        slots: tuple[ScoreSlot, ...],
        feasible: Rows,
    ) -> tuple[Int64Column, Rows | None]:
        """Return the totals, including the scores of plugins without reuse.

        These run for every pod, but most of their scores equal those for the previous pod. As long
        as only few scores differ, the cached totals are updated row by row.
        """
        if [*entry.followed] != [slot.index for slot in slots]:
            entry.followed = {slot.index: FollowedScores() for slot in slots}
        settled, self.fresh = True, ()
        fresh = []
        for slot in slots:
            scores = self.raw_of(slot, state, pod, feasible)
            settled &= self._follow(entry, slot, scores, feasible)
            fresh.append((slot, scores, scores))
        self.fresh, total = fresh, entry.total
        if settled and entry.total_follows and total is not None:
            return total, None
        if settled:
            sums = _reusable_sum(entry, feasible)
        else:
            sums = self._reusable_total(entry, feasible)[rows_index(feasible)]
        for slot, scores, _ in fresh:
            sums = sums + weighted(slot.weight, scores)
        if not settled:
            # The scores will probably differ for the next pod as well, so no total is cached.
            return sums, feasible
        total = spread(sums, feasible, entry.capacity)
        entry.total, entry.ties, entry.total_follows = total, None, True
        return total, None

    def _follow(
        self, entry: CachedResult, slot: ScoreSlot, scores: Int64Column, feasible: Rows
    ) -> bool:
        """Update `followed` and `total`; return False if too many scores differ."""
        followed = entry.followed[slot.index]
        places = followed.differing(scores)
        if places is None:
            highest_score(slot.name, scores)
            followed.replace(scores)
            # The part of this plugin in the total is no longer known.
            if entry.total_follows:
                entry.total = None
            return False
        if not len(places):
            return True
        highest_score(slot.name, scores)
        total = entry.total if entry.total_follows else None
        ties = None if total is None else entry.ties
        for place in places.tolist():
            after = scores.item(place)
            before = followed.exchange(place, after)
            if total is not None:
                row = feasible.item(place)
                value = total.item(row)
                total[row] = changed = value + slot.weight * (after - before)
                if ties is not None:
                    ties.change(row, value, changed)
        return True

    def ties(self, entry: CachedResult, totals: Int64Column) -> Ties | None:
        """Return the rows with the highest of `totals`; None if they are unknown."""
        return entry.ties if entry.total is totals else None

    def subset_totals(
        self, state: CycleState, pod: Pod, entry: CachedResult, rows: Rows
    ) -> Int64Column:
        """Return the total of each of `rows`, a subset of the signature's feasible rows."""
        self._refresh(entry, state, pod, rows, keep_ties=False)
        total = _reusable_sum(entry, rows)
        uncacheable = self._summed(self._uncacheable, state, pod, rows)
        if uncacheable is not None:
            total += uncacheable
        return total

    def _refresh(
        self, entry: CachedResult, state: CycleState, pod: Pod, rows: Rows, *, keep_ties: bool
    ) -> None:
        """Bring all cached scores up to date; `rows` are the feasible rows."""
        changed = self._refresh_raw(entry, state, pod)
        self._check_doubtful(entry, rows)
        renew = entry.normalized_dirty or not _are_equal(entry.normalized_rows, rows)
        if renew:
            # The totals are recomputed afterwards.
            entry.total = None
        if entry.base is None or changed is None or len(changed[0]) > FEW_ROWS:
            self._sum_base(entry)
        elif entry.total is None:
            # No totals are updated from `base`, so ties and leaders are invalid.
            entry.ties = entry.leaders = None
            entry.base[changed[1]] = sums_of(changed[1], self._base_parts(entry))
        else:
            self._change_base(entry, entry.base, changed, keep_ties=keep_ties)
        if renew:
            self._normalize(entry, state, pod, rows)

    def _refresh_raw(self, entry: CachedResult, state: CycleState, pod: Pod) -> PickedRows | None:
        """Bring raw scores up to date; return the rows of `base` that changed, None for all."""
        table = self._table
        changes, bumps = changed_rows(table, entry.score_sequence), table.bumps
        # A plugin that raises leaves the entry half updated, so it is invalid until the end.
        entry.score_sequence = -1
        if state.skip_score != entry.skipped_scores:
            self._skip(entry, frozenset(state.skip_score))
        bumped = entry.score_bumps != bumps
        for slot in entry.scores_run:
            if (
                changes is None
                or not entry.scored[slot.index]
                or (bumped and entry.score_versions[slot.index] != slot.present_versions(table))
            ):
                self._score_column(entry, slot, state, pod)
            elif slot.columns & changes.anywhere:
                self._score_changed(entry, slot, state, pod, changes)
        entry.score_bumps, entry.score_sequence = bumps, table.change_log.sequence
        if changes is None or entry.base_dirty:
            return None
        return changes.picked(changes.anywhere, table.valid)

    def _skip(self, entry: CachedResult, skipped: frozenset[str]) -> None:
        """Drop the scores of skipped plugins, since these are not kept up to date."""
        entry.skipped_scores = skipped
        entry.scores_run = tuple(slot for slot in self.reusable if slot.name not in skipped)
        for slot in self.reusable:
            if slot.name in skipped and (
                entry.scored[slot.index] or entry.raw[slot.index] is not None
            ):
                entry.scored[slot.index] = False
                entry.raw[slot.index] = None
                _mark_dirty(entry, slot)

    def _score_column(
        self, entry: CachedResult, slot: ScoreSlot, state: CycleState, pod: Pod
    ) -> None:
        rows = self._table.rows
        scores = self.raw_of(slot, state, pod, rows)
        column = None
        if np.count_nonzero(scores):
            column = np.zeros(entry.capacity, dtype=np.int64)
            column[rows_index(rows)] = scores
        entry.raw[slot.index] = column
        entry.scored[slot.index] = _may_be_kept(slot, scores)
        _mark_dirty(entry, slot)
        if slot.versions:
            entry.score_versions[slot.index] = slot.present_versions(self._table)

    def _score_changed(
        self,
        entry: CachedResult,
        slot: ScoreSlot,
        state: CycleState,
        pod: Pod,
        changes: Changes,
    ) -> None:
        picked, rows = changes.picked(slot.columns, self._table.valid)
        if not picked:
            return
        scores = self.raw_of(slot, state, pod, rows)
        if len(picked) <= FEW_VALUES:
            self._take_scores(entry, slot, picked, scores.tolist())
            return
        if not _may_be_kept(slot, scores):
            entry.scored[slot.index] = False
        column = entry.raw[slot.index]
        if column is None:
            if not scores.any():
                return
            column = add_column(entry, slot)
        # If there are many templates, many rows change between two pods of the same one.
        if slot.normalizer is not None and not np.array_equal(column[rows], scores):
            entry.normalized_dirty = True
        column[rows] = scores

    def _take_scores(
        self, entry: CachedResult, slot: ScoreSlot, rows: list[int], scores: list[int]
    ) -> None:
        """Write the scores of a few rows; for so few, a loop is faster than NumPy."""
        column = entry.raw[slot.index]
        if column is None:
            if not any(scores):
                return
            column = add_column(entry, slot)
        normalized = slot.normalizer is not None
        if not normalized and (min(scores) < MIN_NODE_SCORE or max(scores) > MAX_NODE_SCORE):
            entry.scored[slot.index] = False
        for row, score in zip(rows, scores, strict=True):
            if column[row] != score:
                column[row] = score
                if normalized:
                    entry.normalized_dirty = True

    def _check_doubtful(self, entry: CachedResult, rows: Rows) -> None:
        """Raise AttemptError if a raw score that is final is out of range on one of `rows`.

        A column with such a score on any other row is computed again next time, because that row
        may be feasible then.
        """
        for slot in entry.scores_run:
            if entry.scored[slot.index]:
                continue
            raw = entry.raw[slot.index]
            entry.total = None
            if raw is not None:
                highest_score(slot.name, raw[rows])

    def _sum_base(self, entry: CachedResult) -> None:
        base = np.zeros(entry.capacity, dtype=np.int64)
        for weight, column in self._base_parts(entry):
            base += column if weight == 1 else weight * column
        entry.base, entry.base_dirty = base, False
        entry.total = None

    def _change_base(
        self, entry: CachedResult, base: Int64Column, changed: PickedRows, *, keep_ties: bool
    ) -> None:
        """Recompute some rows of `base`, and add the differences to their totals.

        Rows that were infeasible when `total` was computed stay infeasible; `rejected_by` may be
        newer, and include rows outside this cycle.
        """
        parts, total = self._base_parts(entry), entry.total
        assert total is not None
        if not keep_ties:
            entry.ties = None
        elif entry.ties is None:
            entry.ties = Ties(total)
        ties, leaders = entry.ties, entry.leaders
        if leaders is not None and leaders.totals is not total:
            leaders = entry.leaders = None
        if leaders is not None:
            leaders.forget(*changed[0])
        for row, before, after in replace_sums(base, changed, parts):
            value = total.item(row)
            if value == INFEASIBLE:
                continue
            total[row] = new = value + after - before
            if ties is not None and (new >= ties.floor or value >= ties.floor):
                ties.change(row, value, new)
            if leaders is not None and (new > leaders.floor or value >= leaders.floor):
                leaders.change(row, value, new)

    def _base_parts(self, entry: CachedResult) -> list[tuple[int, Int64Column]]:
        return [
            (slot.weight, column)
            for slot in entry.scores_run
            if slot.normalizer is None and (column := entry.raw[slot.index]) is not None
        ]

    def _normalize(self, entry: CachedResult, state: CycleState, pod: Pod, rows: Rows) -> None:
        total: Int64Column | None = None
        entry.normalized_scores = kept = {}
        for slot in entry.scores_run:
            if slot.normalizer is None:
                continue
            raw = entry.raw[slot.index]
            scores = np.zeros(len(rows), dtype=np.int64) if raw is None else raw[rows]
            scores, highest = self._normalized(slot, state, pod, rows, scores)
            if highest:
                kept[slot.index] = scores.astype(np.int8)
                part = scores * slot.weight
                total = part if total is None else total + part
        entry.normalized, entry.normalized_rows, entry.normalized_dirty = total, rows, False
        entry.total = None

    # -- without reuse ---------------------------------------------------------------------------

    def totals_of(self, state: CycleState, pod: Pod, rows: Rows) -> Int64Column:
        """Return the total of each of `rows`, without caches."""
        total = self._summed(self.slots, state, pod, rows)
        return np.zeros(len(rows), dtype=np.int64) if total is None else total

    def _summed(
        self, slots: Sequence[ScoreSlot], state: CycleState, pod: Pod, rows: Rows
    ) -> Int64Column | None:
        """Compute scores, and return the weighted sum for each of `rows`; None if all are 0."""
        total: Int64Column | None = None
        fresh = []
        for slot in slots:
            if slot.name not in state.skip_score:
                raw, normalized = self.scores_of(slot, state, pod, rows)
                fresh.append((slot, raw, normalized))
                part = weighted(slot.weight, normalized)
                total = part if total is None else total + part
        self.fresh = fresh
        return total

    def scores_of(
        self, slot: ScoreSlot, state: CycleState, pod: Pod, rows: Rows
    ) -> tuple[Int64Column, Int64Column]:
        """Return (raw, normalised) scores of one plugin for each of `rows`."""
        if slot.columnar:
            raw = self.raw_of(slot, state, pod, rows)
        else:
            stopwatch = self._stopwatch
            started = stopwatch.monotonic()
            raw = np.array(self._score_each(slot, state, pod, rows), dtype=np.int64)
            stopwatch.rows(slot.name, "Score", len(rows), None)
            stopwatch.scalar(slot.name, "Score", stopwatch.monotonic() - started)
        return raw, self._normalized(slot, state, pod, rows, raw)[0]

    def _score_each(self, slot: ScoreSlot, state: CycleState, pod: Pod, rows: Rows) -> list[int]:
        """Run the scalar Score for every row, within the budget of the cycle."""
        check = self._stopwatch.cycle.check
        scores = []
        for row in rows.tolist():
            scores.append(call_score(slot.plugin, state, pod, self._table.node_info(row)))
            check()
        return scores

    def raw_of(
        self,
        slot: ScoreSlot,
        state: CycleState,
        pod: Pod,
        rows: Rows,
        amounts: NodeAmounts | None = None,
    ) -> Int64Column:
        """Call `score_rows`; with hypothetical `amounts` only of plugins with `amounts_only`."""
        table = self._table if amounts is None else amounts
        scores = call_rows(SCORE_ROWS, slot.plugin, state, pod, table, rows, self._stopwatch)
        # In a narrower integer type a weighted sum could overflow.
        return scores.astype(np.int64, copy=False)

    def _normalized(
        self, slot: ScoreSlot, state: CycleState, pod: Pod, rows: Rows, raw: Int64Column
    ) -> tuple[Int64Column, int]:
        """Return the final scores, and the highest of them."""
        scores: Int64Column = raw
        if slot.normalizer is not None:
            normalized = call(NORMALIZE_SCORES, slot.normalizer, state, pod, self._table, rows, raw)
            if isinstance(normalized, Status):
                raise NORMALIZE_SCORES.failed(slot.name, normalized.message)
            with CallErrors(NORMALIZE_SCORES, slot.normalizer):
                rows_result(NORMALIZE_SCORES.name, normalized, len(rows), "scores", fractions=True)
            scores = normalized.astype(np.int64, copy=False)
        return scores, highest_score(slot.name, scores)


def add_column(entry: CachedResult, slot: ScoreSlot) -> Int64Column:
    """Add a column for a plugin that has returned only zeros so far."""
    column = entry.raw[slot.index] = np.zeros(entry.capacity, dtype=np.int64)
    # The leaders' cached data were derived without this column.
    entry.leaders = None
    return column


def _reusable_sum(entry: CachedResult, rows: Rows) -> Int64Column:
    """Return the sum of reusable scores for each of `rows`, which equal `normalized_rows`."""
    assert entry.base is not None
    part = rows_index(rows)
    total = entry.base[part].copy() if isinstance(part, slice) else entry.base[part]
    if entry.normalized is not None:
        total += entry.normalized
    return total


def _are_equal(known: Rows | None, rows: Rows) -> bool:
    if known is None or len(known) != len(rows):
        return False
    return known is rows or not len((known != rows).nonzero()[0])


def _mark_dirty(entry: CachedResult, slot: ScoreSlot) -> None:
    """Invalidate the sum that includes the scores of this slot."""
    if slot.normalizer is None:
        entry.base_dirty = True
    else:
        entry.normalized_dirty = True


def _may_be_kept(slot: ScoreSlot, scores: Int64Column) -> bool:
    """Whether raw scores need no later range check: they are in range, or will be normalised."""
    return slot.normalizer is not None or are_final(scores)


def call_score(plugin: Any, state: CycleState, pod: Pod, node: NodeInfo) -> int:
    """Run one plugin's scalar Score. Raises AttemptError."""
    score: int | Status | None = call(SCORE, plugin, state, pod, node)
    if isinstance(score, int):
        return score
    text = "score returned None, which is not a 64-bit integer"
    raise SCORE.failed(plugin.name, text if score is None else score.message)
