"""NodeTable: every node as a row of columns (DESIGN section 4).

Invariants, checked by `validate()`:
- usage columns of a row equal the sums over the pods placed on it, and so do the counts of pods by
  selector and of their affinity terms;
- a row is either a node (`valid`), a placeholder (pods but no node), or free;
- every change visible to a plugin is in the change log.

Touched only by its owner, the scheduling loop; a cycle reads it live, without a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from scheduler.api.many_terms import ManyTerms
from scheduler.api.node import Node, Taint
from scheduler.api.pod import Pod
from scheduler.api.requests import Resources, node_allocatable
from scheduler.cache.change_log import ChangeLog
from scheduler.cache.columns import NumericColumns
from scheduler.cache.indexes import ImageIndex, PortIndex
from scheduler.cache.interning import LabelColumn, TaintSets
from scheduler.cache.label_columns import LabelColumns
from scheduler.cache.node_info import NodeView
from scheduler.cache.priority_usage import PriorityUsage
from scheduler.cache.selector_counts import SelectorCounts
from scheduler.cache.term_index import TermIndex
from scheduler.framework.nodes import (
    BoolColumn,
    Columns,
    ExistingPodTerm,
    ImageState,
    Int32Column,
    Int64Column,
    PodTerm,
    PotentialVictims,
    Rows,
)

_NO_FEATURES: frozenset[str] = frozenset()
_NO_RESOURCES = Resources()
_NO_ROWS: Rows = np.empty(0, dtype=np.intp)
_USAGE = int(Columns.USAGE)
_PORTS = int(Columns.PORTS)
_VOLUMES = int(Columns.VOLUMES)
_EVERYTHING = int(Columns.ALL)
#: What no column shows: results that depend on any group, or on all of a row, are made again.
_UNGROUPED = _EVERYTHING & ~int(Columns.EXISTENCE)


class NodeTable:
    """Implements `framework.NodeTableView`, and the writes that keep it."""

    def __init__(self) -> None:
        self.columns = NumericColumns()
        self.priorities = PriorityUsage(self.columns)
        self.change_log = ChangeLog()
        self._row_by_name: dict[str, int] = {}
        self._names: list[str] = [""] * self.columns.capacity
        self._nodes: list[Node | None] = [None] * self.columns.capacity
        self._resources: list[Resources] = [_NO_RESOURCES] * self.columns.capacity
        self._features: list[frozenset[str]] = [_NO_FEATURES] * self.columns.capacity
        self._pods: list[dict[str, Pod]] = [{} for _ in range(self.columns.capacity)]
        self._free: list[int] = []
        self._used_rows = 0
        self._node_count = 0
        self._rows: Rows | None = None
        self._taints = TaintSets()
        self._labels = LabelColumns(self.columns.capacity)
        self._images = ImageIndex()
        self._ports = PortIndex()
        self.selector_counts = SelectorCounts(self.columns.capacity)
        self.terms = TermIndex(self.columns.capacity, self._labels)
        self._versions: dict[str, int] = {}
        #: Grows with named versions that somebody may depend on without naming them.
        self.revision = 0
        self._views: dict[int, NodeView] = {}

    # -- reading: NodeTableView ------------------------------------------------------------------

    @property
    def capacity(self) -> int:
        """Entries per column."""
        return self.columns.capacity

    @property
    def valid(self) -> BoolColumn:
        """Which rows are nodes."""
        return self.columns.valid

    @property
    def node_count(self) -> int:
        """Number of nodes."""
        return self._node_count

    @property
    def rows(self) -> Rows:
        """Rows that are nodes, ascending."""
        if self._rows is None:
            self._rows = np.flatnonzero(self.columns.valid)
        return self._rows

    @property
    def names(self) -> Sequence[str]:
        """Node name per row; placeholders keep theirs, free rows have none."""
        return self._names

    @property
    def allocatable(self) -> Int64Column:
        """(3, capacity)."""
        return self.columns.allocatable

    @property
    def requested(self) -> Int64Column:
        """(3, capacity)."""
        return self.columns.requested

    @property
    def non_zero_requested(self) -> Int64Column:
        """(2, capacity)."""
        return self.columns.non_zero_requested

    @property
    def pod_count(self) -> Int64Column:
        """Pods per row, assumed ones included."""
        return self.columns.pod_count

    @property
    def pod_limit(self) -> Int64Column:
        """Allocatable `pods` per row."""
        return self.columns.pod_limit

    @property
    def unschedulable(self) -> BoolColumn:
        """`spec.unschedulable` per row."""
        return self.columns.unschedulable

    @property
    def taint_set(self) -> Int32Column:
        """Id into `taint_sets` per row."""
        return self.columns.taint_set

    @property
    def taint_sets(self) -> Sequence[tuple[Taint, ...]]:
        """Every distinct ordered taint list; ids without nodes hold an empty list."""
        return self._taints.lists

    @property
    def images(self) -> Mapping[str, ImageState]:
        """Images of all nodes by name."""
        return self._images.states

    @property
    def host_ports(self) -> Mapping[tuple[str, int], Mapping[int, Mapping[str, int]]]:
        """(protocol, port) to row to {ip: pods}."""
        return self._ports.holders

    @property
    def declared_features(self) -> Sequence[frozenset[str]]:
        """Declared features per row."""
        return self._features

    @property
    def sequence(self) -> int:
        """Newest entry of the change log."""
        return self.change_log.sequence

    def row_of(self, name: str) -> int | None:
        """The row of a node, or None (also for placeholders)."""
        row = self._row_by_name.get(name)
        return row if row is not None and self.columns.valid[row] else None

    def scalar_amounts(self, name: str, index: slice | Rows) -> tuple[Int64Column, Int64Column]:
        """(allocatable, requested) of a scalar resource on some rows."""
        columns = self.columns
        return columns.scalar_allocatable.of(name, index), columns.scalar_requested.of(name, index)

    def scalar_amounts_at(self, name: str, row: int) -> tuple[int, int]:
        """(allocatable, requested) of a scalar resource on a row."""
        columns = self.columns
        return columns.scalar_allocatable.at(name, row), columns.scalar_requested.at(name, row)

    def offers_scalar(self, name: str) -> bool:
        """Whether some node has any of a scalar resource allocatable."""
        return name in self.columns.scalar_allocatable

    def label_column(self, key: str) -> Int32Column:
        """Value ids of a label key; the column is built on first use, and again if long unused.

        Keys that no node has share one.
        """
        return self._labels.of(key, self._nodes).column

    def label_values(self, key: str) -> LabelColumn:
        """The dictionary of a label key."""
        return self._labels.of(key, self._nodes)

    def pod_counts(self, terms: Sequence[PodTerm], *, terminating: bool) -> Int32Column:
        """Pods per row that match all terms; the column is built on first use."""
        return self.selector_counts.counts(terms, terminating=terminating)

    def summed_pods(self, terms: ManyTerms) -> tuple[Int64Column, Int64Column]:
        """Pods per row, once for each term that matches, and with its weight."""
        return self.selector_counts.summed(terms)

    def existing_pod_terms(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> Sequence[ExistingPodTerm]:
        """Affinity terms of placed pods that match a pod."""
        return self.terms.matching_terms(namespace, labels, namespace_labels)

    def anti_terms_of(
        self,
        owner: Pod,
        namespace: str,
        labels: Mapping[str, str],
        namespace_labels: Mapping[str, str],
    ) -> Mapping[str, int] | None:
        """Required anti-affinity terms of a placed pod with very many that match another."""
        return self.terms.anti_terms_of(owner, namespace, labels, namespace_labels)

    @property
    def has_existing_pod_terms(self) -> bool:
        """Whether any placed pod has an affinity term."""
        return not self.terms.empty

    def victim_counts(self, terms: Sequence[PodTerm], victims: PotentialVictims) -> Int32Column:
        """As `TableWithoutVictims.victim_counts`, where `victims` may go."""
        return self.selector_counts.counts(terms, terminating=True, among=victims)

    def summed_victims(
        self, terms: ManyTerms, victims: PotentialVictims
    ) -> tuple[Int64Column, Int64Column]:
        """As `TableWithoutVictims.summed_victims`, where `victims` may go."""
        return self.selector_counts.summed(terms, among=victims)

    def victim_terms(
        self,
        namespace: str,
        labels: Mapping[str, str],
        namespace_labels: Mapping[str, str],
        victims: PotentialVictims,
    ) -> Sequence[ExistingPodTerm]:
        """As `TableWithoutVictims.victim_terms`, where `victims` may go."""
        return self.terms.matching_terms(namespace, labels, namespace_labels, victims)

    def remaining_ports(
        self, protocol: str, port: int, victims: PotentialVictims
    ) -> Mapping[str, BoolColumn]:
        """As `TableWithoutVictims.remaining_ports`, where `victims` may go."""
        return self._ports.kept(protocol, port, victims, self.capacity)

    def node_info(self, row: int) -> NodeView:
        """The scalar view of a row; the same object for the same row."""
        view = self._views.get(row)
        if view is None:
            view = self._views[row] = NodeView(self, row)
        return view

    def changed_rows(self, since: int, columns: Columns) -> Rows | None:
        """Rows changed in `columns` after entry `since`; None: the log does not reach back."""
        if since == self.change_log.sequence:
            return _NO_ROWS
        changed = self.change_log.since(since)
        if changed is None:
            return None
        wanted = int(columns | Columns.EXISTENCE)
        return np.array([r for r, mask in changed.items() if mask & wanted], dtype=np.intp)

    def version(self, name: str) -> int:
        """A named version; 0 until bumped."""
        return self._versions.get(name, 0)

    def bump(self, name: str, *, revise: bool = True) -> None:
        """Say that what `name` stands for changed; without `revise` to those only who name it."""
        self._versions[name] = self._versions.get(name, 0) + 1
        self.revision += revise

    # -- reading, per row: used by NodeView ------------------------------------------------------

    def node(self, row: int) -> Node | None:
        """The node object, None for placeholders and free rows."""
        return self._nodes[row]

    def pods_on(self, row: int) -> Mapping[str, Pod]:
        """Pods by UID."""
        return self._pods[row]

    def allocatable_of(self, row: int) -> Resources:
        """Allocatable as a record."""
        return self._resources[row]

    def requested_of(self, row: int) -> Resources:
        """Requested as a record."""
        milli_cpu, memory, ephemeral_storage = self.columns.requested[:, row].tolist()
        scalars: dict[str, int] = {}
        if self.columns.scalar_requested:
            # By pods, for there may be thousands of names and none of them here.
            for pod in self._pods[row].values():
                for name, amount in pod.signature.assigned.scalars:
                    scalars[name] = scalars.get(name, 0) + amount
        return Resources(
            milli_cpu=milli_cpu,
            memory=memory,
            ephemeral_storage=ephemeral_storage,
            scalars=tuple(sorted((name, each) for name, each in scalars.items() if each)),
        )

    def ports_of(self, row: int) -> Mapping[tuple[str, int], Mapping[str, int]]:
        """Host ports in use on a row."""
        return self._ports.by_row.get(row, {})

    # -- writing: nodes --------------------------------------------------------------------------

    def set_node(self, node: Node) -> int:
        """Add or update a node; returns its row.

        An unreadable quantity raises QuantityError and leaves the table as it was.
        """
        self._labels.drop_old()
        known = self._row_by_name.get(node.name)
        old = None if known is None else self._nodes[known]
        changed = _EVERYTHING if old is None else self._difference(old, node)
        # Whatever can raise comes first: half a node would never be repaired by its next update.
        amounts = node_allocatable(node) if changed & Columns.ALLOCATABLE else None
        row = self._take_row(node.name) if known is None else known
        self._nodes[row] = node
        if amounts is not None:
            self._write_allocatable(row, *amounts)
        if changed & Columns.TAINTS:
            self._taints.release(int(self.columns.taint_set[row]))
            self.columns.taint_set[row] = self._taints.acquire(node.spec.taints)
            self.columns.unschedulable[row] = node.spec.unschedulable
        if changed & Columns.LABELS:
            self._labels.write(row, old, node)
        if changed & Columns.IMAGES:
            self._images.set(row, old.status.images if old else (), node.status.images)
            self.bump("images")
        elif self._images.revise(row, node.status.images):
            changed |= Columns.IMAGES
            self.bump("images")
        if changed & Columns.FEATURES:
            self._features[row] = frozenset(node.status.declared_features)
        if old is None:
            self.columns.valid[row] = True
            self._node_count += 1
            self._rows = None
            self.bump("node_count")
        elif _differs_otherwise(old, node):
            changed |= _UNGROUPED
        if changed:
            self.change_log.append(row, changed)
        return row

    def remove_node(self, name: str) -> bool:
        """Forget a node; its row stays a placeholder while pods are on it. False: unknown."""
        row = self._row_by_name.get(name)
        node = self._nodes[row] if row is not None else None
        if row is None or node is None:
            return False
        self._images.set(row, node.status.images, ())
        self.bump("images")
        self._taints.release(int(self.columns.taint_set[row]))
        self._labels.write(row, node, None)
        self.columns.clear_row(row)
        for resource, _ in self._resources[row].scalars:
            self.columns.scalar_allocatable.put(resource, row, 0)
        self._nodes[row] = None
        self._resources[row] = _NO_RESOURCES
        self._features[row] = _NO_FEATURES
        self._node_count -= 1
        self._rows = None
        self.bump("node_count")
        self.change_log.append(row, _EVERYTHING)
        self._release_if_empty(row)
        return True

    # -- writing: pods ---------------------------------------------------------------------------

    def row_for_pods(self, name: str) -> int:
        """Return the row for pods of node `name`; an unknown node gets a placeholder row."""
        row = self._row_by_name.get(name)
        return self._take_row(name) if row is None else row

    def add_pod(self, pod: Pod, row: int) -> None:
        """Count a pod on a row. The caller (`Cache`) makes sure that it is counted once."""
        self._pods[row][pod.metadata.uid] = pod
        self._account(pod, row, 1)
        self.selector_counts.add(pod, row)
        self.terms.add(pod, row)

    def remove_pod(self, pod: Pod, row: int) -> None:
        """Stop counting a pod, with the object it was counted with."""
        del self._pods[row][pod.metadata.uid]
        self._account(pod, row, -1)
        self.selector_counts.remove(pod, row)
        self.terms.remove(pod, row)
        self._release_if_empty(row)

    def replace_pod(self, old: Pod, new: Pod, row: int) -> None:
        """Swap the object of a counted pod; usage changes only if the signature did."""
        relabelled = (
            old.metadata.labels != new.metadata.labels
            or old.terminating != new.terminating
            or old.priority != new.priority
            or old.spec.scheduler_name != new.spec.scheduler_name
        )
        if relabelled:
            self.selector_counts.remove(old, row)
            self.selector_counts.add(new, row)
        if old.signature is new.signature:
            self._pods[row][new.metadata.uid] = new
            if relabelled:
                self.change_log.append(row, _USAGE)
            elif old.status.start_time != new.status.start_time:
                # No filter reads it; who is to go first depends on it.
                self.change_log.append(row, 0)
            return
        self.terms.remove(old, row)
        self.terms.add(new, row)
        self._account(old, row, -1)
        self._pods[row][new.metadata.uid] = new
        self._account(new, row, 1)

    def note_nominations(self, name: str) -> None:
        """Record that the pods nominated to a node changed."""
        row = self._row_by_name.get(name)
        if row is not None:
            self.change_log.append(row, int(Columns.NOMINATIONS))

    # -- internals -------------------------------------------------------------------------------

    def _account(self, pod: Pod, row: int, sign: int) -> None:
        signature = pod.signature
        assigned: Resources = signature.assigned
        columns = self.columns
        requested = columns.requested
        requested[0, row] += sign * assigned.milli_cpu
        requested[1, row] += sign * assigned.memory
        if assigned.ephemeral_storage:
            requested[2, row] += sign * assigned.ephemeral_storage
        if assigned.scalars:
            columns.scalar_requested.add_all(assigned.scalars, row, sign)
        cpu, memory = signature.non_zero
        columns.non_zero_requested[0, row] += sign * cpu
        columns.non_zero_requested[1, row] += sign * memory
        columns.pod_count[row] += sign
        self.priorities.account(signature, row, sign)
        changed = _USAGE
        if signature.host_ports:
            self._ports.account(row, signature, sign)
            changed |= _PORTS
        if signature.volumes:
            changed |= _VOLUMES
        self.change_log.append(row, changed)

    def _difference(self, old: Node, new: Node) -> int:
        changed = 0
        if old.status.allocatable != new.status.allocatable:
            changed |= Columns.ALLOCATABLE
        if old.spec.taints != new.spec.taints or old.spec.unschedulable != new.spec.unschedulable:
            changed |= Columns.TAINTS
        if old.metadata.labels != new.metadata.labels:
            changed |= Columns.LABELS
        if old.status.images != new.status.images:
            changed |= Columns.IMAGES
        if old.status.declared_features != new.status.declared_features:
            changed |= Columns.FEATURES
        return int(changed)

    def _write_allocatable(self, row: int, resources: Resources, pods: int) -> None:
        columns = self.columns
        for name, _ in self._resources[row].scalars:
            columns.scalar_allocatable.put(name, row, 0)
        for name, amount in resources.scalars:
            columns.scalar_allocatable.put(name, row, amount)
        self._resources[row] = resources
        columns.allocatable[:, row] = (
            resources.milli_cpu,
            resources.memory,
            resources.ephemeral_storage,
        )
        self.columns.pod_limit[row] = pods

    def _take_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
        else:
            row = self._used_rows
            self._used_rows += 1
            if row >= self.columns.capacity:
                self._grow(row + 1)
        self._row_by_name[name] = row
        self._names[row] = name
        return row

    def _grow(self, rows: int) -> None:
        self.columns.grow_rows(rows)
        self.priorities.grow()
        more = self.columns.capacity - len(self._names)
        self._names += [""] * more
        self._nodes += [None] * more
        self._resources += [_NO_RESOURCES] * more
        self._features += [_NO_FEATURES] * more
        self._pods += [{} for _ in range(more)]
        self._labels.grow(self.columns.capacity)
        self.selector_counts.grow(self.columns.capacity)
        self.terms.grow(self.columns.capacity)

    def _release_if_empty(self, row: int) -> None:
        if self._nodes[row] is None and not self._pods[row]:
            del self._row_by_name[self._names[row]]
            self._names[row] = ""
            self._free.append(row)

    def validate(self) -> Iterable[str]:
        """Every broken invariant, as a sentence."""
        for row, pods in enumerate(self._pods):
            if pods and not self._names[row]:
                yield f"row {row} holds {len(pods)} pods but belongs to no node name"
        expected = self._recounted()
        for at, name in enumerate(("cpu", "memory", "ephemeral-storage")):
            if not np.array_equal(expected.requested[at], self.columns.requested[at]):
                yield f"requested {name} differs from the sum over pods"
        for kind in ("scalar_requested", "scalar_allocatable"):
            wanted: dict[tuple[str, int], int] = getattr(expected, kind).nonzero()
            found: dict[tuple[str, int], int] = getattr(self.columns, kind).nonzero()
            for resource, at in sorted({key for key, _ in wanted.items() ^ found.items()}):
                yield f"{kind} of {resource} on row {at} is not what its node and pods say"
        if not np.array_equal(expected.pod_count, self.columns.pod_count):
            yield "pod_count differs from the number of pods"
        if not np.array_equal(expected.non_zero_requested, self.columns.non_zero_requested):
            yield "non_zero_requested differs from the sum over pods"
        if int(self.columns.valid.sum()) != self._node_count:
            yield f"node_count is {self._node_count}, valid rows {int(self.columns.valid.sum())}"
        yield from self._labels.validate(self._nodes)
        if set(self._free) & set(self._row_by_name.values()):
            yield "a row is both free and in use"
        placed = [(row, pod) for row, pods in enumerate(self._pods) for pod in pods.values()]
        yield from self.selector_counts.validate(placed)
        yield from self.terms.validate(placed)
        yield from self._ports.validate(placed)
        yield from self.priorities.validate(placed)

    def _recounted(self) -> NumericColumns:
        """Usage, and scalar resources of nodes, as they follow from the objects."""
        expected = NumericColumns(self.columns.capacity)
        for row, pods in enumerate(self._pods):
            for pod in pods.values():
                signature = pod.signature
                expected.pod_count[row] += 1
                expected.non_zero_requested[:, row] += np.array(signature.non_zero, dtype=np.int64)
                assigned = signature.assigned
                expected.requested[:, row] += (
                    assigned.milli_cpu,
                    assigned.memory,
                    assigned.ephemeral_storage,
                )
                for name, amount in assigned.scalars:
                    expected.scalar_requested.add(name, row, amount)
            for name, amount in self._resources[row].scalars:
                expected.scalar_allocatable.put(name, row, amount)
        return expected


def _differs_otherwise(old: Node, new: Node) -> bool:
    """Whether something without a column changed that a plugin may read from the node object.

    Times of conditions do not count: kubelets renew them all the time.
    """
    return (
        old.metadata.annotations != new.metadata.annotations
        or old.status.capacity != new.status.capacity
        or _conditions(old) != _conditions(new)
    )


def _conditions(node: Node) -> list[tuple[str, str, str]]:
    return [(each.type, each.status, each.reason) for each in node.status.conditions]
