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


NEVER: None = None
"""Instead of a ReuseRule: evaluate every row for every pod."""
