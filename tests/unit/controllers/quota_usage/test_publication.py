"""Times of publication of usage: virtual time, and a ledger that is a dict."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.controllers.quota_usage.publication import (
    DECREASE_DELAY,
    INTERVAL,
    MAX_IN_FLIGHT,
    NEVER,
    Publication,
    Publications,
)
from scheduler.controllers.quota_usage.quota_patcher import Key

Q: Key = ("team", "q")
CPU = "deferred.kubestow.io/requests.cpu-millis"


class World:
    """Publications, what the ledger says, and what the objects show."""

    def __init__(self) -> None:
        self.now = 0.0
        self.targets: dict[Key, Publication] = {}
        self.shown: dict[Key, dict[str, str]] = {}
        self.history: list[tuple[float, str]] = []
        self.version = 1
        self.too_low = False
        self.publications = Publications(self.targets.get, Random(1))

    def use(self, amount: int, key: Key = Q, uid: str = "u") -> None:
        self.targets[key] = Publication(key, uid, {CPU: str(amount)})
        self.publications.changed(key)

    def write(self, write: Publication) -> None:
        self.version += 1
        self.shown[write.key] = dict(write.used)
        self.history.append((self.now, write.used[CPU]))
        self.too_low |= int(write.used[CPU]) < int(self.targets[write.key].used[CPU])
        self.publications.written(write, self.version)

    def advance(self, seconds: float) -> None:
        """Let time pass, writing whatever falls due."""
        end = self.now + seconds
        while True:
            writes, wake = self.publications.plan(self.now)
            for write in writes:
                self.write(write)
            if writes:
                continue
            if wake > end:
                self.now = end
                return
            self.now = wake

    def see(self, used: dict[str, int], version: int, uid: str = "u") -> None:
        self.publications.seen(Q, uid, version, used, self.now)


@pytest.fixture
def world() -> World:
    made = World()
    made.publications.begin()
    return made


def test_nothing_is_written_before_the_process_leads_and_then_everything_once() -> None:
    world = World()
    world.use(5)
    world.use(0, ("other", "q"))
    assert world.publications.plan(0.0) == ([], NEVER)
    world.publications.begin()
    world.advance(60)
    assert world.shown == {Q: {CPU: "5"}, ("other", "q"): {CPU: "0"}}
    assert len(world.history) == 2
    world.publications.begin()
    world.advance(60)
    assert len(world.history) == 4, "a new leader writes everything once"


def test_an_increase_is_written_at_once(world: World) -> None:
    world.use(1)
    world.advance(10)
    world.use(2)
    world.advance(0)
    assert world.history == [(0.0, "1"), (10.0, "2")]


def test_changes_in_quick_succession_are_one_write(world: World) -> None:
    world.use(1)
    world.advance(0)
    for amount in range(2, 50):
        world.use(amount)
        world.advance(0.01)
    assert world.history == [(0.0, "1")]
    world.advance(1)
    assert world.history == [(0.0, "1"), (INTERVAL, "49")]


def test_a_decrease_is_written_when_it_has_lasted(world: World) -> None:
    world.use(9)
    world.advance(10)
    world.use(4)
    world.advance(DECREASE_DELAY - 0.01)
    assert world.shown[Q] == {CPU: "9"}
    world.advance(0.02)
    assert world.history[1:] == [(10 + DECREASE_DELAY, "4")]


def test_a_dip_is_never_shown(world: World) -> None:
    world.use(9)
    world.advance(10)
    world.use(4)
    world.advance(1.9)
    world.use(8)
    world.advance(0.5)
    world.advance(10)
    assert [amount for _, amount in world.history] == ["9", "8"]


def test_what_did_not_change_is_not_written(world: World) -> None:
    world.use(3)
    world.advance(10)
    world.use(3)
    world.see({CPU: 3}, world.version)
    world.advance(600)
    assert len(world.history) == 1


def test_b44_what_others_write_over_us_is_put_right(world: World) -> None:
    world.use(3)
    world.advance(10)
    world.see({}, world.version + 1)
    world.advance(10)
    assert [amount for _, amount in world.history] == ["3", "3"]


@pytest.mark.parametrize("others_come_last", [True, False])
def test_what_others_write_before_our_write_is_answered_is_put_right(
    world: World, others_come_last: bool
) -> None:
    world.use(5)
    (write,), _ = world.publications.plan(world.now)
    world.see({CPU: 5}, 2)
    world.see({CPU: 77}, 3)
    world.publications.written(write, 2 if others_come_last else 4)
    world.advance(10.0)
    assert [text for _, text in world.history] == (["5"] if others_come_last else [])


def test_an_old_object_tells_nothing(world: World) -> None:
    world.use(3)
    world.advance(10)
    world.see({}, world.version - 1)
    world.advance(60)
    assert len(world.history) == 1


def test_a_failed_write_is_made_again_with_growing_delays(world: World) -> None:
    world.use(3)
    tries = []
    for _ in range(6):
        writes, _ = world.publications.plan(world.now)
        assert [each.used for each in writes] == [{CPU: "3"}]
        tries.append(world.publications.failed(writes[0], world.now))
        assert world.publications.plan(world.now)[0] == []
        world.now += tries[-1]
    assert tries[0] >= INTERVAL
    assert all(later > 1.3 * earlier for earlier, later in itertools.pairwise(tries))


def test_a_quota_that_is_gone_is_forgotten_and_its_name_may_come_back(world: World) -> None:
    world.use(3)
    ((write,), _) = world.publications.plan(0.0)
    world.publications.not_found(write)
    assert len(world.publications) == 0
    world.use(0, uid="another")
    ((write,), _) = world.publications.plan(1.0)
    assert (write.uid, write.used) == ("another", {CPU: "0"})


def test_a_quota_replaced_during_a_write_is_published(world: World) -> None:
    world.use(3)
    ((write,), _) = world.publications.plan(0.0)
    world.use(0, uid="another")
    world.publications.not_found(write)
    world.advance(1)
    assert world.shown[Q] == {CPU: "0"}


def test_a_quota_deleted_during_a_write_leaves_no_trace(world: World) -> None:
    world.use(3)
    ((write,), _) = world.publications.plan(0.0)
    del world.targets[Q]
    world.publications.forget(Q)
    world.publications.written(write, 7)
    assert len(world.publications) == 0
    assert world.publications.plan(99.0) == ([], NEVER)


def test_few_writes_are_under_way_at_once_and_all_get_their_turn(world: World) -> None:
    for number in range(20):
        world.use(number, ("team", str(number)))
    writes, wake = world.publications.plan(0.0)
    assert (len(writes), wake) == (MAX_IN_FLIGHT, NEVER)
    for write in writes:
        world.write(write)
    world.advance(0)
    assert len(world.shown) == 20


def test_writes_cut_off_by_an_error_are_made_again(world: World) -> None:
    keys = [("team", f"q{number}") for number in range(MAX_IN_FLIGHT + 1)]
    for key in keys:
        world.use(1, key)
    lost, _ = world.publications.plan(0.0)
    assert len(lost) == MAX_IN_FLIGHT
    world.publications.begin()
    world.advance(INTERVAL)
    assert world.shown == {key: {CPU: "1"} for key in keys}


@given(st.lists(st.tuples(st.floats(0.0, 3.0), st.integers(0, 5)), min_size=1, max_size=40))
def test_what_is_shown_is_never_too_low_for_long_and_ends_right(
    steps: list[tuple[float, int]],
) -> None:
    world = World()
    world.publications.begin()
    for pause, amount in steps:
        world.use(amount)
        world.advance(pause)
    world.advance(DECREASE_DELAY + 2 * INTERVAL)
    assert world.shown[Q] == {CPU: str(steps[-1][1])}
    times = [time for time, _ in world.history]
    assert all(b - a >= INTERVAL - 1e-9 for a, b in itertools.pairwise(times))
    # Nothing is shown that is less than what is used, or that was never used.
    assert not world.too_low
    assert {int(text) for _, text in world.history} <= {amount for _, amount in steps}
