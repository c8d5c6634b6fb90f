"""Tie rules: the choice among nodes whose totals are equal.

Each profile has one (`kubestow.tieBreaking`). It chooses among the nodes with the highest total,
and among all feasible nodes if the profile has no Score plugins. It is not used for candidates of
preemption, which have their own criteria.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from scheduler.cache import NodeTable
from scheduler.framework import RandomSource, Rows

TieRule = Callable[[Sequence[int] | Rows], int]
"""`rule(rows)` returns one of `rows`: at least two rows in ascending order."""

RANDOM: Final = "Random"
NODE_NAME: Final = "NodeName"


def tie_rule(name: str, table: NodeTable, random: RandomSource) -> TieRule:
    """Return the rule that the configuration calls `name`."""
    return FirstByName(table) if name == NODE_NAME else _at_random(random)


def _at_random(random: RandomSource) -> TieRule:
    return lambda rows: int(rows[random.randrange(len(rows))])


class FirstByName:
    """Chooses the node with the smallest name, comparing code points."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        #: The node rows for which ranks were computed last, and the ranks by row.
        self._rows: Rows | None = None
        self._ranks = np.zeros(0, dtype=np.int64)

    def __call__(self, rows: Sequence[int] | Rows) -> int:
        """Return the row of the smallest name."""
        table = self._table
        if self._rows is not table.rows:  # A new array whenever nodes are added or deleted.
            self._rank()
        return int(rows[int(self._ranks[np.asarray(rows)].argmin())])

    def _rank(self) -> None:
        self._rows, names = self._table.rows, self._table.names
        ordered = sorted(self._rows.tolist(), key=names.__getitem__)
        self._ranks = np.zeros(self._table.capacity, dtype=np.int64)
        self._ranks[ordered] = np.arange(len(ordered))
