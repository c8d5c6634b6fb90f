"""Nominations: nodes on which pending pods expect room, usually because victims are leaving.

The nominator is ahead of the API server: it knows about a nomination, or its end, before the watch
shows the status patch. So it applies a pod's `status.nominatedNodeName` only when the field
changes, and ignores a value that was cleared here until the object has another one.

The watch may show a written value after it was replaced by a newer one. The status writer reports
each write (`writing`) and its result (`written`); until the watch has shown the last write, values
that were written here are ignored.

Invariant: a pod (by UID) is nominated to at most one node, never to the empty name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from scheduler.api.pod import Pod
from scheduler.api.signal import Signal
from scheduler.framework.plugin import NominatingInfo

PodLister = Callable[[str, str], Pod | None]
"""`lister(namespace, name)` returns the newest pod that the informer knows; None if deleted."""

NominationListener = Callable[[Pod, str], None]
"""`listener(pod, node_name)`; the empty name means that the nomination ended."""


@dataclass(slots=True)
class _Writes:
    """Writes of one pod's nomination that the watch may not have shown yet."""

    #: Values that the status may show before it shows the last write; at most one for each node.
    names: set[str]
    #: resourceVersion from which on the pod shows the last completed write; None before the first
    #: response, empty if the request failed, because it may have been applied nevertheless.
    version: str | None = None

    def shown_by(self, pod: Pod) -> bool:
        if not self.version:
            return self.version is None
        own = pod.metadata.resource_version
        # Decimal numbers of any length (KEP-5504), so that the longer one is greater.
        return (len(own), own) >= (len(self.version), self.version)


