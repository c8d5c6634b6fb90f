"""Messages about groups, for the conditions of their pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.api.pod import Pod
from scheduler.groups import Group, Source

WAITING: Final = "WaitingForGang"
"""Reason of PodScheduled while a pod waits for other members, or for the PodGroup object."""

GANG_SCHEDULED: Final = "GangScheduled"
GANG_RESERVED: Final = "GangReserved"
GANG_PARTIAL: Final = "GangPartial"
PREEMPTING: Final = "Preempting"
GANG_PREEMPTED: Final = "GangPreempted"
FAILED_SCHEDULING: Final = "FailedScheduling"
GANG_MEMBER_LEFT: Final = "GangMemberLeft"
GANG_MEMBER_JOINED: Final = "GangMemberJoined"
TOPOLOGY_SPLIT: Final = "TopologySplit"
INVALID_ANNOTATION: Final = "InvalidAnnotation"
INVALID_GROUP: Final = "InvalidPodGroup"
"""Reasons of Events on the PodGroup."""

GROUP_CONFLICT: Final = "GroupConflict"
"""Reason of an Event on a pod."""

GROUP_NOT_UNDERSTOOD: Final = "GroupNotUnderstood"
"""Reason of an Event on a pod that another system would treat as a member of a group, and on a
PodGroup with a field that is not read."""

OTHER_GROUPS: Final = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "gang.scheduling.koordinator.sh/name",
    "yunikorn.apache.org/task-group-name",
    "kueue.x-k8s.io/pod-group-name",
    "pod-group.scheduling.sigs.k8s.io/name",
)
"""Annotations and labels by which others join pods: of Volcano, Koordinator, YuniKorn, Kueue, and
the first releases of Coscheduling."""

OTHER_GROUP: Final = (
    "{key}={value} does not make a gang here, and the pod is scheduled alone: a gang needs a "
    "PodGroup and the label scheduling.x-k8s.io/pod-group"
)
ONLY_RESOURCES: Final = (
    "spec.minResources is not read, and spec.minMember asks for one pod, so the pods start one by "
    "one; set spec.minMember to the number of pods that must start together"
)
PARENT: Final = (
    "spec.parentCompositePodGroupName names {parent}: groups of pod groups are not supported, so "
    "this group is scheduled on its own"
)
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
    "all {victims} evicted for {preemptor}, whose priority is {priority}: fewer than {minimum} "
    "members would be left; the annotation {annotation}: Pod lets members be evicted one by one"
)
LEFT: Final = "{pod} is no longer a member: it is {now}"
JOINED: Final = "{pod} is a member now, and was one of pod group {other} before"
IN_GROUP: Final = "in pod group {key} now"
IN_NONE: Final = "in no group now"
IGNORED: Final = "{fault}; the annotation is ignored"
REFUSED: Final = "pod group {key}: {why}"
TWO_PROFILES: Final = (
    "pod group {key}: its pods have the schedulerNames {names}; all of them need the same one"
)
TOO_FEW: Final = "pod group {key}: {exist} of {minimum} pods exist"
NOT_READY: Final = "pod group {key}: {exist} pods exist, {minimum} are needed"
ENDED: Final = "{count} of them succeeded"
ASSEMBLING: Final = "pod group {key}: waits a moment for further pods before its domain is chosen"
GATED: Final = "{count} of them with scheduling gates"
FOREIGN: Final = "{count} more belong to other schedulers and have no node yet"


def other_group(pod: Pod) -> tuple[str, str] | None:
    """Return the annotation or label that makes a pod a member of a group elsewhere, or None."""
    for names in (pod.metadata.annotations, pod.metadata.labels):
        for key in OTHER_GROUPS if names else ():
            if value := names.get(key):
                return key, value
    return None


def moved(pod: Pod, before: Group, now: Group | None) -> Iterator[tuple[Group, str, str]]:
    """Yield groups with reason and note of an Event about a pod that names another one."""
    place = IN_NONE if now is None else IN_GROUP.format(key=now.key)
    yield before, GANG_MEMBER_LEFT, LEFT.format(pod=pod.key, now=place)
    if now is not None:
        yield now, GANG_MEMBER_JOINED, JOINED.format(pod=pod.key, other=before.key)


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
    text = TOO_FEW if counts.existing <= terms.minimum else NOT_READY
    parts = [text.format(key=key, exist=counts.existing, minimum=terms.minimum)]
    if counts.succeeded:
        parts.append(ENDED.format(count=counts.succeeded))
    if counts.gated:
        parts.append(GATED.format(count=counts.gated))
    if counts.foreign:
        parts.append(FOREIGN.format(count=counts.foreign))
    return ", ".join(parts)
