"""Pods on their way in: defaults, QoS class, priority, the SchedulingGated condition.

What may change later is in `simulator.pod_validation`. Templates of workloads get the same defaults
through `default_pod_spec`. Facts observed from kube-apiserver v1.36.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from scheduler.api.quantity import milli_value
from simulator.deferral import mark_of
from simulator.errors import Cause, forbidden, invalid_value, required_field
from simulator.gates import QUOTA_GATE
from simulator.objects import JsonObject, dig, format_time
from simulator.pod_validation import validate_gates, validate_pod_update
from simulator.resources import Resource
from simulator.spread_constraints import validate_spread
from simulator.strategies import Strategy, Surroundings, validate_metadata

GATED_MESSAGE: Final = "Scheduling is blocked due to non-empty scheduling gates"
GATED_REASON: Final = "SchedulingGated"
BUILT_IN_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS: Final = 300


def containers_of(spec: JsonObject) -> Iterator[JsonObject]:
    """Return init containers, then containers."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _default_container(container: JsonObject, host_network: bool) -> None:
    resources = container.setdefault("resources", {})
    limits = resources.get("limits")
    if limits:
        requests = resources.setdefault("requests", {})
        for name, quantity in limits.items():
            requests.setdefault(name, quantity)
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network and "containerPort" in port:
            port.setdefault("hostPort", port["containerPort"])
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        image = container.get("image") or ""
        tag = image.rpartition("/")[2].partition(":")[2]
        container["imagePullPolicy"] = (
            "Always" if tag in ("", "latest") and "@" not in image else "IfNotPresent"
        )


def default_pod_spec(spec: JsonObject) -> None:
    """Fill in the defaults of a pod spec or of a template's, in place."""
    host_network = bool(spec.get("hostNetwork"))
    for container in containers_of(spec):
        _default_container(container, host_network)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")


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


def resized(obj: JsonObject, old: JsonObject) -> tuple[JsonObject, list[Cause]]:
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
    causes: list[Cause] = []
    before = qos_class(old["spec"])
    if qos_class(spec) != before:
        why = "Pod QOS Class may not change as a result of resizing"
        causes.append(invalid_value("spec", f'"{before}"', why))
    return {**old, "metadata": obj["metadata"], "spec": spec}, causes


class PodStrategy(Strategy):
    """Pods."""

    def default(self, obj: JsonObject, around: Surroundings) -> None:
        """Fill in defaults of the spec."""
        spec = obj.setdefault("spec", {})
        default_pod_spec(spec)
        if not spec.get("schedulingGates"):
            spec.pop("schedulingGates", None)
        spec.setdefault("enableServiceLinks", True)
        # The DefaultTolerationSeconds plugin acts on updates, too.
        self._tolerate(spec)
        if "serviceAccountName" in spec:
            spec.setdefault("serviceAccount", spec["serviceAccountName"])

    def prepare_create(self, obj: JsonObject, resource: Resource, around: Surroundings) -> None:
        """Set status, QoS class and priority, and the gated condition if there are gates."""
        spec = obj["spec"]
        self._prioritise(obj, around)
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

    def validate_create(self, obj: JsonObject, around: Surroundings) -> list[Cause]:
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
    ) -> list[Cause]:
        """Return the errors of an update: the fields that may not change."""
        return super().validate_update(obj, old, around) + validate_pod_update(
            obj["spec"], old["spec"]
        )

    @staticmethod
    def _tolerate(spec: JsonObject) -> None:
        tolerations = spec.setdefault("tolerations", [])
        for key in _TOLERATED:
            if any(
                entry.get("key", "") in ("", key) and entry.get("effect", "") in ("", "NoExecute")
                for entry in tolerations
            ):
                continue
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATION_SECONDS,
                }
            )

    @staticmethod
    def _prioritise(obj: JsonObject, around: Surroundings) -> None:
        """Resolve the PriorityClass, as the Priority admission plugin does."""
        spec = obj["spec"]
        name = spec.get("priorityClassName")
        found = _priority_class(name, around)
        if name and found is None:
            pod_name = obj["metadata"].get("name", "")
            raise forbidden("pods", "", pod_name, f"no PriorityClass with name {name} was found")
        value = int(found.get("value", 0)) if found else 0
        if not name and found:
            spec["priorityClassName"] = found["metadata"]["name"]
        if "priority" in spec and spec["priority"] != value:
            why = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod "
                f"spec; priority admission controller computed {value} from the given "
                f"PriorityClass name"
            )
            raise forbidden("pods", "", obj["metadata"].get("name", ""), why)
        spec["priority"] = value
        policy = (found or {}).get("preemptionPolicy") or "PreemptLowerPriority"
        spec.setdefault("preemptionPolicy", policy)


def _priority_class(name: str | None, around: Surroundings) -> JsonObject | None:
    """Return the named class, else the global default with the lowest value."""
    if name:
        version = around.store.get("priorityclasses.scheduling.k8s.io", "", name)
        return version.obj if version else None
    if not around.store.count("priorityclasses.scheduling.k8s.io"):
        return None
    defaults = [
        version.obj
        for version in around.store.items("priorityclasses.scheduling.k8s.io")
        if version.obj.get("globalDefault")
    ]
    return min(defaults, key=lambda found: int(found.get("value", 0)), default=None)
