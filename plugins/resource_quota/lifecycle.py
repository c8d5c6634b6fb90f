"""The states of a pod in the ledger, and the events that change them: a transition table.

Pure data; `Ledger._apply` carries it out. The enumerations are integers for speed: their hash is C
code.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, auto
from typing import Final, NamedTuple


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


SHOWN: Final = (PodState.WAITING, PodState.BOUND)
"""States that the pod's object shows."""


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
    """A change besides the state."""

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


class Transition(NamedTuple):
    """Consequences of an event: the next state, then the accounts, then the effects in order."""

    next_states: Mapping[PodState, PodState] = {}
    """By state; one that is not named stays as it is."""
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
