"""The whole table, and the rows that this version can run.

A row runs as soon as its plugins exist and its kinds are watched; until then `missing` lists the
missing ones. Adding a plugin needs no change here.
"""

from __future__ import annotations

import re
from typing import Final

from plugins import in_tree
from scheduler.client.resources import RESOURCES
from tests.integration.requeueing.node_rows import NODE_ROWS
from tests.integration.requeueing.pod_rows import POD_ROWS
from tests.integration.requeueing.rows import PLACES, Row
from tests.integration.requeueing.volume_rows import VOLUME_ROWS


def _order(row: Row) -> tuple[int, str]:
    digits = re.match(r"\d+", row.number)
    assert digits is not None
    return int(digits[0]), row.number


TABLE: Final[tuple[Row, ...]] = tuple(sorted((*NODE_ROWS, *POD_ROWS, *VOLUME_ROWS), key=_order))

_EXISTING: Final = frozenset(plugin.name for plugin in in_tree())


def missing(row: Row) -> str:
    """Return what a row lacks; empty when it can run."""
    absent = [f"plugin {name}" for name in row.plugins if name not in _EXISTING]
    absent += [f"plugin {name}" for name in _named_in_rejections(row) if name not in _EXISTING]
    absent += [
        f"{PLACES[kind].plural}, which no plugin watches"
        for kind in sorted(row.kinds)
        if PLACES[kind].plural not in RESOURCES
    ]
    if row.needs:
        absent.append(row.needs)
    return ", ".join(dict.fromkeys(absent))


def _named_in_rejections(row: Row) -> list[str]:
    return sorted({name for names in row.rejected_by.values() for name in names})
