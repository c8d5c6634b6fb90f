"""Events of cluster-autoscaler 1.36: its texts, and its suppression of repeats.

It tells of pods on the pods and of groups on the ConfigMap it writes its status to. Of a reason and
a pod it sends one event in 5 minutes, whatever the message; about that ConfigMap it sends every
message (kubernetes/autoscaler: `cluster-autoscaler/utils/kubernetes/factory.go`). What is told when
is decided in `simulator.controllers.autoscaler`; Karpenter is in `simulator.controllers.karpenter`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from scheduler.api import Pod
from simulator.api import Api
from simulator.controllers.autoscaler_groups import NodeGroup
from simulator.controllers.event_recorder import PendingEvent, Recorder, SpamFilter
from simulator.objects import JsonObject

STATUS_NAMESPACE: Final = "kube-system"
STATUS_CONFIGMAP: Final = "cluster-autoscaler-status"
IN_BACKOFF: Final = "in backoff after failed scale-up"
AT_MAX_SIZE: Final = "max node group size reached"
AT_MAX_TOTAL: Final = "max total nodes in cluster reached"
_STOCKOUT_CODE: Final = "OutOfResource.ZONE_RESOURCE_POOL_EXHAUSTED"


class Growth(NamedTuple):
    """One request of a group for more nodes."""

    group: NodeGroup
    current: int
    wanted: int
    names: tuple[str, ...]
    """Of the machines that are to come."""
    homes: Mapping[str, str] = {}
    """On which of them a pod is meant to run, by its UID."""


class AutoscalerVerdict(NamedTuple):
    """Reason for not scaling up for a pod."""

    reason: str
    """For the condition: ScaleUpBackoff, MaxSizeReached or NoNodeGroup."""
    message: str


def pod_reference(pod: Pod) -> JsonObject:
    """Return a reference to a pod, for an Event."""
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
    """Events and habits of one kind of autoscaler."""

    source: str
    one_group_per_loop: bool
    """Whether pods that the first group does not help wait for the next loop, and are told nothing
    in this one."""

    def names(self, group: NodeGroup, count: int, taken: Collection[str]) -> tuple[str, ...]:
        """Return names for new machines."""
        ...

    def ordering(self, growth: Growth) -> None:
        """Report that nodes will be ordered."""

    def ordered(self, growth: Growth, pods: Sequence[Pod]) -> None:
        """Report that the cloud accepted; without pods for a group below its minimum."""

    def refused(self, growth: Growth, pods: Sequence[Pod]) -> None:
        """Report that the cloud refused."""

    def arrived(self, name: str) -> None:
        """Report that a machine has become a node."""

    def failed(self, group: NodeGroup, names: Sequence[str]) -> None:
        """Report that the cloud accepted and then could not deliver."""

    def timed_out(self, group: NodeGroup, names: Sequence[str], seconds: float) -> None:
        """Report that machines did not register in time."""

    def total_reached(self, limit: int) -> None:
        """Report that the cluster has reached its limit."""

    def fits(self, pod: Pod, node: str) -> None:
        """Report that a waiting pod has room on a node, or on a machine on its way."""

    def not_triggered(self, pod: Pod, verdict: AutoscalerVerdict) -> None:
        """Report that no scale-up would help a pod."""


def _spam_key(event: PendingEvent) -> str:
    about = event.about
    if (about.get("namespace"), about["name"]) == (STATUS_NAMESPACE, STATUS_CONFIGMAP):
        return event.message
    return f"{event.reason}/{event.object_key}"


class _Filter:
    """cluster-autoscaler's, or client-go's own with `--record-duplicated-events`."""

    def __init__(self, limited: Callable[[], bool]) -> None:
        self._limited = limited
        self._own = SpamFilter(_spam_key, burst=1)
        self._default = SpamFilter()

    def admits(self, event: PendingEvent, now: float) -> bool:
        return (self._own if self._limited() else self._default).admits(event, now)


class ClusterAutoscalerReports:
    """Events of cluster-autoscaler."""

    source = "cluster-autoscaler"
    one_group_per_loop = True

    def __init__(self, api: Api, limited: Callable[[], bool]) -> None:
        self._api = api
        self._recorder = Recorder(api, self.source, _Filter(limited))
        self._configmaps = api.resources.of_kind("v1", "ConfigMap")

    def names(self, group: NodeGroup, count: int, taken: Collection[str]) -> tuple[str, ...]:
        """Return the group's name with the lowest free numbers."""
        found: list[str] = []
        number = 0
        while len(found) < count:
            number += 1
            name = f"{group.name}-{number}"
            if name not in taken:
                found.append(name)
        return tuple(found)

    def ordering(self, growth: Growth) -> None:
        """Send ScaledUpGroup, the first of two."""
        name, sizes = growth.group.name, _sizes(growth)
        text = f"Scale-up: setting group {name} size to {sizes}"
        self._recorder.record(PendingEvent(self._status(), "Normal", "ScaledUpGroup", text))

    def ordered(self, growth: Growth, pods: Sequence[Pod]) -> None:
        """Send ScaledUpGroup again, and TriggeredScaleUp on each pod that caused it."""
        name, sizes = growth.group.name, _sizes(growth)
        text = f"Scale-up: group {name} size set to {sizes}"
        self._recorder.record(PendingEvent(self._status(), "Normal", "ScaledUpGroup", text))
        change = f"{growth.current}->{growth.wanted} (max: {growth.group.max})"
        text = f"pod triggered scale-up: [{{{name} {change}}}]"
        for pod in pods:
            self._recorder.record(
                PendingEvent(pod_reference(pod), "Normal", "TriggeredScaleUp", text)
            )

    def refused(self, growth: Growth, pods: Sequence[Pod]) -> None:
        """Send FailedToScaleUpGroup; nothing on pods."""
        zone = growth.group.zone or "the zone"
        self._warn(
            "FailedToScaleUpGroup",
            f"Scale-up failed for group {growth.group.name}: the request to grow to "
            f"{growth.wanted} nodes was refused: quota of {zone} exceeded",
        )

    def arrived(self, name: str) -> None:
        """Report nothing: the node itself is visible."""

    def fits(self, pod: Pod, node: str) -> None:
        """Report nothing: the pod is schedulable."""

    def failed(self, group: NodeGroup, names: Sequence[str]) -> None:
        """Send ScaleUpFailed; nothing on pods."""
        self._warn(
            "ScaleUpFailed",
            f"Failed adding {len(names)} nodes to group {group.name} due to {_STOCKOUT_CODE}; "
            f"source errors: {exhausted(group)}",
        )

    def timed_out(self, group: NodeGroup, names: Sequence[str], seconds: float) -> None:
        """Send ScaleUpTimedOut; nothing on pods."""
        self._warn(
            "ScaleUpTimedOut",
            f"Nodes added to group {group.name} failed to register within {go_duration(seconds)}",
        )

    def total_reached(self, limit: int) -> None:
        """Send MaxNodesTotalReached."""
        self._warn("MaxNodesTotalReached", f"Max total nodes in cluster reached: {limit}")

    def not_triggered(self, pod: Pod, verdict: AutoscalerVerdict) -> None:
        """Send NotTriggerScaleUp on the pod."""
        text = f"pod didn't trigger scale-up: {verdict.message}"
        self._recorder.record(PendingEvent(pod_reference(pod), "Normal", "NotTriggerScaleUp", text))

    def _warn(self, reason: str, message: str) -> None:
        self._recorder.record(PendingEvent(self._status(), "Warning", reason, message))

    def _status(self) -> JsonObject:
        """Return the ConfigMap of events about groups; create it when it is missing."""
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


def _sizes(growth: Growth) -> str:
    return f"{growth.wanted} instead of {growth.current} (max: {growth.group.max})"


def exhausted(group: NodeGroup) -> str:
    """Return the cloud provider's error text for exhausted capacity."""
    return f"insufficient capacity: {group.zone or group.name} has no such instances left"


def go_duration(seconds: float) -> str:
    """Write whole seconds as Go prints a duration.

    >>> go_duration(900), go_duration(61), go_duration(3600)
    ('15m0s', '1m1s', '1h0m0s')
    """
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
