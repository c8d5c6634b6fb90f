"""What autoscalers say: Events with the texts of cluster-autoscaler 1.36 and of Karpenter.

Both use the legacy recorder: the component stands in `source`, a repetition raises `count` and
`lastTimestamp` of the Event that is there. cluster-autoscaler tells of pods on the pods and of
groups on the ConfigMap it writes its status to; Karpenter tells of machines on NodeClaims. Which of
these is told when is decided in `simulator.controllers.autoscaler`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from scheduler.api import Pod
from simulator.api import MERGE_PATCH, Api
from simulator.controllers.autoscaler_groups import NodeGroup
from simulator.errors import ApiError
from simulator.objects import JsonObject, format_time

LIMIT_SECONDS: Final = 300.0
"""cluster-autoscaler: one event for each reason and object in this time."""
STATUS_NAMESPACE: Final = "kube-system"
STATUS_CONFIGMAP: Final = "cluster-autoscaler-status"
IN_BACKOFF: Final = "in backoff after failed scale-up"
AT_MAX_SIZE: Final = "max node group size reached"
AT_MAX_TOTAL: Final = "max total nodes in cluster reached"
_NUMBERS: Final = itertools.count(1)
"""Makes names of Events differ although the clock stands still."""
_STOCKOUT_CODE: Final = "OutOfResource.ZONE_RESOURCE_POOL_EXHAUSTED"


class Growth(NamedTuple):
    """One request of a group for more nodes."""

    group: NodeGroup
    current: int
    wanted: int
    names: tuple[str, ...]
    """Of the nodes that are to come."""


class Verdict(NamedTuple):
    """Why nothing is done for a pod."""

    reason: str
    """For the condition: ScaleUpBackoff, MaxSizeReached or NoNodeGroup."""
    message: str


class Recorder:
    """Writes Events of one component. `limited` says whether the rate limit is on."""

    def __init__(self, api: Api, component: str, limited: Callable[[], bool]) -> None:
        self._api = api
        self._events = api.resources.of_kind("v1", "Event")
        self._component = component
        self._limited = limited
        self._last: dict[tuple[str, str], float] = {}
        self._written: dict[tuple[str, str, str], tuple[str, str, int]] = {}

    def record(self, involved: JsonObject, kind: str, reason: str, message: str) -> bool:
        """Write an Event of type `kind` (Normal, Warning); False when the limit held it back."""
        now = self._api.clock.now()
        about = f"{involved.get('kind')}/{involved.get('uid') or involved['name']}"
        last = self._last.get((about, reason))
        if self._limited() and last is not None and now - last < LIMIT_SECONDS:
            return False
        self._last[about, reason] = now
        if not self._repeat((about, reason, message), now):
            self._create((about, reason, message), involved, kind, now)
        return True

    def _repeat(self, key: tuple[str, str, str], now: float) -> bool:
        known = self._written.get(key)
        if known is None:
            return False
        namespace, name, count = known
        patch = {"count": count + 1, "lastTimestamp": format_time(now)}
        try:
            self._api.patch(self._events, namespace, name, patch, MERGE_PATCH)
        except ApiError:
            # Its time to live is over; it is written anew.
            return False
        self._written[key] = (namespace, name, count + 1)
        return True

    def _create(
        self, key: tuple[str, str, str], involved: JsonObject, kind: str, now: float
    ) -> None:
        namespace = str(involved.get("namespace") or "default")
        name = f"{involved['name']}.{int(now * 1e6):x}{next(_NUMBERS):x}"
        moment = format_time(now)
        body: JsonObject = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": involved,
            "type": kind,
            "reason": key[1],
            "message": key[2],
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }
        try:
            self._api.create(self._events, namespace, body)
        except ApiError:
            # Its namespace is going away, or a fault rule of a test stands in the way.
            return
        self._written[key] = (namespace, name, 1)


def pod_reference(pod: Pod) -> JsonObject:
    """A pod as the object of an Event."""
    meta = pod.metadata
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }


class Reports(Protocol):
    """How one kind of autoscaler tells what it does."""

    def triggered(self, growth: Growth, pods: Sequence[Pod]) -> None:
        """Nodes were asked for, and the cloud accepted."""

    def refused(self, growth: Growth, pods: Sequence[Pod]) -> None:
        """Nodes were asked for, and the cloud refused."""

    def failed(self, group: NodeGroup, names: Sequence[str]) -> None:
        """The cloud had accepted, and then could not deliver."""

    def timed_out(self, group: NodeGroup, names: Sequence[str], seconds: float) -> None:
        """Nothing was heard of the nodes for too long."""

    def total_reached(self, limit: int) -> None:
        """The cluster must not grow."""

    def not_triggered(self, pod: Pod, verdict: Verdict) -> None:
        """Nothing can be done for a pod."""


class ClusterAutoscalerReports:
    """Events of cluster-autoscaler."""

    source: Final = "cluster-autoscaler"

    def __init__(self, api: Api, limited: Callable[[], bool]) -> None:
        self._api = api
        self._recorder = Recorder(api, self.source, limited)
        self._configmaps = api.resources.of_kind("v1", "ConfigMap")

    def triggered(self, growth: Growth, pods: Sequence[Pod]) -> None:
        """TriggeredScaleUp on each pod that caused it."""
        group = growth.group
        text = (
            f"pod triggered scale-up: [{{{group.name} {growth.current}->{growth.wanted} "
            f"(max: {group.max})}}]"
        )
        for pod in pods:
            self._recorder.record(pod_reference(pod), "Normal", "TriggeredScaleUp", text)

    def refused(self, growth: Growth, pods: Sequence[Pod]) -> None:
        """FailedToScaleUpGroup; nothing on pods."""
        zone = growth.group.zone or "the zone"
        self._warn(
            "FailedToScaleUpGroup",
            f"Scale-up failed for group {growth.group.name}: the request to grow to "
            f"{growth.wanted} nodes was refused: quota of {zone} exceeded",
        )

    def failed(self, group: NodeGroup, names: Sequence[str]) -> None:
        """ScaleUpFailed; nothing on pods."""
        self._warn(
            "ScaleUpFailed",
            f"Failed adding {len(names)} nodes to group {group.name} due to {_STOCKOUT_CODE}; "
            f"source errors: {_exhausted(group)}",
        )

    def timed_out(self, group: NodeGroup, names: Sequence[str], seconds: float) -> None:
        """ScaleUpTimedOut; nothing on pods."""
        self._warn(
            "ScaleUpTimedOut",
            f"Nodes added to group {group.name} failed to register within {go_duration(seconds)}",
        )

    def total_reached(self, limit: int) -> None:
        """MaxNodesTotalReached."""
        self._warn("MaxNodesTotalReached", f"Max total nodes in cluster reached: {limit}")

    def not_triggered(self, pod: Pod, verdict: Verdict) -> None:
        """NotTriggerScaleUp on the pod."""
        text = f"pod didn't trigger scale-up: {verdict.message}"
        self._recorder.record(pod_reference(pod), "Normal", "NotTriggerScaleUp", text)

    def _warn(self, reason: str, message: str) -> None:
        self._recorder.record(self._status(), "Warning", reason, message)

    def _status(self) -> JsonObject:
        """The ConfigMap that events about groups are attached to; made when it is missing."""
        found = self._api.store.get(self._configmaps.table, STATUS_NAMESPACE, STATUS_CONFIGMAP)
        if found is None:
            body: JsonObject = {
                "metadata": {"name": STATUS_CONFIGMAP, "namespace": STATUS_NAMESPACE},
                "data": {"status": "autoscalerStatus: Running\n"},
            }
            found = self._api.create(self._configmaps, STATUS_NAMESPACE, body)
        return {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "namespace": STATUS_NAMESPACE,
            "name": STATUS_CONFIGMAP,
            "uid": found.obj["metadata"]["uid"],
        }


class KarpenterReports:
    """Events of Karpenter. Its NodeClaims are named in events only; they are no objects here."""

    source: Final = "karpenter"

    def __init__(self, api: Api, limited: Callable[[], bool]) -> None:
        self._recorder = Recorder(api, self.source, limited)

    def triggered(self, growth: Growth, pods: Sequence[Pod]) -> None:
        """Nominated on each pod."""
        for pod in pods:
            text = f"Pod should schedule on: nodeclaim/{growth.names[0]}"
            self._recorder.record(pod_reference(pod), "Normal", "Nominated", text)

    def refused(self, growth: Growth, pods: Sequence[Pod]) -> None:
        """Karpenter has nominated before it asks the cloud."""
        self.triggered(growth, pods)
        self.failed(growth.group, growth.names)

    def failed(self, group: NodeGroup, names: Sequence[str]) -> None:
        """InsufficientCapacityError on each NodeClaim."""
        for name in names:
            text = f"NodeClaim {name} event: creating instance, {_exhausted(group)}"
            self._recorder.record(_claim(name), "Warning", "InsufficientCapacityError", text)

    def timed_out(self, group: NodeGroup, names: Sequence[str], seconds: float) -> None:
        """Karpenter deletes such NodeClaims without an event on pods."""
        for name in names:
            text = f"NodeClaim {name} event: not registered within {go_duration(seconds)}"
            self._recorder.record(_claim(name), "Warning", "RegistrationTimeout", text)

    def total_reached(self, limit: int) -> None:
        """Karpenter has limits of pools only."""

    def not_triggered(self, pod: Pod, verdict: Verdict) -> None:
        """FailedScheduling on the pod: the schedulers' reason, from another source."""
        text = f"Failed to schedule pod, {verdict.message or 'no nodepool found'}"
        self._recorder.record(pod_reference(pod), "Warning", "FailedScheduling", text)


def _claim(name: str) -> JsonObject:
    return {"kind": "NodeClaim", "apiVersion": "karpenter.sh/v1", "name": name, "uid": name}


def _exhausted(group: NodeGroup) -> str:
    return f"insufficient capacity: {group.zone or group.name} has no such instances left"


def go_duration(seconds: float) -> str:
    """Seconds as Go prints a duration of whole seconds.

    >>> go_duration(900), go_duration(61), go_duration(3600)
    ('15m0s', '1m1s', '1h0m0s')
    """
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
