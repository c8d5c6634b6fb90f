"""Messages about groups, for the conditions of their pods."""

from __future__ import annotations

from typing import Final

from scheduler.groups import Group, Source

WAITING: Final = "WaitingForGang"
"""Reason of PodScheduled while a pod waits for other members, or for the PodGroup object."""

GANG_SCHEDULED: Final = "GangScheduled"
GANG_RESERVED: Final = "GangReserved"
GANG_PARTIAL: Final = "GangPartial"
PREEMPTING: Final = "Preempting"
GANG_PREEMPTED: Final = "GangPreempted"
FAILED_SCHEDULING: Final = "FailedScheduling"
TOPOLOGY_SPLIT: Final = "TopologySplit"
INVALID_ANNOTATION: Final = "InvalidAnnotation"
INVALID_GROUP: Final = "InvalidPodGroup"
"""Reasons of Events on the PodGroup."""

GROUP_CONFLICT: Final = "GroupConflict"
"""Reason of an Event on a pod."""

NO_OBJECT: Final = "pod group {key}: there is no such PodGroup{of}"
OF_GROUP: Final = {
    Source.CRD: " of scheduling.x-k8s.io",
    Source.NATIVE: " of scheduling.k8s.io",
}
NOT_SERVED: Final = (
    "pod group {key}: the API server does not serve PodGroups of scheduling.k8s.io, to which "
    "spec.schedulingGroup belongs"
)
ASKING: Final = (
    "pod group {key}: it is not known whether the API server serves PodGroups of "
    "scheduling.x-k8s.io, to which the label refers"
)
MAY_NOT_LIST: Final = "pod group {key}: kubestow may not list PodGroups{of}"
CONFLICT: Final = (
    "spec.schedulingGroup names the group {field}, and the label {label} names {other}: the field "
    "counts"
)
EVICTING: Final = "{victims} evicted to make room for all that it needs"
IS_BOUND: Final = "1 pod is bound"
ARE_BOUND: Final = "{count} pods are bound together"
NONE_BOUND: Final = "there is room, but no member was bound, because {pod} could not be: {why}"
NOT_BOUND: Final = "{pod} could not be bound: {why}"
EVICTED: Final = (
    "all {victims} evicted for {group}, whose priority is {priority}: fewer than {minimum} members "
    "would be left; the annotation {annotation}: Pod lets members be evicted one by one"
)
IGNORED: Final = "{fault}; the annotation is ignored"
REFUSED: Final = "pod group {key}: {why}"
TWO_PROFILES: Final = (
    "pod group {key}: its pods have the schedulerNames {names}; all of them need the same one"
)
TOO_FEW: Final = "pod group {key}: {exist} of {minimum} pods exist"
ASSEMBLING: Final = "pod group {key}: waits a moment for further pods before its domain is chosen"
GATED: Final = "{count} of them with scheduling gates"
FOREIGN: Final = "{count} more belong to other schedulers and have no node yet"


def why_held(group: Group) -> str:
    """Return why the pending members of a group cannot be tried; empty if they can."""
    if group.ready:
        return ""
    key, terms = group.key, group.terms
    if terms is None:
        return NO_OBJECT.format(key=key, of=OF_GROUP[key.source])
    if terms.refused:
        return REFUSED.format(key=key, why=terms.refused)
    if len(group.profiles) > 1:
        return TWO_PROFILES.format(key=key, names=" and ".join(group.profiles))
    counts = group.counts
    parts = [TOO_FEW.format(key=key, exist=counts.existing, minimum=terms.minimum)]
    if counts.gated:
        parts.append(GATED.format(count=counts.gated))
    if counts.foreign:
        parts.append(FOREIGN.format(count=counts.foreign))
    return ", ".join(parts)
