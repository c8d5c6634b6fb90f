"""Numbers behind rejections of NodeResourcesFit: how much is wanted, and where most is free."""

from __future__ import annotations

from collections.abc import Iterable

from plugins.details import MAX_ITEMS, amount
from plugins.node_resources.amounts import Demand, amounts_in
from scheduler.framework import NodeTableView, RejectedNodes, Rows


def shortages(table: NodeTableView, rejected: RejectedNodes, short: Iterable[Demand]) -> str:
    """Describe each of the demands that are `short`, or that no node has room for more pods."""
    rows = rejected.otherwise_fit
    which = "" if len(rows) == table.node_count else " that passes everything else"
    if not len(rows):
        rows, which = rejected.rows, " of these"
    if not len(rows):
        return ""
    texts = [_most_free(table, rows, each, which) for each in list(short)[:MAX_ITEMS]]
    return "; ".join(texts) or _pods(table, rows, which)


def _most_free(table: NodeTableView, rows: Rows, demand: Demand, which: str) -> str:
    capacity, used = amounts_in(table, demand.name, rows)
    wanted = f"wants {amount(demand.name, demand.amount)} {demand.name}"
    largest = int(capacity.max())
    if largest < demand.amount:
        # What is free does not matter: no pod that goes would help.
        return f"{wanted}, the largest node{which} has {amount(demand.name, largest)}"
    free = capacity - used
    best = int(free.argmax())
    most = amount(demand.name, max(0, int(free[best])))
    return f"{wanted}, most free on a node{which}: {most} ({table.names[int(rows[best])]})"


def _pods(table: NodeTableView, rows: Rows, which: str) -> str:
    free = table.pod_limit[rows] - table.pod_count[rows]
    best = int(rows[int(free.argmax())])
    return (
        f"most room for pods on a node{which}: {table.pod_count[best]} of "
        f"{table.pod_limit[best]} ({table.names[best]})"
    )
