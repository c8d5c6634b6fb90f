"""States of a member of a group, and the table of their transitions.

A member is known from the first event that shows its pod until the pod is gone. Events repeat and
come late: the watch shows an assumed pod without a node for a while, and Unreserve may be called
for a pod that is bound after all. So every event has a defined result in every state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class MemberState(Enum):
    """The stage of a member on its way to a node."""

    #: Pending, and served by another scheduler: it counts only once it is bound.
    FOREIGN = "foreign"
    #: Pending with scheduling gates: it must not be scheduled yet.
    GATED = "gated"
    #: Pending.
    PENDING = "pending"
    #: Room is reserved for it on a node.
    RESERVED = "reserved"
    #: It has a node.
    BOUND = "bound"


class MemberEvent(Enum):
    """A change of a member."""

    #: The watch shows it without a node: of another scheduler, with gates, or neither.
    SEEN_FOREIGN = "seen foreign"
    SEEN_GATED = "seen gated"
    SEEN_PENDING = "seen pending"
    #: The watch shows it with a node.
    SEEN_BOUND = "seen bound"
    #: Reserve and Unreserve ran for it.
    RESERVED = "reserved"
    UNRESERVED = "unreserved"


_PENDING: Final = {
    MemberEvent.SEEN_FOREIGN: MemberState.FOREIGN,
    MemberEvent.SEEN_GATED: MemberState.GATED,
    MemberEvent.SEEN_PENDING: MemberState.PENDING,
    MemberEvent.SEEN_BOUND: MemberState.BOUND,
}

MEMBER_TRANSITIONS: Final[Mapping[MemberState | None, Mapping[MemberEvent, MemberState]]] = {
    None: _PENDING,
    MemberState.FOREIGN: _PENDING,
    MemberState.GATED: _PENDING,
    MemberState.PENDING: {**_PENDING, MemberEvent.RESERVED: MemberState.RESERVED},
    MemberState.RESERVED: {
        MemberEvent.SEEN_BOUND: MemberState.BOUND,
        MemberEvent.UNRESERVED: MemberState.PENDING,
    },
    MemberState.BOUND: {},
}
"""The next state by state and event; an event that a state does not list changes nothing.

A pod that is not known is in state None. Nothing leaves BOUND but the end of the pod."""


def next_state(state: MemberState | None, event: MemberEvent) -> MemberState | None:
    """Return the state after an event."""
    return MEMBER_TRANSITIONS[state].get(event, state)
