"""NodeTable: every node as a row of columns (docs/decisions/0002-columns-and-reuse.md).

Invariants, checked by `validate()`:
- usage columns of a row equal the sums over the pods placed on it, and so do the counts of pods by
  selector and of their affinity terms;
- a row is a node (`valid`), a placeholder (pods whose node is not known), or free;
- every change visible to a plugin is in the change log.

Used only by its owner, the scheduling loop; a cycle reads it live, without a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from scheduler.api.node import Node, Taint
from scheduler.api.pod import Pod
from scheduler.api.requests import Resources
from scheduler.api.signatures.signature import PodSignature
from scheduler.cache.change_log import ChangeLog
from scheduler.cache.columns import NO_FEATURES, NodeColumns
from scheduler.cache.indexes import ImageIndex, PortIndex
from scheduler.cache.interning import LabelColumn, TaintSets
from scheduler.cache.label_columns import LabelColumns
from scheduler.cache.node_changes import UNGROUPED, changed_groups, ungrouped_changes
from scheduler.cache.node_info import NodeView
from scheduler.cache.priority_usage import PriorityUsage
from scheduler.cache.selector_counts import SelectorCounts
from scheduler.cache.shared_nodes import SharedNodes
from scheduler.cache.term_index import TermIndex
from scheduler.framework.nodes import (
    Columns,
    ImageState,
    Int32Column,
    Rows,
)

_NO_ROWS: Rows = np.empty(0, dtype=np.intp)
_USAGE = int(Columns.USAGE)
_PORTS = int(Columns.PORTS)
_VOLUMES = int(Columns.VOLUMES)
_EXISTENCE = int(Columns.EXISTENCE)
_EVERYTHING = int(Columns.ALL)


class NodeTable(NodeColumns):
    """Implements `framework.NodeTableView`, and the writes that keep it up to date."""

    def __init__(self) -> None:
        super().__init__()
        self.priorities = PriorityUsage(self)
        self.change_log = ChangeLog()
        self.ports = PortIndex()
        #: (protocol, port) to row to {ip: number of pods}.
        self.host_ports: Mapping[tuple[str, int], Mapping[int, Mapping[str, int]]]
        self.host_ports = self.ports.holders
        self.selector_counts = SelectorCounts(self.capacity)
        #: Grows with each change of a named version that results may depend on without naming it.
        self.revision = 0
        #: Grows with each change of any named version.
        self.bumps = 0
        self.node_count = 0
        self._labels = LabelColumns(self.capacity)
        self._shared = SharedNodes()
        self.terms = TermIndex(self.capacity, self._labels)
        # Documented in `NodeTableView`. Not wrapped in methods for speed; every cycle calls some.
        self.pod_counts = self.selector_counts.counts
        self.summed_pods = self.selector_counts.summed
        self.existing_pod_terms = self.terms.matching_terms
        self.anti_terms_of = self.terms.anti_terms_of
        self._row_by_name: dict[str, int] = {}
        self._free: list[int] = []
        self._used_rows = 0
        self._rows: Rows | None = None
        self._taints = TaintSets()
        #: Every distinct ordered taint list by id; ids that no node uses hold an empty list.
        self.taint_sets: Sequence[tuple[Taint, ...]] = self._taints.lists
        self._images = ImageIndex()
        #: Images of all nodes by name.
        self.images: Mapping[str, ImageState] = self._images.states
        self._versions: dict[str, int] = {}
        self._views: dict[int, NodeView] = {}

    # -- reading: NodeTableView ------------------------------------------------------------------

    @property
    def rows(self) -> Rows:
        """Rows that are nodes, ascending."""
        if self._rows is None:
            self._rows = np.flatnonzero(self.valid)
            # Plugins get this array itself, not a copy.
            self._rows.flags.writeable = False
        return self._rows

    @property
    def sequence(self) -> int:
        """Number of the newest entry of the change log."""
        return self.change_log.sequence

    def row_of(self, name: str) -> int | None:
        """Return the row of a node; None for unknown names and placeholders."""
        row = self._row_by_name.get(name)
        return row if row is not None and self.valid[row] else None

    def label_column(self, key: str) -> Int32Column:
        """Return the value ids of a label key, as `NodeTableView.label_column`."""
        return self._labels.of(key, self.nodes).column

    def label_values(self, key: str) -> LabelColumn:
        """Return the dictionary behind `label_column`."""
        return self._labels.of(key, self.nodes)

    @property
    def has_existing_pod_terms(self) -> bool:
        """Whether any placed pod has an affinity term."""
        return not self.terms.empty

    def node_info(self, row: int) -> NodeView:
        """Return the scalar view of a row; the same object for the same row."""
        view = self._views.get(row)
        if view is None:
            view = self._views[row] = NodeView(self, row)
        return view

    def changed_rows(self, since: int, columns: Columns) -> Rows | None:
        """Return the rows changed in `columns` after entry `since`; None: older than the log."""
        log, groups = self.change_log, int(columns) | _EXISTENCE
        if since == log.sequence:
            return _NO_ROWS
        if since == log.sequence - 1:
            row, mask = log.newest
            return np.array([row] if mask & groups else [], dtype=np.intp)
        changed = log.since(since)
        if changed is None:
            return None
        if groups & changed.everywhere:
            return np.array(list(changed), dtype=np.intp)
        return np.array([r for r, mask in changed.items() if mask & groups], dtype=np.intp)

    def version(self, name: str) -> int:
        """Return the counter of a named version; 0 until the first `bump`."""
        return self._versions.get(name, 0)

    def bump(self, name: str, *, revise: bool = True) -> None:
        """Increment a named version; `revise` makes it visible to readers that do not name it."""
        self._versions[name] = self._versions.get(name, 0) + 1
        self.revision += revise
        self.bumps += 1

    def requested_of(self, row: int) -> Resources:
        """Return `requested` of a row as a record."""
        milli_cpu, memory, ephemeral_storage = self.requested[:, row].tolist()
        scalars: dict[str, int] = {}
        if self.scalar_requested:
            # Summed over the pods, since the table may have thousands of names, but the row few.
            for pod in self.pods[row].values():
                for name, amount in pod.signature.assigned.scalars:
                    scalars[name] = scalars.get(name, 0) + amount
        return Resources(
            milli_cpu=milli_cpu,
            memory=memory,
            ephemeral_storage=ephemeral_storage,
            scalars=tuple(sorted((name, each) for name, each in scalars.items() if each)),
        )

    # -- writing: nodes --------------------------------------------------------------------------

    def set_node(self, node: Node) -> int:
        """Add or update a node and return its row.

        Raises:
            QuantityError: an allocatable amount cannot be read; the table is unchanged.
        """
        self._labels.drop_old()
        known = self._row_by_name.get(node.name)
        old = None if known is None else self.nodes[known]
        changed = _EVERYTHING if old is None else changed_groups(old, node)
        # All that can raise comes first: a half-written node would stay so, because its next update
        # is compared with the object stored here.
        amounts = self._shared.allocatable(node) if changed & Columns.ALLOCATABLE else None
        self._shared.share_capacity(node)
        row = self._take_row(node.name) if known is None else known
        self.nodes[row] = node
        if amounts is not None:
            self._write_allocatable(row, *amounts)
        if changed & Columns.TAINTS:
            self._taints.release(int(self.taint_set[row]))
            self.taint_set[row] = self._taints.acquire(node.spec.taints)
            self.unschedulable[row] = node.spec.unschedulable
        if changed & Columns.LABELS:
            self._labels.write(row, old, node)
        if changed & Columns.IMAGES:
            self._images.set(row, old.status.images if old else (), node.status.images)
            self.bump("images")
        elif self._images.revise(row, node.status.images):
            changed |= Columns.IMAGES
            self.bump("images")
        if changed & Columns.FEATURES:
            features = node.status.declared_features
            # Empty ones are objects of their own as well.
            self.declared_features[row] = frozenset(features) if features else NO_FEATURES
        if old is None:
            self.valid[row] = True
            self._count_nodes(1)
        elif ungrouped_changes(old, node):
            changed |= UNGROUPED
        if changed:
            self.change_log.append(row, changed)
        return row

    def remove_node(self, name: str) -> bool:
        """Remove a node; its row stays a placeholder while pods are on it. False: unknown name."""
        row = self._row_by_name.get(name)
        node = self.nodes[row] if row is not None else None
        if row is None or node is None:
            return False
        self._images.set(row, node.status.images, ())
        self.bump("images")
        self._taints.release(int(self.taint_set[row]))
        self._labels.write(row, node, None)
        self._clear_node(row)
        self._count_nodes(-1)
        self.change_log.append(row, _EVERYTHING)
        self._release_if_empty(row)
        return True

    # -- writing: pods ---------------------------------------------------------------------------

    def row_for_pods(self, name: str) -> int:
        """Return the row for pods of node `name`; an unknown node gets a placeholder row."""
        row = self._row_by_name.get(name)
        return self._take_row(name) if row is None else row

    def add_pod(self, pod: Pod, row: int) -> None:
        """Count a pod on a row. The caller (`Cache`) ensures that it is counted once."""
        self.pods[row][pod.metadata.uid] = pod
        self._account(pod, row, 1)
        self.selector_counts.add(pod, row)
        self.terms.add(pod, row)

    def remove_pod(self, pod: Pod, row: int) -> None:
        """Stop counting a pod; `pod` must be the same object that was counted."""
        del self.pods[row][pod.metadata.uid]
        self._account(pod, row, -1)
        self.selector_counts.remove(pod, row)
        self.terms.remove(pod, row)
        self._release_if_empty(row)

    def replace_pod(self, old: Pod, new: Pod, row: int) -> None:
        """Replace the object of a counted pod; usage changes only if the signature did."""
        # Pods of one signature have the same priority and schedulerName.
        alike = old.interned is new.interned
        before, after = old.metadata, new.metadata
        relabelled = (
            not alike
            or before.labels != after.labels
            or (before.deletion_timestamp is None) != (after.deletion_timestamp is None)
        )
        if relabelled:
            self.selector_counts.remove(old, row)
            self.selector_counts.add(new, row)
        if alike:
            self.pods[row][new.metadata.uid] = new
            if relabelled:
                self.change_log.append(row, _USAGE)
            elif old.status.start_time != new.status.start_time:
                # No filter reads the start time, but the order of preemption victims depends on it.
                self.change_log.append(row, 0)
            return
        self.terms.remove(old, row)
        self.terms.add(new, row)
        self._account(old, row, -1)
        self.pods[row][new.metadata.uid] = new
        self._account(new, row, 1)

    def reorder_pods(self, row: int, uids: Sequence[str]) -> None:
        """Put the pods of a row into this order, which matters for victims of equal rank."""
        pods = self.pods[row]
        for uid in uids:
            pods[uid] = pods.pop(uid)

    def note_nominations(self, name: str) -> None:
        """Record that the pods nominated to a node changed."""
        row = self._row_by_name.get(name)
        if row is not None:
            self.change_log.append(row, int(Columns.NOMINATIONS))

    # -- snapshots -------------------------------------------------------------------------------

    def layout(self) -> tuple[list[str], list[int]]:
        """Return the name of each row, empty for a free one, and the free rows in order of reuse.

        The choice among equal nodes depends on their rows, so a copy of the table needs the same.
        """
        return self.names[: self._used_rows], self._free[::-1]

    def reserve_layout(self, names: Sequence[str], free: Sequence[int]) -> None:
        """Reserve the rows of another table's `layout` for nodes; this table must be empty.

        Raises:
            ValueError: the table is not empty, or the layout is inconsistent.
        """
        vacant = {row for row, name in enumerate(names) if not name}
        taken = [name for name in names if name]
        if self._used_rows or set(free) != vacant or len(set(taken)) != len(taken):
            raise ValueError("the rows of the node table contradict each other")
        for row, name in enumerate(names):
            self._take_row(name or f" {row}")
        for row in reversed(free):
            self._release_if_empty(row)

    def release_reserved(self) -> None:
        """Free the reserved rows whose nodes were not added."""
        for row in list(self._row_by_name.values()):
            self._release_if_empty(row)

    # -- internals -------------------------------------------------------------------------------

    def _count_nodes(self, by: int) -> None:
        self.node_count += by
        self._rows = None
        self.bump("node_count")

    def _account(self, pod: Pod, row: int, sign: int) -> None:
        signature: PodSignature = pod.interned
        assigned: Resources = signature.assigned
        requested = self.requested
        requested[0, row] += sign * assigned.milli_cpu
        requested[1, row] += sign * assigned.memory
        if assigned.ephemeral_storage:
            requested[2, row] += sign * assigned.ephemeral_storage
        if assigned.scalars:
            self.scalar_requested.add_all(assigned.scalars, row, sign)
        cpu, memory = signature.non_zero
        self.non_zero_requested[0, row] += sign * cpu
        self.non_zero_requested[1, row] += sign * memory
        self.pod_count[row] += sign
        self.priorities.account(signature, row, sign)
        changed = _USAGE
        if signature.host_ports:
            self.ports.account(row, signature, sign)
            changed |= _PORTS
        if signature.volumes:
            changed |= _VOLUMES
        self.change_log.append(row, changed)

    def _take_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
        else:
            row = self._used_rows
            self._used_rows += 1
            if row >= self.capacity:
                self._grow(row + 1)
        self._row_by_name[name] = row
        self.names[row] = name
        return row

    def _grow(self, rows: int) -> None:
        self.grow_rows(rows)
        self.priorities.grow()
        self._labels.grow(self.capacity)
        self.selector_counts.grow(self.capacity)
        self.terms.grow(self.capacity)

    def _release_if_empty(self, row: int) -> None:
        if self.nodes[row] is None and not self.pods[row]:
            del self._row_by_name[self.names[row]]
            self.names[row] = ""
            self._free.append(row)

    def validate(self) -> Iterable[str]:
        """Yield a sentence for every broken invariant."""
        yield from self._validate_usage()
        if int(self.valid.sum()) != self.node_count:
            yield f"node_count is {self.node_count}, valid rows {int(self.valid.sum())}"
        yield from self._labels.validate(self.nodes)
        if set(self._free) & set(self._row_by_name.values()):
            yield "a row is both free and in use"
        placed = [(row, pod) for row, pods in enumerate(self.pods) for pod in pods.values()]
        for index in (self.selector_counts, self.terms, self.ports, self.priorities):
            yield from index.validate(placed)
