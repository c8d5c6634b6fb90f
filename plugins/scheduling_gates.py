"""SchedulingGates: holds a pod while it has scheduling gates (upstream `scheduling_gates.go`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from plugins.queueing_hints import after_own_update
from scheduler.api.pod import Pod
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    Handle,
    NoArgs,
    Status,
    plugin_names,
    unresolvable,
)

WAITING: Final = "waiting for scheduling gates: [{gates}]"
"""`gates`: names in the order of the spec, separated by blanks."""


class SchedulingGates:
    """Reads `spec.schedulingGates`; the pod's condition reason is SchedulingGated."""

    name: ClassVar[str] = plugin_names.SCHEDULING_GATES

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        pass

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold the pod while it has gates."""
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        return unresolvable(WAITING.format(gates=" ".join(gate.name for gate in gates)))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for the removal of the pod's own gates."""
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
                after_own_update,
            ),
        )
