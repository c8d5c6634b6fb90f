"""Nodes as plugins see them: a single one (`NodeInfo`), or all in columns (`NodeTableView`).

A *row* is a node's index into every column. Rows of deleted nodes are reused; only
rows where `valid` is True are nodes. Columns are views into live arrays: read them within a call,
never keep or change them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.api.many_terms import ManyTerms
from scheduler.api.node import Node, Taint
from scheduler.api.pod import Pod
from scheduler.api.requests import Resources
from scheduler.api.selectors import CompiledLabelSelector

BoolColumn = NDArray[np.bool_]
Int32Column = NDArray[np.int32]
Int64Column = NDArray[np.int64]
Rows = NDArray[np.intp]
"""Row numbers; results have the same order."""
Codes = NDArray[np.int32]
"""Result of a filter per row: 0 if the row passes, else a code that the plugin defines."""

CPU, MEMORY, EPHEMERAL_STORAGE = 0, 1, 2
"""Fixed resource indexes of `allocatable` and `requested`; scalar resources follow."""


class Columns(IntFlag):
    """Groups of columns, for the change log and reuse rules."""

    #: requested, non_zero_requested, pod_count, and the pods of the node
    USAGE = 1
    #: host ports in use
    PORTS = 2
    #: allocatable, pod_limit
    ALLOCATABLE = 4
    LABELS = 8
    #: taints and spec.unschedulable
    TAINTS = 16
    IMAGES = 32
    FEATURES = 64
    #: the row began or ceased to be a node; implies everything else
    EXISTENCE = 128
    NOMINATIONS = 256
    VOLUMES = 512
    ALL = 1023


@dataclass(slots=True)
class ImageState:
    """An image and the nodes that have it."""

    #: Bytes, as reported by the first node with the image.
    size: int
    #: Rows of the nodes that have it.
    rows: set[int]


class NodeInfo(Protocol):
    """One node and the pods on it, as scalar plugins see it. Valid only during the call."""

    @property
    def node(self) -> Node:
        """The node object; raises LookupError if the row is not a node any more."""
        ...

    @property
    def name(self) -> str:
        """`metadata.name`."""
        ...

    @property
    def row(self) -> int:
        """The node's row in the table; a what-if copy keeps the row of its original."""
        ...

    @property
    def pods(self) -> Collection[Pod]:
        """Pods bound or assumed to the node, in no particular order."""
        ...

    @property
    def pod_count(self) -> int:
        """Number of `pods`."""
        ...

    @property
    def allowed_pod_number(self) -> int:
        """Maximum number of pods: allocatable `pods`."""
        ...

    @property
    def allocatable(self) -> Resources:
        """Amounts of `status.allocatable`, without `pods`: millicores, bytes, whole units."""
        ...

    @property
    def requested(self) -> Resources:
        """Sum of the requests of `pods`, in the units of `allocatable`."""
        ...

    @property
    def non_zero_requested(self) -> tuple[int, int]:
        """CPU (millicores) and memory (bytes) with defaults for containers that state none."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """`metadata.labels`."""
        ...

    @property
    def taints(self) -> tuple[Taint, ...]:
        """`spec.taints`, in their order."""
        ...

    @property
    def unschedulable(self) -> bool:
        """`spec.unschedulable`: the node is cordoned."""
        ...

    @property
    def used_ports(self) -> Mapping[tuple[str, int], Mapping[str, int]]:
        """(protocol, port) to {ip: number of pods holding it}."""
        ...

    @property
    def image_states(self) -> Mapping[str, ImageState]:
        """Every image of the cluster by name; this node has an image if its row is in `rows`."""
        ...

    @property
    def declared_features(self) -> frozenset[str]:
        """`status.declaredFeatures`."""
        ...

    @property
    def pvc_ref_counts(self) -> Mapping[str, int]:
        """`namespace/claim` to the number of pods on the node that use it."""
        ...


class LabelValues(Protocol):
    """The dictionary of one label key: small ids for its values, -1 for a missing label."""

    @property
    def ids(self) -> Mapping[str, int]:
        """Value to id."""
        ...

    @property
    def values(self) -> Sequence[str]:
        """Id to value."""
        ...

    @property
    def integers(self) -> Int64Column:
        """Id to the value as a 64-bit integer, for Gt and Lt."""
        ...

    @property
    def is_integer(self) -> BoolColumn:
        """Id to whether `integers` holds a number."""
        ...


class PodTerm(NamedTuple):
    """The pods that a selector matches in some namespaces."""

    namespaces: frozenset[str] | None
    """Names; None for every namespace."""
    selector: CompiledLabelSelector


class PotentialVictims(NamedTuple):
    """The pods that a preemption may evict."""

    below: int
    """Only pods with a priority lower than this."""
    schedulers: frozenset[str] | None
    """Only pods with one of these schedulerNames; None: any."""

    def includes(self, priority: int, scheduler_name: str) -> bool:
        """Whether pods of that priority and schedulerName may be evicted."""
        return priority < self.below and (
            self.schedulers is None or scheduler_name in self.schedulers
        )


class TermKind(IntEnum):
    """The list in a pod's spec that an affinity term comes from."""

    REQUIRED = 0
    REQUIRED_ANTI = 1
    PREFERRED = 2
    PREFERRED_ANTI = 3


