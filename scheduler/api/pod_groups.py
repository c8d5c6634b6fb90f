"""PodGroups, in their two spellings.

`scheduling.x-k8s.io/v1alpha1` is the custom resource of the Coscheduling plugin; a label joins its
pods. `scheduling.k8s.io` is built into API servers from 1.36 on, behind feature gates; a field of
the pod's spec names its group. It has the versions v1alpha2 (1.36), v1alpha3 and v1beta1 (1.37).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler.api.meta import Condition, Named, Object, ObjectMeta, Value

POD_GROUPS: Final = "scheduling.x-k8s.io/v1alpha1/podgroups"
"""The custom resource, as plugins name it in `required_resources`."""

NATIVE_POD_GROUPS: Final = (
    "scheduling.k8s.io/v1alpha2/podgroups",
    "scheduling.k8s.io/v1alpha3/podgroups",
    "scheduling.k8s.io/v1beta1/podgroups",
)
"""The built-in resource in its versions, the newest last; an API server may serve both."""

POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""Label of a pod with the name of its group, which is in the same namespace."""


OLD_POD_GROUP_LABEL: Final = "pod-group.scheduling.sigs.k8s.io"
"""The former name of that label, which Koordinator and older releases of scheduler-plugins use."""


class PodGroupSpec(Object):
    """`spec`. Every field may change at any time."""

    #: Number of pods that start together or not at all.
    min_member: int = 0
    #: Amounts that the members request together, by resource. Only its presence is read.
    min_resources: Any = None


class ManagedFields(Value, frozen=True):
    """`metadata.managedFields[]`: somebody who wrote some fields."""

    manager: str = ""
    subresource: str = ""


class ManagedObjectMeta(ObjectMeta):
    """`metadata`, with the writers of the object."""

    managed_fields: tuple[ManagedFields, ...] = ()


class PodGroupStatus(Object):
    """`status`, as Coscheduling's controller writes it."""

    phase: str = ""
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroup(Named):
    """A group of pods. `scheduleTimeoutSeconds` has no use here."""

    metadata: ManagedObjectMeta = msgspec.field(default_factory=ManagedObjectMeta)
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)


class Presence(Value, frozen=True):
    """A struct without fields, whose presence is what counts."""


class GangPolicy(Value, frozen=True):
    """`spec.schedulingPolicy.gang`."""

    #: Number of pods that start together or not at all; may change except in v1alpha2.
    min_count: int = 0


class SchedulingPolicy(Value, frozen=True):
    """`spec.schedulingPolicy`, of which exactly one is set."""

    basic: Presence | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(Value, frozen=True):
    """`spec.schedulingConstraints.topology[]`: all pods in one domain of this node label."""

    key: str = ""


class SchedulingConstraints(Value, frozen=True):
    """`spec.schedulingConstraints`."""

    topology: tuple[TopologyConstraint, ...] = ()


class DisruptionMode(Value, frozen=True):
    """`spec.disruptionMode`, of which one is set; a text in v1alpha2: Pod or PodGroup."""

    single: Presence | None = None
    all: Presence | None = None


class NativePodGroupSpec(Object):
    """`spec`."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: str | DisruptionMode | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    parent_composite_pod_group_name: str | None = None


class NativePodGroupStatus(Object):
    """`status`."""

    conditions: tuple[Condition, ...] = ()


class NativePodGroup(Named):
    """A group of pods in the API server's own spelling."""

    spec: NativePodGroupSpec = msgspec.field(default_factory=NativePodGroupSpec)
    status: NativePodGroupStatus = msgspec.field(default_factory=NativePodGroupStatus)
