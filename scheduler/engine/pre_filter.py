"""The merged result of PreFilter: the nodes that remain, or rejections."""

from __future__ import annotations

import msgspec

from scheduler.engine.diagnosis import Diagnosis, FitError
from scheduler.engine.plugin_calls import PRE_FILTER
from scheduler.framework import (
    Code,
    CycleState,
    NodeToStatus,
    PreFilterResult,
    Status,
    unresolvable,
)


class PreFilterNodes(msgspec.Struct, eq=False):
    """The merged result of the PreFilter plugins (runtime/framework.go: RunPreFilterPlugins)."""

    #: Names of the remaining nodes; None: all nodes.
    names: frozenset[str] | None = None
    #: Plugins that excluded nodes.
    plugins: list[str] = msgspec.field(default_factory=list)
    #: Rejections of the pod; the last one is reported. Empty if the pod passes.
    rejections: list[Status] = msgspec.field(default_factory=list)

    def merge(self, plugin: str, result: PreFilterResult | Status, state: CycleState) -> bool:
        """Merge the result of one plugin; return True if it ends PreFilter.

        Raises AttemptError for a status that is neither success, Skip nor a rejection.
        """
        if isinstance(result, PreFilterResult):
            self.plugins.append(plugin)
            earlier, left = self.names, frozenset(result.node_names)
            self.names = left if earlier is None else earlier & left
            if self.names:
                return False
            self.rejections = [unresolvable(self._no_common_node())]
            return True
        if result.success:
            return False
        if result.skip:
            state.skip_filter.add(plugin)
            return False
        if not result.rejected or result.code is Code.PENDING:
            raise PRE_FILTER.failed(plugin, result.message)
        self.rejections.append(result.by(plugin))
        if result.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return False
        # As upstream: plugins that only excluded nodes are not rejectors of the pod.
        self.plugins.clear()
        return True

    def left_out(self) -> Status:
        """Return the status of nodes that are not in `names`."""
        plugins = " ".join(sorted(set(self.plugins)))
        return unresolvable(f"node(s) didn't satisfy plugin(s) [{plugins}]")

    def _no_common_node(self) -> str:
        names = sorted(set(self.plugins))
        if len(names) == 1:
            return f"node(s) didn't satisfy plugin {names[0]}"
        return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"


def rejected_by_pre_filter(pre_filtered: PreFilterNodes, diagnosis: Diagnosis) -> FitError:
    """Build the error of a pod that PreFilter rejected.

    Only the last rejection is reported, as upstream; the options of all rejections are merged.
    """
    status = pre_filtered.rejections[-1]
    diagnosis.pre_filter_message = status.message
    diagnosis.statuses = NodeToStatus(absent=status)
    diagnosis.unschedulable_plugins.update(pre_filtered.plugins)
    diagnosis.add(status)
    diagnosis.add_rejectors(pre_filtered.rejections)
    return FitError(diagnosis)
