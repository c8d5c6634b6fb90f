"""ChangeLog: which rows of the node table changed, in order, within a bounded window.

Invariant: entry `n` (1-based, ever increasing) is kept while `n > sequence - size`. A reader that
is further behind gets None and must recompute everything.
"""

from __future__ import annotations

DEFAULT_SIZE = 1 << 14


class ChangeLog:
    """A ring of (row, column groups). Written by the table's owner only."""

    __slots__ = ("_latest", "_mask", "_masks", "_rows", "sequence", "size")

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
        #: The latest answer: (from, to, answer). Filters and scores of a cycle ask alike.
        self._latest: tuple[int, int, dict[int, int]] = (0, 0, {})

    def append(self, row: int, columns: int) -> None:
        """Record that `columns` (a `Columns` mask) of `row` changed; 0: nothing columns show."""
        slot = self.sequence & self._mask
        self._rows[slot] = row
        self._masks[slot] = columns
        self.sequence += 1

    def since(self, sequence: int, most: int = 1 << 62) -> dict[int, int] | None:
        """Row to union of changed groups after entry `sequence`; None when that is too long ago.

        So it is after more than `most` entries: who would look at all rows again anyhow need not
        have them walked. To be read only: the answer may be given to others, too.
        """
        first, last, answer = self._latest
        if first == sequence and last == self.sequence:
            return answer
        behind = self.sequence - sequence
        if behind > self.size or behind > most:
            return None
        changed: dict[int, int] = {}
        rows, masks, mask = self._rows, self._masks, self._mask
        for entry in range(sequence, self.sequence):
            slot = entry & mask
            row = rows[slot]
            changed[row] = changed.get(row, 0) | masks[slot]
        self._latest = sequence, self.sequence, changed
        return changed
