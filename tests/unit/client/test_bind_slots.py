"""How many binds may be under way, from how long they take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.client.bind_slots import FEWEST, WINDOW, WINDOWS, BindSlots


def after(most: int, *windows: float) -> int:
    """The limit after windows of binds that took these times."""
    slots = BindSlots(most)
    for seconds in windows:
        for _ in range(WINDOW):
            slots.answered(seconds)
    return slots.limit


@pytest.mark.parametrize(
    ("most", "windows", "limit"),
    [
        pytest.param(100, [], 32, id="before anything is known"),
        pytest.param(100, [0.003], 32, id="a server beside us"),
        pytest.param(100, [0.050], 50, id="enough for a thousand a second"),
        pytest.param(100, [0.9], 100, id="no more than the user allows"),
        pytest.param(8, [], 8, id="the user allows less than that"),
        pytest.param(8, [0.9], 8, id="the user allows less, however slow the server is"),
        pytest.param(100, [0.004, 0.9], 32, id="a slow window may be our own queue"),
        pytest.param(100, [0.004, *[0.08] * WINDOWS], 80, id="the way has become longer"),
        pytest.param(100, [0.9, 0.9, 0.004], 32, id="the way has become shorter"),
    ],
)
def test_slots_follow_the_quickest_recent_bind(most: int, windows: list[float], limit: int) -> None:
    assert after(most, *windows) == limit


def test_one_quick_bind_in_a_window_says_how_long_the_way_is() -> None:
    slots = BindSlots(100)
    for number in range(WINDOW):
        slots.answered(0.002 if number == 7 else 0.4)
    assert slots.limit == FEWEST


@given(st.integers(1, 300), st.lists(st.floats(0.0, 60.0), max_size=200))
def test_the_limit_is_always_within_its_bounds(most: int, times: list[float]) -> None:
    slots = BindSlots(most)
    for seconds in times:
        slots.answered(seconds)
        assert min(FEWEST, most) <= slots.limit <= most
