"""ReuseRule: when a columnar result for one pod holds for the next one of its signature."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.framework.nodes import Columns


@dataclass(frozen=True, slots=True)
class ReuseRule:
    """The inputs of a columnar result besides the pod's signature.

    `ReuseRule()` without arguments fits a result that depends on anything in its own row.
    """

    #: Rows that changed in these groups are evaluated again; the others keep their result.
    columns: Columns = Columns.ALL
    #: Named versions (`NodeTableView.version`); a change of one makes all rows be evaluated again.
    versions: tuple[str, ...] = ()
    #: Of its row and the pods there the method reads `NodeAmounts` only, and of scalar resources
    #: those that the pod requests. Then it may be asked about nodes as they will be with more pods,
    #: so that equal members of a group need not be evaluated one by one.
    amounts_only: bool = False


NEVER: None = None
"""Instead of a ReuseRule: evaluate every row for every pod."""
