"""DryRunCache: results of dry runs on single nodes, until something on the node changes.

Preemptors come in bursts from one template, and between two of them one node changes, and the
status of a disruption budget. The caller makes sure that the outcome depends on the
pod's kind (the key), on that node, on budgets and on named versions alone; nominations are part of
the node.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.cache import NodeTable
from scheduler.engine.preemption.disruption_budgets import (
    NO_CLAIMS,
    UNLIMITED,
    Claims,
    DisruptionBudgets,
    Selection,
)
from scheduler.framework import BoolColumn, Int64Column, Status
from scheduler.framework.preemption import Candidate

MAX_KINDS: Final = 64
"""Kinds of pods kept; the least recently used one is dropped first."""


class Outcomes:
    """Row to what a dry run of that node came to."""

    __slots__ = ("_by_row", "_claimed", "_claims", "rejected")

    def __init__(self, capacity: int) -> None:
        self._by_row: dict[int, Candidate | Status] = {}
        #: Of rows whose outcome depends on a budget: the claims of the possible victims.
        self._claims: dict[int, Claims] = {}
        #: The same by selection of budgets.
        self._claimed: dict[Selection, dict[int, int]] = {}
        #: By row: whether it is known that removing victims does not help. To be read only.
        self.rejected: BoolColumn = np.zeros(capacity, dtype=np.bool_)

    def get(self, row: int) -> Candidate | Status | None:
        """Return the outcome, if known."""
        return self._by_row.get(row)

    def note(self, row: int, outcome: Candidate | Status, claims: Claims = NO_CLAIMS) -> None:
        """Remember an outcome, and what the possible victims claimed of budgets."""
        self._by_row[row] = outcome
        if claims:
            self._claims[row] = claims
            for selection, count in claims.items():
                self._claimed.setdefault(selection, {})[row] = count
        self.rejected[row] = isinstance(outcome, Status)

    def drop(self, rows: Iterable[int]) -> None:
        """Drop the outcomes of these rows."""
        for row in rows:
            if self._by_row.pop(row, None) is not None:
                self.rejected[row] = False
                for selection in self._claims.pop(row, ()):
                    rows = self._claimed[selection]
                    del rows[row]
                    if not rows:
                        del self._claimed[selection]

    def claiming_more(self, limits: Int64Column) -> list[int]:
        """Return rows that may have more claims on a budget than its entry of `limits`.

        Where pods of one row are under different selections, a row is returned as soon as their
        sum exceeds the lowest limit, whichever of the pods that budget selects.
        """
        claims: dict[int, int] = {}
        lowest: dict[int, int] = {}
        for selection, rows in self._claimed.items():
            limit = int(limits[selection.indices].min())
            if limit == UNLIMITED:
                continue
            for row, count in rows.items():
                claims[row] = claims.get(row, 0) + count
                lowest[row] = min(lowest.get(row, limit), limit)
        return [row for row, count in claims.items() if count > lowest[row]]


@dataclass(slots=True)
class _Remembered:
    sequence: int
    revision: tuple[int, ...]
    budgets: DisruptionBudgets
    outcomes: Outcomes


class DryRunCache:
    """Outcomes by kind of pod and row. Victims may be older objects of the same pods."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._kinds: OrderedDict[Hashable, _Remembered] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kinds)

    def recall(
        self, kind: Hashable, budgets: DisruptionBudgets, versions: tuple[int, ...] = ()
    ) -> Outcomes:
        """Return the outcomes that still hold for pods of a kind; the caller adds new ones.

        `versions` are those that filters name; they and the table's revision must be as they were.
        """
        table = self._table
        revision = (table.revision, *versions)
        known = self._kinds.get(kind)
        stale = None
        if known is not None and known.revision == revision:
            stale = self._stale(known, budgets)
        if known is None or stale is None:
            known = self._kinds[kind] = _Remembered(
                table.sequence, revision, budgets, Outcomes(table.capacity)
            )
            if len(self._kinds) > MAX_KINDS:
                self._kinds.popitem(last=False)
            stale = ()
        known.outcomes.drop(stale)
        known.sequence, known.budgets = table.sequence, budgets
        self._kinds.move_to_end(kind)
        return known.outcomes

    def _stale(self, known: _Remembered, budgets: DisruptionBudgets) -> Iterable[int] | None:
        """Return rows whose outcomes may no longer hold; None: all rows."""
        table = self._table
        if len(known.outcomes.rejected) != table.capacity:
            return None
        changes = table.change_log.since(known.sequence)
        if changes is None or known.budgets is budgets:
            return changes
        limits = budgets.limits_since(known.budgets)
        return None if limits is None else (*changes, *known.outcomes.claiming_more(limits))
