"""Outcomes: results of dry runs on single nodes, cached in a `RowCache`.

Preemptors often come in bursts of one template; from one to the next only one node and the status
of a disruption budget change. An outcome depends on the kind of pod, the node, named versions and
disruption budgets.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from scheduler.engine.preemption.disruption_budgets import (
    NO_CLAIMS,
    UNLIMITED,
    Claims,
    DisruptionBudgets,
    Selection,
)
from scheduler.framework import BoolColumn, Int64Column, Status
from scheduler.framework.preemption import Candidate


class Outcomes:
    """Results of dry runs by row. Victims may be older versions of the same pods."""

    __slots__ = ("_budgets", "_by_row", "_claimed", "_claims", "rejected")

    def __init__(self, capacity: int) -> None:
        self._by_row: dict[int, Candidate | Status] = {}
        #: By row whose outcome depends on budgets: the claims of its potential victims.
        self._claims: dict[int, Claims] = {}
        #: The number of claims by selection of budgets, then by row.
        self._claimed: dict[Selection, dict[int, int]] = {}
        #: By row: whether evicting all victims is known not to help. Read-only for callers.
        self.rejected: BoolColumn = np.zeros(capacity, dtype=np.bool_)
        self._budgets: DisruptionBudgets | None = None

    def get(self, row: int) -> Candidate | Status | None:
        """Return the outcome of a row; None if unknown."""
        return self._by_row.get(row)

    def note(self, row: int, outcome: Candidate | Status, claims: Claims = NO_CLAIMS) -> None:
        """Store an outcome, and the claims of the row's potential victims on budgets."""
        self._by_row[row] = outcome
        if claims:
            self._claims[row] = claims
            for selection, count in claims.items():
                self._claimed.setdefault(selection, {})[row] = count
        self.rejected[row] = isinstance(outcome, Status)

    def follow(self, budgets: DisruptionBudgets) -> None:
        """Drop the outcomes that are no longer valid with these budgets."""
        if budgets is not self._budgets:
            limits = None if self._budgets is None else budgets.limits_since(self._budgets)
            self.forget(list(self._by_row) if limits is None else self.claiming_more(limits))
            self._budgets = budgets

    def forget(self, rows: Collection[int]) -> None:
        """Drop the outcomes of these rows."""
        for row in rows:
            if self._by_row.pop(row, None) is not None:
                self.rejected[row] = False
                for selection in self._claims.pop(row, ()):
                    claimed = self._claimed[selection]
                    del claimed[row]
                    if not claimed:
                        del self._claimed[selection]

    def claiming_more(self, limits: Int64Column) -> list[int]:
        """Return the rows that may have more claims on a budget than its entry in `limits`.

        If pods of a row have different selections, the sum of their claims is compared with the
        lowest limit, so some rows may be returned needlessly.
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
