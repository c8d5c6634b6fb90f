"""A complete report about one pod on one node (`kubestow explain --node`).

Every Filter plugin runs, even after another one has rejected the node, and the report has the
amounts that the pod requests and the node has free. Like `examination` it has no side effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.diagnosis import status_reasons
from scheduler.engine.errors import AttemptError
from scheduler.engine.plugin_calls import call_filter, run_synchronously
from scheduler.engine.rejection_details import RejectionDetails
from scheduler.engine.runtime import Framework
from scheduler.explain.examining.examination import examine, new_state
from scheduler.explain.records import Examination, NodeCheck, NodeReport, ResourceRoom
from scheduler.framework import CycleState, Nominator, Status

PASSED = "Success"
MAX_RESOURCES = 20
"""Maximum number of scalar resources in the report; a pod may request thousands."""


def examine_with(  # noqa: PLR0913 - those of `examine`, and one
    framework: Framework,
    table: NodeTable,
    nominator: Nominator,
    pod: Pod,
    node: str,
    *,
    now: float,
    top: int,
    examples: int,
    nodes_to_find: int | None = None,
    check_time: Callable[[], None] | None = None,
) -> tuple[Examination, NodeReport | None]:
    """Return the examination of all nodes (see `examine`), and a report about `node` if given.

    Raises:
        LookupError: there is no such node.
    """
    row = table.row_of(node) if node else None
    if node and row is None:
        raise LookupError(f'no node "{node[:260]}": it does not exist, or no longer')
    nodes, place = examine(
        framework,
        table,
        nominator,
        pod,
        now=now,
        top=top,
        examples=examples,
        nodes_to_find=nodes_to_find,
        node=node,
        check_time=check_time,
    )
    if row is None:
        return nodes, None
    checks = tuple(_checks(framework, table, pod, row, new_state(now, check_time)))
    report = NodeReport(
        node=node,
        fits=place.rank > 0 or all(each.status == PASSED for each in checks),
        checks=checks,
        room=tuple(_room(table, pod, row)),
        score=place.score,
        rank=place.rank,
        feasible=nodes.feasible,
    )
    return nodes, report


def _checks(
    framework: Framework, table: NodeTable, pod: Pod, row: int, state: CycleState
) -> Iterator[NodeCheck]:
    """Yield the result of each Filter plugin that does not skip the pod."""
    details, rows = RejectionDetails(framework, table), np.array([row])

    def check(plugin: str, status: Status) -> NodeCheck:
        detail = details.of(state, pod, status, rows)
        return NodeCheck(plugin, status.code.label, status_reasons(status), detail)

    try:
        left = run_synchronously(framework.run_pre_filter(state, pod, table))
    except AttemptError as error:
        yield NodeCheck(error.status.plugin, "Error", (str(error),))
        return
    for status in left.rejections:
        yield check(status.plugin, status)
    if left.rejections:
        return
    if left.names is not None and table.names[row] not in left.names:
        status = left.left_out()
        yield check(", ".join(sorted(left.plugins)), status)
    for plugin in framework.filter:
        if plugin.name in state.skip_filter:
            continue
        try:
            rejection = call_filter(plugin, state, pod, table.node_info(row))
        except AttemptError as error:
            yield NodeCheck(plugin.name, "Error", (str(error),))
            continue
        yield NodeCheck(plugin.name, PASSED) if rejection is None else check(plugin.name, rejection)


def _room(table: NodeTable, pod: Pod, row: int) -> Iterator[ResourceRoom]:
    """Yield for each requested resource, and for `pods`, the request and the free amount."""
    wanted, info = pod.signature.requests, table.node_info(row)
    used, total = info.requested, info.allocatable
    if wanted.milli_cpu:
        free = (total.milli_cpu - used.milli_cpu) / 1000
        yield ResourceRoom("cpu", wanted.milli_cpu / 1000, free, total.milli_cpu / 1000)
    if wanted.memory:
        free = total.memory - used.memory
        yield ResourceRoom("memory", wanted.memory, free, total.memory)
    if wanted.ephemeral_storage:
        free = total.ephemeral_storage - used.ephemeral_storage
        yield ResourceRoom(
            "ephemeral-storage", wanted.ephemeral_storage, free, total.ephemeral_storage
        )
    for name, amount in wanted.scalars[:MAX_RESOURCES]:
        has, taken = table.scalar_amounts_at(name, row)
        yield ResourceRoom(name, amount, has - taken, has)
    yield ResourceRoom("pods", 1, info.allowed_pod_number - info.pod_count, info.allowed_pod_number)
