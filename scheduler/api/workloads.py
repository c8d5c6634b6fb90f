"""Owners of pods and services: only their selectors matter, for default topology spreading."""

from __future__ import annotations

import msgspec

from scheduler.api.meta import LabelSelector, Named, Object


class MapSelectorSpec(Object):
    """A spec whose selector is a plain map (Service, ReplicationController); None is not `{}`."""

    selector: dict[str, str] | None = None


class LabelSelectorSpec(Object):
    """A spec whose selector is a label selector (ReplicaSet, StatefulSet, PodDisruptionBudget)."""

    selector: LabelSelector | None = None


class Namespace(Named):
    """A v1 Namespace; its labels are read by namespace selectors."""


class Service(Named):
    """A v1 Service."""

    spec: MapSelectorSpec = msgspec.field(default_factory=MapSelectorSpec)


class ReplicationController(Named):
    """A v1 ReplicationController."""

    spec: MapSelectorSpec = msgspec.field(default_factory=MapSelectorSpec)


class ReplicaSet(Named):
    """An apps/v1 ReplicaSet."""

    spec: LabelSelectorSpec = msgspec.field(default_factory=LabelSelectorSpec)


class StatefulSet(Named):
    """An apps/v1 StatefulSet."""

    spec: LabelSelectorSpec = msgspec.field(default_factory=LabelSelectorSpec)
