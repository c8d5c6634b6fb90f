"""ScorePacker: takes the scores of the best nodes from the columns of a cycle, as it ends.

The next cycle changes the columns, so all that is kept is copied: a few numbers, not the columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import repeat, starmap
from operator import methodcaller
from struct import Struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.leaders import Leaders, highest_rows
from scheduler.engine.result_cache import CachedResult, FinalScores
from scheduler.engine.row_columns import INFEASIBLE
from scheduler.engine.schedule_one import ScoredNodes
from scheduler.engine.scoring import Scoring
from scheduler.explain.records import NodeScore
from scheduler.framework import Int64Column, Rows
from scheduler.history.scores import BEST, BestNodes, Layout

_MAX_LAYOUTS: Final = 256


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
    ) -> tuple[BestNodes, bytes]:
        """Return the best nodes, and the scores of the chosen one where it is not among them.

        Args:
            scored: what the cycle scored; none may have run since.
            chosen: the row of the chosen node.
            names: of the nodes, by row.
            skipped: the Score plugins that skipped the pod.
        """
        nodes, totals, where, equal = scored
        layout, entry = self._layout_of(skipped), nodes.entry
        if (
            entry is not None
            and not self.scoring.fresh
            and (equal is None or _are_followed(totals, entry))
        ):
            return _leading(layout, entry, totals, chosen, names)
        rows = _best_of(totals, where, equal, entry, chosen)
        numbers = self._columns(layout, scored, rows)
        return BestNodes(tuple([names[row] for row in rows]), numbers, layout), b""

    def records(
        self, scored: ScoredNodes, rows: list[int], names: Sequence[str], skipped: AbstractSet[str]
    ) -> tuple[NodeScore, ...]:
        """Return the scores of some of the nodes that were scored; otherwise as `pack`."""
        layout = self._layout_of(skipped)
        numbers = self._columns(layout, scored, rows)
        return tuple(layout.record(names[row], numbers, at) for at, row in enumerate(rows))

    def _layout_of(self, skipped: AbstractSet[str]) -> Layout:
        if skipped != self._skipped:
            self._skipped = key = frozenset(skipped)
            self._layout = self._layouts.get(key) or self._lay_out(key)
        return self._layout

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

    def _columns(self, layout: Layout, scored: ScoredNodes, best: list[int]) -> bytes:
        """Pack the scores of a few rows, which may be those of plugins without reuse."""
        nodes, totals, where, _ = scored
        entry = nodes.entry
        fresh = {slot.index: (raw, final) for slot, raw, final in self.scoring.fresh}
        places = _places(best, nodes.rows) if fresh else best
        columns = [_values(totals, best if where is None else _places(best, where))]
        kept: list[int] | None = None
        for index, normalizes in layout.slots:
            if index in fresh:
                raw, final = fresh[index]
                if normalizes:
                    columns.append(_values(raw, places))
                columns.append(_values(final, places))
                continue
            assert entry is not None
            columns.append(_values(entry.raw[index], best))
            if normalizes:
                scores = entry.normalized_scores.get(index)
                if scores is not None and kept is None:
                    assert entry.normalized_rows is not None
                    kept = _places(best, entry.normalized_rows)
                columns.append(_values(scores, kept or best))
        return b"".join(starmap(layout.one.pack, zip(*columns, strict=True)))


# -- totals that change by single rows -----------------------------------------------------------


def _are_followed(totals: Int64Column, entry: CachedResult) -> bool:
    """Whether the best rows are known although the cycle has looked at all of them.

    It does so as long as no total has changed since they were added up.
    """
    return entry.leaders is not None and entry.leaders.totals is totals


def _leading(
    layout: Layout,
    entry: CachedResult,
    totals: Int64Column,
    chosen: int,
    names: Sequence[str],
) -> tuple[BestNodes, bytes]:
    leaders, top = entry.leaders, None
    if leaders is not None and leaders.totals is totals:
        top = leaders.best(BEST)
    if leaders is None or top is None:
        leaders = entry.leaders = Leaders(totals)
        top = leaders.best(BEST) or [chosen]
    reader = leaders.source
    if not isinstance(reader, _RowReader) or reader.layout is not layout:
        reader = leaders.source = _RowReader(layout, entry, totals)
        leaders.packed, leaders.shared = {}, None
    best = leaders.shared
    if not isinstance(best, BestNodes):
        packed = leaders.packed
        for row in top:
            if row not in packed:
                packed[row] = reader.pack(row)
        numbers = b"".join([packed[row] for row in top])
        best = leaders.shared = BestNodes(tuple([names[row] for row in top]), numbers, layout)
    return best, b"" if chosen in top else reader.pack(chosen)


class _RowReader:
    """Packs single rows of one `CachedResult`, until one of its columns is replaced.

    Without NumPy's operations on arrays, which take longer for single numbers.
    """

    __slots__ = ("_columns", "_everywhere", "_normalized", "_rows", "layout")

    def __init__(self, layout: Layout, entry: CachedResult, totals: Int64Column) -> None:
        self.layout = layout
        zeros = np.broadcast_to(np.int64(0), entry.capacity)
        #: Of each number the column, and of which the position is among the normalised rows.
        self._columns: list[NDArray[Any]] = [totals]
        self._normalized: list[int] = []
        self._rows = rows = entry.normalized_rows
        #: Whether every row up to the last one is normalised, as where every node is feasible.
        self._everywhere = rows is None or rows.item(-1) == len(rows) - 1
        for index, normalizes in layout.slots:
            column = entry.raw[index]
            self._columns.append(zeros if column is None else column)
            if not normalizes:
                continue
            scores = entry.normalized_scores.get(index)
            if scores is not None:
                self._normalized.append(len(self._columns))
            self._columns.append(zeros if scores is None else scores)

    def pack(self, row: int) -> bytes:
        """Pack the scores of one row."""
        if self._everywhere or not self._normalized:
            return self.layout.one.pack(*map(methodcaller("item", row), self._columns))
        assert self._rows is not None
        (place,) = _places([row], self._rows)
        values = [
            column.item(place if index in self._normalized else row)
            for index, column in enumerate(self._columns)
        ]
        return self.layout.one.pack(*values)


# -- all others ----------------------------------------------------------------------------------


def _best_of(
    totals: Int64Column,
    where: Rows | None,
    equal: Rows | Sequence[int] | None,
    entry: CachedResult | None,
    chosen: int,
) -> list[int]:
    """Return the rows of the best nodes, the chosen one first."""
    if equal is not None and len(equal) >= BEST:
        places = np.array(equal[:BEST])
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


def _places(rows: list[int], among: Rows) -> list[int]:
    """Return the positions of some rows in an ascending array that has all of them."""
    last = max(rows)
    if last < len(among) and among.item(last) == last:
        # Every row up to there is in it, as where every node is feasible.
        return rows
    places: list[int] = among.searchsorted(rows).tolist()
    return places


def _values(column: Int64Column | FinalScores | None, places: list[int]) -> Iterable[int]:
    """Return a few values of a column; for so few, NumPy's own selection takes longer."""
    return repeat(0, len(places)) if column is None else map(column.item, places)
