"""Inbox: nothing lost, nothing twice, everything in order."""

from __future__ import annotations

import itertools
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from scheduler.service.inbox import Inbox

STEPS = st.lists(st.sampled_from(("submit", "nested", "fail", "suspend", "apply", "resume")))


@given(STEPS)
def test_changes_are_applied_once_and_in_order(steps: list[str]) -> None:
    inbox = Inbox()
    applied: list[int] = []
    expected: list[int] = []
    number = 0

    def nested(outer: int, inner: int) -> None:
        applied.append(outer)
        inbox.submit(lambda: applied.append(inner))

    def fail() -> None:
        raise ValueError("this change cannot be applied")

    for step in steps:
        number += 2
        if step == "suspend" and not inbox.suspended:
            inbox.suspend()
        elif step == "apply":
            # A clock that moves with every look at it: one change at a time.
            inbox.apply(itertools.count().__next__, 1)
        elif step == "resume":
            inbox.resume()
            assert sorted(applied) == sorted(expected)
        elif step == "submit":
            expected.append(number)
            inbox.submit(partial(applied.append, number))
        elif step == "nested":
            expected += [number, number + 1]
            inbox.submit(partial(nested, number, number + 1))
        elif step == "fail" and inbox.suspended:
            inbox.submit(fail)
        if not inbox.suspended:
            assert inbox.statistics()["waiting"] == 0
    inbox.resume()
    assert sorted(applied) == sorted(expected)
    # What a change submits comes after what was submitted before; the others keep their order.
    assert [each for each in applied if each % 2 == 0] == [e for e in expected if e % 2 == 0]


def test_nothing_happens_while_a_cycle_is_suspended() -> None:
    inbox = Inbox()
    applied: list[int] = []
    inbox.suspend()
    inbox.submit(lambda: applied.append(1))
    inbox.submit(applied.append, 2)
    assert applied == []
    assert inbox.statistics() == {"waiting": 2, "deferred": 2}
    inbox.resume()
    assert applied == [1, 2]
    inbox.submit(lambda: applied.append(3))
    assert applied == [1, 2, 3]


def test_changes_are_let_in_a_slice_at_a_time() -> None:
    inbox = Inbox()
    applied: list[int] = []
    inbox.suspend()
    for number in range(5):
        inbox.submit(partial(applied.append, number))
    clock = itertools.count()
    assert inbox.apply(clock.__next__, 2)
    assert applied == [0, 1]
    inbox.submit(partial(applied.append, 5))
    assert inbox.suspended
    assert not inbox.apply(lambda: 0.0, 2)
    assert applied == [0, 1, 2, 3, 4, 5]
