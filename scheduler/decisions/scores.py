"""Scores of the best nodes of a cycle: taken from its columns, kept packed, shown as records."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from struct import Struct
from typing import Final, NamedTuple

import numpy as np

from scheduler.engine.leaders import Leaders, highest_rows
from scheduler.engine.result_cache import CachedResult
from scheduler.engine.schedule_one import ScoredNodes
from scheduler.engine.scoring import INFEASIBLE, Scoring
from scheduler.framework import Int64Column, Rows
from scheduler.pages import NodeScore, PluginScore

BEST: Final = 5
"""Nodes whose scores are kept."""
_MAX_LAYOUTS: Final = 256


class Layout(NamedTuple):
    """The Score plugins that scored a pod, and how their scores are packed for one node.

    A total, then of each plugin its final score, which is 0 to 100; in front of it the raw score,
    if the plugin normalises.
    """

    slots: tuple[tuple[int, bool], ...]
    """Index, and whether the plugin normalises."""
    one: Struct
    plugins: tuple[tuple[str, int, bool], ...]
    """Name, weight, and whether the plugin normalises."""

    def unpack(self, names: Sequence[str], numbers: bytes) -> tuple[NodeScore, ...]:
        """Return the records of packed scores; plugins that skipped the pod are left out."""
        found = []
        for name, (total, *rest) in zip(names, self.one.iter_unpack(numbers), strict=True):
            values = iter(rest)
            scores = []
            for plugin, weight, normalizes in self.plugins:
                raw = next(values)
                final = next(values) if normalizes else raw
                scores.append(PluginScore(plugin, raw, final, weight * final))
            found.append(NodeScore(name, total, tuple(scores)))
        return tuple(found)

    def first_total(self, numbers: bytes) -> int:
        """Return the total of the first node."""
        total: int = self.one.unpack_from(numbers)[0]
        return total


PackedScores = tuple[tuple[str, ...], bytes, Layout]
"""The best nodes, best first, the chosen one first among equals; their scores; how to read them."""


class ScorePacker:
    """Packs the scores of the cycle of one profile that has just ended."""

    def __init__(self, scoring: Scoring) -> None:
        self.scoring = scoring
        self._layouts: dict[frozenset[str], Layout] = {}
        #: Of the last pod.
        self._skipped: frozenset[str] = frozenset()
        self._layout = self._lay_out(self._skipped)

    def pack(
        self,
        scored: ScoredNodes,
        chosen: int,
        names: Sequence[str],
        skipped: AbstractSet[str],
    ) -> PackedScores:
        """Return the best nodes.

        Args:
            scored: what the cycle scored; none may have run since.
            chosen: the row of the chosen node.
            names: of the nodes, by row.
            skipped: the Score plugins that skipped the pod.
        """
        nodes, totals, where, equal = scored
        if skipped != self._skipped:
            self._skipped = key = frozenset(skipped)
            self._layout = self._layouts.get(key) or self._lay_out(key)
        layout, entry = self._layout, nodes.entry
        if equal is None and entry is not None:
            rows, numbers = self._leading(layout, entry, totals, chosen)
        else:
            rows = _best_of(totals, where, equal, entry, chosen)
            numbers = self._columns(layout, scored, rows)
        return tuple([names[row] for row in rows]), numbers, layout

    def _lay_out(self, skipped: frozenset[str]) -> Layout:
        if len(self._layouts) >= _MAX_LAYOUTS:
            self._layouts.clear()
        slots = tuple(slot for slot in self.scoring.slots if slot.name not in skipped)
        fields = "".join("b" if slot.normalizer is None else "qb" for slot in slots)
        layout = self._layouts[skipped] = Layout(
            tuple((slot.index, slot.normalizer is not None) for slot in slots),
            Struct(f"<q{fields}"),
            tuple((slot.name, slot.weight, slot.normalizer is not None) for slot in slots),
        )
        return layout

    # -- totals that change by single rows -------------------------------------------------------

    def _leading(
        self, layout: Layout, entry: CachedResult, totals: Int64Column, chosen: int
    ) -> tuple[list[int], bytes]:
        leaders = entry.leaders
        best = None
        if leaders is not None and leaders.totals is totals:
            best = leaders.best(BEST)
        if leaders is None or best is None:
            leaders = entry.leaders = Leaders(totals)
            best = leaders.best(BEST) or [chosen]
        if best[0] != chosen:
            # It has the highest total, too.
            if chosen in best:
                best.remove(chosen)
            else:
                best.pop()
            best.insert(0, chosen)
        if leaders.layout is not layout:
            leaders.layout, leaders.packed = layout, {}
        packed = leaders.packed
        for row in best:
            if row not in packed:
                packed[row] = _pack_row(layout, entry, totals, row)
        return best, b"".join([packed[row] for row in best])

    # -- all others ------------------------------------------------------------------------------

    def _columns(self, layout: Layout, scored: ScoredNodes, best: list[int]) -> bytes:
        nodes, totals, where, _ = scored
        entry, rows = nodes.entry, np.array(best, dtype=np.intp)
        fresh = {slot.index: (raw, final) for slot, raw, final in self.scoring.fresh}
        places = nodes.rows.searchsorted(rows) if fresh else rows
        columns: list[list[int]] = [
            totals[rows if where is None else where.searchsorted(rows)].tolist()
        ]
        kept = None
        for index, normalizes in layout.slots:
            if index in fresh:
                raw, final = fresh[index]
                if normalizes:
                    columns.append(raw[places].tolist())
                columns.append(final[places].tolist())
                continue
            assert entry is not None
            column = entry.raw[index]
            columns.append(_zeros(rows) if column is None else column[rows].tolist())
            if normalizes:
                scores = entry.normalized_scores.get(index)
                if scores is not None and kept is None:
                    assert entry.normalized_rows is not None
                    kept = entry.normalized_rows.searchsorted(rows)
                columns.append(_zeros(rows) if scores is None else scores[kept].tolist())
        pack = layout.one.pack
        return b"".join([pack(*values) for values in zip(*columns, strict=True)])


def _best_of(
    totals: Int64Column,
    where: Rows | None,
    equal: Rows | None,
    entry: CachedResult | None,
    chosen: int,
) -> list[int]:
    """Return the rows of the best nodes, the chosen one first."""
    if equal is not None and len(equal) >= BEST:
        places = equal[:BEST]
        rows: list[int] = (places if where is None else where[places]).tolist()
        others = [row for row in rows if row != chosen]
        return [chosen, *others[: BEST - 1]]
    places = highest_rows(totals, BEST, None if entry is None else entry.lowest_of_best)
    values = totals[places].tolist()
    if entry is not None:
        entry.lowest_of_best = min(values)
    rows = (places if where is None else where[places]).tolist()
    order = sorted(
        (row != chosen, -value, row)
        for value, row in zip(values, rows, strict=True)
        if value != INFEASIBLE
    )
    return [row for _, _, row in order]


def _pack_row(layout: Layout, entry: CachedResult, totals: Int64Column, row: int) -> bytes:
    """Pack the scores of one row; plain Python, which is quicker than NumPy here."""
    values, raws = [totals.item(row)], entry.raw
    place = -1
    for index, normalizes in layout.slots:
        column = raws[index]
        values.append(0 if column is None else column.item(row))
        if normalizes:
            scores = entry.normalized_scores.get(index)
            if scores is None:
                values.append(0)
                continue
            if place < 0:
                rows = entry.normalized_rows
                assert rows is not None
                # Where every node is feasible, rows are their own places.
                exact = row < len(rows) and rows.item(row) == row
                place = row if exact else int(rows.searchsorted(row))
            values.append(scores.item(place))
    return layout.one.pack(*values)


def _zeros(rows: Rows) -> list[int]:
    return [0] * len(rows)
