"""PodGroup of `scheduling.x-k8s.io/v1alpha1`, the custom resource of the Coscheduling plugin."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.api.meta import Named, Object

POD_GROUPS: Final = "scheduling.x-k8s.io/v1alpha1/podgroups"
"""The resource, as plugins name it in `required_resources`."""

POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""Label of a pod with the name of its group, which is in the same namespace."""


class PodGroupSpec(Object):
    """`spec`. Every field may change at any time."""

    #: Number of pods that start together or not at all.
    min_member: int = 0


class PodGroup(Named):
    """A group of pods. `minResources` and `scheduleTimeoutSeconds` have no use here."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
