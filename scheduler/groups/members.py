"""States of a member of a group, and the table of their transitions.

A member is known from the first event of its pod until the pod is deleted. Events may be repeated
or late: the watch shows an assumed pod without a node for a while, and Unreserve may be called for
a pod that is bound after all. So every event has a defined result in every state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class MemberState(Enum):
    """The state of a member on its way to a node."""

    #: Pending, but for another scheduler; it counts only once it is bound.
    FOREIGN = "foreign"
    #: Pending with scheduling gates, so that it must not be scheduled yet.
    GATED = "gated"
    #: Pending.
    PENDING = "pending"
    #: Room is reserved for it on a node.
    RESERVED = "reserved"
    #: It has a node.
    BOUND = "bound"


class MemberEvent(Enum):
    """An event of a member."""

    #: The watch shows it without a node: for another scheduler, with gates, or neither.
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
"""The next state by state and event; an event that is missing for a state changes nothing.

An unknown pod has state None. BOUND ends only with the pod."""


def next_state(state: MemberState | None, event: MemberEvent) -> MemberState | None:
    """Return the state after an event."""
    return MEMBER_TRANSITIONS[state].get(event, state)
