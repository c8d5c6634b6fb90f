"""Go durations: what Go accepts and prints."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.sanitizing.go_values import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("15s", 15),
        ("1m30s", 90),
        ("1h", 3600),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("5.s", 5),
        ("100ms", 0.1),
        ("250us", 0.00025),
        ("250\u00b5s", 0.00025),
        ("250\u03bcs", 0.00025),
        ("1500ns", 0.000002),
        ("-2s", -2),
        ("+2s", 2),
    ],
)
def test_reads_what_go_reads(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "s", "5 s", "1d", "1m 30s", "--1s", "1h-1s", "five", "."])
def test_refuses_what_go_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_says_that_a_unit_is_missing() -> None:
    with pytest.raises(ValueError, match="a unit is missing"):
        parse_duration("15")


def test_refuses_more_than_go_can_hold() -> None:
    with pytest.raises(ValueError, match="292 years"):
        parse_duration("99999999999h")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (timedelta(), "0s"),
        (timedelta(seconds=15), "15s"),
        (timedelta(seconds=90), "1m30s"),
        (timedelta(hours=1), "1h0m0s"),
        (timedelta(minutes=10), "10m0s"),
        (timedelta(milliseconds=1.5), "1.5ms"),
        (timedelta(microseconds=7), "7\u00b5s"),
        (timedelta(seconds=-2.5), "-2.5s"),
    ],
)
def test_prints_what_go_prints(value: timedelta, text: str) -> None:
    assert format_duration(value) == text


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_what_is_printed_reads_back_as_the_same_duration(microseconds: int) -> None:
    value = timedelta(microseconds=microseconds)
    assert parse_duration(format_duration(value)) == value
