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
"""Values of `ScreenedRows.rejected_by` that are no filter. A dry run is necessary, with the filters
that removals can affect or with all filters; or the node has no potential victim."""


@dataclass(slots=True)
class Trial:
    """The input of one search."""

    state: CycleState
    pod: Pod
    rules: PreemptionRules
    #: Filters that are not skipped.
    slots: tuple[FilterSlot, ...]
    #: Those among them whose result removals can change.
    affected: tuple[FilterSlot, ...]
    #: Whether some plugin keeps state that AddPod and RemovePod change.
    followed: bool
    #: The pods that may be removed.
    victims: PotentialVictims
    budgets: DisruptionBudgets
    #: Rows with nominated pods that count.
    nominated: Rows
    #: The row that the pod itself is nominated to; its result there holds for no other pod.
    own_row: int | None


@dataclass(slots=True)
class SearchOutcome:
    """The results of the nodes of one search."""

    candidates: list[Candidate] = field(default_factory=list)
    #: By node name; only nodes that were dry-run.
    rejected: dict[str, Status] = field(default_factory=dict)
    errors: dict[str, None] = field(default_factory=dict)
    #: Reason to number of nodes.
    counts: dict[str, int] = field(default_factory=dict)
    #: Plugins that rejected nodes without the victims.
    rejectors: set[str] = field(default_factory=set)

    def reject(self, node_name: str, status: Status) -> None:
        """Note that the pod would not fit on a node even without the victims."""
        self.rejected[node_name] = status
        self.rejectors.add(status.plugin)
        self.count(status_reasons(status), 1)

    def count(self, reasons: Iterable[str], nodes: int) -> None:
        """Count `nodes` more for each of the reasons."""
        for reason in reasons:
            self.counts[reason] = self.counts.get(reason, 0) + nodes


@dataclass(slots=True)
class ScreenedRows:
    """The result of screening, per entry of `rows`."""

    rows: Rows
    #: int32: `AFFECTED_FILTERS`, `ALL_FILTERS`, `VICTIMLESS`, or filter index + 1.
    rejected_by: np.ndarray
    #: The rejecting filter's code.
    codes: Codes
    #: Whether plugins that follow removals have nothing to follow on this row.
    unfollowed: BoolColumn
