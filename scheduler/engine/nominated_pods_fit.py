"""Rows with nominated pods, and the results of filters with these pods added.

In a burst of preemptors nearly every node has a nominated pod, and each attempt must filter all
these nodes. So the nominated priorities are a column, and the result for a kind of pod is cached
(`RowCache`) until the node or its nominations change.

Invariant: both are updated from the change log of the node table, to which the owner of the
nominations writes (`NodeTable.note_nominations`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.framework import Codes, Columns, Int64Column, Nominator, Rows, Status

NOMINATED_CODES: Final = 1 << 30
"""Codes from this one on are indices into `NominatedPodsFit.statuses`; plugins' are lower."""

_NO_PRIORITY: Final = np.iinfo(np.int64).min
_NOMINATION_COLUMNS: Final = int(Columns.NOMINATIONS | Columns.EXISTENCE)
_UNKNOWN: Final = -1
_NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)
_MAX_STATUSES: Final = 4096


def nominated_pods(nominator: Nominator, node_name: str, priority: int, uid: str) -> list[Pod]:
    """Return the pods nominated to a node with at least `priority`, except the pod `uid`."""
    return [
        pod
        for pod in nominator.nominated_pods_for_node(node_name)
        if pod.priority >= priority and pod.metadata.uid != uid
    ]


class NominatedRows:
    """The highest priority of the pods nominated to each row."""

    __slots__ = ("_highest", "_nominator", "_sequence", "_table")

    def __init__(self, table: NodeTable, nominator: Nominator) -> None:
        self._table = table
        self._nominator = nominator
        self._sequence = -1
        self._highest: Int64Column = np.zeros(0, dtype=np.int64)

    def at_least(self, priority: int, uid: str) -> Rows:
        """Return rows with a nominated pod of at least `priority`, other than the pod `uid`."""
        if not self._nominator.nominated_nodes():
            # The usual case. The change log is read when there are nominations again.
            return _NO_ROWS
        self._catch_up()
        rows: Rows = np.flatnonzero(self._highest >= priority)
        own = self.own_row(uid)
        if own is not None and not self.pods(own, priority, uid):
            rows = rows[rows != own]
        return rows

    def own_row(self, uid: str) -> int | None:
        """Return the row to which the pod `uid` is nominated, or None."""
        name = self._nominator.node_of(uid)
        return self._table.row_of(name) if name else None

    def pods(self, row: int, priority: int, uid: str) -> list[Pod]:
        """Return the pods nominated to a row with at least `priority`, except the pod `uid`."""
        return nominated_pods(self._nominator, self._table.names[row], priority, uid)

    def _catch_up(self) -> None:
        table = self._table
        if self._sequence == table.sequence:
            return
        changes = None
        if len(self._highest) == table.capacity and self._sequence >= 0:
            changes = table.change_log.since(self._sequence)
        if changes is None:
            self._highest = np.full(table.capacity, _NO_PRIORITY, dtype=np.int64)
            for name in self._nominator.nominated_nodes():
                row = table.row_of(name)
                if row is not None:
                    self._update_row(row)
        else:
            for row, columns in changes.items():
                if columns & _NOMINATION_COLUMNS:
                    self._update_row(row)
        self._sequence = table.sequence

    def _update_row(self, row: int) -> None:
        name = self._table.names[row]
        pods = () if not name else self._nominator.nominated_pods_for_node(name)
        self._highest[row] = max((pod.priority for pod in pods), default=_NO_PRIORITY)


class NominatedPodsFit:
    """Filter results of one kind of pod, for rows with their nominated pods added."""

    __slots__ = ("_codes", "_index_of", "_rejected_by", "statuses")

    def __init__(self, capacity: int) -> None:
        #: By row: 0 if feasible, i+1 if filter i was the first to reject it, or `_UNKNOWN`.
        self._rejected_by = np.full(capacity, _UNKNOWN, dtype=np.int16)
        #: By row, if rejected: `NOMINATED_CODES` plus an index into `statuses`.
        self._codes: Codes = np.zeros(capacity, dtype=np.int32)
        self.statuses: list[Status] = []
        self._index_of: dict[tuple[object, ...], int] = {}

    def forget(self, rows: Collection[int]) -> None:
        """Drop the results of these rows; of all rows if there are too many statuses."""
        if len(self.statuses) <= _MAX_STATUSES:
            self._rejected_by[np.fromiter(rows, dtype=np.intp)] = _UNKNOWN
            return
        self._rejected_by.fill(_UNKNOWN)
        # A new list, because a diagnosis may still hold the old one.
        self.statuses, self._index_of = [], {}

    def unknown(self, rows: Rows) -> list[int]:
        """Return those rows that have no result yet."""
        found: list[int] = rows[self._rejected_by[rows] == _UNKNOWN].tolist()
        return found

    def note(self, row: int, filter_index: int, status: Status | None) -> None:
        """Store the result of a row: None, or the rejection by the filter with this index."""
        if status is None:
            self._rejected_by[row] = 0
            return
        key = (
            status.plugin,
            status.code,
            status.reasons,
            status.requeue_after,
            status.condition_reason,
            status.skip_post_filter,
            status.error,
        )
        index = self._index_of.get(key)
        if index is None:
            index = self._index_of[key] = len(self.statuses)
            self.statuses.append(status)
        self._rejected_by[row] = filter_index + 1
        self._codes[row] = NOMINATED_CODES + index

    def results(self, rows: Rows) -> tuple[np.ndarray, Codes]:
        """Return (rejected_by, code) of rows that have a result."""
        return self._rejected_by[rows], self._codes[rows]
