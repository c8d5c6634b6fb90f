"""DryRunMemory: what dry runs found on single nodes, until something on the node changes.

Preemptors come in bursts from one template, and between two of them one node changes. Whoever
remembers must make sure that the outcome depends on the pod's kind (the key), on that node and on
named versions alone; nominations are part of the node.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.cache import NodeTable
from scheduler.framework import BoolColumn, Status
from scheduler.framework.preemption import Candidate

MOST_KINDS: Final = 64
"""Kinds of pods remembered; the one used longest ago goes first."""


class Outcomes:
    """Row to what a dry run of that node came to."""

    __slots__ = ("_by_row", "refused")

    def __init__(self, capacity: int) -> None:
        self._by_row: dict[int, Candidate | Status] = {}
        #: By row: whether it is known that removing victims does not help. To be read only.
        self.refused: BoolColumn = np.zeros(capacity, dtype=np.bool_)

    def get(self, row: int) -> Candidate | Status | None:
        """The outcome, if known."""
        return self._by_row.get(row)

    def note(self, row: int, outcome: Candidate | Status) -> None:
        """Remember an outcome."""
        self._by_row[row] = outcome
        self.refused[row] = isinstance(outcome, Status)

    def drop(self, rows: Iterable[int]) -> None:
        """Nothing is known of these rows any more."""
        for row in rows:
            if self._by_row.pop(row, None) is not None:
                self.refused[row] = False


@dataclass(slots=True)
class _Remembered:
    sequence: int
    revision: int
    outcomes: Outcomes


class DryRunMemory:
    """Outcomes by kind of pod and row. Victims may be older objects of the same pods."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._kinds: OrderedDict[Hashable, _Remembered] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kinds)

    def recall(self, kind: Hashable) -> Outcomes:
        """What is still true for pods of a kind; the caller adds what it finds out."""
        table = self._table
        known = self._kinds.get(kind)
        changes = None
        if (
            known is not None
            and known.revision == table.revision
            and len(known.outcomes.refused) == table.capacity
        ):
            changes = table.log.since(known.sequence)
        if known is None or changes is None:
            outcomes = Outcomes(table.capacity)
            known = self._kinds[kind] = _Remembered(table.sequence, table.revision, outcomes)
            if len(self._kinds) > MOST_KINDS:
                self._kinds.popitem(last=False)
            changes = {}
        known.outcomes.drop(changes)
        known.sequence = table.sequence
        self._kinds.move_to_end(kind)
        return known.outcomes
