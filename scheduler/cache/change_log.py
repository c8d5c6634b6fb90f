"""ChangeLog: the rows of the node table that changed, in order, within a bounded window.

Invariant: entry `n` (1-based, ever increasing) is kept while `n > sequence - size`. A reader that
is further behind gets None and must evaluate every row again.
"""

from __future__ import annotations

DEFAULT_SIZE = 1 << 14


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
        #: The last result: (from, to, rows). All filters and scores of a cycle read the same span.
        self._latest: tuple[int, int, dict[int, int]] = (0, 0, {})

    def append(self, row: int, columns: int) -> None:
        """Record a change of `columns` (a `Columns` mask) of `row`; 0: a change in no column."""
        slot = self.sequence & self._mask
        self._rows[slot] = row
        self._masks[slot] = columns
        self.sequence += 1

    def since(self, sequence: int, most: int = 1 << 62) -> dict[int, int] | None:
        """Map each row changed after entry `sequence` to the union of its changed groups.

        None if the log does not reach back so far, or if there are more than `most` entries: a
        caller that would then evaluate all rows anyway saves the walk. The result is shared between
        callers; do not modify it.
        """
        first, last, changed = self._latest
        if first == sequence and last == self.sequence:
            return changed
        behind = self.sequence - sequence
        if behind > self.size or behind > most:
            return None
        changed = {}
        rows, masks, mask = self._rows, self._masks, self._mask
        for entry in range(sequence, self.sequence):
            slot = entry & mask
            row = rows[slot]
            changed[row] = changed.get(row, 0) | masks[slot]
        self._latest = sequence, self.sequence, changed
        return changed
