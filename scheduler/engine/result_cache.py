"""Cached results of a pod signature; the next pod of the signature evaluates changed rows only.

All arrays have the table's capacity. `rejected_by` is, per row: 0 if feasible, i+1 if filter i was
the first to reject it, -1 if it is not a node. Invariant, proved by a property test: after
`refresh`, all results equal those of a fresh evaluation of every row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import InitVar, dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.engine.followed_scores import FollowedScores
from scheduler.engine.leaders import Leaders
from scheduler.engine.plugin_slots import FilterSlot, ScoreSlot
from scheduler.engine.ties import Ties
from scheduler.framework import SKIP, Codes, CycleState, Int64Column, Rows

Plugin = TypeVar("Plugin")

NOT_A_NODE = -1
NarrowCodes = NDArray[np.signedinteger[Any]]
"""`Codes`, possibly with a narrower dtype."""
FinalScores = NDArray[np.int8]
"""Scores after NormalizeScore, from 0 to 100."""

_LIMITS: Final = {1: 127, 2: 32767}
"""The largest code that fits in a dtype, by its number of bytes; int32 holds all codes."""
_UNMEASURED: Final = 15
"""Number of attempts between two measurements of an entry's size, which rarely changes."""
_DEFAULT_BUDGET = 64 * 1024 * 1024
_TRIAL_SHARE: Final = 16
_MAX_DROPPED: Final = 1 << 16


