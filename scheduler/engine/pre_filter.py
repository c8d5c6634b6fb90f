"""The nodes that PreFilter leaves, and the rejections of PreFilter plugins."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class PreFilterSlot:
    """One PreFilter plugin of a profile, and how it is called."""

    plugin: Any
    name: str
    #: Whether its result serves for other pods of the signature.
    reusable: bool
    #: Whether its PreFilter is async: it may run only in a cycle that may be suspended.
    awaited: bool


def pre_filter_slots(plugins: Iterable[Any]) -> tuple[PreFilterSlot, ...]:
    """Return how each PreFilter plugin is called."""
    return tuple(
        PreFilterSlot(
            plugin,
            plugin.name,
            bool(getattr(plugin, "pre_filter_reusable", False)),
            inspect.iscoroutinefunction(plugin.pre_filter),
        )
        for plugin in plugins
    )


class PreFilterNodes(msgspec.Struct, eq=False):
    """The merged result of the PreFilter plugins (runtime/framework.go: RunPreFilterPlugins)."""

    #: The nodes left, None for all.
    names: frozenset[str] | None = None
    #: The plugins that left nodes out.
    plugins: list[str] = msgspec.field(default_factory=list)
    #: Not empty where the pod is rejected; the last one is reported.
    rejections: list[Status] = msgspec.field(default_factory=list)

    def merge(self, plugin: str, result: PreFilterResult | Status, state: CycleState) -> bool:
        """Merge the result of one plugin; True when no other plugin need run after it.

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
        # As upstream: plugins that left nodes out had no part in this rejection.
        self.plugins.clear()
        return True

    def left_out(self) -> Status:
        """Return the status of the nodes that are not in `names`."""
        plugins = " ".join(sorted(set(self.plugins)))
        return unresolvable(f"node(s) didn't satisfy plugin(s) [{plugins}]")

    def _no_common_node(self) -> str:
        names = sorted(set(self.plugins))
        if len(names) == 1:
            return f"node(s) didn't satisfy plugin {names[0]}"
        return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"


def rejected_by_pre_filter(pre_filtered: PreFilterNodes, diagnosis: Diagnosis) -> FitError:
    """Build the error of a pod that PreFilter rejected.

    The last rejection is reported, as upstream does; the options of all of them count.
    """
    status = pre_filtered.rejections[-1]
    diagnosis.pre_filter_message = status.message
    diagnosis.statuses = NodeToStatus(absent=status)
    diagnosis.unschedulable_plugins.update(pre_filtered.plugins)
    diagnosis.add(status)
    diagnosis.add_rejectors(pre_filtered.rejections)
    return FitError(diagnosis)
