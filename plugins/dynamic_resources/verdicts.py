"""Cached results of the allocator by node, for claims of equal content.

The claims of pods of one template differ only in their names, and an allocation usually changes the
devices of one node. So all nodes are searched for the first pod, and for the next only nodes whose
devices or labels have changed since. Nodes with the same shared slices and no local ones share one
result.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from plugins.dynamic_resources.cluster_devices import DeviceChanges
from plugins.dynamic_resources.pools import Reach
from scheduler.api.devices import ResourceClaim
from scheduler.framework import Codes, Columns, Int64Column, NodeTableView, Rows

MAX_KEPT: Final = 512
"""Maximum number of contents, with a byte per node each; 8 more bytes if they have alternatives."""

_UNKNOWN: Final = -1
_COLUMNS: Final = Columns.LABELS | Columns.EXISTENCE


@dataclass(frozen=True, slots=True)
class DeviceVerdict:
    """The result on one node."""

    code: int
    #: The score for the alternatives that were chosen.
    score: int = 0


Search = Callable[[int], DeviceVerdict]
"""`search(row)` searches for devices on the node of a row."""


def content_of(claims: Sequence[ResourceClaim]) -> Hashable:
    """Return a key that is equal for claims that the allocator treats alike.

    It is a digest, since a claim may be as large as the API server allows.
    """
    encoded = msgspec.json.encode([each.spec for each in claims])
    return hashlib.blake2b(encoded, digest_size=32).digest()


class NodeVerdicts:
    """Results for claims of one content, for every row of the table."""

    __slots__ = ("_codes", "_devices", "_nodes", "_scores", "shared")

    def __init__(self) -> None:
        self._codes: NDArray[np.int8] = np.zeros(0, dtype=np.int8)
        self._scores: Int64Column | None = None
        #: Sequences of the two change logs up to which the results are valid.
        self._nodes = self._devices = -1
        #: The results for nodes without local slices, by `Reach`.
        self.shared: dict[Reach, DeviceVerdict] = {}

    def refresh(self, table: NodeTableView, changes: DeviceChanges) -> None:
        """Drop the results that may have changed."""
        if self._nodes == table.sequence and self._devices == changes.sequence:
            return
        rows = table.changed_rows(self._nodes, _COLUMNS) if self._nodes >= 0 else None
        names = changes.since(self._devices) if self._devices >= 0 else None
        self._nodes, self._devices = table.sequence, changes.sequence
        if rows is None or names is None or len(self._codes) != table.capacity:
            self._codes = np.full(table.capacity, _UNKNOWN, dtype=np.int8)
            self._scores = None
            self.shared.clear()
            return
        self._codes[rows] = _UNKNOWN
        for name in names:
            row = table.row_of(name)
            if row is not None:
                self._codes[row] = _UNKNOWN

    def codes(self, rows: Rows, search: Search) -> Codes:
        """Return the code of each of `rows`; raises the exceptions of `search`."""
        codes = self._codes[rows]
        unknown = np.flatnonzero(codes == _UNKNOWN)
        for position in unknown.tolist():
            row = int(rows[position])
            verdict = search(row)
            self._codes[row] = codes[position] = verdict.code
            if verdict.score or self._scores is not None:
                self._score(row, verdict.score)
        return codes.astype(np.int32)

    def scores(self, rows: Rows) -> Int64Column:
        """Return the score of each of `rows`, which passed."""
        if self._scores is None:
            return np.zeros(len(rows), dtype=np.int64)
        return self._scores[rows]

    def _score(self, row: int, score: int) -> None:
        if self._scores is None:
            self._scores = np.zeros(len(self._codes), dtype=np.int64)
        self._scores[row] = score


class KeptVerdicts:
    """The results for the most recently used contents."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, NodeVerdicts] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, content: Hashable) -> NodeVerdicts:
        """Return the results for a content, which are empty at first."""
        found = self._kept.get(content)
        if found is None:
            found = self._kept[content] = NodeVerdicts()
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(content)
        return found
