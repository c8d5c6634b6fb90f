"""Pod groups: which pods belong together, and how many of them must be placed at once.

Pure: no clock, no queue, no nodes. The plugin GangScheduling updates a `PodGroups` with events of
pods and PodGroup objects, and gates pods by the state of their groups.
"""

from __future__ import annotations

from scheduler.framework.grouping import MAX_MEMBERS
from scheduler.groups.group import Counts, Group
from scheduler.groups.members import MEMBER_TRANSITIONS, MemberEvent, MemberState
from scheduler.groups.registry import PodGroups
from scheduler.groups.terms import (
    PRIORITY_CLASS,
    GroupKey,
    GroupTerms,
    Source,
    group_of,
    key_of,
    terms_of,
)

__all__ = [
    "MAX_MEMBERS",
    "MEMBER_TRANSITIONS",
    "PRIORITY_CLASS",
    "Counts",
    "Group",
    "GroupKey",
    "GroupTerms",
    "MemberEvent",
    "MemberState",
    "PodGroups",
    "Source",
    "group_of",
    "key_of",
    "terms_of",
]
