"""PodStore: the pods of a world, which are also found by their node."""

from __future__ import annotations

from scheduler.api.pod import Pod
from scheduler.client.resources import PODS
from scheduler.client.store import Store


class PodStore(Store[Pod]):
    """Pods by key, and the keys of each node's pods; those of node "" have none."""

    def __init__(self) -> None:
        super().__init__(PODS)
        #: Keys to the node where the pod is indexed, and its position among all pods: the order
        #: of `list`, in which a pod that replaces another takes its position.
        self._places: dict[str, tuple[str, int]] = {}
        self._on_node: dict[str, set[str]] = {}
        self._next = 0

    def on_node(self, node: str) -> list[Pod]:
        """Return the pods of a node, "" for pods without one, in the order of `list`."""
        keys = sorted(self._on_node.get(node, ()), key=lambda key: self._places[key][1])
        return [self._items[key] for key in keys]

    def put(self, key: str, item: Pod, raw: bytes | None = None) -> None:
        """Add or replace a pod; see `Store.put`."""
        super().put(key, item, raw)
        node = item.spec.node_name
        before = self._places.get(key)
        if before is None:
            position, self._next = self._next, self._next + 1
        elif before[0] == node:
            return
        else:
            position = before[1]
            self._leave(key, before[0])
        self._places[key] = node, position
        self._on_node.setdefault(node, set()).add(key)

    def remove(self, key: str) -> Pod | None:
        """Remove a pod; see `Store.remove`."""
        before = self._places.pop(key, None)
        if before is not None:
            self._leave(key, before[0])
        return super().remove(key)

    def _leave(self, key: str, node: str) -> None:
        keys = self._on_node[node]
        keys.remove(key)
        if not keys:
            del self._on_node[node]
