"""A choice holds room until reality moves, and only a few of them are ahead of it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from scheduler.api.pod import Pod
from scheduler.service.binding_slots import BindingSlots
from scheduler.service.subscriptions import SubscriptionBoard
from scheduler.shadow.choices import AHEAD_SECONDS, FRESH_SECONDS, MAX_AHEAD, MAX_HELD, Choices


class Stage:
    """Choices with a clock, and an engine that places whatever it is told to."""

    def __init__(self) -> None:
        self.seconds = 100.0
        self.assumed: set[str] = set()
        self.moves = 0
        stage: Any = self
        self.cache = self
        self.slots = BindingSlots(MAX_AHEAD, asyncio.Event())
        self.choices = Choices(stage, stage, self.slots, stage, SubscriptionBoard())

    def now(self) -> float:
        return self.seconds

    monotonic = now

    def is_assumed(self, uid: str) -> bool:
        return uid in self.assumed

    def unreserve(self, _attempt: object) -> None:
        """Have nothing reserved."""

    def abandon(self, attempt: Any) -> bool:
        known = attempt.info.uid in self.assumed
        self.assumed.discard(attempt.info.uid)
        return known

    def move_all_to_active_or_backoff(self, *_: object) -> None:
        self.moves += 1

    def choose(self, uid: str) -> None:
        info = SimpleNamespace(uid=uid, pod=Pod())
        attempt: Any = SimpleNamespace(
            info=info, pod=info.pod, failure=None, result="n", node_name="n", algorithm=None
        )
        self.choices.attempted(attempt)
        self.assumed.add(uid)
        assert self.choices.hold(attempt)

    def choose_many(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.choose(str(number))


def test_the_loop_pauses_when_it_is_a_few_choices_ahead() -> None:
    stage = Stage()
    stage.choose_many(0, MAX_AHEAD - 1)
    paused = [stage.slots.full]
    stage.choose("last")
    paused.append(stage.slots.full)
    stage.choices.take("0")
    paused.append(stage.slots.full)
    assert paused == [False, True, False]


def test_a_choice_that_is_held_for_long_keeps_nobody_waiting() -> None:
    stage = Stage()
    stage.choose_many(0, MAX_AHEAD)
    stage.seconds += AHEAD_SECONDS
    assert stage.choices.next_due() == stage.seconds
    stage.choices.run_due()
    assert stage.slots.taken == 0
    assert stage.choices.held == MAX_AHEAD, "the room stays taken"
    stage.seconds += FRESH_SECONDS
    stage.choices.run_due()
    assert stage.choices.held == 0
    assert not stage.assumed
    assert stage.moves == MAX_AHEAD
    assert stage.choices.next_due() is None


def test_so_many_hold_room_and_no_more() -> None:
    stage = Stage()
    for first in range(0, MAX_HELD, MAX_AHEAD):
        stage.choose_many(first, MAX_AHEAD)
        stage.seconds += AHEAD_SECONDS
        stage.choices.run_due()
    assert stage.choices.held == MAX_HELD
    assert stage.slots.full
    assert stage.choices.next_due() == 100.0 + FRESH_SECONDS, "no slot is given back before"
    stage.choices.take("0")
    stage.choices.run_due()
    assert stage.slots.taken == 0


def test_only_what_is_placed_is_taken_out_of_the_table() -> None:
    stage = Stage()
    stage.choose_many(0, 3)
    choice = stage.choices.get("1")
    assert choice is not None
    stage.choices.reject(choice)
    assert [each.uid for each in stage.choices.assumed()] == ["0", "2"]
    stage.choices.take("0")
    assert [each.uid for each in stage.choices.assumed()] == ["2"]
    assert len(stage.choices) == 2, "the rejected choice stays, to be compared"
