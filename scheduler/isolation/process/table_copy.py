"""TableCopy: the copy of the node table that the process of a plugin has, as the scheduler sees it.

It remembers the node and the pods that were sent for each row. The change log tells which rows to
compare with the live table again, and what differs is sent: usually one pod. Nodes and pods are
compared by identity, since a change makes another object.

Invariant: whatever a row had that it has no more is sent before anything new, so that a pod or a
node that moved to another row is never in two places.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.cache.node_table import NodeTable
from scheduler.isolation.process.messages import ChangesMessage, sendable

BATCH_OBJECTS: Final = 200
"""Objects after which a message ends: about two milliseconds of encoding on the event loop."""


class _Row(NamedTuple):
    node: Node
    pods: dict[str, Pod]


class TableCopy:
    """The nodes that one process knows, none at first. Used while a cycle is suspended."""

    def __init__(self) -> None:
        self._sent: dict[int, _Row] = {}
        #: Rows that may differ.
        self._pending: set[int] = set()
        self._sequence: int | None = None

    @property
    def node_count(self) -> int:
        """Number of nodes that were sent."""
        return len(self._sent)

    @property
    def complete(self) -> bool:
        """Whether the process knows everything up to the last `removals`."""
        return not self._pending

    def removals(self, table: NodeTable) -> ChangesMessage | None:
        """Return what the copy has and the table does not have any more; None for nothing."""
        changed = None if self._sequence is None else table.change_log.since(self._sequence)
        self._pending.update(
            changed if changed is not None else (*table.rows.tolist(), *self._sent)
        )
        self._sequence = table.sequence
        pods: list[str] = []
        nodes: list[str] = []
        for row in self._pending & self._sent.keys():
            sent, node = self._sent[row], table.nodes[row]
            if node is None or node.name != sent.node.name:
                nodes.append(sent.node.name)
                pods += sent.pods
                del self._sent[row]
                continue
            gone = sent.pods.keys() - table.pods[row].keys()
            pods += gone
            for uid in gone:
                del sent.pods[uid]
        return ChangesMessage(pods, nodes) if pods or nodes else None

    def additions(self, table: NodeTable) -> Iterator[ChangesMessage]:
        """Yield what the copy lacks, in messages; it counts as sent when the next is asked for.

        A caller that stops early continues another time, after `removals`.
        """
        changes = ChangesMessage([], [], [], [])
        while self._pending:
            row = self._pending.pop()
            node = table.nodes[row]
            if node is None:
                continue
            sent = self._sent.get(row)
            if sent is None or sent.node is not node:
                changes.nodes.append((row, node))
            known = {} if sent is None else sent.pods
            changes.pods.extend(
                sendable(pod) for uid, pod in table.pods[row].items() if known.get(uid) is not pod
            )
            self._sent[row] = _Row(node, dict(table.pods[row]))
            if len(changes.nodes) + len(changes.pods) >= BATCH_OBJECTS:
                yield changes
                changes = ChangesMessage([], [], [], [])
        if changes.nodes or changes.pods:
            yield changes
