"""Scores of the best nodes of a decision: kept packed, shown as records.

Of many equal nodes one is chosen at random, and the others stay the best ones for the next pod.
Decisions for which the same nodes have the same scores share one `BestNodes`.
"""

from __future__ import annotations

import sys
from struct import Struct
from typing import Final, NamedTuple

import msgspec

from scheduler.explain.records import NodeScore, PluginScore

BEST: Final = 5
"""Nodes whose scores are kept."""
_POINTER: Final = 8
_TOTAL: Final = Struct("<q")
"""The first number of a `Layout`."""


class Layout(NamedTuple):
    """The Score plugins that scored a pod, and how their scores are packed for one node.

    A total, then of each plugin its final score, which is 0 to 100; in front of it the raw score,
    if the plugin normalises.
    """

    slots: tuple[tuple[int, bool], ...]
    """Index, and whether the plugin normalises."""
    one: Struct
    plugins: tuple[tuple[str, int, bool], ...]
    """Name, weight, and whether the plugin normalises."""

    def record(self, name: str, numbers: bytes, position: int) -> NodeScore:
        """Return the record of one node; plugins that skipped the pod are left out.

        Args:
            name: of the node.
            numbers: the packed scores of some nodes.
            position: of this node among them.
        """
        total, *rest = self.one.unpack_from(numbers, position * self.one.size)
        values = iter(rest)
        scores = []
        for plugin, weight, normalizes in self.plugins:
            raw = next(values)
            final = next(values) if normalizes else raw
            scores.append(PluginScore(plugin, raw, final, weight * final))
        return NodeScore(name, total, tuple(scores))

    def total(self, numbers: bytes, position: int) -> int:
        """Return the total of one node; arguments as `record`."""
        total: int = _TOTAL.unpack_from(numbers, position * self.one.size)[0]
        return total


class BestNodes(msgspec.Struct, gc=False, eq=False):
    """The nodes with the highest totals, and their scores; changes only in `users`.

    A decision adds the scores of the chosen node where that is not one of them: it has the highest
    total as well then.
    """

    names: tuple[str, ...]
    """At most `BEST`, best first."""
    numbers: bytes
    layout: Layout
    users: int = 0
    """How many remembered decisions have it."""

    @property
    def nbytes(self) -> int:
        """Bytes held; names belong to the node table."""
        return _EMPTY_BYTES + _POINTER * len(self.names) + len(self.numbers)

    def total(self, node: str, chosen: bytes) -> int:
        """Return the total of the chosen node; arguments as `records`."""
        if chosen:
            return self.layout.total(chosen, 0)
        return self.layout.total(self.numbers, self.names.index(node))

    def records(self, node: str, chosen: bytes) -> tuple[NodeScore, ...]:
        """Return the records of the best nodes, the chosen one first.

        Args:
            node: the chosen one.
            chosen: its packed scores; empty where it is one of `names`.
        """
        record, numbers = self.layout.record, self.numbers
        found = [record(name, numbers, place) for place, name in enumerate(self.names)]
        own = record(node, chosen, 0) if chosen else found[self.names.index(node)]
        return (own, *[each for each in found if each is not own][: BEST - 1])


_EMPTY_BYTES: Final = (
    sys.getsizeof(BestNodes((), b"", Layout((), Struct(""), ())))
    + sys.getsizeof(())
    + sys.getsizeof(b"")
)
