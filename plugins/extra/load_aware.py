"""LoadAware, a columnar Score: nodes with the lowest measured CPU load first.

Requests say what pods may use, not what they use. This plugin reads what nodes use from the metrics
API (metrics-server), which cannot be watched, so that kubestow lists it every 30 seconds. Pods that
were placed since a node was measured count by their requests: otherwise every pod of a burst would
go to the node that was idle when it began. A node that was never measured gets 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

import msgspec
import numpy as np

from scheduler.api import Named, Pod, QuantityError, parse_quantity
from scheduler.framework import (
    CPU,
    MAX_NODE_SCORE,
    BasePlugin,
    Columns,
    CycleState,
    Handle,
    Int64Column,
    NodeInfo,
    NodeTableView,
    ReuseRule,
    Rows,
)

USAGE: Final = "metrics.k8s.io/v1beta1/nodes"


class NodeMetrics(Named):
    """The part of a NodeMetrics object that is read."""

    usage: dict[str, str] = {}


class Sample(NamedTuple):
    """One measurement, in millicores."""

    used: int
    #: Sum of the requests of the pods that were on the node then.
    requested: int


class LoadAwareArgs(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Arguments of LoadAware."""

    #: Percentage of allocatable CPU from which a node counts as full.
    full_at: int = 80


class LoadAware(BasePlugin):
    """Prefers nodes that use little of their CPU."""

    name = "kubestow.io/LoadAware"
    args_type = LoadAwareArgs
    required_resources = (USAGE,)
    resource_types: ClassVar[Mapping[str, type[Named]]] = {USAGE: NodeMetrics}
    #: Without metrics-server, or without permission, pods are scheduled all the same.
    optional_resources: ClassVar[Mapping[str, str]] = {USAGE: "nodes are not scored by their load"}
    #: A score depends on the node's size, on the requests of its pods, and on the samples.
    score_reuse = ReuseRule(Columns.ALLOCATABLE | Columns.USAGE, versions=(USAGE,))

    def __init__(self, args: LoadAwareArgs, handle: Handle) -> None:
        self._full_at = args.full_at
        self._table = handle.table
        self._samples: dict[str, Sample] = {}
        handle.subscriptions.on_object(USAGE, self._measured)
        # Samples may be listed before the pods that were on the nodes then.
        handle.subscriptions.on_synced(self._count_requests_anew)

    @staticmethod
    def validate_args(args: LoadAwareArgs) -> Iterator[tuple[str, str]]:
        """Yield (path below `args`, message) for each problem."""
        if not 1 <= args.full_at <= 100:
            yield "fullAt", f"{args.full_at} is no percentage; write a number from 1 to 100"

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return how far the node is from being full, 0 to 100."""
        sample = self._samples.get(node.name)
        allocatable = node.allocatable.milli_cpu
        if sample is None or allocatable <= 0:
            return 0
        placed_since = node.requested.milli_cpu - sample.requested
        return self._free_share(sample.used + max(placed_since, 0), allocatable)

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Columnar form of `score`.

        The framework asks for the rows that changed only, so that a loop over them costs little.
        """
        allocatable, requested = table.allocatable[CPU], table.requested[CPU]
        scores = np.zeros(len(rows), dtype=np.int64)
        for index, row in enumerate(rows.tolist()):
            sample = self._samples.get(table.names[row])
            if sample is not None and allocatable[row] > 0:
                placed_since = int(requested[row]) - sample.requested
                scores[index] = self._free_share(
                    sample.used + max(placed_since, 0), int(allocatable[row])
                )
        return scores

    def _free_share(self, used: int, allocatable: int) -> int:
        full = allocatable * self._full_at // 100
        return MAX_NODE_SCORE * max(full - used, 0) // full if full else 0

    def _measured(self, old: NodeMetrics | None, new: NodeMetrics | None) -> None:
        """Take over a sample; one that cannot be read counts as none."""
        if new is None:
            if old is not None:
                self._samples.pop(old.metadata.name, None)
            return
        name = new.metadata.name
        try:
            used = parse_quantity(new.usage["cpu"]).milli_value()
        except (KeyError, QuantityError):
            self._samples.pop(name, None)
            return
        self._samples[name] = Sample(max(used, 0), self._requested(name))

    def _count_requests_anew(self) -> None:
        self._samples = {
            name: sample._replace(requested=self._requested(name))
            for name, sample in self._samples.items()
        }

    def _requested(self, name: str) -> int:
        row = self._table.row_of(name)
        return 0 if row is None else int(self._table.requested[CPU, row])
