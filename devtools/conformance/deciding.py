"""Decision of one search: feasible nodes and totals, or the diagnosis.

The same record is taken with reuse and without, and the two must be equal. It holds everything that
a user could see: statuses by node, message, responsible plugins, totals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scheduler.api import Pod
from scheduler.cache import NodeTable
from scheduler.engine import AttemptError, FitError, SchedulingAlgorithm
from scheduler.engine.diagnosis import status_reasons
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.framework import CycleState, Status


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of PreFilter, Filter and Score for one pod; PostFilter is not part of it."""

    #: Nodes the pod may run on.
    feasible: tuple[str, ...] = ()
    #: Total by feasible node.
    totals: dict[str, int] = field(default_factory=dict)
    #: The nominated node was taken without scoring.
    nominated: bool = False
    #: Nodes with a status of their own among those looked at.
    rejected: int = 0
    #: When nothing is feasible: the status of every node.
    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    message: str = ""
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    requeue_after: float | None = None
    condition_reason: str = ""
    skip_post_filter: bool = False
    #: The attempt ended in an error.
    error: str = ""


def decide(
    algorithm: SchedulingAlgorithm, table: NodeTable, pod: Pod, now: float = 0.0
) -> Decision:
    """Search and score; nothing is assumed."""
    state = CycleState(now=now)
    try:
        found = run_synchronously(algorithm.search.find(state, pod))
        if found.nominated:
            names = (table.names[int(found.rows[0])],)
            return Decision(names, nominated=True, rejected=found.rejected)
        totals, rows = algorithm.score(state, pod, found)
    except FitError as unfit:
        return _unfit(unfit, table)
    except AttemptError as error:
        return Decision(error=str(error))
    finally:
        algorithm.search.settle(pod)
    if rows is None:
        # Everything that is not feasible must be out of the question.
        outside = np.delete(totals, found.rows)
        assert not len(outside) or int(outside.max()) < 0
        totals = totals[found.rows]
    names = tuple(table.names[row] for row in found.rows.tolist())
    return Decision(
        tuple(sorted(names)),
        dict(sorted(zip(names, totals.tolist(), strict=True))),
        rejected=found.rejected,
    )


def status_record(status: Status | None) -> dict[str, Any]:
    """A status as vectors write it; reasons are sorted, for they are a multiset."""
    if status is None:
        return {"code": "Success"}
    record: dict[str, Any] = {"code": status.code.label}
    if status.plugin:
        record["plugin"] = status.plugin
    reasons = status_reasons(status)
    if reasons:
        record["reasons"] = sorted(reasons)
    return record


def _unfit(unfit: FitError, table: NodeTable) -> Decision:
    diagnosis = unfit.diagnosis
    names = [table.names[row] for row in table.rows.tolist()]
    return Decision(
        statuses={name: status_record(diagnosis.statuses.get(name)) for name in sorted(names)},
        message=diagnosis.message(),
        unschedulable_plugins=frozenset(diagnosis.unschedulable_plugins),
        pending_plugins=frozenset(diagnosis.pending_plugins),
        requeue_after=diagnosis.requeue_after,
        condition_reason=diagnosis.condition_reason,
        skip_post_filter=diagnosis.skip_post_filter,
    )
