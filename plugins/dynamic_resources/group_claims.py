"""Claims that members of a group use together, from the cycle of the group to PreBind.

The first member that is placed takes the devices of a claim, and those after it use the same
allocation before it is stored: nothing else is scheduled until the group is decided. PreBind of the
first one writes the claim once, with the reservations of all of them; that of the others waits.

Invariant: a claim is here while the member that came first has it reserved, and its PreBind has not
begun. A group that is undone removes its members in reverse order, so that nothing is left.
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
    #: UID of the member that came first, which writes the claim.
    writer: str
    #: What it has taken; None: the claim had its devices before.
    allocation: AllocationResult | None
    #: The members that use it, by UID.
    users: dict[str, Pod] = field(default_factory=dict)
    #: Those that were undone.
    left: dict[str, Pod] = field(default_factory=dict)
    #: The claim with the reservations, once it is written.
    written: ResourceClaim | None = None
    #: Whether the writer was undone.
    given_up: bool = False
    #: Whether it may have kept pods waiting that are not in the cycle of the group.
    kept_others_out: bool = False


class GroupClaims:
    """The claims of groups that are not being written yet, by UID."""

    def __init__(self) -> None:
        self._claims: dict[str, GroupClaim] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def of(self, claim: ResourceClaim, group: str) -> GroupClaim | None:
        """Return the use of a claim that a further member of a group may join."""
        found = self._claims.get(claim.metadata.uid) if self._claims and group else None
        if found is None or found.group != group:
            return None
        users = len(claim.status.reserved_for) + len(found.users)
        return found if users < MAX_SHARERS else None

    def join(
        self, claim: ResourceClaim, group: str, pod: Pod, allocation: AllocationResult | None
    ) -> GroupClaim | None:
        """Have a member use a claim, perhaps as the first one; None: it must see to itself."""
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
        """Let no further member join."""
        self._claims.pop(uid, None)

    def is_unseen(self, uid: str) -> bool:
        """Whether nobody but members of the group can have noticed the allocation of a claim."""
        found = self._claims.get(uid) if self._claims else None
        return found is not None and not found.kept_others_out

    def keep_out(self, group: str, claims: Iterable[str]) -> bool:
        """Note that a pod, of a group or of none, waits for these; whether any are of others."""
        others = False
        for uid in claims:
            found = self._claims.get(uid)
            if found is None:
                others = True
            elif found.group != group:
                others = found.kept_others_out = True
        return others
