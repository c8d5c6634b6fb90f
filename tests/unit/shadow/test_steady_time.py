"""A jump of the wall clock changes no span."""

from __future__ import annotations

from scheduler.shadow.steady_time import SteadyTime


class Clock:
    def __init__(self) -> None:
        self.wall, self.seconds = 1_000_000.0, 50.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.seconds


def test_it_follows_the_monotonic_clock() -> None:
    clock = Clock()
    time = SteadyTime(clock)
    assert time.now() == 1_000_000.0
    clock.seconds += 5.0
    for jump in (3600.0, -7200.0):
        clock.wall += jump
        assert time.now() == 1_000_005.0
    assert time.monotonic() == clock.monotonic()