class ExistingPodTerm(Protocol):
    """An affinity term of placed pods, or the sum of many terms of one kind and topology key."""

    @property
    def kind(self) -> TermKind:
        """The list that the term comes from."""
        ...

    @property
    def weight(self) -> int:
        """The weight of a preferred term, 1 for a sum of terms; 0 for a required term."""
        ...

    @property
    def rows(self) -> Mapping[int, int]:
        """Row to the number of pods there that have the term, without zeros; read only.

        In a sum a pod counts once per term, and preferred terms count with their weights.
        """
        ...

    @property
    def row_count(self) -> int:
        """Length of `rows`, or an upper bound of it."""
        ...

    @property
    def topology_key(self) -> str:
        """The node label whose values are the topology domains."""
        ...

    @property
    def counts(self) -> Int32Column | Int64Column:
        """(capacity,): `rows` as an array; rows that are not nodes are included."""
        ...


class NodeAmounts(Protocol):
    """The resources of all nodes in columns, and the requests of the pods there.

    Either a `NodeTableView`, or hypothetical nodes with more pods (`ReuseRule.amounts_only`).
    Arrays have an entry for each row.
    """

    @property
    def rows(self) -> Rows:
        """Valid rows, ascending."""
        ...

    @property
    def allocatable(self) -> Int64Column:
        """(3, capacity): millicores, bytes of memory, bytes of ephemeral storage.

        For all other resources see `scalar_amounts`.
        """
        ...

    @property
    def requested(self) -> Int64Column:
        """(3, capacity): sums of the pods' requests, in the units of `allocatable`."""
        ...

    @property
    def non_zero_requested(self) -> Int64Column:
        """(2, capacity): millicores and bytes, with defaults for containers that state none."""
        ...

    @property
    def pod_count(self) -> Int64Column:
        """(capacity,): number of pods, bound or assumed."""
        ...

    @property
    def pod_limit(self) -> Int64Column:
        """(capacity,): maximum number of pods, allocatable `pods`."""
        ...

    def scalar_amounts(self, name: str, index: slice | Rows) -> tuple[Int64Column, Int64Column]:
        """Return (allocatable, requested) of a scalar or extended resource on the rows `index`.

        Both are as long as `index`, in whole units; 0 where neither the node nor its pods have the
        resource. They may be views into the live table and must not be modified.
        """
        ...

    def scalar_amounts_at(self, name: str, row: int) -> tuple[int, int]:
        """Return (allocatable, requested) of a scalar resource on one row."""
        ...


