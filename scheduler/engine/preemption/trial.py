"""The records of one search for victims: its input, the result of screening, and its outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.engine.diagnosis import status_reasons
from scheduler.engine.plugin_slots import FilterSlot
from scheduler.engine.preemption.disruption_budgets import DisruptionBudgets
from scheduler.framework import (
    BoolColumn,
    Codes,
    CycleState,
    PotentialVictims,
    Rows,
    Status,
    unresolvable,
)
from scheduler.framework.preemption import Candidate, PreemptionRules

NO_VICTIMS: Final = unresolvable("No preemption victims found for incoming pod")

AFFECTED_FILTERS, ALL_FILTERS, VICTIMLESS = 0, -1, -2
"""Values of `ScreenedRows.rejected_by` that are not filters: the node needs a dry run, with the
filters that removals can affect or with all filters; or the node has no potential victim."""


@dataclass(slots=True)
class PreemptionTrial:
    """The input of one search."""

    state: CycleState
    pod: Pod
    rules: PreemptionRules
    #: Filters that are not skipped.
    slots: tuple[FilterSlot, ...]
    #: Those of `slots` whose result removals of pods can change.
    affected: tuple[FilterSlot, ...]
    #: Whether any plugin has state that AddPod and RemovePod change.
    followed: bool
    #: The pods that may be evicted.
    victims: PotentialVictims
    budgets: DisruptionBudgets
    #: Rows with nominated pods that count.
    nominated: Rows
    #: The row to which the pod itself is nominated; its result there is not valid for other pods.
    own_row: int | None


@dataclass(slots=True)
class SearchOutcome:
    """The results of the nodes of one search."""

    candidates: list[Candidate] = field(default_factory=list)
    #: Rejections by node name, of nodes that were dry-run.
    rejected: dict[str, Status] = field(default_factory=dict)
    errors: dict[str, None] = field(default_factory=dict)
    #: Reason to number of nodes.
    counts: dict[str, int] = field(default_factory=dict)
    #: Plugins that rejected nodes even without the victims.
    rejectors: set[str] = field(default_factory=set)

    def reject(self, node_name: str, status: Status) -> None:
        """Record that the pod would not fit on a node even without the victims."""
        self.rejected[node_name] = status
        self.rejectors.add(status.plugin)
        self.count(status_reasons(status), 1)

    def count(self, reasons: Iterable[str], nodes: int) -> None:
        """Add `nodes` to the count of each of the reasons."""
        for reason in reasons:
            self.counts[reason] = self.counts.get(reason, 0) + nodes


@dataclass(slots=True)
class ScreenedRows:
    """The result of screening; all arrays have an entry per entry of `rows`."""

    rows: Rows
    #: int32: `AFFECTED_FILTERS`, `ALL_FILTERS`, `VICTIMLESS`, or filter index + 1.
    rejected_by: np.ndarray
    #: The code of the rejecting filter.
    codes: Codes
    #: Whether RemovePod would change nothing for this row.
    unfollowed: BoolColumn
