"""Outcomes: results of dry runs on single nodes, kept in a `RowCache`.

Preemptors come in bursts from one template, and between two of them one node changes, and the
status of a disruption budget. An outcome depends on the pod's kind, on its node, on named versions
and on disruption budgets.
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
    """Result of the dry run by row. Victims may be older objects of the same pods."""

    __slots__ = ("_budgets", "_by_row", "_claimed", "_claims", "rejected")

    def __init__(self, capacity: int) -> None:
        self._by_row: dict[int, Candidate | Status] = {}
        #: Of rows whose outcome depends on a budget: the claims of the possible victims.
        self._claims: dict[int, Claims] = {}
        #: The same by selection of budgets.
        self._claimed: dict[Selection, dict[int, int]] = {}
        #: By row: whether it is known that removing victims does not help. To be read only.
        self.rejected: BoolColumn = np.zeros(capacity, dtype=np.bool_)
        self._budgets: DisruptionBudgets | None = None

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

    def follow(self, budgets: DisruptionBudgets) -> None:
        """Drop the outcomes that no longer hold with the present budgets."""
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
