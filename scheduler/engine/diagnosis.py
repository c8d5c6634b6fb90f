"""Diagnosis of a pod that fits nowhere: statuses by node, and the FailedScheduling text.

The statuses of thousands of nodes are kept as (plugin, code) pairs in arrays. A Status is built
once per distinct pair, and a map from node names to statuses only if a PostFilter plugin reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from scheduler.framework import Code, NodeTableView, NodeToStatus, Rows, Status
from scheduler.framework.nodes import Codes
from scheduler.sanitizing.exceptions import error_text

_FEW_CODES: Final = 1024
"""If all codes are below this, an array of counters replaces sorting."""


@dataclass(slots=True)
class RejectedRows:
    """The rejected rows of one search: the filter that rejected each, and with which code."""

    rows: Rows
    #: int, per entry of `rows`: index into the profile's Filter plugins.
    filters: np.ndarray
    #: int32, per entry of `rows`.
    codes: Codes
    #: (filter index, code) to the status, attributed to its plugin.
    status_of: Callable[[int, int], Status]
    #: Those of `rows` that only pods nominated to them keep the pod from.
    beside_nominated: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    _groups: list[tuple[Status, int]] | None = field(default=None, init=False, repr=False)

    def groups(self) -> list[tuple[Status, int]]:
        """Return each distinct status and its number of nodes; do not modify the result."""
        if self._groups is None:
            self._groups = self._grouped()
        return self._groups

    def _grouped(self) -> list[tuple[Status, int]]:
        filters, codes = self.filters, self.codes
        if not len(filters):
            return []
        lowest, width = codes.item(codes.argmin()), codes.item(codes.argmax()) + 1
        if lowest < 0 or width > _FEW_CODES:
            pairs = (filters.astype(np.int64) << 32) + codes
            _, first, counts = np.unique(pairs, return_index=True, return_counts=True)
            found = filters[first], codes[first], counts
        else:
            # Counting avoids sorting thousands of codes.
            counts = np.bincount(filters * np.int64(width) + codes)
            pairs = counts.nonzero()[0]
            found = *np.divmod(pairs, width), counts[pairs]
        columns = [each.tolist() for each in found]
        return [
            (self.status_of(index, code), number)
            for index, code, number in zip(*columns, strict=True)
        ]

    def by_status(self) -> Iterator[tuple[Status, Rows]]:
        """Yield each pair of filter and code as its status, with the rows that have it."""
        pairs = (self.filters.astype(np.int64) << 32) + self.codes
        # Scalar plugins give every node its own code; sorting avoids a pass over all rows per code.
        order = np.argsort(pairs, kind="stable")
        ordered = pairs[order]
        for part in np.split(order, np.flatnonzero(np.diff(ordered)) + 1 if len(order) else []):
            if len(part):
                first = part[0]
                status = self.status_of(int(self.filters[first]), int(self.codes[first]))
                yield status, self.rows[part]

    def by_reasons(self) -> list[tuple[Status, Rows]]:
        """Return one status of each `RejectionGroup` with the group's rows, the largest first."""
        parts: dict[RejectionGroup, tuple[Status, list[Rows]]] = {}
        for status, rows in self.by_status():
            parts.setdefault(rejection_group(status), (status, []))[1].append(rows)
        groups = [(status, np.sort(np.concatenate(rows))) for status, rows in parts.values()]
        groups.sort(key=lambda each: -len(each[1]))
        return groups


class TableStatuses(NodeToStatus):
    """NodeToStatus over `RejectedRows`, built when first read."""

    __slots__ = ("_built", "_rejected", "_table")

    def __init__(self, rejected: RejectedRows, table: NodeTableView, absent: Status) -> None:
        super().__init__({}, absent)
        self._rejected = rejected
        self._table = table
        self._built = False

    def _explicit(self) -> dict[str, Status]:
        if not self._built:
            self._built = True
            rejected, names = self._rejected, self._table.names
            entries = (rejected.rows.tolist(), rejected.filters.tolist(), rejected.codes.tolist())
            for row, index, code in zip(*entries, strict=True):
                self._statuses[names[row]] = rejected.status_of(index, code)
        return self._statuses

    def rejected_rows(self, code: Code) -> Rows | None:
        """Return the rows of nodes whose status has `code`, ascending.

        None if the caller must check every node, because `absent` has the code or `set` was called.
        """
        if self._built or self.absent.code is code:
            return None
        parts = [rows for status, rows in self._rejected.by_status() if status.code is code]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.intp)


