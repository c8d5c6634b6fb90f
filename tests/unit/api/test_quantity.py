"""Quantities: arithmetic, rounding, spelling, bad input. Upstream's results are in the vectors."""

from __future__ import annotations

import pickle
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.quantity import (
    MAX_INT64,
    NANO,
    Format,
    Quantity,
    QuantityError,
    milli_value,
    parse,
    value,
)

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30}


@st.composite
def spellings(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A spelling and the exact amount it stands for, within the caps of every form."""
    whole = draw(st.integers(0, 10**6))
    digits = draw(st.text("0123456789", max_size=12))
    sign = draw(st.sampled_from(["", "+", "-"]))
    exponent = draw(st.integers(-12, 20))
    suffix, factor = draw(
        st.one_of(
            st.sampled_from([(s, Fraction(10) ** e) for s, e in DECIMAL.items()]),
            st.sampled_from([(s, Fraction(2) ** e) for s, e in BINARY.items()]),
            st.just((f"e{exponent}", Fraction(10) ** exponent)),
        )
    )
    point = f".{digits}" if digits else draw(st.sampled_from(["", "."]))
    amount = Fraction(int(f"{whole}{digits}"), 10 ** len(digits)) * factor
    return f"{sign}{whole}{point}{suffix}", -amount if sign == "-" else amount


def away_from_zero(number: Fraction) -> int:
    return ceil(number) if number >= 0 else -ceil(-number)


@given(spellings())
def test_parsing_is_exact_to_the_nano_and_rounds_away_from_zero(case: tuple[str, Fraction]) -> None:
    text, amount = case
    assert parse(text).nano == away_from_zero(amount * NANO)


@given(spellings())
def test_canonical_and_printed_forms_read_back_as_the_same_amount(
    case: tuple[str, Fraction],
) -> None:
    quantity = parse(case[0])
    assert parse(quantity.canonical()) == quantity
    assert parse(str(quantity)) == quantity
    assert parse(quantity.canonical()).canonical() == quantity.canonical()


@given(spellings(), spellings())
def test_arithmetic_and_order_are_those_of_fractions(
    left: tuple[str, Fraction], right: tuple[str, Fraction]
) -> None:
    a, b = parse(left[0]), parse(right[0])
    exact_a, exact_b = Fraction(a.nano, NANO), Fraction(b.nano, NANO)
    total, difference = a + b, a - b
    assert Fraction(total.nano, NANO) == exact_a + exact_b
    assert Fraction(difference.nano, NANO) == exact_a - exact_b
    assert (a < b, a == b, a > b) == (exact_a < exact_b, exact_a == exact_b, exact_a > exact_b)
    assert (a <= b, a >= b) == (exact_a <= exact_b, exact_a >= exact_b)
    assert total - b == a
    # Beyond int64 a binary spelling reads back as the cap.
    if total.format is not Format.BINARY_SI or abs(total.nano) <= MAX_INT64 * NANO:
        assert parse(str(total)) == total


@given(st.integers(-(10**24), 10**24))
def test_integer_readings_round_away_from_zero(nano: int) -> None:
    quantity = Quantity(nano)
    assert quantity.value() == away_from_zero(Fraction(nano, NANO))
    assert quantity.milli_value() == away_from_zero(Fraction(nano, NANO // 1000))


@pytest.mark.parametrize(
    ("text", "whole", "thousandths"),
    [
        ("1m", 1, 1),
        ("100.5m", 1, 101),
        ("1.1", 2, 1100),
        ("0.5Mi", 524288, 524288000),
        ("10E", MAX_INT64, MAX_INT64),
        ("-10E", -MAX_INT64 - 1, -MAX_INT64 - 1),
        ("10000000000000000", 10**16, MAX_INT64),
        ("9Ei", MAX_INT64, MAX_INT64),
        (".", 0, 0),
    ],
)
def test_values_are_rounded_up_and_saturate(text: str, whole: int, thousandths: int) -> None:
    assert (value(text), milli_value(text)) == (whole, thousandths)


def test_a_sum_is_rounded_once() -> None:
    assert (parse("0.5m") + parse("0.5m")).milli_value() == 1


@pytest.mark.parametrize(("raw", "nano"), [(2, 2 * NANO), (1.5, 15 * 10**8), (1e3, 10**12)])
def test_json_numbers_count_as_their_text(raw: float, nano: int) -> None:
    assert parse(raw).nano == nano


@pytest.mark.parametrize(
    ("a", "b", "format_"),
    [
        ("0", "1Ki", Format.BINARY_SI),
        ("1k", "1Ki", Format.DECIMAL_SI),
        ("1e3", "1Ki", Format.DECIMAL_EXPONENT),
    ],
)
def test_a_sum_is_written_like_its_first_operand_unless_that_is_zero(
    a: str, b: str, format_: Format
) -> None:
    assert (parse(a) + parse(b)).format is format_


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1 ",
        "1.1.M",
        "0.1mi",
        "-3.01e-",
        "1K",
        "--1",
        "1_000",
        "0x1",
        "NaN",
        "\u0661",
        "1\n",
    ],
)
def test_an_invalid_quantity_is_rejected_with_its_text_and_a_reason(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse(text)
    assert caught.value.text == text
    assert caught.value.reason
    assert repr(text)[:80] in str(caught.value)


@pytest.mark.parametrize("text", ["1" * 600, "1e999999999", "1e99999999999999999999"])
def test_a_short_text_cannot_make_a_huge_number(text: str) -> None:
    with pytest.raises(QuantityError):
        parse(text)


@pytest.mark.parametrize("text", ["1e497", "9" * 498, "-" + "9" * 498 + ".1", "1" * 490 + "e-5"])
def test_the_canonical_text_of_a_large_amount_can_be_parsed(text: str) -> None:
    amount = parse(text)
    assert parse(amount.canonical()) == amount


@pytest.mark.parametrize("text", ["100e511", "1e498", "1" + "0" * 498, "-1e498"])
def test_an_amount_whose_canonical_text_is_too_long_is_refused(text: str) -> None:
    with pytest.raises(QuantityError, match="or more"):
        parse(text)


def test_an_exponent_far_below_nano_still_rounds_up_to_one_nano() -> None:
    assert parse("1e-999999999").nano == 1
    assert parse("0e-999999999").nano == 0


def test_a_quantity_cannot_be_changed_and_can_be_a_key() -> None:
    quantity = parse("1500m")
    with pytest.raises(AttributeError, match="cannot"):
        quantity.nano = 5  # type: ignore[misc]
    with pytest.raises(AttributeError, match="cannot"):
        del quantity.nano
    assert {quantity: "x"}[parse("1.5")] == "x"
    assert quantity != 1.5
    assert pickle.loads(pickle.dumps(quantity)) == quantity
    assert repr(quantity) == "Quantity(1500m)"
    assert (-quantity).sign == -1
    assert not Quantity(0)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("8.Gi", "8Gi"), ("-40.Ti", "-40Ti"), ("+8Gi", "8Gi"), ("016Mi", "16Mi"), ("+7Gi", "+7Gi"),
        ("9.Gi", "9.Gi"), ("0Gi", "0"), ("+1", "+1"), ("1024Ki", "1Mi"), ("+8", "+8"),
    ],
)  # fmt: skip
def test_a_spelling_is_kept_where_upstream_keeps_it(text: str, printed: str) -> None:
    """`quantity.go: ParseQuantity` keeps no binary number that is divisible by 8."""
    assert str(parse(text)) == printed
