"""A last look at the chosen node, for when others changed it between the cycle and the bind.

The pod is asked about anew: PreFilter and the scalar Filters on this one node, with the pod's own
assumption taken out by RemovePod. Nothing live is changed. What is
not asked again: pods nominated to the node, which a chosen pod precedes, extenders, and PreFilter
plugins that wait for something, whose earlier answer stands.
"""

from __future__ import annotations

from typing import Any

from scheduler.api.pod import Pod
from scheduler.cache import NodeOverlay, NodeTable
from scheduler.engine.runtime import AttemptError, Framework, failed, pre_filter_result
from scheduler.framework import CycleState, PreFilterResult, Status, unresolvable

GONE = "node(s) were deleted"


def filter_again(
    framework: Framework, table: NodeTable, pod: Pod, assumed: Pod, earlier: CycleState
) -> Status | None:
    """Why `assumed` no longer fits where it is, or None.

    `pod` is the same pod without a node, `earlier` the state of its cycle. Raises AttemptError when
    a plugin fails.
    """
    row = table.row_of(assumed.spec.node_name)
    if row is None:
        return unresolvable(GONE)
    state = CycleState(earlier.now, dict(earlier.data))
    state.info = earlier.info
    status = _pre_filter(framework, table, pod, assumed.spec.node_name, earlier, state)
    if status is not None:
        return status
    node = NodeOverlay(table, row)
    node.leave_out(assumed)
    framework.remove_pod(state, pod, assumed, node)
    return framework.run_filters(state, pod, node)


def _pre_filter(
    framework: Framework,
    table: NodeTable,
    pod: Pod,
    node_name: str,
    earlier: CycleState,
    state: CycleState,
) -> Status | None:
    for plugin in framework.pre_filter:
        if plugin.name in framework.awaited_pre_filters:
            if plugin.name in earlier.skip_filter:
                state.skip_filter.add(plugin.name)
            continue
        answer = _ask(plugin, state, pod, table)
        if isinstance(answer, PreFilterResult):
            if node_name not in answer.node_names:
                return unresolvable(f"node(s) didn't satisfy plugin {plugin.name}").by(plugin.name)
        elif answer is None or answer.success:
            continue
        elif answer.skip:
            state.skip_filter.add(plugin.name)
        elif answer.rejected:
            return answer.by(plugin.name)
        else:
            raise _failed(plugin, answer.message, None)
    return None


def _ask(
    plugin: Any, state: CycleState, pod: Pod, table: NodeTable
) -> PreFilterResult | Status | None:
    try:
        return pre_filter_result(plugin.pre_filter(state, pod, table))
    except AttemptError:
        raise
    except Exception as error:  # plugin boundary
        raise _failed(plugin, str(error), error) from error


def _failed(plugin: Any, text: str, cause: Exception | None) -> AttemptError:
    return failed(f'running PreFilter plugin "{plugin.name}": {text}', cause, plugin.name)
