"""ChangeLog: the rows of the node table that changed, in order, within a bounded window.

Invariant: entry `n` (1-based, ever increasing) is kept while `n > sequence - size`. A reader that
is further behind gets None and must evaluate every row again.
"""

from __future__ import annotations

import numpy as np

from scheduler.framework.nodes import BoolColumn, Rows

DEFAULT_SIZE = 1 << 14
_MAX_SPANS = 4
"""Maximum number of results of `since` that are cached for other readers."""
_NO_ROWS: Rows = np.empty(0, dtype=np.intp)
_NO_ROWS.flags.writeable = False

PickedRows = tuple[list[int], Rows]
"""The same rows as a list and as an array."""


class Changes(dict[int, int]):
    """Maps each row that changed in a span of the log to the union of its changed groups.

    Readers share it, so it must not be modified.
    """

    __slots__ = ("_picked", "anywhere", "everywhere")

    def __init__(self, masks: dict[int, int], anywhere: int, everywhere: int) -> None:
        super().__init__(masks)
        #: The groups in which any row changed, and those in which every row of the span changed.
        self.anywhere, self.everywhere = anywhere, everywhere
        #: Cached results of `picked`, by the requested groups that are in `anywhere`.
        self._picked: dict[int, PickedRows] = {}

    def picked(self, columns: int, valid: BoolColumn) -> PickedRows:
        """Return the rows that are nodes and changed in one of the groups.

        The result is cached, since most filters and scores read the same groups. `valid` must not
        change within a span.
        """
        columns &= self.anywhere
        if not columns:
            return [], _NO_ROWS
        known = self._picked.get(columns)
        if known is None:
            if columns & self.everywhere:
                rows = list(self)
            else:
                rows = [row for row, mask in self.items() if mask & columns]
            index = np.array(rows, dtype=np.intp)
            nodes = valid[index]
            if len(nodes.nonzero()[0]) != len(rows):
                index = index[nodes]
                rows = index.tolist()
            # Plugins get this array itself, not a copy.
            index.flags.writeable = False
            known = self._picked[columns] = rows, index
        return known


class ChangeLog:
    """A ring of (row, column groups). Written by the table's owner only."""

    def __init__(self, size: int = DEFAULT_SIZE) -> None:
        if size & (size - 1):
            msg = f"change log size must be a power of two, not {size}"
            raise ValueError(msg)
        self.size = size
        self._mask = size - 1
        self._rows = [0] * size
        self._masks = [0] * size
        #: Number of entries ever written.
        self.sequence = 0
        #: Cached results by first entry, all up to `_read_to`. Filters and scores of a cycle read
        #: the same span, and caches of plugins read another one in between.
        self._spans: dict[int, Changes] = {}
        self._read_to = 0

    def append(self, row: int, columns: int) -> None:
        """Record a change of `columns` (a `Columns` mask) of `row`; 0: a change in no column."""
        slot = self.sequence & self._mask
        self._rows[slot] = row
        self._masks[slot] = columns
        self.sequence += 1

    @property
    def newest(self) -> tuple[int, int]:
        """Row and column groups of the newest entry; the log must not be empty."""
        slot = (self.sequence - 1) & self._mask
        return self._rows[slot], self._masks[slot]

    def since(self, sequence: int, most: int = 1 << 62) -> Changes | None:
        """Map each row changed after entry `sequence` to the union of its changed groups.

        None if the log does not reach back that far, or if there are more than `most` entries: a
        caller that would then evaluate all rows anyway need not have them read. Callers share the
        result; do not modify it.
        """
        if self._read_to != self.sequence or len(self._spans) > _MAX_SPANS:
            self._read_to = self.sequence
            self._spans = {}
        known = self._spans.get(sequence)
        if known is not None:
            return known
        behind = self.sequence - sequence
        if behind > self.size or behind > most:
            return None
        first, last = sequence & self._mask, self.sequence & self._mask
        if first <= last and behind < self.size:
            rows, masks = self._rows[first:last], self._masks[first:last]
        else:
            rows = self._rows[first:] + self._rows[:last]
            masks = self._masks[first:] + self._masks[:last]
        if behind and masks.count(masks[0]) == behind:
            # The usual case, when only pods come and go: all masks are equal, so a set suffices.
            mask = masks[0]
            found = Changes(dict.fromkeys(set(rows), mask), mask, mask)
        else:
            found = _union(rows, masks)
        self._spans[sequence] = found
        return found


def _union(rows: list[int], masks: list[int]) -> Changes:
    """Return each of `rows` with the union of its masks."""
    changed = dict(zip(rows, masks, strict=True))
    if len(changed) < len(rows):
        # Some rows occur more than once.
        changed = {}
        for row, mask in zip(rows, masks, strict=True):
            changed[row] = changed.get(row, 0) | mask
    anywhere = everywhere = 0
    for index, mask in enumerate(set(changed.values())):
        anywhere |= mask
        everywhere = everywhere & mask if index else mask
    return Changes(changed, anywhere, everywhere)
