"""The outcome of every candidate row in one search, and the precedence of its sources.

A row is feasible, or rejected by one filter. A rejection has one of three sources: the code that a
columnar filter returned for the row, a cached result with the row's nominated pods added, or a
Status of this search (of a scalar filter, an extender, or with nominated pods added). The sources
are set in the order of upstream's steps, and the last one takes precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.engine.diagnosis import RejectedRows
from scheduler.engine.nominated_pods_fit import NOMINATED_CODES
from scheduler.engine.result_cache import NOT_A_NODE, CachedResult, NarrowCodes
from scheduler.framework import Codes, Rows, Status

_STATUS_CODES: Final = NOMINATED_CODES + (1 << 29)
"""Codes from this one on are indices into the statuses of one search."""


class NodeStatuses:
    """Outcome of the candidate rows of one search; updated as more filters run."""

    __slots__ = (
        "_codes",
        "_nominated",
        "_replaced",
        "_statuses",
        "beside_nominated",
        "rejected_by",
        "rows",
    )

    def __init__(
        self, rows: Rows, rejected_by: np.ndarray, codes: Mapping[int, NarrowCodes]
    ) -> None:
        """Start with the results of columnar filters.

        Args:
            rows: the candidates, ascending.
            rejected_by: int[capacity], changed in place; see `CachedResult.rejected_by`.
                `NOT_A_NODE` for rows that are not candidates.
            codes: the codes of each filter, int[capacity], by filter index; filters that rejected
                nothing may be missing.
        """
        self.rows = rows
        self.rejected_by = rejected_by
        self._codes = dict(codes)
        #: int32[capacity]: a code that replaces that of the filter; 0 where nothing replaces it.
        self._replaced: Codes | None = None
        self._nominated: Sequence[Status] = ()
        #: Rejected rows that only pods nominated to them keep the pod from; set by the search.
        self.beside_nominated: Rows = np.zeros(0, dtype=np.intp)
        self._statuses: list[Status] = []

    @classmethod
    def of_entry(cls, rows: Rows, entry: CachedResult) -> NodeStatuses:
        """Start with a copy of the cached results of a signature."""
        return cls(rows, entry.rejected_by.copy(), entry_codes(entry))

    def keep(self, rows: Rows) -> None:
        """Remove all candidates but `rows`."""
        others = np.ones(len(self.rejected_by), dtype=np.bool_)
        others[rows] = False
        self.rejected_by[others] = NOT_A_NODE
        self.rows = rows

    def add_codes(self, index: int, codes: Codes) -> None:
        """Set the codes of one more columnar filter, int32[capacity]."""
        self._codes[index] = codes

    def reject(self, row: int, rejected_by: int, status: Status) -> None:
        """Reject a row with a status, by the filter of index `rejected_by` - 1."""
        self.rejected_by[row] = rejected_by
        self._replacing()[row] = _STATUS_CODES + len(self._statuses)
        self._statuses.append(status)

    def reject_nominated(
        self, rows: Rows, rejected_by: np.ndarray, codes: Codes, statuses: Sequence[Status]
    ) -> None:
        """Apply results of `NominatedPodsFit`; each call of a search passes the same `statuses`."""
        self.rejected_by[rows] = rejected_by
        self._replacing()[rows] = codes
        self._nominated = statuses

    def has_status(self, row: int) -> bool:
        """Whether `reject` was called for the row."""
        return self._replaced is not None and bool(self._replaced[row] >= _STATUS_CODES)

    def rejected(self, status_of: Callable[[int, int], Status]) -> RejectedRows:
        """Return the rejected rows for the diagnosis.

        `status_of(filter index, code)` translates a code of that filter into a status.
        """
        rows, rejected_by = self.rows, self.rejected_by[self.rows]
        rejected = rejected_by.nonzero()[0]
        if len(rejected) < len(rows):
            rows, rejected_by = rows[rejected], rejected_by[rejected]
        codes = np.zeros(len(rows), dtype=np.int32)
        for index, column in self._codes.items():
            here = (rejected_by == index + 1).nonzero()[0]
            if len(here) == len(rows):
                codes = column[rows].astype(np.int32)
            elif len(here):
                codes[here] = column[rows[here]]
        if self._replaced is not None:
            replaced = self._replaced[rows]
            codes = np.where(replaced == 0, codes, replaced)
        cached: dict[tuple[int, int], Status] = {}

        def status(index: int, code: int) -> Status:
            if code >= _STATUS_CODES:
                return self._statuses[code - _STATUS_CODES]
            if code >= NOMINATED_CODES:
                return self._nominated[code - NOMINATED_CODES]
            result = cached.get((index, code))
            if result is None:
                result = cached[index, code] = status_of(index, code)
            return result

        return RejectedRows(rows, rejected_by - 1, codes, status, self.beside_nominated)

    def _replacing(self) -> Codes:
        if self._replaced is None:
            self._replaced = np.zeros(len(self.rejected_by), dtype=np.int32)
        return self._replaced


def entry_codes(entry: CachedResult) -> dict[int, NarrowCodes]:
    """Return the codes by filter index, for the filters that rejected any row."""
    return {index: column for index, column in enumerate(entry.codes) if column is not None}
