"""The transition table of pods in the ledger; what it leads to is tested in test_ledger.py."""

from __future__ import annotations

import pytest

from plugins.resource_quota.lifecycle import TRANSITIONS, Effect, PodEvent, PodState


def next_state(state: PodState, event: PodEvent) -> PodState:
    return TRANSITIONS[event].next_states.get(state, state)


def test_every_event_has_a_transition() -> None:
    assert TRANSITIONS.keys() == set(PodEvent)


@pytest.mark.parametrize("event", [PodEvent.BOUND, PodEvent.FINISHED])
def test_a_pod_that_leaves_the_queue_for_good_gives_back_everything(event: PodEvent) -> None:
    given_back = {Effect.DEQUEUE, Effect.RETURN_RELEASE, Effect.END_STARVATION}
    assert set(TRANSITIONS[event].effects) >= given_back | {Effect.WITHDRAW_CLAIM}
    assert len({next_state(state, event) for state in PodState}) == 1


@pytest.mark.parametrize("state", [PodState.BOUND, PodState.FINISHED])
def test_only_observed_objects_move_a_bound_or_finished_pod(state: PodState) -> None:
    observations = {PodEvent.BOUND, PodEvent.FINISHED}
    assert all(next_state(state, event) is state for event in set(PodEvent) - observations)


def test_reserve_then_unreserve_keeps_only_a_nomination() -> None:
    for state in (PodState.WAITING, PodState.NOMINATED):
        reserved = next_state(state, PodEvent.RESERVED)
        assert next_state(reserved, PodEvent.UNRESERVED) is state
    granted = next_state(PodState.NOMINATION_ENDED, PodEvent.RESERVED)
    assert next_state(granted, PodEvent.UNRESERVED) is PodState.WAITING


@pytest.mark.parametrize(
    "event", [PodEvent.HELD, PodEvent.ATTEMPT_FAILED, PodEvent.RESERVE_REFUSED, PodEvent.UNRESERVED]
)
def test_an_ended_nomination_is_honoured_once(event: PodEvent) -> None:
    assert next_state(PodState.NOMINATION_ENDED, event) is PodState.WAITING