def rows_for_code(statuses: NodeToStatus, table: NodeTableView, code: Code) -> Rows:
    """Return the rows of nodes whose status has `code`."""
    rows = statuses.rejected_rows(code) if isinstance(statuses, TableStatuses) else None
    if rows is None:
        names = [table.names[row] for row in table.rows.tolist()]
        found = [table.row_of(name) for name in statuses.nodes_for_code(names, code)]
        rows = np.array(found, dtype=np.intp)
    return rows


class Diagnosis(msgspec.Struct, eq=False):
    """The results of a failed search (framework/types.go: Diagnosis)."""

    #: Nodes in the cluster; 1 for a rejection by Reserve or Permit.
    node_count: int
    statuses: NodeToStatus = msgspec.field(default_factory=NodeToStatus)
    rejected: RejectedRows | None = None
    unschedulable_plugins: set[str] = msgspec.field(default_factory=set)
    pending_plugins: set[str] = msgspec.field(default_factory=set)
    pre_filter_message: str = ""
    post_filter_message: str = ""
    #: Seconds after which a rejecting plugin requests another attempt; the earliest counts.
    requeue_after: float | None = None
    #: PodScheduled reason, when every rejecting status has the same one.
    condition_reason: str = ""
    skip_post_filter: bool = False
    #: The PreFilter plugins that excluded nodes.
    narrowed_by: tuple[str, ...] = ()

    def add(self, status: Status) -> None:
        """Add the plugin and the options of a rejecting status."""
        if status.rejected and status.plugin:
            self.unschedulable_plugins.add(status.plugin)
            if status.code is Code.PENDING:
                self.pending_plugins.add(status.plugin)
        self._requeue(status)

    def add_rejectors(self, rejections: Sequence[Status]) -> None:
        """Merge the options of all rejections.

        The condition reason and `skip_post_filter` count only if all rejections agree on them.
        """
        reasons = {status.condition_reason for status in rejections}
        self.condition_reason = reasons.pop() if len(reasons) == 1 else ""
        self.skip_post_filter = bool(rejections) and all(s.skip_post_filter for s in rejections)
        for status in rejections:
            self._requeue(status)

    def _requeue(self, status: Status) -> None:
        if status.requeue_after is not None:
            earliest = self.requeue_after
            self.requeue_after = (
                status.requeue_after if earliest is None else min(earliest, status.requeue_after)
            )

    def message(self) -> str:
        """Return upstream's FailedScheduling text, untruncated (framework/types.go: FitError)."""
        if self.pre_filter_message:
            text = f"0/{self.node_count} nodes are available: {self.pre_filter_message}."
        else:
            text = fit_message(self.node_count, self.reasons())
        if self.post_filter_message:
            text += f" {self.post_filter_message}"
        return text

    def reasons(self) -> dict[str, int]:
        """Return reason to number of nodes; a node with two reasons counts twice."""
        counts: dict[str, int] = {}
        for status, number in self.rejections():
            for reason in status_reasons(status):
                counts[reason] = counts.get(reason, 0) + number
        return counts

    def rejections(self) -> list[tuple[Status, int]]:
        """Return each distinct status and its number of nodes; that of absent nodes comes last."""
        groups = self._groups()
        left = self.node_count - sum(number for _, number in groups)
        return [*groups, (self.statuses.absent, left)] if left > 0 else groups

    def _groups(self) -> list[tuple[Status, int]]:
        if self.rejected is not None:
            return self.rejected.groups()
        return [(status, 1) for _, status in self.statuses.explicit()]


def fit_message(nodes: int, counts: Mapping[str, int]) -> str:
    """Return upstream's text for a pod that fits on none of `nodes`.

    `counts` maps each reason to its number of nodes.
    """
    text = f"0/{nodes} nodes are available:"
    if counts:
        text += f" {', '.join(sorted(f'{count} {reason}' for reason, count in counts.items()))}."
    return text


RejectionGroup = tuple[str, Code, tuple[str, ...]]
"""Plugin, code and reasons; rejections that agree in these are shown together."""


def rejection_group(status: Status) -> RejectionGroup:
    """Return the group under which a rejection is shown."""
    return status.plugin, status.code, status_reasons(status)


def status_reasons(status: Status) -> tuple[str, ...]:
    """Return the reasons that messages count; the text of an error comes first."""
    return status.reasons if status.error is None else (error_text(status.error), *status.reasons)


class FitError(Exception):
    """The pod fits on no node; carries the diagnosis."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis)
        self.diagnosis = diagnosis

    def __str__(self) -> str:
        return self.diagnosis.message()
