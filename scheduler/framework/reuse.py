"""ReuseRule: until when a cached columnar result of a pod signature stays valid."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.framework.nodes import Columns


@dataclass(frozen=True, slots=True)
class ReuseRule:
    """The inputs of a columnar result besides the pod's signature.

    `ReuseRule()` is right for a result of a row that depends on nothing outside that row.
    """

    #: A row is evaluated again after a change in one of these groups of columns.
    columns: Columns = Columns.ALL
    #: Named versions (`NodeTableView.version`); if one changes, all rows are evaluated again.
    versions: tuple[str, ...] = ()
    #: Whether the method reads nothing of a row but `NodeAmounts`, and of scalar resources only
    #: those that the pod requests. The engine may then call it for hypothetical nodes with more
    #: pods, and need not evaluate equal members of a group one by one.
    amounts_only: bool = False


NEVER: None = None
"""In place of a ReuseRule: cache no results; evaluate every row for every pod."""
