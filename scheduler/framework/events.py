"""Cluster events, registrations of plugins, and queueing hints (KEP-4247)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from enum import Enum, IntFlag, StrEnum
from typing import Any, Final

from scheduler.api.pod import Pod


class ActionType(IntFlag):
    """Kinds of changes of an object. Values up to ALL are upstream's; the rest are kubestow's."""

    NONE = 0
    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_POD_LABEL = 256
    UPDATE_POD_SCALE_DOWN = 512
    UPDATE_POD_TOLERATION = 1024
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 2048
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 4096
    UPDATE = 8188
    ALL = 8191
    # Deliberately outside UPDATE and ALL, so that a registered wildcard does not cover them and a
    # plugin gets them only if it registers them by name. Otherwise the status that an attempt
    # writes, or a tick of the clock, would requeue pods of plugins that do not use these events.
    UPDATE_POD_SCHEDULING_STATUS = 8192
    UPDATE_POD_ANNOTATION = 16384
    TICK = 32768
    #: The pod's own attempt was just rejected; see the event `ATTEMPT_OUTCOME`.
    ATTEMPT_OUTCOME = 65536


class EventResource(StrEnum):
    """The kind of the changed object; the value is the prefix of the event's label."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    #: A pod without a node, for a pod that waits for another reason than its own change.
    UNSCHEDULED_POD = "UnscheduledPod"
    #: The waiting pod itself.
    TARGET_POD = "TargetPod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    #: kubestow's own: kube-scheduler has no events of namespaces.
    NAMESPACE = "Namespace"
    WILDCARD = "*"
    #: kubestow's own: an event of the clock, without an object.
    TIME = "Time"


_ACTION_LABELS: Final = {
    action: name.title().replace("_", "")
    for name, action in ActionType.__members__.items()
    if action
}
"""E.g. `UpdateNodeLabel`; masks without a name of their own have no label."""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A resource and an action.

    Registered by plugins (any mask of actions) and emitted by event handlers (one action).
    """

    #: An `EventResource`, or `<plural>.<version>.<group>` for a custom resource.
    resource: str
    action_type: ActionType
    custom_label: str = ""

    @property
    def label(self) -> str:
        """The metric label, e.g. `AssignedPodDelete`; the action part of other masks is empty."""
        return self.custom_label or f"{self.resource}{_ACTION_LABELS.get(self.action_type, '')}"

    @property
    def wildcard(self) -> bool:
        """Whether this is `*`/All: a forced move, not a change of an object."""
        return self.resource == EventResource.WILDCARD and self.action_type == ActionType.ALL

    def matches(self, incoming: ClusterEvent) -> bool:
        """Whether this registration covers `incoming`: a subset of actions, and the same resource.

        A registered Pod covers assigned, unscheduled and target pods alike; an incoming wildcard
        matches only a registered wildcard (types.go: MatchClusterEvents).
        """
        if self.wildcard:
            return incoming.action_type & ActionType.ALL == incoming.action_type
        return (
            self._covers_resource(incoming.resource)
            and incoming.action_type != 0
            and incoming.action_type & self.action_type == incoming.action_type
        )

    def _covers_resource(self, resource: str) -> bool:
        if self.resource in (EventResource.WILDCARD, resource):
            return True
        return self.resource == EventResource.POD and resource in (
            EventResource.ASSIGNED_POD,
            EventResource.UNSCHEDULED_POD,
            EventResource.TARGET_POD,
        )


class QueueingHint(Enum):
    """Result of a hint function: QUEUE if the event may have made the pod schedulable."""

    SKIP = "QueueSkip"
    QUEUE = "Queue"


HintFunction = Callable[[Pod, Any, Any], QueueingHint]
"""`hint(pod, old, new)`: `old` is None for an addition, `new` for a deletion. If the function
raises, that counts as QUEUE."""


@dataclass(frozen=True, slots=True)
class HintKeys:
    """Index keys of a plugin, so that its hint need not be evaluated for pods that it cannot help.

    The plugin guarantees: if the hint returns QUEUE, the pod's required keys and the event's
    provided keys have a key in common, or one of the two is None. The hint is always evaluated for
    the pod that the event is about, and for the pod that controls the changed object. If one of
    the functions raises, that counts as None.
    """

    #: Keys of which an event must provide one to help the pod; None: unknown. Like `per_signature`
    #: hints, it may read only the pod's signature, labels and namespace; it is called once for pods
    #: that share them.
    required_keys: Callable[[Pod], Collection[Hashable] | None]
    #: Keys that the event, `(old, new)`, provides; None: it may help any pod.
    provided_keys: Callable[[Any, Any], Collection[Hashable] | None]


@dataclass(frozen=True, slots=True)
class ClusterEventWithHint:
    """A registration: an event, and optionally a hint function."""

    event: ClusterEvent
    #: None means always QUEUE.
    hint: HintFunction | None = None
    #: The hint depends only on the pod's signature, labels and namespace, so that one evaluation
    #: holds for all pods that share them. It is evaluated separately for the pod that the event is
    #: about.
    per_signature: bool = False
    #: For hints where each of many pods needs something different.
    keys: HintKeys | None = None


ASSIGNED_POD_ADD: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_DELETE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.ADD)
TARGET_POD_UPDATE: Final = ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE)
NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_DELETE: Final = ClusterEvent(EventResource.NODE, ActionType.DELETE)
#: Emitted for a pod whose attempt was rejected, unless an event since then makes it worth a retry.
#: The hints of the plugins that rejected the pod are called as `hint(pod, None, info)`, with its
#: `QueuedPodInfo`. So a plugin can react to the outcome before the API server has shown it.
ATTEMPT_OUTCOME: Final = ClusterEvent(EventResource.TARGET_POD, ActionType.ATTEMPT_OUTCOME)
TIME_TICK: Final = ClusterEvent(EventResource.TIME, ActionType.TICK)
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(
    EventResource.WILDCARD, ActionType.ALL, "UnschedulableTimeout"
)
FORCE_ACTIVATE: Final = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "ForceActivate")
#: The plugins of profiles were replaced, so their pods are tried again.
PROFILES_REPLACED: Final = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "ProfilesReplaced")
