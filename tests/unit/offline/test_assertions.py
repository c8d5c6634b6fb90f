"""Assertions: what holds, and what is refused."""

from __future__ import annotations

import pytest

from scheduler.offline.assertions import MAX_LENGTH, Assertion, AssertionSyntaxError

FIGURES = {"placed": 8.0, "waiting": 0.0, "base.placed": 6.0}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("placed == 8", True),
        (" placed != 8 ", False),
        ("0 <= waiting < 1 <= placed", True),
        ("not waiting", True),
        ("not (placed > 3 and waiting)", True),
        ("waiting > 1 or placed / 2 - 1 == 3", True),
        ("-placed + 2 * 3 < -1", True),
        ("placed >= 1.5 * base.placed", False),
        ("placed / waiting > 0", False),
        ("placed / waiting <= 0", False),
    ],
)
def test_an_expression_holds_or_not(text: str, holds: bool) -> None:
    assert Assertion.parse(text).holds(FIGURES) is holds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "placed",
        "placed + 1",
        "placed = 1",
        "True == 1",
        "'a' == 'a'",
        "placed.__class__.__mro__ == 1",
        "print(1) == 1",
        "[1] == [1]",
        "placed[0] == 1",
        "(lambda: 1)() == 1",
        "(placed := 3) == 3",
        "placed ** 9 == 1",
        "placed in (1, 2)",
        "1e999 == placed",
        "1j == placed",
        "placed == 1 if placed else 2",
        "9" * 400 + " == placed",
        "a" * (MAX_LENGTH + 1),
        "placed == \0",
        "f'{placed}' == 1",
        "await_ == 1",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(AssertionSyntaxError):
        Assertion.parse(text).holds(FIGURES)


def test_an_unknown_figure_is_named_with_the_nearest() -> None:
    with pytest.raises(AssertionSyntaxError, match="no figure plced; did you mean placed"):
        Assertion.parse("plced > 1").check(FIGURES)
    named = Assertion.parse("base.placed + waiting > placed").names
    assert sorted(named) == ["base.placed", "placed", "waiting"]
