"""Pods, events and a bridge without a network, in virtual time.

`promise` and `refusal` are events of cluster-autoscaler, those named after Karpenter are its own.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from scheduler.api.meta import Condition, ObjectMeta
from scheduler.api.pod import (
    Pod,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    TopologySpreadConstraint,
)
from scheduler.api.policy import CoreEvent, EventSource
from scheduler.api.storage import ObjectReference
from scheduler.controllers.node_provisioning.condition_selector import ConditionSelector
from scheduler.controllers.node_provisioning.decisions import Decisions, DuePatches, Patch
from scheduler.controllers.node_provisioning.ownership import CONDITION
from scheduler.controllers.node_provisioning.sources import Limits

ZONE = "topology.kubernetes.io/zone"
EPOCH = 1_800_000_000.0
"""Start of the tests by the autoscalers' clocks, in seconds since the epoch."""

TRIGGERED = "pod triggered scale-up: [{g1 1->2 (max: 5)}]"
TWO_GROUPS = "pod triggered scale-up: [{g1 1->2 (max: 5)} {g2 0->1 (max: 3)}]"
BACKOFF = "pod didn't trigger scale-up: 1 in backoff after failed scale-up"
TOO_BIG = "pod didn't trigger scale-up: 1 max node group size reached"
NO_GROUP = "pod didn't trigger scale-up: "


def rfc(time: float) -> str:
    return datetime.fromtimestamp(EPOCH + time, UTC).isoformat().replace("+00:00", "Z")


def pod(name: str = "a", uid: str = "", **spec: Any) -> Pod:
    """Return a pod of our scheduler name with the criterion."""
    spec.setdefault("scheduler_name", "kubestow")
    hard = TopologySpreadConstraint(
        topology_key=ZONE,
        when_unsatisfiable="DoNotSchedule",
        fallback_criteria=("NodeProvisioningFailed",),
    )
    spec.setdefault("topology_spread_constraints", (hard,))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="ns", uid=uid or f"uid-{name}"),
        spec=PodSpec(**spec),
    )


def gated(name: str = "a") -> Pod:
    return pod(name, scheduling_gates=(PodSchedulingGate(name="wait"),))


def having(item: Pod, *conditions: Condition, **status: Any) -> Pod:
    return msgspec.structs.replace(item, status=PodStatus(conditions=conditions, **status))


def condition(status: str, reason: str, message: str = "") -> Condition:
    return Condition(type=CONDITION, status=status, reason=reason, message=message)


def event(
    reason: str,
    message: str,
    time: float = 0.0,
    *,
    name: str = "a",
    source: str = "cluster-autoscaler",
    kind: str = "Pod",
    namespace: str = "ns",
    uid: str | None = None,
) -> CoreEvent:
    about = ObjectReference(
        kind=kind, namespace=namespace, name=name, uid=f"uid-{name}" if uid is None else uid
    )
    return CoreEvent(
        involved_object=about,
        reason=reason,
        message=message,
        source=EventSource(component=source),
        last_timestamp=rfc(time),
    )


def group_event(reason: str, message: str, time: float = 0.0, **more: Any) -> CoreEvent:
    more = {"name": "cluster-autoscaler-status", "namespace": "kube-system", **more}
    return event(reason, message, time, kind="ConfigMap", **more)


def promise(time: float, text: str = TRIGGERED, name: str = "a") -> CoreEvent:
    return event("TriggeredScaleUp", text, time, name=name)


def refusal(time: float, text: str = BACKOFF, name: str = "a") -> CoreEvent:
    return event("NotTriggerScaleUp", text, time, name=name)


def group_failure(group: str, time: float) -> CoreEvent:
    return group_event("FailedToScaleUpGroup", f"Scale-up failed for group {group}: no", time)


def karpenter_promise(time: float, claim: str = "x") -> CoreEvent:
    return event(
        "Nominated", f"Pod should schedule on: nodeclaim/{claim}", time, source="karpenter"
    )


def karpenter_refusal(time: float) -> CoreEvent:
    return event("FailedScheduling", "Failed to schedule pod, no", time, source="karpenter")


def claim_failure(claim: str, time: float) -> CoreEvent:
    message = f"NodeClaim {claim} event: no"
    return event(
        "InsufficientCapacityError", message, time, kind="NodeClaim", name=claim, source="karpenter"
    )


class SimulatedBridge:
    """A bridge's decisions and the current time; `write` carries out every planned patch."""

    def __init__(self, *pods: Pod, names: tuple[str, ...] = ("kubestow",), **more: Any) -> None:
        more.setdefault("limits", Limits(suspect_window=60.0, provisioning_deadline=1200.0))
        more.setdefault("wanted", ConditionSelector(every_pod=False))
        self.decisions = Decisions(names=names, **more)
        self.now = 0.0
        self.pods = {each.uid: each for each in pods}
        self.patches: list[Patch] = []
        for each in pods:
            self.decisions.pod_changed(each)

    def observe(self, *events: CoreEvent, age: float = 0.0) -> None:
        for each in events:
            self.decisions.event_changed(each, self.now, age)

    def plan(self, at: float | None = None) -> DuePatches:
        if at is not None:
            self.now = at
        return self.decisions.plan(self.now, rfc(self.now))

    def write(self, at: float | None = None) -> list[tuple[str, str]]:
        """Carry out all planned patches; return status and reason of each."""
        before = len(self.patches)
        while plan := self.plan(at).patches:
            for patch in plan:
                self._carry_out(patch)
        done = self.patches[before:]
        return [(each.condition.status, each.condition.reason) for each in done]

    def _carry_out(self, patch: Patch) -> None:
        self.patches.append(patch)
        self.decisions.written(patch, self.now)
        current = self.pods.get(patch.pod.uid)
        if current is not None:
            self.pods[current.uid] = having(current, patch.condition)
            self.decisions.pod_changed(self.pods[current.uid])
