"""The simulated clock, driven by a hand-held source of real seconds."""

from __future__ import annotations

import asyncio

import pytest

from simulator.clock import SimClock


class _Real:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_time_runs_at_its_rate_and_jumps() -> None:
    real = _Real()
    clock = SimClock(start=1000.0, rate=60.0, source=real)
    real.seconds += 2
    assert clock.now() == 1120.0
    clock.set_rate(0.0)
    real.seconds += 50
    assert clock.now() == 1120.0
    clock.advance(5)
    assert clock.now() == 1125.0
    clock.set_rate(1.0)
    real.seconds += 1
    assert clock.now() == 1126.0


def test_time_goes_on_without_a_jump_when_it_follows_another_source() -> None:
    real, other = _Real(), _Real()
    clock = SimClock(start=1000.0, source=real)
    other.seconds = 7.0
    real.seconds += 2
    clock.follow(other)
    assert clock.now() == 1002.0
    real.seconds += 50
    other.seconds += 1
    assert clock.now() == 1003.0


@pytest.mark.parametrize(
    ("rate", "deadline", "expected"), [(1.0, 1010.0, 10.0), (5.0, 1010.0, 2.0), (0.0, 1010.0, None)]
)
def test_the_real_delay_until_a_deadline(
    rate: float, deadline: float, expected: float | None
) -> None:
    clock = SimClock(start=1000.0, rate=rate, source=lambda: 0.0)
    assert clock.real_delay(deadline) == expected
    assert clock.real_delay(1000.0) == 0.0


def test_time_does_not_go_backwards() -> None:
    clock = SimClock(start=0.0, source=lambda: 0.0)
    with pytest.raises(ValueError, match="does not go backwards"):
        clock.advance(-1)
    with pytest.raises(ValueError, match="does not go backwards"):
        clock.set_rate(-1)


async def test_sleepers_wake_when_time_is_moved_past_them() -> None:
    clock = SimClock(start=0.0, rate=0.0, source=lambda: 0.0)
    woken: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("long", 10))
        group.create_task(sleeper("short", 5))
        await asyncio.sleep(0)
        clock.advance(6)
        for _ in range(3):
            await asyncio.sleep(0)
        assert woken == ["short"]
        clock.advance(4)
    assert woken == ["short", "long"]
