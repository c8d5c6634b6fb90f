"""NodeToStatus: the rejection of each node (upstream: `types.go: NodeToStatus`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from scheduler.framework.nodes import Rows
from scheduler.framework.status import Code, Status

_ABSENT_DEFAULT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


class NodeToStatus:
    """Explicit statuses by node name, and one status for every node not named."""

    __slots__ = ("_statuses", "absent")

    def __init__(
        self, statuses: dict[str, Status] | None = None, absent: Status = _ABSENT_DEFAULT
    ) -> None:
        self._statuses: dict[str, Status] = {} if statuses is None else statuses
        #: The status of nodes without an explicit one.
        self.absent = absent

    def __len__(self) -> int:
        return len(self._explicit())

    def __iter__(self) -> Iterator[str]:
        return iter(self._explicit())

    def set(self, node: str, status: Status) -> None:
        """Record `status` for `node`, replacing an earlier one."""
        self._explicit()[node] = status

    def get(self, node: str) -> Status:
        """Return the node's explicit status, or `absent`."""
        return self._explicit().get(node, self.absent)

    def explicit(self) -> Iterable[tuple[str, Status]]:
        """Return (node, status) of every explicit entry."""
        return self._explicit().items()

    def nodes_for_code(self, all_nodes: Iterable[str], code: Code) -> list[str]:
        """Return the nodes among `all_nodes` whose status has `code`."""
        if self.absent.code is not code:
            known = self._explicit()
            return [n for n in all_nodes if n in known and known[n].code is code]
        return [n for n in all_nodes if self.get(n).code is code]

    def _explicit(self) -> dict[str, Status]:
        """Return the explicit statuses by node name; a subclass may build them when first read."""
        return self._statuses


@dataclass(frozen=True, slots=True)
class RejectedNodes:
    """Nodes that one plugin rejected with the same status, for `explain_rejection`."""

    status: Status
    rows: Rows
    find_otherwise_fit: Callable[[], Rows]

    @property
    def otherwise_fit(self) -> Rows:
        """Those of `rows` that pass every other filter; runs these filters."""
        return self.find_otherwise_fit()
