"""Work for groups is done when its time comes, once."""

from __future__ import annotations

from plugins.gang_scheduling.deadlines import Deadlines
from scheduler.groups import GroupKey
from scheduler.service.subscriptions import SubscriptionBoard

A, B = GroupKey("ns", "a"), GroupKey("ns", "b")


class Clock:
    """A clock that a test moves."""

    time = 100.0

    def monotonic(self) -> float:
        return self.time

    def now(self) -> float:
        return self.time


def test_work_is_done_at_its_earliest_deadline() -> None:
    clock = Clock()
    done: list[GroupKey] = []
    timer: list[float | None] = []
    subscriptions = SubscriptionBoard(lambda: timer.append(deadlines.next_due()))
    deadlines = Deadlines(clock, subscriptions)
    work = done.append
    deadlines.plan(work, A, 5)
    deadlines.plan(work, A, 9)
    deadlines.plan(work, B, 7)
    deadlines.plan(work, A, 2)
    assert timer == [105, 102]
    clock.time = 102
    deadlines.run_due()
    assert done == [A]
    assert deadlines.next_due() == 107
    clock.time = 200
    deadlines.run_due()
    deadlines.run_due()
    assert done == [A, B]
    assert deadlines.next_due() is None


def test_cancelled_and_forgotten_work_is_not_done() -> None:
    clock = Clock()
    first: list[GroupKey] = []
    second: list[GroupKey] = []
    deadlines = Deadlines(clock, SubscriptionBoard())
    one, other = first.append, second.append
    for key in (A, B):
        deadlines.plan(one, key, 1)
        deadlines.plan(other, key, 1)
    deadlines.cancel(one, A)
    deadlines.forget(B)
    clock.time = 200
    deadlines.run_due()
    assert (first, second) == ([], [A])


def test_work_may_plan_itself_again() -> None:
    clock = Clock()
    done: list[GroupKey] = []
    deadlines = Deadlines(clock, SubscriptionBoard())

    def work(key: GroupKey) -> None:
        done.append(key)
        deadlines.plan(work, key, 10)

    deadlines.plan(work, A, 1)
    for clock.time in (101, 105, 111):
        deadlines.run_due()
    assert done == [A, A]
    assert deadlines.next_due() == 121
