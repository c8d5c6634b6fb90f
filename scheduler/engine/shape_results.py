"""ShapeResults: what is remembered about one pod shape; its next pod evaluates changed rows only.

All arrays have the table's capacity. `verdict` is, per row: 0 feasible, i+1 rejected first by
filter i, -1 not a node. The invariant, proved by a property test: after `refresh`, everything
equals what a fresh evaluation of every row would give.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.ties import Ties
from scheduler.framework import Codes, Int64Column, Rows

NOT_A_NODE = -1
NarrowCodes = NDArray[np.signedinteger[Any]]
"""`Codes`, perhaps in a narrower type."""

_LIMITS: Final = {1: 127, 2: 32767}
"""By bytes of a code the largest that is kept in so many; int32 holds them all."""
_FEW: Final = 16
_DEFAULT_BUDGET = 128 * 1024 * 1024


class ShapeResult:
    """Reusable results of one (profile, shape, variant)."""

    __slots__ = (
        "base",
        "base_dirty",
        "capacity",
        "codes",
        "evaluated",
        "feasible",
        "filter_versions",
        "groups",
        "normalized",
        "normalized_dirty",
        "pre_filter",
        "pre_score",
        "raw",
        "score_ready",
        "score_sequence",
        "score_versions",
        "scored",
        "sequence",
        "skipped",
        "ties",
        "total",
        "verdict",
    )

    def __init__(self, capacity: int, filters: int, scores: int) -> None:
        self.capacity = capacity
        #: Change log position up to which codes and verdict are right; -1: nothing evaluated yet.
        self.sequence = -1
        #: Per filter plugin: its codes, as narrow as they can be, or None when all pass.
        self.codes: list[NarrowCodes | None] = [None] * filters
        #: Per filter plugin: whether `codes` holds its answer at all.
        self.evaluated = [False] * filters
        self.filter_versions: list[tuple[int, ...]] = [()] * filters
        self.verdict: np.ndarray = np.full(capacity, NOT_A_NODE, dtype=verdict_type(filters))
        #: Rows with verdict 0, ascending; None when it must be recomputed.
        self.feasible: Rows | None = None
        #: Diagnosis groups of the current verdict, see `Search`; None when it changed.
        self.groups: Any = None
        #: The plugins that were skipped when the verdict was made.
        self.skipped: frozenset[str] = frozenset()
        #: Recorded outcome of reusable PreFilter and PreScore plugins, by plugin name.
        self.pre_filter: dict[str, Recorded] = {}
        self.pre_score: dict[str, Recorded] = {}

        self.score_ready = False
        self.score_sequence = -1
        #: Per score plugin: raw scores, or None when all are 0.
        self.raw: list[Int64Column | None] = [None] * scores
        self.scored = [False] * scores
        self.score_versions: list[tuple[int, ...]] = [()] * scores
        #: Weighted sum of the scores that need no normalisation.
        self.base: Int64Column | None = None
        self.base_dirty = True
        #: Weighted sum of the normalised scores (0 where infeasible).
        self.normalized: Int64Column | None = None
        self.normalized_dirty = True
        #: base + normalized where feasible, -1 elsewhere.
        self.total: Int64Column | None = None
        #: Rows with the highest total; None unless totals change by single rows.
        self.ties: Ties | None = None

    def feasible_rows(self) -> Rows:
        """Rows with verdict 0, ascending."""
        if self.feasible is None:
            self.feasible = np.flatnonzero(self.verdict == 0)
        return self.feasible

    @property
    def nbytes(self) -> int:
        """Bytes held by arrays."""
        arrays = [
            *self.codes,
            *self.raw,
            self.verdict,
            self.feasible,
            self.base,
            self.normalized,
            self.total,
        ]
        held = sum(array.nbytes for array in arrays if array is not None)
        return held if self.ties is None else held + self.ties.nbytes


def narrow_zeros(capacity: int, codes: Codes) -> NarrowCodes:
    """A column of the narrowest type that holds `codes`, for there may be thousands of shapes."""
    return wide_enough(np.zeros(capacity, dtype=np.int8), codes)


def wide_enough(column: NarrowCodes, codes: Codes) -> NarrowCodes:
    """`column`, or a wider copy if its type cannot hold `codes`, which must not be empty."""
    limit = _LIMITS.get(column.itemsize)
    if limit is None:
        return column
    # For one or two rows, as after an assume, plain Python is quicker than NumPy.
    values = codes.tolist() if len(codes) <= _FEW else (int(codes.min()), int(codes.max()))
    if min(values) >= 0 and max(values) <= limit:
        return column
    wider = np.int16 if limit == _LIMITS[1] else np.int32
    return wide_enough(column.astype(wider), codes)


def verdict_type(filters: int) -> np.dtype[Any]:
    """The type of `ShapeResult.verdict` for so many plugins."""
    return np.dtype(np.int8 if filters < _LIMITS[1] else np.int16)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a reusable PreFilter or PreScore answered and wrote."""

    answer: Any
    writes: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ReuseStatistics:
    """How well reuse works."""

    entries: int
    bytes: int
    hits: int
    misses: int
    evictions: int


class ShapeResults:
    """Results by key, least recently used ones dropped beyond a budget in bytes."""

    def __init__(self, budget: int = _DEFAULT_BUDGET) -> None:
        self.budget = budget
        self._entries: OrderedDict[Hashable, ShapeResult] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._bytes = 0
        self._hits = 0
        self._misses = 0
        self._evictions = 0

    def get(self, key: Hashable) -> ShapeResult | None:
        """The entry, made the most recently used one."""
        entry = self._entries.get(key)
        if entry is None:
            self._misses += 1
            return None
        self._entries.move_to_end(key)
        self._hits += 1
        return entry

    def put(self, key: Hashable, entry: ShapeResult) -> None:
        """Add an entry; its size is learnt by `settle`."""
        self._entries[key] = entry
        self._sizes[key] = 0

    def settle(self, key: Hashable) -> None:
        """Account for what an entry has grown to, and drop old entries beyond the budget."""
        entry = self._entries.get(key)
        if entry is None:
            return
        size = entry.nbytes
        self._bytes += size - self._sizes[key]
        self._sizes[key] = size
        while self._bytes > self.budget and len(self._entries) > 1:
            oldest, _ = self._entries.popitem(last=False)
            self._bytes -= self._sizes.pop(oldest)
            self._evictions += 1

    def discard(self, key: Hashable) -> None:
        """Drop an entry."""
        if self._entries.pop(key, None) is not None:
            self._bytes -= self._sizes.pop(key)

    def clear(self) -> None:
        """Drop everything."""
        self._entries.clear()
        self._sizes.clear()
        self._bytes = 0

    def statistics(self) -> ReuseStatistics:
        """Counters since start."""
        return ReuseStatistics(
            len(self._entries), self._bytes, self._hits, self._misses, self._evictions
        )
