"""Pods on their way in: QoS class, the SchedulingGated condition, what is refused.

What is filled in is `scheduler.api.stored`'s; what may change later is in
`simulator.pod_validation`. Facts observed from kube-apiserver v1.37.
"""

from __future__ import annotations

from typing import Any, Final

from scheduler.api.quantity import milli_value
from scheduler.api.stored import Notes
from scheduler.api.stored.notes import containers_of
from scheduler.api.stored.pods import tolerate
from scheduler.api.stored.priorities import class_of
from simulator.deferral import mark_of
from simulator.errors import FieldCause, forbidden, invalid_value, required_field
from simulator.gates import QUOTA_GATE
from simulator.objects import JsonObject, dig, format_time
from simulator.pod_validation import validate_gates, validate_pod_update
from simulator.resources import Resource
from simulator.spread_constraints import validate_spread
from simulator.strategies import Strategy, Surroundings, validate_metadata

GATED_MESSAGE: Final = "Scheduling is blocked due to non-empty scheduling gates"
GATED_REASON: Final = "SchedulingGated"


def _same_quantity(left: Any, right: Any) -> bool:
    if left == right:
        return True
    try:
        return milli_value(left) == milli_value(right)
    except ValueError:
        return False


def qos_class(spec: JsonObject) -> str:
    """Return Guaranteed, Burstable or BestEffort, from cpu and memory of all containers."""
    constrained = False
    guaranteed = True
    groups = [container.get("resources") or {} for container in containers_of(spec)]
    if dig(spec, "resources", "requests") or dig(spec, "resources", "limits"):
        groups = [spec["resources"]]  # pod-level resources decide alone when given
    for resources in groups:
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            if name in requests or name in limits:
                constrained = True
            if name not in limits or not _same_quantity(
                requests.get(name, limits[name]), limits[name]
            ):
                guaranteed = False
    if not constrained:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def resized(obj: JsonObject, old: JsonObject) -> tuple[JsonObject, list[FieldCause]]:
    """Return `old` after a write to pods/resize: only resources of its containers change.

    Returns the new object and the violated rules.
    """
    spec = dict(old["spec"])
    for part in ("containers", "initContainers"):
        requested = {one.get("name"): one.get("resources") for one in obj["spec"].get(part) or ()}
        if part in spec:
            spec[part] = [
                {**one, "resources": requested.get(one.get("name")) or one.get("resources") or {}}
                for one in spec[part]
            ]
    causes: list[FieldCause] = []
    before = qos_class(old["spec"])
    if qos_class(spec) != before:
        why = "Pod QOS Class may not change as a result of resizing"
        causes.append(invalid_value("spec", f'"{before}"', why))
    return {**old, "metadata": obj["metadata"], "spec": spec}, causes


class PodStrategy(Strategy):
    """Pods."""

    def default(self, obj: JsonObject, around: Surroundings) -> None:
        """Fill in defaults of the spec."""
        super().default(obj, around)
        spec = obj["spec"]
        if not spec.get("schedulingGates"):
            spec.pop("schedulingGates", None)
        # The DefaultTolerationSeconds plugin acts on updates, too.
        tolerate(spec, Notes())

    def admit(self, obj: JsonObject, around: Surroundings) -> None:
        """Check the priority, and complete the pod."""
        self._check_priority(obj, around)
        super().admit(obj, around)

    def prepare_create(self, obj: JsonObject, resource: Resource, around: Surroundings) -> None:
        """Set status and QoS class, and the gated condition if there are gates."""
        spec = obj["spec"]
        status: JsonObject = {"phase": "Pending", "qosClass": qos_class(spec)}
        if spec.get("schedulingGates"):
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": format_time(around.clock.now()),
                    "reason": GATED_REASON,
                    "message": GATED_MESSAGE,
                }
            ]
            if around.enabled(QUOTA_GATE):
                status["conditions"].append(mark_of(around.clock.now()))
        obj["status"] = status

    def validate_create(self, obj: JsonObject, around: Surroundings) -> list[FieldCause]:
        """Check metadata, containers and gates."""
        causes = validate_metadata(obj)
        spec = obj["spec"]
        if not spec.get("containers"):
            causes.append(required_field("spec.containers"))
        causes += validate_gates(spec)
        causes += validate_spread(spec, "spec")
        return causes

    def validate_update(
        self, obj: JsonObject, old: JsonObject, around: Surroundings
    ) -> list[FieldCause]:
        """Return the errors of an update: the fields that may not change."""
        return super().validate_update(obj, old, around) + validate_pod_update(
            obj["spec"], old["spec"]
        )

    @staticmethod
    def _check_priority(obj: JsonObject, around: Surroundings) -> None:
        """Refuse what the Priority admission plugin does not resolve, or otherwise."""
        spec, pod_name = obj["spec"], obj["metadata"].get("name", "")
        name = spec.get("priorityClassName")
        found = class_of(name or "", around.existing)
        if name and found is None:
            raise forbidden("pods", "", pod_name, f"no PriorityClass with name {name} was found")
        value = found.value if found else 0
        if "priority" in spec and spec["priority"] != value:
            why = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod "
                f"spec; priority admission controller computed {value} from the given "
                f"PriorityClass name"
            )
            raise forbidden("pods", "", pod_name, why)
