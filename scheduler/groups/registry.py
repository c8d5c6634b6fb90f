"""PodGroups: all groups, by key and by member.

Invariants, checked by `validate`: a pod is a member of at most one group; groups without members
and object are dropped; the counts of each group equal a recount (`Group.violations`).

Every call is constant time in the number of groups and members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from scheduler.api.pod import Pod
from scheduler.api.pod_groups import POD_GROUPS, NativePodGroup, PodGroup
from scheduler.groups.group import Group
from scheduler.groups.members import MemberEvent, MemberState
from scheduler.groups.terms import GroupKey, group_of, is_older, key_of, terms_of


@dataclass(frozen=True, slots=True)
class PodGroupsStatistics:
    """Current numbers."""

    groups: int
    members: int
    #: Number of groups whose members wait for other members, or for the object.
    held: int


class PodGroups:
    """The groups of the cluster that have members or an object."""

    #: The name under which the plugins of a process share them (`Handle.shared`).
    SHARED: ClassVar[str] = "pod groups"

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Group] = {}
        self._group_of: dict[str, Group] = {}
        #: Returns the group of a pod by UID. A bound method, for speed: it is called several times
        #: for every pod of the cluster.
        self.of: Final[Callable[[str], Group | None]] = self._group_of.get

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def get(self, key: GroupKey) -> Group | None:
        """Return the group with this key, or None."""
        return self._groups.get(key)

    # -- objects ---------------------------------------------------------------------------------

    def set_object(self, podgroup: PodGroup | NativePodGroup, resource: str = POD_GROUPS) -> Group:
        """Handle the addition or update of a PodGroup object.

        If the API server serves an object in two versions, the newer version counts.
        """
        group = self._group(key_of(podgroup))
        terms, known = terms_of(podgroup, resource), group.terms
        if known is None or known.uid != terms.uid or not is_older(resource, known.resource):
            group.set_terms(terms)
        return group

    def remove_object(self, podgroup: PodGroup | NativePodGroup) -> Group | None:
        """Handle the deletion of a PodGroup object; return its group if it still has members.

        Nothing changes if a new object of the same name already exists.
        """
        group = self._groups.get(key_of(podgroup))
        if group is None:
            return None
        if group.terms is not None and group.terms.uid == podgroup.metadata.uid:
            group.set_terms(None)
        return None if self._forget_if_empty(group) else group

    # -- pods ------------------------------------------------------------------------------------

    def observe(self, pod: Pod, *, ours: bool) -> Group | None:
        """Handle a pod in the state that the watch shows; return its group if that changed.

        `ours` is whether this process schedules pods of its schedulerName. A pending pod whose
        label changed moves to another group; a pod with a node stays in its group.
        """
        uid, key = pod.metadata.uid, group_of(pod)
        known = self._group_of.get(uid)
        if known is None and key is None:
            return None
        if known is not None and not self._stays(known, uid, key):
            self.forget(uid)
            known = None
        if known is None:
            if key is None:
                return None
            known = self._group(key)
        moved = known.apply(uid, _event(pod, ours=ours), pod.spec.scheduler_name)
        self._group_of[uid] = known
        return known if moved else None

    def reserved(self, uid: str) -> Group | None:
        """Handle Reserve of a pod; return its group, or None if it is not a member."""
        group = self._group_of.get(uid)
        if group is not None:
            group.apply(uid, MemberEvent.RESERVED)
        return group

    def unreserved(self, uid: str) -> Group | None:
        """Handle Unreserve of a pod; return its group, or None if it is not a member."""
        group = self._group_of.get(uid)
        if group is not None:
            group.apply(uid, MemberEvent.UNRESERVED)
        return group

    def forget(self, uid: str) -> Group | None:
        """Handle the end of a pod; return its group if the group still exists."""
        group = self._group_of.pop(uid, None)
        if group is None:
            return None
        group.discard(uid)
        return None if self._forget_if_empty(group) else group

    # -- inside ----------------------------------------------------------------------------------

    def _stays(self, group: Group, uid: str, key: GroupKey | None) -> bool:
        state = group.state(uid)
        settled = state is MemberState.BOUND or state is MemberState.RESERVED
        return settled or group.key == key

    def _group(self, key: GroupKey) -> Group:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key)
        return group

    def _forget_if_empty(self, group: Group) -> bool:
        if group.terms is not None or len(group):
            return False
        del self._groups[group.key]
        return True

    # -- inspection ------------------------------------------------------------------------------

    def statistics(self) -> PodGroupsStatistics:
        """Return numbers; O(groups)."""
        held = sum(bool(each.counts.pending) and not each.ready for each in self)
        return PodGroupsStatistics(len(self._groups), len(self._group_of), held)

    def validate(self) -> list[str]:
        """Return the broken invariants; O(members)."""
        found = [text for group in self for text in group.violations()]
        for uid, group in self._group_of.items():
            if uid not in group or self._groups.get(group.key) is not group:
                found.append(f"pod {uid} is not a member of {group.key}")
        if sum(map(len, self)) != len(self._group_of):
            found.append("the members of all groups do not add up")
        found += [f"{each.key} is empty" for each in self if each.terms is None and not len(each)]
        return found


def _event(pod: Pod, *, ours: bool) -> MemberEvent:
    if pod.spec.node_name:
        return MemberEvent.SEEN_BOUND
    if not ours:
        return MemberEvent.SEEN_FOREIGN
    return MemberEvent.SEEN_GATED if pod.spec.scheduling_gates else MemberEvent.SEEN_PENDING
