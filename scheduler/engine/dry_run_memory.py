"""DryRunMemory: what dry runs found on single nodes, until something on the node changes.

Preemptors come in bursts from one template, and between two of them one node changes. Whoever
remembers must make sure that the outcome depends on the pod's kind (the key), on that node and on
named versions alone; nominations are part of the node.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from scheduler.cache import NodeTable
from scheduler.framework import Status
from scheduler.framework.preemption import Candidate

MOST_KINDS: Final = 64
"""Kinds of pods remembered; the one used longest ago goes first."""

Outcomes = dict[int, Candidate | Status]
"""Row to what a dry run of that node came to."""


@dataclass(slots=True)
class _Remembered:
    sequence: int
    revision: int
    outcomes: Outcomes = field(default_factory=dict)


class DryRunMemory:
    """Outcomes by kind of pod and row. Victims may be older objects of the same pods."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._kinds: OrderedDict[Hashable, _Remembered] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kinds)

    def recall(self, kind: Hashable) -> Outcomes:
        """What is still true for pods of a kind; the caller adds what it finds out."""
        table = self._table
        known = self._kinds.get(kind)
        changes = None
        if known is not None and known.revision == table.revision:
            changes = table.log.since(known.sequence)
        if known is None or changes is None:
            known = self._kinds[kind] = _Remembered(table.sequence, table.revision)
            if len(self._kinds) > MOST_KINDS:
                self._kinds.popitem(last=False)
            changes = {}
        for row in changes:
            known.outcomes.pop(row, None)
        known.sequence = table.sequence
        self._kinds.move_to_end(kind)
        return known.outcomes
