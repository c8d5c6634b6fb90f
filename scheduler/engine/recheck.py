"""Filter the chosen node again after it has changed.

`filter_changed_node` runs after a suspended cycle, before the pod is assumed; `filter_assumed` runs
between the cycle and the bind, if another writer has changed the node. Both run PreFilter again,
and then the scalar filters on this node. Extenders do not filter again, and async PreFilter plugins
keep their earlier results.
"""

from __future__ import annotations

from scheduler.api.pod import Pod
from scheduler.cache import NodeOverlay, NodeTable
from scheduler.engine.errors import failed
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.engine.runtime import Framework
from scheduler.engine.schedule_one import ScheduleResult
from scheduler.framework import CycleState, Status, unresolvable

NODE_DELETED = "node(s) were deleted"
_WAITED = "the scheduling cycle waited for an extender or an async plugin"


def filter_assumed(
    framework: Framework,
    table: NodeTable,
    pod: Pod,
    assumed: Pod,
    earlier: CycleState,
    *,
    keep: bool = False,
) -> Status | None:
    """Return why `assumed` no longer fits on its node, or None. The node table does not change.

    `pod` is the same pod without a node, and `earlier` the state of its cycle. RemovePod takes the
    assumed pod out of a copy of the node. Pods nominated to the node do not count, because the pod
    was chosen before them. With `keep` the results are written to `earlier` instead of a copy.
    Raises AttemptError if a plugin fails.
    """
    name = assumed.spec.node_name
    row = table.row_of(name)
    if row is None:
        return unresolvable(NODE_DELETED)
    state = earlier
    if not keep:
        state = CycleState(earlier.now, dict(earlier.data))
        state.info = earlier.info
    state.skip_filter.update(earlier.skip_filter & framework.async_pre_filters)
    status = _pre_filter(framework, table, pod, name, state)
    if status is not None:
        return status
    node = NodeOverlay(table, row)
    node.leave_out(assumed)
    framework.remove_pod(state, pod, assumed, node)
    return framework.run_filters(state, pod, node)


def filter_changed_node(
    framework: Framework,
    table: NodeTable,
    state: CycleState,
    pod: Pod,
    result: ScheduleResult,
    sequence: int,
) -> None:
    """Filter the chosen node again if it changed since `sequence` of the change log.

    PreFilter writes to `state`, so that later extension points read current data. Raises
    AttemptError if the node no longer exists or the pod no longer fits; the pod is then retried.
    """
    name = result.node_name
    row = table.row_of(name)
    if row is None:
        raise failed(f'node "{name}" vanished while {_WAITED}')
    changes = table.change_log.since(sequence)
    if row == result.row and changes is not None and row not in changes:
        return
    state.skip_filter.intersection_update(framework.async_pre_filters)
    status = _pre_filter(framework, table, pod, name, state)
    if status is None:
        node = table.node_info(row)
        status = framework.run_filters_with_nominated_pods(state, pod, node, table)
    if status is not None:
        text = f'node "{name}" changed while {_WAITED}: {status.message}'
        raise failed(text, None, status.plugin)


def _pre_filter(
    framework: Framework, table: NodeTable, pod: Pod, node_name: str, state: CycleState
) -> Status | None:
    """Run the synchronous PreFilter plugins; return why they exclude the node, or None."""
    left = run_synchronously(framework.run_pre_filter(state, pod, table, again=True))
    if left.rejections:
        return left.rejections[-1]
    if left.names is not None and node_name not in left.names:
        return left.left_out()
    return None
