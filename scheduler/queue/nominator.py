"""Nominations: pending pods expected on a node, most often because victims are leaving it.

Memory is ahead of the API server: a nomination, or its end, is known here before the status patch
that says so has come back. So the pod's `status.nominatedNodeName` is followed only when it
changes, and a value that was cleared here is ignored until the object shows another one.

Invariant: a pod (by UID) is nominated to at most one node, never to the empty name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.api.pod import Pod
from scheduler.framework.plugin import NominatingInfo

PodLister = Callable[[str, str], Pod | None]
"""`lister(namespace, name)`: the newest pod the informer knows, None when it is gone."""

NominationListener = Callable[[Pod, str], None]
"""`listener(pod, node_name)`; the empty name means that the nomination ended."""


class QueueNominator:
    """Implements `framework.Nominator`."""

    __slots__ = (
        "_by_node",
        "_cleared",
        "_listeners",
        "_lister",
        "_node_listeners",
        "_node_of",
        "_on_error",
        "_version",
    )  # fmt: skip

    def __init__(
        self, lister: PodLister, on_error: Callable[[Pod, Exception], None] | None = None
    ) -> None:
        """`on_error` is told when a listener raised; nominations do not depend on listeners."""
        self._lister = lister
        self._on_error = on_error
        self._listeners: list[NominationListener] = []
        self._node_listeners: list[Callable[[str], None]] = []
        self._node_of: dict[str, str] = {}
        self._by_node: dict[str, dict[str, Pod]] = {}
        #: UID -> the node name in the object's status that was overruled by clearing.
        self._cleared: dict[str, str] = {}
        self._version = 0

    def __len__(self) -> int:
        return len(self._node_of)

    @property
    def version(self) -> int:
        """Grows whenever a nomination or a nominated pod changes."""
        return self._version

    def subscribe(self, listener: NominationListener) -> None:
        """Be told about nominations set, moved and ended."""
        self._listeners.append(listener)

    def subscribe_nodes(self, listener: Callable[[str], None]) -> None:
        """Be told the name of every node whose nominated pods changed, the one that was left too.

        For the owner of the node table. Must not raise.
        """
        self._node_listeners.append(listener)

    def node_of(self, uid: str) -> str:
        """The node a pod is nominated to, empty when it is not."""
        return self._node_of.get(uid, "")

    def nominated_nodes(self) -> Sequence[str]:
        """Nodes with nominations."""
        return tuple(self._by_node)

    def nominated_pods_for_node(self, node_name: str) -> Sequence[Pod]:
        """Pods nominated to a node, in order of nomination; a copy."""
        return tuple(self._by_node.get(node_name, {}).values())

    def add_nominated_pod(self, pod: Pod, nominating: NominatingInfo | None) -> None:
        """Apply a nomination; None keeps the one in memory or else takes the status' one.

        Ignored for a pod that the informer does not know under this UID, or that has a node.
        """
        uid, stated = pod.uid, pod.status.nominated_node_name
        if nominating is None:
            node_name = self._node_of.get(uid, "")
            if not node_name and self._cleared.get(uid) != stated:
                node_name = stated
        else:
            node_name = nominating.node_name
        nominatable = self._nominatable(pod)
        if nominating is not None and not node_name and stated and nominatable:
            self._cleared[uid] = stated
        self._set(pod, node_name if nominatable else "")

    def update_nominated_pod(self, old: Pod, new: Pod) -> None:
        """Follow an update: the status counts if it changed, memory otherwise."""
        if old.status.nominated_node_name != new.status.nominated_node_name:
            self._cleared.pop(new.uid, None)
            node_name = new.status.nominated_node_name
        else:
            node_name = self._node_of.get(new.uid, "")
        if not node_name and new.uid not in self._node_of:
            return
        self._set(new, node_name if self._nominatable(new) else "")

    def delete_nominated_pod_if_exists(self, pod: Pod) -> None:
        """End the pod's nomination: it is deleted, or assumed on a node."""
        self._cleared.pop(pod.uid, None)
        self._set(pod, "")

    def violations(self) -> list[str]:
        """What is broken inside, for `validate()`."""
        found = [
            f"nominator: node {name!r} has no pods"
            for name, pods in self._by_node.items()
            if not pods
        ]
        pairs = {(uid, name) for name, pods in self._by_node.items() for uid in pods}
        if pairs != set(self._node_of.items()):
            found.append("nominator: the two indexes differ")
        if "" in self._by_node:
            found.append("nominator: pods are nominated to the empty name")
        return found

    def _nominatable(self, pod: Pod) -> bool:
        known = self._lister(pod.metadata.namespace, pod.metadata.name)
        return known is not None and known.uid == pod.uid and not known.spec.node_name

    def _set(self, pod: Pod, node_name: str) -> None:
        uid = pod.uid
        before = self._node_of.get(uid, "")
        if not before and not node_name:
            return
        self._version += 1
        if before == node_name:
            self._by_node[node_name][uid] = pod
            self._tell_nodes(node_name)
            return
        if before:
            pods = self._by_node[before]
            del pods[uid], self._node_of[uid]
            if not pods:
                del self._by_node[before]
        if node_name:
            self._node_of[uid] = node_name
            self._by_node.setdefault(node_name, {})[uid] = pod
        self._tell_nodes(*(name for name in (before, node_name) if name))
        for listener in self._listeners:
            try:
                listener(pod, node_name)
            except Exception as error:  # noqa: BLE001 - boundary: plugin call
                if self._on_error:
                    self._on_error(pod, error)

    def _tell_nodes(self, *names: str) -> None:
        for listener in self._node_listeners:
            for name in names:
                listener(name)
