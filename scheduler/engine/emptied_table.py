"""The node table as it would be if all possible victims were gone, for columnar filters.

Only usage is hypothetical. What cannot be told from columns (host ports, non-zero requests) raises,
so that a filter which reads it is asked node by node instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from scheduler.api.pod import Pod
from scheduler.cache import NodeOverlay, NodeTable
from scheduler.framework import Int64Column, NodeInfo


class UnknownColumnError(LookupError):
    """The column is not known for the hypothetical cluster."""


class EmptiedTable:
    """A `NodeTableView`; everything but usage is the live table's."""

    def __init__(
        self,
        table: NodeTable,
        requested: Int64Column,
        pod_count: Int64Column,
        removable: Callable[[Pod], bool],
    ) -> None:
        self._table = table
        self._removable = removable
        #: As `NodeTable.requested` and `pod_count`, without the victims.
        self.requested = requested
        self.pod_count = pod_count

    def node_info(self, row: int) -> NodeInfo:
        """An overlay without the victims."""
        node = NodeOverlay(self._table, row)
        for pod in list(node.pods):
            if self._removable(pod):
                node.remove_pod(pod)
        return node

    @property
    def non_zero_requested(self) -> Int64Column:
        """Raises UnknownColumnError."""
        self._unknown("non_zero_requested")

    @property
    def host_ports(self) -> Mapping[Any, Any]:
        """Raises UnknownColumnError."""
        self._unknown("host_ports")

    def pod_counts(self, *terms: Any, **options: Any) -> NoReturn:
        """Raises UnknownColumnError."""
        self._unknown("pod_counts")

    def owned_terms(self, *arguments: Any) -> NoReturn:
        """Raises UnknownColumnError."""
        self._unknown("owned_terms")

    def _unknown(self, column: str) -> NoReturn:
        msg = f"{column} is not known for a cluster without the victims"
        raise UnknownColumnError(msg)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)
