"""Numbers behind rejections of NodeResourcesFit: how much is wanted, and where most is free."""

from __future__ import annotations

from collections.abc import Iterable

from plugins.details import MAX_ITEMS, amount
from plugins.node_resources.amounts import Demand, amounts_in
from scheduler.framework import NodeTableView, RejectedNodes, Rows


def shortages(table: NodeTableView, rejected: RejectedNodes, short: Iterable[Demand]) -> str:
    """Describe each of the demands that are `short`, or that no node has room for more pods."""
    rows = rejected.otherwise_fit
    where = "on a node that passes everything else"
    if not len(rows):
        rows, where = rejected.rows, "where other plugins reject as well"
    if not len(rows):
        return ""
    texts = [_most_free(table, rows, each, where) for each in list(short)[:MAX_ITEMS]]
    return "; ".join(texts) or _pods(table, rows, where)


def _most_free(table: NodeTableView, rows: Rows, demand: Demand, where: str) -> str:
    capacity, used = amounts_in(table, demand.name, rows)
    free = capacity - used
    best = int(free.argmax())
    wanted = amount(demand.name, demand.amount)
    most = amount(demand.name, max(0, int(free[best])))
    name = table.names[int(rows[best])]
    text = f"wants {wanted} {demand.name}, most free {where}: {most} ({name})"
    largest = int(capacity.max())
    if largest < demand.amount:
        text += f", and the largest has {amount(demand.name, largest)} in all"
    return text


def _pods(table: NodeTableView, rows: Rows, where: str) -> str:
    free = table.pod_limit[rows] - table.pod_count[rows]
    best = int(rows[int(free.argmax())])
    return (
        f"most room for pods {where}: {table.pod_count[best]} of {table.pod_limit[best]} "
        f"({table.names[best]})"
    )
