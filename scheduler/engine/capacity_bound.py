"""An upper bound of how many equal pods fit, without trying them.

Each filter that knows gives the number of pods that a row can take (`CapacityFilterPlugin`); a row
takes the least of them. The rows are those that passed all filters for the first of the pods. So
the bound holds only if no other row can pass later: every other filter must depend on the node
alone. A pod with required affinity or a hard spread constraint has no bound, since the pods placed
first may open rows to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler.engine.attempt import Attempt
from scheduler.framework import Rows


@dataclass(frozen=True, slots=True)
class CapacityBound:
    """The number of further pods like one that was just placed, at most."""

    more: int
    #: The names of the plugins that limit them.
    plugins: frozenset[str]


def bound_after(attempt: Attempt, within: Rows | None = None) -> CapacityBound | None:
    """Return the bound after the first pod was placed; None if none can be told.

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
