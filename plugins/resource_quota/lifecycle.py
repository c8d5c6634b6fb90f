"""The states of a pod in the ledger, and the events that change them: a transition table.

Pure data, applied by `Ledger._apply`. The enumerations are integers for speed, since the hash of an
integer is computed in C.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, auto
from typing import Final, NamedTuple


class PodState(IntEnum):
    """Progress of a pod towards a node, with respect to quota."""

    #: No node and no reserved quota; a pod without gates is charged nevertheless.
    WAITING = auto()
    #: Quota is reserved for it, so that no other pod takes it while its victims terminate.
    NOMINATED = auto()
    #: The nomination has ended; Reserve, which comes next, still honours its reservation.
    NOMINATION_ENDED = auto()
    #: Between Reserve and the observed binding.
    RESERVED = auto()
    #: Reserved and nominated: Unreserve leaves the reservation of the nomination.
    RESERVED_NOMINATED = auto()
    #: It has a node; any scheduler may have bound it.
    BOUND = auto()
    #: It succeeded, failed or was deleted.
    FINISHED = auto()


SHOWN: Final = (PodState.WAITING, PodState.BOUND)
"""States that follow from the pod's object alone."""


class PodEvent(IntEnum):
    """Events of a pod."""

    #: A new or changed object without a node.
    OBSERVED = auto()
    #: An object with a node.
    BOUND = auto()
    #: A terminal object, or the end of the object.
    FINISHED = auto()
    NOMINATED = auto()
    NOMINATION_CLEARED = auto()
    #: The nominated pod does not fit, so no quota is reserved for it.
    NOMINATION_REFUSED = auto()
    RESERVED = auto()
    RESERVE_REFUSED = auto()
    UNRESERVED = auto()
    #: PreEnqueue or a later check holds the pod.
    HELD = auto()
    #: A check admits the pod.
    ADMITTED = auto()
    #: The attempt failed for another reason than quota.
    ATTEMPT_FAILED = auto()


class Effect(IntEnum):
    """A consequence of an event, in addition to the change of state."""

    #: End the reservation of a nomination if it no longer suffices, since the pod may have grown.
    RENEW_NOMINATION = auto()
    #: The released pod does not use the quota for which it was released, so others may try.
    RETURN_RELEASE = auto()
    #: The released pod uses the quota, so the next release need not allow for it.
    CONSUME_RELEASE = auto()
    ENQUEUE = auto()
    DEQUEUE = auto()
    #: Quota is no longer the only thing that keeps the pod from a node.
    END_STARVATION = auto()
    WITHDRAW_CLAIM = auto()


class Transition(NamedTuple):
    """Consequences of an event: the next state, then the accounts, then the effects in order."""

    next_states: Mapping[PodState, PodState] = {}
    """The next state by state; a missing state does not change."""
    effects: tuple[Effect, ...] = ()
    new_object: bool = False
    """Whether the pod's object may be new: the accounts change even if the state does not."""


_NO_KEPT_QUOTA: Final = {
    PodState.NOMINATED: PodState.WAITING,
    PodState.NOMINATION_ENDED: PodState.WAITING,
    PodState.RESERVED_NOMINATED: PodState.RESERVED,
}
_END_OF_GRANT: Final = {PodState.NOMINATION_ENDED: PodState.WAITING}
_LEAVE: Final = (
    Effect.RETURN_RELEASE,
    Effect.DEQUEUE,
    Effect.END_STARVATION,
    Effect.WITHDRAW_CLAIM,
)

TRANSITIONS: Final[Mapping[PodEvent, Transition]] = {
    PodEvent.OBSERVED: Transition(effects=(Effect.RENEW_NOMINATION,), new_object=True),
    PodEvent.BOUND: Transition(dict.fromkeys(PodState, PodState.BOUND), _LEAVE, new_object=True),
    PodEvent.FINISHED: Transition(
        dict.fromkeys(PodState, PodState.FINISHED), _LEAVE, new_object=True
    ),
    PodEvent.NOMINATED: Transition(
        {
            PodState.WAITING: PodState.NOMINATED,
            PodState.NOMINATION_ENDED: PodState.NOMINATED,
            PodState.RESERVED: PodState.RESERVED_NOMINATED,
        }
    ),
    PodEvent.NOMINATION_CLEARED: Transition(
        {
            PodState.NOMINATED: PodState.NOMINATION_ENDED,
            PodState.RESERVED_NOMINATED: PodState.RESERVED,
        }
    ),
    PodEvent.NOMINATION_REFUSED: Transition(_NO_KEPT_QUOTA),
    PodEvent.RESERVED: Transition(
        {
            PodState.WAITING: PodState.RESERVED,
            PodState.NOMINATED: PodState.RESERVED_NOMINATED,
            PodState.NOMINATION_ENDED: PodState.RESERVED,
        },
        (Effect.DEQUEUE, Effect.END_STARVATION, Effect.WITHDRAW_CLAIM, Effect.CONSUME_RELEASE),
    ),
    PodEvent.RESERVE_REFUSED: Transition(_END_OF_GRANT),
    PodEvent.UNRESERVED: Transition(
        {
            PodState.RESERVED: PodState.WAITING,
            PodState.RESERVED_NOMINATED: PodState.NOMINATED,
            PodState.NOMINATION_ENDED: PodState.WAITING,
        }
    ),
    PodEvent.HELD: Transition(
        _NO_KEPT_QUOTA, (Effect.RETURN_RELEASE, Effect.ENQUEUE, Effect.WITHDRAW_CLAIM)
    ),
    PodEvent.ADMITTED: Transition(effects=(Effect.DEQUEUE,)),
    PodEvent.ATTEMPT_FAILED: Transition(
        _END_OF_GRANT, (Effect.RETURN_RELEASE, Effect.END_STARVATION)
    ),
}
