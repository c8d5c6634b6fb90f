"""Group: the members of one PodGroup, and whether enough of them exist to be scheduled.

`have` is the number of bound, reserved and succeeded members; failed and deleted members do not
count. `need` is the number of members that must be placed at once, so a group that has lost half of
its members is scheduled as a gang again. When `need` is 0, members are placed one by one.

A group is *started* once a member has had a node. If a started group can no longer reach its
minimum, because no replacements are created, it continues after a while with the members that it
has (`resume`), which is better than a silent deadlock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from scheduler.framework.grouping import MAX_MEMBERS
from scheduler.groups.members import MemberEvent, MemberState, next_state
from scheduler.groups.terms import GroupKey, GroupTerms


class Counts(NamedTuple):
    """The members of a group by state."""

    foreign: int
    gated: int
    pending: int
    reserved: int
    bound: int
    #: Succeeded members, up to the minimum.
    succeeded: int

    @property
    def existing(self) -> int:
        """Number of members that can count for the minimum."""
        return self.gated + self.pending + self.reserved + self.bound + self.succeeded


class Group:
    """One group. It exists while it has members or a PodGroup object."""

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        #: The terms of the PodGroup object; None if there is none.
        self.terms: GroupTerms | None = None
        self._members: dict[str, MemberState] = {}
        self._by_state: dict[MemberState, dict[str, None]] = {state: {} for state in MemberState}
        #: Number of our members without a node, by scheduler name.
        self._profiles: dict[str, int] = {}
        self._profile_of: dict[str, str] = {}
        #: UIDs of succeeded members, and the number of those whose UIDs are unknown.
        self._succeeded: set[str] = set()
        self._succeeded_earlier = 0
        #: Whether any member ever had a node.
        self.started = False
        #: Whether a started group continues below its minimum.
        self.resumed = False

    # -- changes ---------------------------------------------------------------------------------

    def set_terms(self, terms: GroupTerms | None) -> None:
        """Set the terms of a new, changed or (None) deleted object.

        Members stay; but the progress under an object with another UID does not count.
        """
        if terms is not None and self.terms is not None and terms.uid != self.terms.uid:
            self._succeeded.clear()
            self._succeeded_earlier = 0
            self.started = self.resumed = False
        if terms is not None and self._by_state[MemberState.BOUND]:
            self.started = True
        self.terms = terms

    def apply(self, uid: str, event: MemberEvent, profile: str = "") -> bool:
        """Apply an event of a member with a schedulerName; return whether its state changed."""
        before = self._members.get(uid)
        after = next_state(before, event)
        if after is None or after is before:
            return False
        if before is not None:
            del self._by_state[before][uid]
        self._members[uid] = after
        self._by_state[after][uid] = None
        waits = after in _WAITING
        if waits is not (before in _WAITING):
            self._count_profile(uid, profile, waits=waits)
        if after is MemberState.BOUND:
            self.started = True
        self.resumed = False
        return True

    def discard(self, uid: str) -> bool:
        """Remove a member whose pod was deleted; return whether it was a member."""
        state = self._members.pop(uid, None)
        if state is None:
            return False
        del self._by_state[state][uid]
        self._count_profile(uid, "", waits=False)
        self.resumed = False
        return True

    def succeed(self, uid: str) -> None:
        """Count a succeeded member; repeated reports count once."""
        if len(self._succeeded) < MAX_MEMBERS:
            self._succeeded.add(uid)

    def succeeded_earlier(self, count: int) -> None:
        """Count succeeded members whose UIDs are unknown."""
        self._succeeded_earlier = count

    def name_succeeded(self, uids: Iterable[str]) -> None:
        """Count succeeded members, which include those counted without a UID so far."""
        found = set(uids) - self._succeeded
        self._succeeded_earlier = max(self._succeeded_earlier - len(found), 0)
        for uid in found:
            self.succeed(uid)

    def start(self) -> None:
        """Record that members had nodes earlier, even if these members no longer exist."""
        self.started = True

    def resume(self) -> None:
        """Let a started group continue with its members, until one is added or removed."""
        self.resumed = self.started

    def _count_profile(self, uid: str, profile: str, *, waits: bool) -> None:
        if waits:
            self._profile_of[uid] = profile
            self._profiles[profile] = self._profiles.get(profile, 0) + 1
            return
        known = self._profile_of.pop(uid, None)
        if known is not None:
            self._profiles[known] -= 1
            if not self._profiles[known]:
                del self._profiles[known]

    # -- questions -------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of members whose pods exist."""
        return len(self._members)

    def __contains__(self, uid: object) -> bool:
        return uid in self._members

    def state(self, uid: str) -> MemberState | None:
        """Return the state of a member; None if the pod is not a member."""
        return self._members.get(uid)

    def members(self, *states: MemberState) -> Iterator[str]:
        """Yield the UIDs of members in these states, in the order in which they entered them."""
        for state in states:
            yield from self._by_state[state]

    def count(self, state: MemberState) -> int:
        """Return the number of members in a state."""
        return len(self._by_state[state])

    @property
    def profiles(self) -> tuple[str, ...]:
        """The sorted scheduler names of our members without a node."""
        return tuple(sorted(self._profiles))

    @property
    def succeeded(self) -> int:
        """Number of succeeded members, up to the minimum, beyond which it does not matter."""
        limit = 0 if self.terms is None else self.terms.minimum
        return min(len(self._succeeded) + self._succeeded_earlier, limit)

    @property
    def counts(self) -> Counts:
        """Return the members by state."""
        found = {state.value: len(uids) for state, uids in self._by_state.items()}
        return Counts(**found, succeeded=self.succeeded)

    @property
    def have(self) -> int:
        """Number of members that are placed or succeeded."""
        by_state = self._by_state
        placed = len(by_state[MemberState.RESERVED]) + len(by_state[MemberState.BOUND])
        return placed + self.succeeded

    @property
    def satisfied(self) -> bool:
        """Whether the minimum of members is placed or succeeded."""
        terms, bound = self.terms, len(self._by_state[MemberState.BOUND])
        return terms is not None and bound + self.succeeded >= terms.minimum

    @property
    def need(self) -> int:
        """Number of members that must be placed at once; 0: members are placed one by one."""
        if self.terms is None:
            return 0
        need = max(self.terms.minimum - self.have, 0)
        if self.resumed:
            return min(need, len(self._by_state[MemberState.PENDING]))
        return need

    @property
    def ready(self) -> bool:
        """Whether pending members may be tried: the object is valid, and enough members exist."""
        terms = self.terms
        if terms is None or terms.refused or len(self._profiles) > 1:
            return False
        return len(self._by_state[MemberState.PENDING]) >= self.need

    @property
    def unfinished(self) -> bool:
        """Whether members have nodes, but too few, and there are enough others to be tried."""
        return bool(self._by_state[MemberState.BOUND]) and self.need > 0 and self.ready

    @property
    def short_after_start(self) -> bool:
        """Whether members wait for replacements that may never come."""
        pending = self._by_state[MemberState.PENDING]
        return self.started and bool(pending) and not self.ready

    def violations(self) -> Iterator[str]:
        """Yield the broken invariants, for `PodGroups.validate`."""
        listed = {uid: state for state, uids in self._by_state.items() for uid in uids}
        if listed != self._members:
            yield f"{self.key}: the index of members by state differs from the members"
        waiting = {uid for uid, state in self._members.items() if state in _WAITING}
        if waiting != self._profile_of.keys():
            yield f"{self.key}: the profiles are not those of the waiting members"
        counted: dict[str, int] = {}
        for profile in self._profile_of.values():
            counted[profile] = counted.get(profile, 0) + 1
        if counted != self._profiles:
            yield f"{self.key}: the members by profile do not add up"
        if self.need < 0 or (self.resumed and not self.started):
            yield f"{self.key}: need is {self.need}, resumed is {self.resumed}"


_WAITING = (MemberState.GATED, MemberState.PENDING, MemberState.RESERVED)
