"""Index of pods with volumes by row, updated from the table's change log.

Invariant: after `sync`, `by_row` and `claim_users` equal the result of a walk over all pods. The
walk happens at the first use only, and when the change log does not reach back far enough.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.api.pod import Pod
from scheduler.framework import Columns, NodeTableView

_COLUMNS = Columns.USAGE | Columns.EXISTENCE


class VolumePods:
    """The index, owned by one plugin. Call `sync` before reading."""

    def __init__(self) -> None:
        self._sequence = -1
        #: Row to its pods with volumes that affect scheduling; rows without such pods are absent.
        self.by_row: dict[int, tuple[Pod, ...]] = {}
        #: `namespace/claim` to row to number of volumes; claims of ephemeral volumes do not count.
        self.claim_users: dict[str, dict[int, int]] = {}

    def sync(self, table: NodeTableView) -> Iterable[int] | None:
        """Apply changes of the table; return the rows that were read again, None for all."""
        changed = table.changed_rows(self._sequence, _COLUMNS) if self._sequence >= 0 else None
        self._sequence = table.sequence
        if changed is None:
            self.by_row.clear()
            self.claim_users.clear()
            for row in table.rows.tolist():
                self._read(table, row)
            return None
        rows: list[int] = changed.tolist()
        for row in rows:
            self._forget(row)
            if table.valid[row]:
                self._read(table, row)
        return rows

    def _read(self, table: NodeTableView, row: int) -> None:
        pods = tuple([pod for pod in table.node_info(row).pods if pod.signature.volumes])
        if not pods:
            return
        self.by_row[row] = pods
        for pod in pods:
            for claim in pod.signature.claims:
                users = self.claim_users.setdefault(f"{pod.metadata.namespace}/{claim}", {})
                users[row] = users.get(row, 0) + 1

    def _forget(self, row: int) -> None:
        for pod in self.by_row.pop(row, ()):
            for claim in pod.signature.claims:
                key = f"{pod.metadata.namespace}/{claim}"
                users = self.claim_users.get(key)
                if users is not None:
                    users.pop(row, None)
                    if not users:
                        del self.claim_users[key]
