"""Groups that hold nodes and cannot run: which of them must be tried before other groups.

After a scheduler ended between the binds of a group, or a node of a running group failed, some
members have nodes and the others wait. If another group got the room of the others, and lost its
own scheduler halfway, the two would hold each other for ever. So such a group is tried before
groups of its priority or lower that hold nothing, once after each change of its members.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from scheduler.groups import Group, GroupKey, MemberState

MAX_LOOKS: Final = 64
"""Maximum number of groups to look at for one pod. The next look begins with the others."""


class UnfinishedGroups:
    """The groups about which it is not decided yet whether they can be completed."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def look(self, group: Group) -> None:
        """Add or drop a group after a change of its members or its object."""
        if group.unfinished:
            self._groups[group.key] = group
        else:
            self._groups.pop(group.key, None)

    def forget(self, key: GroupKey) -> None:
        """Drop a group that was tried, or deleted."""
        self._groups.pop(key, None)

    def before(self, group: Group | None) -> Iterator[str]:
        """Yield a pending member of each group to be tried before `group`."""
        if group is None or group.unfinished:
            return
        for key in tuple(islice(self._groups, MAX_LOOKS)):
            first = self._groups.pop(key)
            self._groups[key] = first
            uid = next(first.members(MemberState.PENDING), None)
            if uid is not None:
                yield uid
