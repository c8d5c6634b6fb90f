"""Terms of a group: the demands of its PodGroup object, and what is wrong with them.

An object that contradicts itself is never half applied: either a field has one documented reading,
or the group is refused with a text for its pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler.api.pod import Pod
from scheduler.api.pod_groups import POD_GROUP_LABEL, PodGroup

MAX_MEMBERS: Final = 10_000
"""Pods that one decision may be about: it holds up all others meanwhile."""

TOO_MANY: Final = "spec.minMember is {minimum}; at most {limit} pods can start together"


@dataclass(frozen=True, slots=True)
class GroupTerms:
    """The demands of one version of a PodGroup object."""

    #: Number of members that start together or not at all, 1 or more.
    minimum: int
    #: Of the object: a new object of the same name is another group.
    uid: str = ""
    #: Why no pod of the group can be scheduled; empty if the terms can be met.
    refused: str = ""


def terms_of(group: PodGroup) -> GroupTerms:
    """Read a PodGroup object. A minimum below 1 counts as 1, as Coscheduling reads it."""
    minimum = max(group.spec.min_member, 1)
    refused = ""
    if minimum > MAX_MEMBERS:
        refused = TOO_MANY.format(minimum=minimum, limit=MAX_MEMBERS)
    return GroupTerms(minimum, group.metadata.uid, refused)


def group_name(pod: Pod) -> str:
    """Return the name of the group that the pod says it belongs to; empty for none."""
    return pod.metadata.labels.get(POD_GROUP_LABEL, "")
