"""Cluster events, what plugins register for, and queueing hints.

Facts: queue-and-events.md sections 5 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from enum import Enum, IntFlag, StrEnum
from typing import Any, Final

from scheduler.api.pod import Pod


class ActionType(IntFlag):
    """What happened to an object. Values up to ALL are upstream's; the rest are ours."""

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
    # Own-update events of unscheduled pods, the tick of time and the outcome of an attempt,
    # deliberately outside UPDATE and ALL (KEP-3990 design 1.4): a plugin gets them only by asking
    # for them, and a registered wildcard does not cover them.
    UPDATE_POD_SCHEDULING_STATUS = 8192
    UPDATE_POD_ANNOTATION = 16384
    TICK = 32768
    #: A pod's own attempt was just rejected; see `ATTEMPT_OUTCOME`.
    ATTEMPT_OUTCOME = 65536


class EventResource(StrEnum):
    """The kind of object an event is about; the value is the label prefix."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"
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
    WILDCARD = "*"
    #: kubestow: no object, the clock only.
    TIME = "Time"


_ACTION_LABELS: Final = {
    ActionType.ADD: "Add",
    ActionType.DELETE: "Delete",
    ActionType.UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    ActionType.UPDATE_NODE_LABEL: "UpdateNodeLabel",
    ActionType.UPDATE_NODE_TAINT: "UpdateNodeTaint",
    ActionType.UPDATE_NODE_CONDITION: "UpdateNodeCondition",
    ActionType.UPDATE_NODE_ANNOTATION: "UpdateNodeAnnotation",
    ActionType.UPDATE_NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    ActionType.UPDATE_POD_LABEL: "UpdatePodLabel",
    ActionType.UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    ActionType.UPDATE_POD_TOLERATION: "UpdatePodToleration",
    ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
    ActionType.UPDATE: "Update",
    ActionType.ALL: "All",
    ActionType.UPDATE_POD_SCHEDULING_STATUS: "UpdatePodSchedulingStatus",
    ActionType.UPDATE_POD_ANNOTATION: "UpdatePodAnnotation",
    ActionType.TICK: "Tick",
    ActionType.ATTEMPT_OUTCOME: "AttemptOutcome",
}


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
        """The metric label, e.g. `AssignedPodDelete`; an unnamed mask has an empty action part."""
        return self.custom_label or f"{self.resource}{_ACTION_LABELS.get(self.action_type, '')}"

    @property
    def wildcard(self) -> bool:
        """Whether this is `*`/All: a forced move, not something that happened to an object."""
        return self.resource == EventResource.WILDCARD and self.action_type == ActionType.ALL

    def matches(self, incoming: ClusterEvent) -> bool:
        """Whether this registration covers `incoming`: subset of actions, and the same resource.

        A registered Pod covers assigned and unscheduled pods alike; an incoming wildcard matches
        only a registered wildcard (queue-and-events.md 6.5).
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
            EventResource.UNSCHEDULABLE_POD,
        )


class QueueingHint(Enum):
    """A hint function's answer: may this event have made the pod schedulable?"""

    SKIP = "QueueSkip"
    QUEUE = "Queue"


HintFunction = Callable[[Pod, Any, Any], QueueingHint]
"""`hint(pod, old, new)`: `old` is None for an add, `new` None for a delete. Raising means QUEUE."""


@dataclass(frozen=True, slots=True)
class HintKeys:
    """Which waiting pods a hint has to be asked about at all, by keys of the plugin's choice.

    The promise: where the hint says QUEUE, the two have a key in common, or one of them is None. A
    pod that the event is about itself is asked whatever its keys. Raising counts as None.
    """

    #: What an event must offer to help the pod; None: nobody knows. As `per_signature` hints, it
    #: may read the pod's signature, labels and namespace only; it is asked once for pods that share
    #: them.
    required_keys: Callable[[Pod], Collection[Hashable] | None]
    #: What the event, `(old, new)`, offers; None: perhaps anything.
    provided_keys: Callable[[Any, Any], Collection[Hashable] | None]


@dataclass(frozen=True, slots=True)
class ClusterEventWithHint:
    """A registration: an event and, optionally, the function that says which pods it concerns."""

    event: ClusterEvent
    #: None means always QUEUE.
    hint: HintFunction | None = None
    #: The answer depends only on the pod's signature, labels and namespace, so that one evaluation
    #: serves all pods that share them; but for the pod that the event is about, which is asked
    #: on its own.
    per_signature: bool = False
    #: Where many pods may wait, each for something else: spares asking those it cannot help.
    keys: HintKeys | None = None


ASSIGNED_POD_ADD: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_UPDATE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE)
ASSIGNED_POD_DELETE: Final = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.ADD)
UNSCHEDULED_POD_UPDATE: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE)
UNSCHEDULED_POD_DELETE: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.DELETE)
NODE_ADD: Final = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_DELETE: Final = ClusterEvent(EventResource.NODE, ActionType.DELETE)
#: Handed by the queue to the hints of the plugins that rejected a pod, when its attempt has failed
#: and no event says that it should be retried: `hint(pod, None, info)` with the pod's
#: `QueuedPodInfo`. This is how a plugin retries on the outcome of the attempt without waiting for
#: the API server to echo it.
ATTEMPT_OUTCOME: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.ATTEMPT_OUTCOME)
TIME_TICK: Final = ClusterEvent(EventResource.TIME, ActionType.TICK)
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(
    EventResource.WILDCARD, ActionType.ALL, "UnschedulableTimeout"
)
FORCE_ACTIVATE: Final = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "ForceActivate")
