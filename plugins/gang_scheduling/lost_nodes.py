"""LostNodes: members whose node was deleted, and which therefore hold no room.

The pods of a deleted node exist until the control plane's garbage collection deletes them. They do
not count for their group meanwhile. If a node of the same name appears, they count again.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.framework import Handle


class LostNodes:
    """The members on each node, and the deleted nodes among these."""

    def __init__(self, handle: Handle, changed: Callable[[Pod], None]) -> None:
        """Call `changed` for each member whose node was deleted or has reappeared."""
        self._handle = handle
        self._changed = changed
        self._members: dict[str, dict[str, Pod]] = {}
        self._lost: set[str] = set()
        handle.subscriptions.on_object("nodes", self._node_changed)
        handle.subscriptions.on_synced(self._synced)

    def has(self, pod: Pod) -> bool:
        """Record a member, and return whether its node was deleted."""
        name = pod.spec.node_name
        if not name:
            return False
        self._members.setdefault(name, {})[pod.metadata.uid] = pod
        return name in self._lost

    def forget(self, pod: Pod) -> None:
        """Drop a deleted pod, which may be no member."""
        name = pod.spec.node_name
        members = self._members.get(name)
        if members is None or members.pop(pod.metadata.uid, None) is None or members:
            return
        del self._members[name]
        self._lost.discard(name)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None and new is not None:
            if new.name in self._lost:
                self._lost.discard(new.name)
                self._recount(new.name)
        elif new is None and old is not None and old.name in self._members:
            self._lost.add(old.name)
            self._recount(old.name)

    def _synced(self) -> None:
        """Look for members of nodes that were deleted before this process started."""
        table = self._handle.table
        for name in [name for name in self._members if table.row_of(name) is None]:
            self._lost.add(name)
            self._recount(name)

    def _recount(self, name: str) -> None:
        for pod in list(self._members[name].values()):
            self._changed(pod)
