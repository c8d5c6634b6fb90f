"""Rows that pods are nominated to, and results of filters with those pods added.

In a burst of preemptors nearly every node has a nomination, and each attempt filters all of
them. So the rows that matter are a column, and the result for a kind of pod is kept until something
on the node, its nominations included, changes.

Invariant: both follow the change log of the node table; the owner of the nominations writes to it
(`NodeTable.note_nominations`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.framework import Codes, Columns, Int64Column, Nominator, Rows, Status

MAX_KINDS: Final = 64
"""Kinds of pods whose results are kept; the least recently used one is dropped first."""

NOMINATED_CODES: Final = 1 << 30
"""Codes from here on stand for statuses found out here; no plugin's code is that high."""

_NOBODY: Final = np.iinfo(np.int64).min
_CONCERNS: Final = int(Columns.NOMINATIONS | Columns.EXISTENCE)
_UNKNOWN: Final = -1
_NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)
_MAX_STATUSES: Final = 4096


def nominated_pods(nominator: Nominator, node_name: str, priority: int, uid: str) -> list[Pod]:
    """Return the pods nominated to a node with that priority or a higher one, except `uid`."""
    return [
        pod
        for pod in nominator.nominated_pods_for_node(node_name)
        if pod.priority >= priority and pod.metadata.uid != uid
    ]


class NominatedRows:
    """The highest priority nominated to every row."""

    __slots__ = ("_highest", "_nominator", "_sequence", "_table")

    def __init__(self, table: NodeTable, nominator: Nominator) -> None:
        self._table = table
        self._nominator = nominator
        self._sequence = -1
        self._highest: Int64Column = np.zeros(0, dtype=np.int64)

    def at_least(self, priority: int, uid: str) -> Rows:
        """Return rows with nominated pods of that priority or a higher one, except `uid`."""
        if not self._nominator.nominated_nodes():
            # The usual case; `_catch_up` reads the change log later.
            return _NO_ROWS
        self._catch_up()
        rows: Rows = np.flatnonzero(self._highest >= priority)
        own = self.own_row(uid)
        if own is not None and not self.pods(own, priority, uid):
            rows = rows[rows != own]
        return rows

    def own_row(self, uid: str) -> int | None:
        """Return the row that the pod `uid` is nominated to, or None."""
        name = self._nominator.node_of(uid)
        return self._table.row_of(name) if name else None

    def pods(self, row: int, priority: int, uid: str) -> list[Pod]:
        """Return the pods nominated to a row with that priority or a higher one, except `uid`."""
        return nominated_pods(self._nominator, self._table.names[row], priority, uid)

    def _catch_up(self) -> None:
        table = self._table
        if self._sequence == table.sequence:
            return
        changes = None
        if len(self._highest) == table.capacity and self._sequence >= 0:
            changes = table.change_log.since(self._sequence)
        if changes is None:
            self._highest = np.full(table.capacity, _NOBODY, dtype=np.int64)
            for name in self._nominator.nominated_nodes():
                row = table.row_of(name)
                if row is not None:
                    self._look_at(row)
        else:
            for row, columns in changes.items():
                if columns & _CONCERNS:
                    self._look_at(row)
        self._sequence = table.sequence

    def _look_at(self, row: int) -> None:
        name = self._table.names[row]
        pods = () if not name else self._nominator.nominated_pods_for_node(name)
        self._highest[row] = max((pod.priority for pod in pods), default=_NOBODY)


class NominatedPodsFit:
    """Results of filters on nominated rows for one kind of pod, with the nominated pods added."""

    __slots__ = ("_codes", "_known", "_rejected_by", "revision", "sequence", "statuses")

    def __init__(self, capacity: int) -> None:
        self.sequence = -1
        self.revision: tuple[int, ...] = ()
        #: By row: 0 feasible, i+1 rejected first by filter i, `_UNKNOWN`.
        self._rejected_by = np.full(capacity, _UNKNOWN, dtype=np.int16)
        #: By row: `NOMINATED_CODES` plus an index of `statuses` where rejected.
        self._codes: Codes = np.zeros(capacity, dtype=np.int32)
        self.statuses: list[Status] = []
        self._known: dict[tuple[object, ...], int] = {}

    @property
    def capacity(self) -> int:
        """Number of rows, as the table's capacity."""
        return len(self._rejected_by)

    def forget(self, rows: Rows | None = None) -> None:
        """Drop the results of these rows; None: of all."""
        if rows is not None:
            self._rejected_by[rows] = _UNKNOWN
            return
        self._rejected_by.fill(_UNKNOWN)
        # A new list, because a diagnosis may still hold the old one.
        self.statuses, self._known = [], {}

    def unknown(self, rows: Rows) -> list[int]:
        """Return those rows that have no result yet."""
        found: list[int] = rows[self._rejected_by[rows] == _UNKNOWN].tolist()
        return found

    def note(self, row: int, filter_index: int, status: Status | None) -> None:
        """Keep the result for a row: None, or a rejection by the filter of that index."""
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
        index = self._known.get(key)
        if index is None:
            index = self._known[key] = len(self.statuses)
            self.statuses.append(status)
        self._rejected_by[row] = filter_index + 1
        self._codes[row] = NOMINATED_CODES + index

    def results(self, rows: Rows) -> tuple[np.ndarray, Codes]:
        """Return (rejected_by, code) of rows that have a result."""
        return self._rejected_by[rows], self._codes[rows]


class NominatedFilterCache:
    """`NominatedPodsFit` by kind of pod."""

    __slots__ = ("_kinds", "_table")

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._kinds: OrderedDict[Hashable, NominatedPodsFit] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kinds)

    def recall(self, kind: Hashable, versions: tuple[int, ...] = ()) -> NominatedPodsFit:
        """Return the results that still hold for pods of a kind.

        `versions` are those that filters name; they and the table's revision must be as they were.
        """
        table = self._table
        revision = (table.revision, *versions)
        known = self._kinds.get(kind)
        if known is None or known.capacity != table.capacity:
            known = self._kinds[kind] = NominatedPodsFit(table.capacity)
            if len(self._kinds) > MAX_KINDS:
                self._kinds.popitem(last=False)
        elif known.revision != revision:
            known.forget()
        elif known.sequence != table.sequence:
            # Not before: a search recalls twice, and its codes stand for statuses of one list.
            full = len(known.statuses) > _MAX_STATUSES
            changes = None if full else table.change_log.since(known.sequence)
            known.forget(None if changes is None else np.fromiter(changes, dtype=np.intp))
        known.sequence, known.revision = table.sequence, revision
        self._kinds.move_to_end(kind)
        return known