@dataclass(slots=True, eq=False)
class CachedResult:
    """Reusable results of one pod signature in one profile."""

    capacity: int
    filters: InitVar[int]
    scores: InitVar[int]
    #: Estimated bytes of data that plugins derived from the signature and recorded here.
    recorded_bytes: int = 0
    #: Attempts until the next measurement of `nbytes`.
    unmeasured: int = 0
    #: Change log position up to which `codes` and `rejected_by` are valid; -1: not at all.
    sequence: int = -1
    #: Per filter plugin: its codes in the narrowest dtype, or None if all rows pass.
    codes: list[NarrowCodes | None] = field(init=False)
    #: Per filter plugin: whether `codes` has its result.
    evaluated: list[bool] = field(init=False)
    filter_versions: list[tuple[int, ...]] = field(init=False)
    rejected_by: np.ndarray = field(init=False)
    #: Feasible rows, ascending; None if they must be recomputed.
    feasible: Rows | None = None
    #: The plugins that were skipped when `rejected_by` was computed (None: never), the reusable
    #: filters that were not, and `NodeTable.bumps` at that time.
    skipped: AbstractSet[str] | None = None
    filters_run: tuple[FilterSlot, ...] = ()
    filter_bumps: int = -1
    #: Recorded outcome of reusable PreFilter and PreScore plugins, by plugin name.
    pre_filter: RecordedPlugins = field(init=False)
    pre_score: RecordedPlugins = field(init=False)

    #: Names of plugins that the signature does not concern, as of `absent_revision` of the table.
    absent: frozenset[str] = frozenset()
    absent_revision: int = -1

    #: Like `sequence`, for the scores.
    score_sequence: int = -1
    #: Per score plugin: raw scores, or None if all are 0.
    raw: list[Int64Column | None] = field(init=False)
    scored: list[bool] = field(init=False)
    score_versions: list[tuple[int, ...]] = field(init=False)
    #: As `skipped`, `filters_run` and `filter_bumps`.
    skipped_scores: AbstractSet[str] | None = None
    scores_run: tuple[ScoreSlot, ...] = ()
    score_bumps: int = -1
    #: Weighted sum of the scores that are not normalised.
    base: Int64Column | None = None
    base_dirty: bool = True
    #: Weighted sum of the normalised scores of each of `normalized_rows`; None: zeros.
    normalized: Int64Column | None = None
    #: By plugin index: normalised scores of each of `normalized_rows`; missing: all are 0.
    normalized_scores: dict[int, FinalScores] = field(default_factory=dict)
    #: The feasible rows of the last cycle, over which scores were normalised.
    normalized_rows: Rows | None = None
    normalized_dirty: bool = True
    #: By plugin index: scores of plugins without reuse, for each of `normalized_rows`.
    followed: dict[int, FollowedScores] = field(default_factory=dict)
    #: base + normalized of `normalized_rows`, and `followed` if `total_follows`; -1 elsewhere.
    total: Int64Column | None = None
    total_follows: bool = False
    #: Rows with the highest total; None unless totals are updated row by row.
    ties: Ties | None = None
    #: The best rows of `leaders.totals`, and the lowest total of the best rows last searched for.
    leaders: Leaders | None = None
    lowest_of_best: int | None = None

    def __post_init__(self, filters: int, scores: int) -> None:
        self.pre_filter, self.pre_score = RecordedPlugins(), RecordedPlugins()
        self.codes, self.raw = [None] * filters, [None] * scores
        self.evaluated, self.scored = [False] * filters, [False] * scores
        self.filter_versions, self.score_versions = [()] * filters, [()] * scores
        self.rejected_by = np.full(self.capacity, NOT_A_NODE, dtype=filter_index_type(filters))

    def feasible_rows(self) -> Rows:
        """Return the feasible rows, ascending."""
        if self.feasible is None:
            # `np.flatnonzero` would add five Python calls.
            self.feasible = (self.rejected_by == 0).nonzero()[0]
            # Plugins get this array itself, not a copy.
            self.feasible.flags.writeable = False
        return self.feasible

    def feasible_within(self, within: Rows | None) -> Rows:
        """Return the feasible rows among `within` (None: all rows), ascending."""
        if within is None:
            return self.feasible_rows() if self.feasible is None else self.feasible
        found: Rows = within[self.rejected_by[within] == 0]
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, plus the estimate for recorded data of plugins."""
        own = (self.rejected_by, self.feasible, self.base, self.normalized, self.total, self.ties)
        kept = (*self.followed.values(), *own)
        held = self.recorded_bytes
        if self.normalized_rows is not None and self.normalized_rows is not self.feasible:
            held += self.normalized_rows.nbytes
        for each in (*self.codes, *self.raw, *self.normalized_scores.values(), *kept):
            if each is not None:
                held += each.nbytes
        return held


def narrow_zeros(capacity: int, codes: Codes) -> NarrowCodes:
    """Return a column of zeros of the narrowest dtype that holds `codes`.

    This saves memory, because thousands of columns may be cached.
    """
    return wide_enough(np.zeros(capacity, dtype=np.int8), codes)


def wide_enough(
    column: NarrowCodes, codes: Codes, values: Sequence[int] | None = None
) -> NarrowCodes:
    """Return `column`, or a wider copy if its dtype cannot hold `codes`, which must not be empty.

    `values` is `codes` as a list, if the caller has one.
    """
    limit = _LIMITS.get(column.itemsize)
    if limit is None:
        return column
    if values is None:
        # For short arrays this is faster than `min` and `max` of NumPy, because of call overhead.
        values = codes.item(codes.argmin()), codes.item(codes.argmax())
    if min(values) >= 0 and max(values) <= limit:
        return column
    wider = np.int16 if limit == _LIMITS[1] else np.int32
    return wide_enough(column.astype(wider), codes, values)


def filter_index_type(filters: int) -> np.dtype[Any]:
    """Return the dtype of `CachedResult.rejected_by` for that number of filters."""
    return np.dtype(np.int8 if filters < _LIMITS[1] else np.int16)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The result of a reusable PreFilter or PreScore, and its writes to the cycle state."""

    result: Any
    writes: tuple[tuple[str, Any], ...]


class RecordedPlugins(dict[str, Recorded]):
    """The recorded results of PreFilter or PreScore plugins by name, with a summary.

    Most plugins skip most pods, so replaying the summary replaces most single replays.
    """

    __slots__ = ("left", "skipped", "writes")

    def __init__(self) -> None:
        super().__init__()
        #: Plugins that must run for each pod; None: there is no summary (see `sum_up`).
        self.left: tuple[Any, ...] | None = None
        #: The summary: names of the plugins that skipped the pod, and the writes of all of them.
        self.skipped: set[str] = set()
        self.writes: dict[str, Any] = {}

    def replay(
        self, plugins: tuple[Plugin, ...], skipped: set[str], state: CycleState
    ) -> tuple[Plugin, ...]:
        """Apply the summary to the next pod; return those of `plugins` that must still run."""
        if self.left is None:
            return plugins
        skipped |= self.skipped
        state.data.update(self.writes)
        return self.left

    def sum_up(self, plugins: Sequence[Any]) -> None:
        """Build the summary, unless a recorded result of `plugins` is more than a Skip."""
        if self.left is not None:
            return
        left = []
        skipped: set[str] = set()
        writes: dict[str, Any] = {}
        for plugin in plugins:
            record = self.get(plugin.name)
            if record is None:
                left.append(plugin)
                continue
            if record.result is SKIP:
                skipped.add(plugin.name)
            elif record.result is not None:
                return
            writes.update(record.writes)
        self.left, self.skipped, self.writes = tuple(left), skipped, writes


