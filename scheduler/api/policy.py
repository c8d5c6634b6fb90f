"""Disruption budgets, priority and runtime classes, quotas, limit ranges, leases and events."""

from __future__ import annotations

import msgspec

from scheduler.api.meta import Named, Object, ResourceList, parse_time
from scheduler.api.pod import Toleration
from scheduler.api.storage import ObjectReference
from scheduler.api.workloads import LabelSelectorSpec


class PodDisruptionBudgetStatus(Object):
    """`status` of a budget."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str | None] = {}


class PodDisruptionBudget(Named):
    """A policy/v1 PodDisruptionBudget."""

    spec: LabelSelectorSpec = msgspec.field(default_factory=LabelSelectorSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


class PriorityClass(Named):
    """A scheduling.k8s.io/v1 PriorityClass."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class LimitRangeItem(Object):
    """`spec.limits[]`: amounts that objects of a type may have, and those of containers without."""

    type: str = ""
    default: ResourceList = {}
    default_request: ResourceList = {}
    max: ResourceList = {}
    min: ResourceList = {}


class LimitRangeSpec(Object):
    """`spec` of a limit range."""

    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Named):
    """A v1 LimitRange."""

    spec: LimitRangeSpec = msgspec.field(default_factory=LimitRangeSpec)


class RuntimeClassOverhead(Object):
    """`overhead` of a runtime class."""

    pod_fixed: ResourceList = {}


class RuntimeClassScheduling(Object):
    """`scheduling` of a runtime class: the nodes that support it."""

    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(Named):
    """A node.k8s.io/v1 RuntimeClass."""

    overhead: RuntimeClassOverhead = msgspec.field(default_factory=RuntimeClassOverhead)
    scheduling: RuntimeClassScheduling | None = None


class ScopedResourceSelectorRequirement(Object):
    """One entry of `scopeSelector.matchExpressions`."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Object):
    """`spec.scopeSelector`."""

    match_expressions: tuple[ScopedResourceSelectorRequirement, ...] = ()


class ResourceQuotaSpec(Object):
    """`spec` of a quota."""

    hard: ResourceList = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Object):
    """`status` of a quota."""

    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(Named):
    """A v1 ResourceQuota."""

    spec: ResourceQuotaSpec = msgspec.field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = msgspec.field(default_factory=ResourceQuotaStatus)


class LeaseSpec(Object):
    """`spec` of a lease; times are RFC 3339 with microseconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None

    def age(self, now: float) -> float | None:
        """Return the seconds since the last renewal, by two machines' clocks; None if unknown.

        None as well if nobody holds the Lease. Negative where the holder's clock is ahead.
        """
        renewed = parse_time(self.renew_time or "")
        return None if renewed is None or not self.holder_identity else now - renewed


class Lease(Named):
    """A coordination.k8s.io/v1 Lease."""

    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class EventSeries(Object):
    """`series` of an event."""

    count: int = 0
    last_observed_time: str = ""


class Event(Named):
    """An events.k8s.io/v1 Event."""

    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference | None = None
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""


class EventSource(Object):
    """`source` of a core/v1 event."""

    component: str = ""
    host: str = ""


class CoreEvent(Named):
    """A core/v1 Event, as the legacy recorder of autoscalers writes it."""

    involved_object: ObjectReference = msgspec.field(default_factory=ObjectReference)
    reason: str = ""
    message: str = ""
    source: EventSource = msgspec.field(default_factory=EventSource)
    reporting_component: str = ""
    type: str = ""
    count: int = 0
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None

    @property
    def component(self) -> str:
        """The reporter: `source.component`, else `reportingComponent`, as field selectors do."""
        return self.source.component or self.reporting_component
