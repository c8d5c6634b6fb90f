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

MAX_EXPLAINED: Final = 5
"""Gates that are explained one by one."""

REMOVED_BY: Final = {
    "kueue.x-k8s.io/admission": (
        "Kueue removes it once it has admitted the workload of the pod: see its Workload "
        "(kubectl get workloads -n NAMESPACE)"
    ),
    "kueue.x-k8s.io/topology": "Kueue removes it once it has chosen a topology domain for the pod",
    "multiarch.openshift.io/scheduling-gate": (
        "the Multiarch Tuning Operator removes it once it knows the architectures of the images"
    ),
}
"""Gates of widely used controllers, and when these remove them."""

_DOMAINS: Final = {"kueue.x-k8s.io": "Kueue", "scheduling.volcano.sh": "Volcano"}


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

    def explain(self, pod: Pod) -> Sequence[str]:
        """Return a line per gate: who usually removes it."""
        gates = pod.spec.scheduling_gates
        lines = [_removal(gate.name) for gate in gates[:MAX_EXPLAINED]]
        left = len(gates) - len(lines)
        return (*lines, f"and {left} more gates") if left else tuple(lines)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for the removal of the pod's own gates."""
        return (
            ClusterEventWithHint(
                ClusterEvent(
                    EventResource.TARGET_POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
                ),
                after_own_update,
            ),
        )


def _removal(gate: str) -> str:
    known = REMOVED_BY.get(gate)
    if known is not None:
        return f"{gate}: {known}"
    domain, slash, _ = gate.partition("/")
    owner = _DOMAINS.get(domain, f"the owner of {domain}" if slash else "whoever set it")
    return f"{gate}: {owner} must remove it; this scheduler never does"
