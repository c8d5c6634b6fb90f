"""Cache: the node of every pod, bound or assumed (upstream: `cache.go: cacheImpl`).

States of a pod: unknown -> assumed -> added, or unknown -> added. An assumption ends only by
confirmation (`add_pod`), `forget_pod` or `remove_pod`; it does not expire. Late, repeated and
out-of-order events never raise: the cache adopts the state of the newest object, and counts the
anomaly in `statistics()`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.signatures.packed_spec import replaced
from scheduler.cache.node_table import NodeTable


class CacheError(RuntimeError):
    """An invalid call, such as assuming a pod twice, or a broken invariant (`validate`)."""


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """Sizes, and anomalies since start."""

    nodes: int
    pods: int
    assumed_pods: int
    change_log_sequence: int
    column_bytes: int
    #: Number of anomalies by kind: confirmed on another node than assumed, unknown pod updated, ...
    anomalies: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Placed:
    pod: Pod
    row: int
    assumed: bool


class Cache:
    """Owns the node table and the node of every pod. Used only from the scheduling loop."""

    def __init__(self) -> None:
        self.table = NodeTable()
        self._pods: dict[str, _Placed] = {}
        self._assumed = 0
        self._anomalies: dict[str, int] = {}
        #: Number of changes that no scheduling cycle of this process caused.
        self.external_changes = 0
        #: By row: value of `external_changes` at its last external change.
        self._last_external: dict[int, int] = {}
        #: UIDs of pods that are set aside; then the original order of the pods of their rows.
        self._aside: set[str] = set()
        self._orders: dict[int, tuple[str, ...]] = {}

    # -- nodes -----------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """Handle the addition or update of a node.

        Raises:
            QuantityError: an allocatable amount cannot be read; the cache is unchanged.
        """
        before = self.table.sequence
        row = self.table.set_node(node)
        if self._filters_may_differ(row, before):
            self._note_external_change(row)

    def remove_node(self, name: str) -> bool:
        """Handle the deletion of a node; its pods stay counted until their own deletion."""
        row = self.table.row_of(name)
        if row is not None:
            self._note_external_change(row)
        return self.table.remove_node(name)

    def last_external_change(self, row: int) -> int:
        """Return the value of `external_changes` at the last external change of a row; 0: none.

        External changes are changes of the node, and pods that appear, change or disappear without
        having been assumed here. Assumed pods do not count, since later cycles already see them.
        """
        return self._last_external.get(row, 0)

    def external_changes_kept(self) -> Callable[[], None]:
        """Return a function that restores the present record of external changes.

        For trials, which undo the changes themselves (`scheduler.service.trial`).
        """
        changes, last, anomalies = (
            self.external_changes,
            dict(self._last_external),
            dict(self._anomalies),
        )

        def restore() -> None:
            self.external_changes, self._last_external = changes, last
            self._anomalies = anomalies

        return restore

    def _filters_may_differ(self, row: int, before: int) -> bool:
        """Whether the change log has a change that filters can read, after entry `before`."""
        log = self.table.change_log
        if log.sequence == before:
            return False
        changes = log.since(before)
        return changes is None or bool(changes.get(row))

    def _note_external_change(self, row: int) -> None:
        self.external_changes += 1
        self._last_external[row] = self.external_changes

    # -- assumed pods ----------------------------------------------------------------------------

    def assume_pod(self, pod: Pod, node_name: str) -> Pod:
        """Count a pod on a node before it is bound; return the pod with its node name set.

        Raises:
            CacheError: a pod with this UID is in the cache already.
        """
        uid = pod.metadata.uid
        if uid in self._pods:
            msg = f"pod {uid}({pod.key}) is in the cache, so can't be assumed"
            raise CacheError(msg)
        assumed = with_node(pod, node_name)
        self._place(assumed, node_name, assumed_pod=True)
        return assumed

    def forget_pod(self, uid: str) -> bool:
        """Undo `assume_pod`; False if the pod is unknown or has been confirmed."""
        placed = self._pods.get(uid)
        if placed is None or not placed.assumed:
            return False
        self._displace(placed)
        return True

    def set_aside(self, uid: str) -> bool:
        """Take a pod out of the node table, until `put_back`; False if it is not there.

        For trials: nothing else may happen to the pod meanwhile.
        """
        placed = self._pods.get(uid)
        if placed is None or uid not in self.table.pods[placed.row]:
            return False
        self._orders.setdefault(placed.row, tuple(self.table.pods[placed.row]))
        self._aside.add(uid)
        self.table.remove_pod(placed.pod, placed.row)
        return True

    def put_back(self, uid: str) -> None:
        """Undo `set_aside`; the last call restores the order of the pods of each row."""
        placed = self._pods[uid]
        self.table.add_pod(placed.pod, placed.row)
        self._aside.discard(uid)
        if self._aside:
            return
        for row, order in self._orders.items():
            self.table.reorder_pods(row, [each for each in order if each in self.table.pods[row]])
        self._orders.clear()

    def is_assumed(self, uid: str) -> bool:
        """Whether the pod is assumed and its binding not yet confirmed by the watch."""
        placed = self._pods.get(uid)
        return placed is not None and placed.assumed

    def get_pod(self, uid: str) -> Pod | None:
        """Return the pod with its node name, or None."""
        placed = self._pods.get(uid)
        return None if placed is None else placed.pod

    # -- events ----------------------------------------------------------------------------------

    def add_pod(self, pod: Pod) -> None:
        """Handle a pod that the watch shows bound; confirms an assumed one on whichever node."""
        placed = self._pods.get(pod.metadata.uid)
        if placed is None:
            self._note_external_change(self._place(pod, pod.spec.node_name, assumed_pod=False))
            return
        if placed.assumed:
            if placed.pod.spec.node_name != pod.spec.node_name:
                self._count("confirmed_on_another_node")
        else:
            self._count("added_twice")
        self._refresh(placed, pod)

    def update_pod(self, pod: Pod) -> None:
        """Handle the update of a bound pod."""
        placed = self._pods.get(pod.metadata.uid)
        if placed is None:
            self._count("update_of_unknown")
            self._note_external_change(self._place(pod, pod.spec.node_name, assumed_pod=False))
            return
        if placed.pod.spec.node_name != pod.spec.node_name:
            self._count("moved")
        self._refresh(placed, pod)

    def remove_pod(self, pod: Pod) -> bool:
        """Handle the deletion of a bound pod; False if it was unknown."""
        placed = self._pods.get(pod.metadata.uid)
        if placed is None:
            self._count("removal_of_unknown")
            return False
        self._note_external_change(placed.row)
        self._displace(placed)
        return True

    def _refresh(self, placed: _Placed, pod: Pod) -> None:
        if placed.assumed:
            placed.assumed = False
            self._assumed -= 1
        if placed.pod.spec.node_name == pod.spec.node_name:
            before = self.table.change_log.sequence
            self.table.replace_pod(placed.pod, pod, placed.row)
            if self._filters_may_differ(placed.row, before):
                self._note_external_change(placed.row)
            placed.pod = pod
            return
        self._note_external_change(placed.row)
        self._displace(placed)
        self._note_external_change(self._place(pod, pod.spec.node_name, assumed_pod=False))

    def _place(self, pod: Pod, node_name: str, *, assumed_pod: bool) -> int:
        row = self.table.row_for_pods(node_name)
        self._pods[pod.metadata.uid] = _Placed(pod, row, assumed_pod)
        self._assumed += assumed_pod
        self.table.add_pod(pod, row)
        return row

    def _displace(self, placed: _Placed) -> None:
        del self._pods[placed.pod.metadata.uid]
        self._assumed -= placed.assumed
        self.table.remove_pod(placed.pod, placed.row)

    def _count(self, anomaly: str) -> None:
        self._anomalies[anomaly] = self._anomalies.get(anomaly, 0) + 1

    # -- inspection ------------------------------------------------------------------------------

    def statistics(self) -> CacheStatistics:
        """Return current sizes and the anomalies since start."""
        return CacheStatistics(
            nodes=self.table.node_count,
            pods=len(self._pods),
            assumed_pods=self._assumed,
            change_log_sequence=self.table.sequence,
            column_bytes=self.table.column_bytes,
            anomalies=dict(self._anomalies),
        )

    def validate(self) -> None:
        """Check all invariants.

        Raises:
            CacheError: some are broken; the text names each.
        """
        broken = list(self.table.validate())
        for uid, placed in self._pods.items():
            if self.table.pods[placed.row].get(uid) is not placed.pod:
                broken.append(f"pod {placed.pod.key} is not where the cache says it is")
        if self._assumed != sum(placed.assumed for placed in self._pods.values()):
            broken.append("the number of assumed pods is wrong")
        if broken:
            raise CacheError("; ".join(broken))


def with_node(pod: Pod, node_name: str) -> Pod:
    """Return a copy of the pod with `spec.nodeName` set; everything else is shared."""
    return msgspec.structs.replace(pod, spec=replaced(pod.spec, node_name=node_name))
