"""KubeletRejections: keeps pods off nodes whose kubelet has just rejected a pod like them.

A kubelet admits a pod by its own state (static pods, devices, topology), which the API server may
not have. After a rejection the pod has failed, the workload's controller creates a new one, and a
scheduler to which the node looks fine would place it there again, in a tight loop. So the node is
excluded for pods of that signature for some time.

This is the last Filter of every profile and is not configurable as a plugin. When an exclusion
ends, the pods that it rejected are retried (`requeue_after`). Pods pinned to one node (DaemonSets)
are not excluded from it, since they cannot run anywhere else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import takewhile
from typing import ClassVar, Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.framework import (
    SKIP,
    ActionType,
    Clock,
    ClusterEvent,
    ClusterEventWithHint,
    Codes,
    Columns,
    CycleState,
    EventResource,
    NodeInfo,
    NodeTableView,
    ReuseRule,
    Rows,
    Status,
    unresolvable,
)

REASON: Final = "node(s) recently rejected a pod like this"
MAX_PAIRS: Final = 10_000
"""Maximum number of (signature, node) pairs; the oldest ones are dropped."""

_VERSION: Final = "kubelet_rejections"


class KubeletRejections:
    """Keeps (pod signature, node) pairs for a limited time, and rejects such pods on such nodes."""

    name: ClassVar[str] = "KubeletRejections"
    filter_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.EXISTENCE, versions=(_VERSION,))

    def __init__(self, table: NodeTable, seconds: float, clock: Clock) -> None:
        """Exclude a node for `seconds` after each rejection; 0: never."""
        self._table = table
        # Not the time of the cycle, since the check before a bind may run long after its cycle; and
        # monotonic, since wall clocks jump.
        self._now = clock.monotonic
        self._seconds = seconds
        #: (signature, node) to the monotonic time at which the exclusion ends, in order of time.
        self._until: OrderedDict[tuple[int, str], float] = OrderedDict()
        self._nodes: dict[int, set[str]] = {}

    def __len__(self) -> int:
        return len(self._until)

    def note(self, pod: Pod, node_name: str) -> None:
        """Exclude `node_name` for pods like `pod`, which its kubelet has rejected."""
        if not self._seconds or pod.pin:
            return
        key = pod.signature.id, node_name
        self._until[key] = self._now() + self._seconds
        self._until.move_to_end(key)
        self._nodes.setdefault(pod.signature.id, set()).add(node_name)
        while len(self._until) > MAX_PAIRS:
            self._drop(next(iter(self._until)))
        self._table.bump(_VERSION)

    def forget_node(self, node_name: str) -> None:
        """Drop the exclusions of a deleted node; a new node may have the same name."""
        pairs = [key for key in self._until if key[1] == node_name]
        for key in pairs:
            self._drop(key)
        if pairs:
            self._table.bump(_VERSION)

    def skips_alike(self, pod: Pod) -> bool:
        """Return True: the result depends only on the signature and on recorded rejections."""
        return True

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Skip unless a kubelet has rejected a pod of this signature."""
        if not self._until:
            return SKIP
        self._expire()
        return None if pod.signature.id in self._nodes and not pod.pin else SKIP

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node whose kubelet has rejected a pod of this signature."""
        rejecting = self._nodes.get(pod.signature.id, ())
        return self.filter_status(state, pod, 1) if node.name in rejecting else None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Run `filter` for each of `rows`."""
        found = [table.row_of(name) for name in self._nodes.get(pod.signature.id, ())]
        marked = [row for row in found if row is not None]
        return np.isin(rows, marked).astype(np.int32)

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the rejection; the pod is retried when the first exclusion ends."""
        signature = pod.signature.id
        ends = [self._until[signature, name] for name in self._nodes.get(signature, ())]
        return unresolvable(REASON, requeue_after=max(min(ends, default=0.0) - self._now(), 0.0))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register new nodes; otherwise pods are retried by time (`requeue_after`)."""
        return (ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),)

    def _expire(self) -> None:
        now = self._now()
        over = [key for key, _ in takewhile(lambda each: each[1] <= now, self._until.items())]
        for key in over:
            self._drop(key)
        if over:
            self._table.bump(_VERSION)

    def _drop(self, key: tuple[int, str]) -> None:
        del self._until[key]
        signature, node_name = key
        names = self._nodes[signature]
        names.discard(node_name)
        if not names:
            del self._nodes[signature]