class NodeTableView(NodeAmounts, Protocol):
    """All nodes in columns.

    Arrays have `capacity` entries; rows where `valid` is False are meaningless.
    """

    @property
    def capacity(self) -> int:
        """Entries per column, at least the number of nodes; grows by doubling."""
        ...

    @property
    def valid(self) -> BoolColumn:
        """(capacity,): True for rows that are nodes."""
        ...

    @property
    def node_count(self) -> int:
        """Number of nodes (valid rows)."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """Node name per row; empty for rows that are not nodes."""
        ...

    def row_of(self, name: str) -> int | None:
        """Return the row of the node called `name`, or None."""
        ...

    def offers_scalar(self, name: str) -> bool:
        """Whether any node has a positive allocatable amount of a scalar resource.

        The result stays valid until `sequence` changes.
        """
        ...

    @property
    def unschedulable(self) -> BoolColumn:
        """(capacity,): `spec.unschedulable`, the node is cordoned."""
        ...

    @property
    def taint_set(self) -> Int32Column:
        """(capacity,): index into `taint_sets`; nodes with equal ordered taint lists share it."""
        ...

    @property
    def taint_sets(self) -> Sequence[tuple[Taint, ...]]:
        """Taint lists by id. Id 0 is the empty list, as is every id that no node uses."""
        ...

    def label_column(self, key: str) -> Int32Column:
        """(capacity,): value ids of label `key`, -1 where missing.

        Built on first use. Ids are valid within one cycle: a change of a node may change them.
        """
        ...

    def label_values(self, key: str) -> LabelValues:
        """The dictionary behind `label_column(key)`."""
        ...

    @property
    def images(self) -> Mapping[str, ImageState]:
        """Every image that some node reports, by each of its names."""
        ...

    @property
    def host_ports(self) -> Mapping[tuple[str, int], Mapping[int, Mapping[str, int]]]:
        """(protocol, port) to row to {ip: number of pods}."""
        ...

    @property
    def declared_features(self) -> Sequence[frozenset[str]]:
        """`status.declaredFeatures` per row."""
        ...

    def pod_counts(self, terms: Sequence[PodTerm], *, terminating: bool) -> Int32Column:
        """(capacity,): the number of pods, bound or assumed, that match all `terms`.

        With `terminating`, pods that are being deleted are included. Rows that are not nodes have
        counts as well. The column is built on first use and kept up to date while it is in use.
        """
        ...

    def summed_pods(self, terms: ManyTerms) -> tuple[Int64Column, Int64Column]:
        """Return two columns (capacity,): the terms that placed pods match, and their weights.

        Each is summed over the pods of a row, including terminating ones. It replaces `pod_counts`
        for a pod with very many terms.
        """
        ...

    def existing_pod_terms(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> Sequence[ExistingPodTerm]:
        """Return the affinity terms of placed pods that match a pod with `labels` in `namespace`.

        Invalid lists of terms count as empty. Terms whose topology key is on no node are omitted,
        since they affect no node.
        """
        ...

    def anti_terms_of(
        self,
        owner: Pod,
        namespace: str,
        labels: Mapping[str, str],
        namespace_labels: Mapping[str, str],
    ) -> Mapping[str, int] | None:
        """Count, by topology key, the required anti-affinity terms of `owner` that match a pod.

        `namespace` and the labels are those of that pod. Returns None if evaluating the terms one
        by one is faster, as for an owner with few terms.
        """
        ...

    @property
    def has_existing_pod_terms(self) -> bool:
        """Whether any placed pod has an affinity or anti-affinity term towards pods."""
        ...

    def node_info(self, row: int) -> NodeInfo:
        """Return the scalar view of a row."""
        ...

    @property
    def sequence(self) -> int:
        """Sequence number of the newest entry of the change log."""
        ...

    def changed_rows(self, since: int, columns: Columns) -> Rows | None:
        """Return the rows with a change in `columns` after log entry `since`; unique, unordered.

        None if the log no longer reaches back to `since`, so that any row may have changed.
        """
        ...

    def version(self, name: str) -> int:
        """Return the number of changes so far of what `name` stands for, such as `services`.

        Other names are `node_count` and `namespaces`; an unknown name has version 0.
        """
        ...


class TableWithoutVictims(NodeTableView, Protocol):
    """The node table for preemption: each node without its potential victims.

    Each row is a hypothesis of its own, in which the victims of that node are removed and all other
    nodes are unchanged. `requested` and `pod_count` exclude the victims; everything else is as in
    the live table. `non_zero_requested`, `host_ports`, `pod_counts` and `existing_pod_terms`
    would be ambiguous and raise LookupError; use the methods below instead.
    """

    def victim_counts(self, terms: Sequence[PodTerm]) -> Int32Column:
        """(capacity,): victims per row that match all `terms`, including terminating ones."""
        ...

    def summed_victims(self, terms: ManyTerms) -> tuple[Int64Column, Int64Column]:
        """Return the result of `summed_pods` for the victims only."""
        ...

    def victim_terms(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> Sequence[ExistingPodTerm]:
        """Return the result of `existing_pod_terms` for the victims only."""
        ...

    def remaining_ports(self, protocol: str, port: int) -> Mapping[str, BoolColumn]:
        """Map each host IP to (capacity,): whether a remaining pod of the row holds the port.

        As in a what-if of a single node, a port is free once any of its holders is removed.
        """
        ...
