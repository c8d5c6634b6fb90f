"""NodeToStatus: the rejection of each node (upstream: `types.go: NodeToStatus`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
        return len(self._statuses)

    def __iter__(self) -> Iterator[str]:
        return iter(self._statuses)

    def set(self, node: str, status: Status) -> None:
        """Record `status` for `node`, replacing an earlier one."""
        self._statuses[node] = status

    def get(self, node: str) -> Status:
        """Return the node's explicit status, or `absent`."""
        return self._statuses.get(node, self.absent)

    def explicit(self) -> Iterable[tuple[str, Status]]:
        """Return (node, status) of every explicit entry."""
        return self._statuses.items()

    def nodes_for_code(self, all_nodes: Iterable[str], code: Code) -> list[str]:
        """Return the nodes among `all_nodes` whose status has `code`."""
        if self.absent.code is not code:
            known = self._statuses
            return [n for n in all_nodes if n in known and known[n].code is code]
        return [n for n in all_nodes if self.get(n).code is code]
