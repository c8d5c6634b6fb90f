"""What plugins see of the cluster's nodes: one node (`NodeInfo`) or all of them in columns (`NodeTableView`).

A *row* is a node's index into every column. Rows of deleted nodes are reused; `valid` says which rows are
nodes. Columns are views into live arrays: read them within a call, never keep or change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Node, Taint
from scheduler.api.pod import Pod
from scheduler.api.requests import Resources

BoolColumn = NDArray[np.bool_]
Int32Column = NDArray[np.int32]
Int64Column = NDArray[np.int64]
Rows = NDArray[np.intp]
"""Row numbers, in the order results are expected."""
Codes = NDArray[np.int32]
"""A filter's answer per row: 0 passes, every other value is the plugin's own code."""

CPU, MEMORY, EPHEMERAL_STORAGE = 0, 1, 2
"""Fixed resource indexes of `allocatable` and `requested`; scalar resources follow."""


class Columns(IntFlag):
    """Groups of columns, for the change log: what changed on a row, and what a result depends on."""

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
    """An image and where it is."""

    #: Bytes, as the first node that reported the image said.
    size: int
    #: Rows of the nodes that have it.
    rows: set[int]


class NodeInfo(Protocol):
    """One node with the pods on it, as scalar plugins see it. Valid within the call only."""

    @property
    def node(self) -> Node: ...
    @property
    def name(self) -> str: ...
    @property
    def row(self) -> int:
        """The node's row in the table; a what-if copy keeps the row of its original."""
        ...

    @property
    def pods(self) -> Iterable[Pod]:
        """Pods bound or assumed to the node, in no particular order."""
        ...

    @property
    def pod_count(self) -> int: ...
    @property
    def allowed_pod_number(self) -> int: ...
    @property
    def allocatable(self) -> Resources: ...
    @property
    def requested(self) -> Resources: ...
    @property
    def non_zero_requested(self) -> tuple[int, int]:
        """CPU (millicores) and memory (bytes) with defaults for containers that state none."""
        ...

    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def taints(self) -> tuple[Taint, ...]: ...
    @property
    def unschedulable(self) -> bool: ...
    @property
    def used_ports(self) -> Mapping[tuple[str, int], Mapping[str, int]]:
        """(protocol, port) to {ip: number of pods holding it}."""
        ...

    @property
    def image_states(self) -> Mapping[str, ImageState]:
        """Every image of the cluster by name; this node has it when its row is in `rows`."""
        ...

    @property
    def declared_features(self) -> frozenset[str]: ...

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


class NodeTableView(Protocol):
    """All nodes in columns. Arrays have `capacity` entries; rows where `valid` is False are meaningless."""

    @property
    def capacity(self) -> int: ...
    @property
    def valid(self) -> BoolColumn: ...
    @property
    def node_count(self) -> int:
        """Number of nodes (valid rows)."""
        ...

    @property
    def rows(self) -> Rows:
        """Valid rows, ascending."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """Node name per row; empty text for rows that are no node."""
        ...

    def row_of(self, name: str) -> int | None:
        """The row of the node called `name`, or None."""
        ...

    @property
    def allocatable(self) -> Int64Column:
        """(resources, capacity): millicores, bytes, bytes, then whole units per scalar resource."""
        ...

    @property
    def requested(self) -> Int64Column:
        """(resources, capacity), as `allocatable`."""
        ...

    @property
    def non_zero_requested(self) -> Int64Column:
        """(2, capacity): millicores and bytes, with defaults for containers that state none."""
        ...

    @property
    def pod_count(self) -> Int64Column: ...
    @property
    def pod_limit(self) -> Int64Column: ...

    def resource_index(self, name: str) -> int | None:
        """Index of a resource in `allocatable`; None when no node and no pod ever mentioned it."""
        ...

    @property
    def unschedulable(self) -> BoolColumn: ...

    @property
    def taint_set(self) -> Int32Column:
        """Per row an id into `taint_sets`; nodes with equal ordered taint lists share it."""
        ...

    @property
    def taint_sets(self) -> Sequence[tuple[Taint, ...]]: ...

    def label_column(self, key: str) -> Int32Column:
        """Value ids of label `key` per row (-1: missing). Made on first use, kept up to date after."""
        ...

    def label_values(self, key: str) -> LabelValues: ...

    @property
    def images(self) -> Mapping[str, ImageState]: ...

    @property
    def host_ports(self) -> Mapping[tuple[str, int], Mapping[int, Mapping[str, int]]]:
        """(protocol, port) to row to {ip: number of pods}."""
        ...

    @property
    def declared_features(self) -> Sequence[frozenset[str]]:
        """`status.declaredFeatures` per row."""
        ...

    def node_info(self, row: int) -> NodeInfo:
        """The scalar view of a row."""
        ...

    @property
    def sequence(self) -> int:
        """Number of the newest entry of the change log."""
        ...

    def changed_rows(self, since: int, columns: Columns) -> Rows | None:
        """Rows with a change in `columns` after entry `since`, without repeats; None: too long ago."""
        ...

    def version(self, name: str) -> int:
        """Counter of a named version, such as `node_count`, `services` or `namespaces`."""
        ...
