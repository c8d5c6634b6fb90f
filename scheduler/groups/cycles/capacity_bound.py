"""An upper bound of how many further equal pods fit, computed without trying them.

Some filters know how many pods each row can take (`CapacityFilterPlugin`); the minimum counts. The
sum is over the rows that passed all filters for the first pod, so the bound holds only if no other
row can pass later, which means that all other filters depend on the node alone. There is no bound
for a pod with required affinity or a hard spread constraint, since placed pods may open rows to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler.engine.schedule_one import Attempt
from scheduler.framework import Rows


@dataclass(frozen=True, slots=True)
class CapacityBound:
    """The maximum number of further pods that equal one just placed."""

    more: int
    #: Names of the plugins that limit the number.
    plugins: frozenset[str]


def bound_after(attempt: Attempt, within: Rows | None = None) -> CapacityBound | None:
    """Return the bound after `attempt` placed the first of several equal pods; None: no bound.

    `within` limits the pods to some rows.
    """
    algorithm, pod, state = attempt.algorithm, attempt.info.pod, attempt.state
    assert algorithm is not None
    rows = algorithm.search.cached_feasible_rows(pod, attempt.sequence, within)
    if rows is None:
        return None
    limiting: list[Any] = []
    for slot in algorithm.search.filtering.slots:
        if slot.name in state.skip_filter:
            continue
        if callable(getattr(slot.plugin, "capacity_rows", None)):
            limiting.append(slot.plugin)
        elif slot.depends_on_pods:
            return None
    if not limiting:
        return None
    table = attempt.framework.handle.table
    capacities = [plugin.capacity_rows(pod, table, rows) for plugin in limiting]
    return CapacityBound(
        int(np.minimum.reduce(capacities).sum()),
        frozenset(plugin.name for plugin in limiting),
    )