class QueueNominator:
    """Nominations by pod and by node; implements `framework.Nominator`."""

    def __init__(
        self,
        lister: PodLister,
        under_way: Callable[[str], bool],
        on_error: Callable[[Pod, Exception], None] | None = None,
    ) -> None:
        """`under_way(uid)` returns whether a write of the pod's nomination is under way.

        `on_error` receives what a listener raised; the nomination is applied nevertheless.
        """
        self._lister = lister
        self._on_error = on_error
        self._under_way = under_way
        self._listeners: list[NominationListener] = []
        #: Called with the name of every node whose nominated pods changed. For the owner of the
        #: node table; a listener must not raise.
        self.on_node = Signal[[str]]()
        self._node_of: dict[str, str] = {}
        self._by_node: dict[str, dict[str, Pod]] = {}
        #: UID -> the node name in the object's status that was cleared here.
        self._cleared: dict[str, str] = {}
        #: By UID; only of pods that the informer knew, until it shows them deleted or bound.
        self._writes: dict[str, _Writes] = {}
        #: Grows whenever a nomination or a nominated pod changes.
        self.version = 0

    def __len__(self) -> int:
        return len(self._node_of)

    def subscribe(self, listener: NominationListener) -> None:
        """Call the listener when a nomination is set, moved or ended."""
        self._listeners.append(listener)

    def node_of(self, uid: str) -> str:
        """Return the node that a pod is nominated to, or the empty string."""
        return self._node_of.get(uid, "")

    def nominated_nodes(self) -> Sequence[str]:
        """Return the nodes with nominations."""
        return tuple(self._by_node)

    def nominated_pods_for_node(self, node_name: str) -> Sequence[Pod]:
        """Return the pods nominated to a node, in order of nomination; a copy."""
        return tuple(self._by_node.get(node_name, {}).values())

    def add_nominated_pod(self, pod: Pod, nominating: NominatingInfo | None) -> None:
        """Apply a nomination; None keeps the known one, or else takes over the status field.

        Ignored for a pod that the informer does not know under this UID, or that has a node.
        """
        uid, stated = pod.uid, pod.status.nominated_node_name
        if nominating is None:
            node_name = self._node_of.get(uid, "")
            if not node_name and self._cleared.get(uid) != stated and not self.ahead(pod):
                node_name = stated
        else:
            node_name = nominating.node_name
        nominatable = self._nominatable(pod)
        if nominating is not None and not node_name and stated and nominatable:
            self._cleared[uid] = stated
        self._set(pod, node_name if nominatable else "")

    def update_nominated_pod(self, old: Pod, new: Pod) -> None:
        """Apply the status if another client changed it; otherwise keep the known nomination."""
        if self._changed_by_others(old, new):
            self._cleared.pop(new.uid, None)
            node_name = new.status.nominated_node_name
        else:
            node_name = self._node_of.get(new.uid, "")
        if not node_name and new.uid not in self._node_of:
            return
        self._set(new, node_name if self._nominatable(new) else "")

    def delete_nominated_pod_if_exists(self, pod: Pod) -> None:
        """End the pod's nomination: it is deleted, or assumed on a node."""
        if self._cleared:
            self._cleared.pop(pod.uid, None)
        if self._node_of:
            self._set(pod, "")

    def forget(self, pod: Pod) -> None:
        """Drop all state of a pod that was deleted or bound."""
        if self._writes:
            self._writes.pop(pod.uid, None)
        self.delete_nominated_pod_if_exists(pod)

    def ahead(self, pod: Pod) -> bool:
        """Whether `pod` may be older than the last write, so that its nomination must not count."""
        writes = self._writes.get(pod.uid)
        return writes is not None and (self._under_way(pod.uid) or not writes.shown_by(pod))

    def writing(self, pod: Pod, node_name: str) -> None:
        """Record that a nomination (empty: none) is about to be written to the pod's status."""
        writes = self._writes.get(pod.uid)
        if writes is None:
            # Not for a deleted or bound pod: `forget` would not be called again.
            if self._nominatable(pod):
                self._writes[pod.uid] = _Writes({node_name})
        elif self.ahead(pod):
            writes.names.add(node_name)
        else:
            writes.names = {node_name}

    def written(self, uid: str, version: str) -> None:
        """Record the resourceVersion of a completed write; empty if the request failed."""
        writes = self._writes.get(uid)
        if writes is not None:
            writes.version = version

    def nominations(self) -> list[tuple[Pod, str]]:
        """Return every nominated pod with its node, by node, in order of nomination."""
        return [(pod, name) for name, pods in self._by_node.items() for pod in pods.values()]

    def restore(self, nominations: Iterable[tuple[Pod, str]]) -> None:
        """Replace all nominations, and the order of those to one node.

        For a replay, which reads them from a bundle.
        """
        wanted: dict[str, dict[str, Pod]] = {}
        for pod, name in nominations:
            wanted.setdefault(name, {})[pod.uid] = pod
        for name, pods in tuple(self._by_node.items()):
            if [*pods] != [*wanted.get(name, ())]:
                for pod in tuple(pods.values()):
                    self._set(pod, "")
        for name, pods in wanted.items():
            for uid, pod in pods.items():
                if self._node_of.get(uid) != name:
                    self._set(pod, name)

    def violations(self) -> list[str]:
        """Return the broken invariants, for `validate()`."""
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

    def _changed_by_others(self, old: Pod, new: Pod) -> bool:
        """Whether the status shows a value that is neither old nor an earlier write of ours."""
        stated = new.status.nominated_node_name
        changed = old.status.nominated_node_name != stated
        writes = self._writes.get(new.uid)
        if writes is None:
            return changed
        if self.ahead(new):
            return changed and stated not in writes.names
        # Changes ignored so far are applied as soon as the status counts again.
        return changed or not writes.shown_by(old)

    def _nominatable(self, pod: Pod) -> bool:
        known = self._lister(pod.metadata.namespace, pod.metadata.name)
        return known is not None and known.uid == pod.uid and not known.spec.node_name

    def _set(self, pod: Pod, node_name: str) -> None:
        uid = pod.uid
        before = self._node_of.get(uid, "")
        if not before and not node_name:
            return
        self.version += 1
        if before == node_name:
            self._by_node[node_name][uid] = pod
            self._notify_nodes(node_name)
            return
        if before:
            pods = self._by_node[before]
            del pods[uid], self._node_of[uid]
            if not pods:
                del self._by_node[before]
        if node_name:
            self._node_of[uid] = node_name
            self._by_node.setdefault(node_name, {})[uid] = pod
        self._notify_nodes(*(name for name in (before, node_name) if name))
        for listener in self._listeners:
            try:
                listener(pod, node_name)
            except Exception as error:  # noqa: BLE001 - boundary: plugin call
                if self._on_error:
                    self._on_error(pod, error)

    def _notify_nodes(self, *names: str) -> None:
        for name in names:
            self.on_node(name)
