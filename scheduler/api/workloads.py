"""Owners of pods and services: only their selectors matter, for default topology spreading."""

from __future__ import annotations

import msgspec

from scheduler.api.meta import LabelSelector, Object, ObjectMeta


class MapSelectorSpec(Object):
    """A spec whose selector is a plain map (Service, ReplicationController); None is not `{}`."""

    selector: dict[str, str] | None = None


class LabelSelectorSpec(Object):
    """A spec whose selector is a label selector (ReplicaSet, StatefulSet)."""

    selector: LabelSelector | None = None


class Namespace(Object):
    """A v1 Namespace; its labels are read by namespace selectors."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class Service(Object):
    """A v1 Service."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: MapSelectorSpec = msgspec.field(default_factory=MapSelectorSpec)


class ReplicationController(Object):
    """A v1 ReplicationController."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: MapSelectorSpec = msgspec.field(default_factory=MapSelectorSpec)


class ReplicaSet(Object):
    """An apps/v1 ReplicaSet."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: LabelSelectorSpec = msgspec.field(default_factory=LabelSelectorSpec)


class StatefulSet(Object):
    """An apps/v1 StatefulSet."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: LabelSelectorSpec = msgspec.field(default_factory=LabelSelectorSpec)
