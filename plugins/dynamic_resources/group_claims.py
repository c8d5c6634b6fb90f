"""Claims that several members of a pod group share, from the group's cycle to PreBind.

The first member that is placed allocates the devices of a claim, and later members use the same
allocation before it is stored; this is safe because no other pods are scheduled until the group is
decided. PreBind of the first member writes the claim once, with the reservations of all members;
PreBind of the others waits for it.

Invariant: a claim is here while the first member has it reserved and its PreBind has not begun. If
a group is undone, its members are removed in reverse order, so that nothing remains.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from plugins.dynamic_resources.sharers import MAX_SHARERS
from scheduler.api.devices import AllocationResult, ResourceClaim
from scheduler.api.pod import Pod


@dataclass(slots=True, eq=False)
class GroupClaim:
    """One claim of a group."""

    group: str
    #: UID of the first member, which writes the claim.
    writer: str
    #: The allocation by the first member; None: the claim was already allocated.
    allocation: AllocationResult | None
    #: The members that use the claim, by UID.
    users: dict[str, Pod] = field(default_factory=dict)
    #: Members whose use was undone, by UID.
    left: dict[str, Pod] = field(default_factory=dict)
    #: The claim with the reservations, once it has been written.
    written: ResourceClaim | None = None
    #: Whether the writer was undone.
    given_up: bool = False
    #: Whether the allocation may have kept pods waiting that are not part of the group's cycle.
    kept_others_out: bool = False


class GroupClaims:
    """The shared claims of groups whose writes have not begun, by UID."""

    def __init__(self) -> None:
        self._claims: dict[str, GroupClaim] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def of(self, claim: ResourceClaim, group: str) -> GroupClaim | None:
        """Return the shared claim that a further member of `group` may join, or None."""
        found = self._claims.get(claim.metadata.uid) if self._claims and group else None
        if found is None or found.group != group:
            return None
        users = len(claim.status.reserved_for) + len(found.users)
        return found if users < MAX_SHARERS else None

    def join(
        self, claim: ResourceClaim, group: str, pod: Pod, allocation: AllocationResult | None
    ) -> GroupClaim | None:
        """Let a member use a claim, perhaps as the first; None: it must write the claim itself."""
        uid = claim.metadata.uid
        if uid in self._claims:
            found = self.of(claim, group)
        else:
            found = self._claims[uid] = GroupClaim(group, pod.metadata.uid, allocation)
        if found is not None:
            found.users[pod.metadata.uid] = pod
        return found

    def leave(self, uid: str, used: GroupClaim, pod: Pod) -> None:
        """Undo `join`."""
        if used.users.pop(pod.metadata.uid, None) is not None:
            used.left[pod.metadata.uid] = pod
        if used.writer == pod.metadata.uid:
            used.given_up = True
            self.begin_write(uid)

    def begin_write(self, uid: str) -> None:
        """Stop further members from joining, since PreBind of the writer begins."""
        self._claims.pop(uid, None)

    def is_unseen(self, uid: str) -> bool:
        """Whether the allocation of a claim cannot have affected pods outside of the group."""
        found = self._claims.get(uid) if self._claims else None
        return found is not None and not found.kept_others_out

    def keep_out(self, group: str, claims: Iterable[str]) -> bool:
        """Record that a pod waits for claims; return whether any is not held by its own group."""
        others = False
        for uid in claims:
            found = self._claims.get(uid)
            if found is None:
                others = True
            elif found.group != group:
                others = found.kept_others_out = True
        return others
