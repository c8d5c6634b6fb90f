"""The states of a pod in the ledger, and the events that change them: a transition table.

Pure data; `Ledger._apply` carries it out. The enumerations are integers for speed: their hash is C
code. A pair of state and event that `next_state` does not name leaves the state as it is. Effects
depend on the event only; `Ledger._apply` gives their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, auto
from typing import Final


class PodState(IntEnum):
    """Progress of a pod towards a node, as far as quota is concerned."""

    #: Without a node and without quota of its own; a pod without gates is charged all the same.
    WAITING = auto()
    #: Quota is kept for it, so that no other pod takes it while its victims end.
    NOMINATED = auto()
    #: The nomination has ended; Reserve, which comes next, still honours what was kept.
    NOMINATION_ENDED = auto()
    #: Between Reserve and the observed binding.
    RESERVED = auto()
    #: Reserved and nominated: Unreserve leaves what the nomination keeps.
    RESERVED_NOMINATED = auto()
    #: It has a node, whoever bound it.
    BOUND = auto()
    #: It succeeded, failed or was deleted.
    FINISHED = auto()


class PodEvent(IntEnum):
    """Something that happens to a pod."""

    #: A new or changed object without a node.
    OBSERVED = auto()
    #: An object with a node.
    BOUND = auto()
    #: A terminal object, or the end of the object.
    FINISHED = auto()
    NOMINATED = auto()
    NOMINATION_CLEARED = auto()
    #: The pod does not fit, so nothing is kept for it.
    NOMINATION_REFUSED = auto()
    RESERVED = auto()
    RESERVE_REFUSED = auto()
    UNRESERVED = auto()
    #: PreEnqueue or a later check holds the pod.
    HELD = auto()
    #: A check lets the pod pass.
    ADMITTED = auto()
    #: The attempt failed for another reason than quota.
    ATTEMPT_FAILED = auto()


class Effect(IntEnum):
    """Changes besides the state."""

    #: Bring the accounts up to date with the record; implied by a change of state.
    RECONCILE = auto()
    #: End a nomination whose quota does not suffice any more: the pod may have grown.
    RENEW_NOMINATION = auto()
    #: The released pod does not use the quota it was released for: others may try.
    RETURN_RELEASE = auto()
    #: The released pod uses the quota: the next release makes no allowance for it.
    CONSUME_RELEASE = auto()
    ENQUEUE = auto()
    DEQUEUE = auto()
    #: Quota alone keeps the pod from a node no longer.
    END_STARVATION = auto()
    WITHDRAW_CLAIM = auto()


_NO_KEPT_QUOTA: Final = {
    PodState.NOMINATED: PodState.WAITING,
    PodState.NOMINATION_ENDED: PodState.WAITING,
    PodState.RESERVED_NOMINATED: PodState.RESERVED,
}
_END_OF_GRANT: Final = {PodState.NOMINATION_ENDED: PodState.WAITING}

_NEXT: Final[Mapping[PodEvent, Mapping[PodState, PodState]]] = {
    PodEvent.OBSERVED: {},
    PodEvent.BOUND: dict.fromkeys(PodState, PodState.BOUND),
    PodEvent.FINISHED: dict.fromkeys(PodState, PodState.FINISHED),
    PodEvent.NOMINATED: {
        PodState.WAITING: PodState.NOMINATED,
        PodState.NOMINATION_ENDED: PodState.NOMINATED,
        PodState.RESERVED: PodState.RESERVED_NOMINATED,
    },
    PodEvent.NOMINATION_CLEARED: {
        PodState.NOMINATED: PodState.NOMINATION_ENDED,
        PodState.RESERVED_NOMINATED: PodState.RESERVED,
    },
    PodEvent.NOMINATION_REFUSED: _NO_KEPT_QUOTA,
    PodEvent.RESERVED: {
        PodState.WAITING: PodState.RESERVED,
        PodState.NOMINATED: PodState.RESERVED_NOMINATED,
        PodState.NOMINATION_ENDED: PodState.RESERVED,
    },
    PodEvent.RESERVE_REFUSED: _END_OF_GRANT,
    PodEvent.UNRESERVED: {
        PodState.RESERVED: PodState.WAITING,
        PodState.RESERVED_NOMINATED: PodState.NOMINATED,
        PodState.NOMINATION_ENDED: PodState.WAITING,
    },
    PodEvent.HELD: _NO_KEPT_QUOTA,
    PodEvent.ADMITTED: {},
    PodEvent.ATTEMPT_FAILED: _END_OF_GRANT,
}

_LEAVE: Final = frozenset(
    {
        Effect.RECONCILE,
        Effect.RETURN_RELEASE,
        Effect.DEQUEUE,
        Effect.END_STARVATION,
        Effect.WITHDRAW_CLAIM,
    }
)
_NO_EFFECT: Final[frozenset[Effect]] = frozenset()

EFFECTS: Final[Mapping[PodEvent, frozenset[Effect]]] = {
    PodEvent.OBSERVED: frozenset({Effect.RECONCILE, Effect.RENEW_NOMINATION}),
    PodEvent.BOUND: _LEAVE,
    PodEvent.FINISHED: _LEAVE,
    PodEvent.NOMINATED: _NO_EFFECT,
    PodEvent.NOMINATION_CLEARED: _NO_EFFECT,
    PodEvent.NOMINATION_REFUSED: _NO_EFFECT,
    PodEvent.RESERVED: frozenset(
        {Effect.CONSUME_RELEASE, Effect.DEQUEUE, Effect.END_STARVATION, Effect.WITHDRAW_CLAIM}
    ),
    PodEvent.RESERVE_REFUSED: _NO_EFFECT,
    PodEvent.UNRESERVED: _NO_EFFECT,
    PodEvent.HELD: frozenset({Effect.RETURN_RELEASE, Effect.ENQUEUE, Effect.WITHDRAW_CLAIM}),
    PodEvent.ADMITTED: frozenset({Effect.DEQUEUE}),
    PodEvent.ATTEMPT_FAILED: frozenset({Effect.RETURN_RELEASE, Effect.END_STARVATION}),
}


def next_state(state: PodState, event: PodEvent) -> PodState:
    """Return the state after an event."""
    return _NEXT[event].get(state, state)