@dataclass(frozen=True, slots=True)
class ReuseStatistics:
    """Size of the cache, and its hits, misses and evictions since the start."""

    entries: int
    bytes: int
    hits: int
    misses: int
    evictions: int


class ResultCache:
    """Cached results by key (signature), limited by bytes.

    Entries begin in a probationary segment (as in a segmented LRU cache): the signature of a pod
    that contains a name of its own (a claim, a host) is never seen again, and must not evict
    entries that are in use. The segment holds the newest entry, and older ones up to a sixteenth of
    the budget. An entry that a second pod uses moves to the main segment, from which the least
    recently used entry is evicted first. The cache also remembers the pods of evicted entries, so
    that signatures which alternate are kept from their second pod on.
    """

    def __init__(self, budget: int = _DEFAULT_BUDGET) -> None:
        self.budget = budget
        self._kept: OrderedDict[Hashable, CachedResult] = OrderedDict()
        self._trial: OrderedDict[Hashable, CachedResult] = OrderedDict()
        #: Key to pod UID, of probationary entries and of evicted ones (oldest first).
        self._owners: dict[Hashable, str] = {}
        self._dropped: OrderedDict[Hashable, str] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._bytes = 0
        self._trial_bytes = 0
        self._hits = 0
        self._misses = 0
        self._evictions = 0

    def get(self, key: Hashable, pod: str) -> CachedResult | None:
        """Return the entry for a pod with the UID `pod`, and mark it as most recently used."""
        entry = self._kept.get(key)
        if entry is not None:
            self._kept.move_to_end(key)
            self._hits += 1
            return entry
        entry = self._trial.get(key)
        if entry is None:
            self._misses += 1
            return None
        self._hits += 1
        if self._owners[key] == pod:
            self._trial.move_to_end(key)
        else:
            del self._trial[key], self._owners[key]
            self._trial_bytes -= self._sizes[key]
            self._kept[key] = entry
        return entry

    def put(self, key: Hashable, entry: CachedResult, pod: str) -> None:
        """Add an entry for the pod with the UID `pod`; `settle` accounts for its size."""
        if self._dropped.pop(key, pod) == pod:
            self._trial[key] = entry
            self._owners[key] = pod
        else:
            self._kept[key] = entry
        self._sizes[key] = 0

    def settle(self, key: Hashable) -> None:
        """Update the accounted size of an entry, and evict old entries beyond the budget.

        An entry in the main segment is measured only now and then.
        """
        trial = self._trial.get(key)
        entry = self._kept.get(key) if trial is None else trial
        if entry is None:
            return
        if trial is None:
            if entry.unmeasured:
                entry.unmeasured -= 1
                return
            entry.unmeasured = _UNMEASURED
        size = entry.nbytes
        more = size - self._sizes[key]
        self._sizes[key] = size
        self._bytes += more
        if trial is not None:
            self._trial_bytes += more
            while self._trial_bytes > self.budget // _TRIAL_SHARE and len(self._trial) > 1:
                self._evict(self._trial)
        while self._bytes > self.budget and len(self._sizes) > 1:
            # This never evicts the entry just settled, which is the newest of its segment.
            self._evict(self._kept if len(self._kept) > (trial is None) else self._trial)

    def _evict(self, entries: OrderedDict[Hashable, CachedResult]) -> None:
        self.discard(next(iter(entries)))
        self._evictions += 1

    def discard(self, key: Hashable) -> None:
        """Drop an entry."""
        size = self._sizes.pop(key, None)
        if size is None:
            return
        self._bytes -= size
        if self._kept.pop(key, None) is None:
            del self._trial[key]
            self._trial_bytes -= size
        # An entry that several pods used has no single owner.
        self._dropped[key] = self._owners.pop(key, "")
        if len(self._dropped) > _MAX_DROPPED:
            self._dropped.popitem(last=False)

    def clear(self) -> None:
        """Drop everything."""
        for entries in (self._kept, self._trial, self._owners, self._dropped, self._sizes):
            entries.clear()
        self._bytes = self._trial_bytes = 0

    def statistics(self) -> ReuseStatistics:
        """Return the size and the counters since the start."""
        return ReuseStatistics(
            len(self._sizes), self._bytes, self._hits, self._misses, self._evictions
        )
