"""Expressions of hostile users end early, in bounded time and memory."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.devices import Device
from scheduler.cel import (
    CompileError,
    DeviceSelector,
    EvaluationCancelledError,
    EvaluationError,
    device_value,
)
from scheduler.cel.metering import COST_LIMIT

DEVICE = device_value("gpu.example.com", msgspec.convert({"attributes": {"n": {"int": 1}}}, Device))
DOUBLED = "".join(f"cel.bind(x{i}, [x{i - 1}, x{i - 1}], " for i in range(1, 40))
"""Forty lists, each of which holds the one before twice."""
GROWN = "".join(f"cel.bind(x{i}, x{i - 1} + x{i - 1}, " for i in range(1, 6))
"""Five texts, each twice as long as the one before."""


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("(" * 4000 + "true" + ")" * 4000, "recursion limit exceeded"),
        ("[" * 300 + "]" * 300, "recursion limit exceeded"),
        ("1" + "+1" * 4000 + " == 1", "recursion limit exceeded"),
        ("device" + ".a" * 3000, "recursion limit exceeded"),
        ("[1].exists(x, " * 200 + "true" + ")" * 200, "recursion limit exceeded"),
        ("9" * 5000 + " == 1", "invalid int literal"),
        ("'" * 5001, "unexpected"),
        ("true " + " " * 11_000, "above the limit of 10240"),
        ("int('" + "9" * 9000 + "') == 1", "type conversion error"),
        *[
            (f"double('{text}') == 1.0", "type conversion error")
            for text in ("1e400", "0x1p4000", "0x10", "-nan", " 1", "1__0", "")
        ],
        ("duration('" + "9" * 9000 + "h') == duration('1s')", "invalid duration"),
    ],
)
def test_does_not_compile(expression: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        DeviceSelector(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(1000000).size() > 0",
        "lists.range(1000).all(a, lists.range(1000).all(b, a >= 0 && b >= 0))",
        "[1, 2].map(x, " * 30 + "1" + ")" * 30 + " == []",
        # Strings that grow by a power.
        (
            "cel.bind(a, '0123456789', cel.bind(b, a.replace('', a), cel.bind(c, b.replace('', b), "
            "cel.bind(d, c.replace('', c), d.size() > 0))))"
        ),
        # Few elements, but exponentially many on the way to them.
        "cel.bind(x0, [1, 1], " + DOUBLED + "x39 == x39" + ")" * 40,
        "cel.bind(x0, [1, 1], " + DOUBLED + "'%s'.format([x39]) == ''" + ")" * 40,
        "cel.bind(x0, [1, 1], " + DOUBLED + "x38 in x39" + ")" * 40,
        "lists.range(800).distinct().size() == 0",
        # One call, which cannot be interrupted, with a match at every character.
        "cel.bind(x0, '" + "a" * 1000 + "', " + GROWN + "x5.findAll('').size() > 0" + ")" * 6,
        "sets.equivalent(lists.range(1200), lists.range(1200))",
    ],
)
def test_is_cancelled(expression: str) -> None:
    with pytest.raises(EvaluationCancelledError, match=r"limit exceeded|more work"):
        DeviceSelector(expression).matches(DEVICE)


def test_nothing_absorbs_the_end_of_an_evaluation() -> None:
    with pytest.raises(EvaluationCancelledError):
        DeviceSelector("lists.range(1000000).size() > 0 || true").matches(DEVICE)


def test_a_long_chain_needs_no_stack() -> None:
    assert DeviceSelector(" && ".join(["true"] * 1000)).matches(DEVICE)
    assert DeviceSelector("!" * 5000 + "true").matches(DEVICE)


@pytest.mark.parametrize("key", ["1.0 / 0.0", "-1.0 / 0.0", "0.0 / 0.0", "0.5"])
def test_numbers_that_are_no_index_are_errors(key: str) -> None:
    with pytest.raises(EvaluationError):
        DeviceSelector(f"[1, 2][dyn({key})] == 1").matches(DEVICE)


def test_a_pattern_of_many_states_is_refused() -> None:
    with pytest.raises(CompileError, match="pattern too large"):
        DeviceSelector(f"'a'.matches('{'(a{0,30}){0,30}' * 20}')")


def test_the_check_interrupts_between_expensive_calls() -> None:
    calls = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise EvaluationCancelledError("timed out")

    text, pattern = "a" * 1000, "(a|b)" * 100
    selector = DeviceSelector(f"[1, 2, 3, 4].all(x, '{text}'.matches('{pattern}'))")
    with pytest.raises(EvaluationCancelledError, match="timed out"):
        selector.matches(DEVICE, check)


def test_the_check_interrupts_an_evaluation() -> None:
    calls = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise EvaluationCancelledError("operation interrupted: deadline")

    selector = DeviceSelector("lists.range(10000).all(x, x >= 0)")
    with pytest.raises(EvaluationCancelledError, match="interrupted"):
        selector.matches(DEVICE, check)
    assert len(calls) == 3


def test_few_matches_of_a_long_text_are_found() -> None:
    long = (
        "cel.bind(x0, '" + "a" * 1000 + "', " + GROWN + "x5.findAll('{}', 3).size() == 3" + ")" * 6
    )
    assert DeviceSelector(long.format("a")).matches(DEVICE)


def test_a_regular_expression_is_linear() -> None:
    text = "a" * 3000
    assert not DeviceSelector(f"'{text}!'.matches('^(a+)+$')").matches(DEVICE)


@given(st.text(max_size=60))
@settings(max_examples=40, deadline=None)
def test_any_text_compiles_or_is_refused(text: str) -> None:
    _run(text)


TOKENS = (
    "device", ".", "attributes", "[", "]", "(", ")", "{", "}", "?", ":", ",", "==", "<", "&&", "||",
    "!", "-", "+", "*", "/", "%", "in", "1", "0", "2u", "1.5", '"a"', "'gpu.example.com'", "true",
    "null", "n", "has", "map", "x", ".exists(x,", ".size()", "b'a'", " ",
)  # fmt: skip


@given(st.lists(st.sampled_from(TOKENS), max_size=25))
@settings(max_examples=40, deadline=None)
def test_any_tokens_compile_or_are_refused(tokens: list[str]) -> None:
    _run("".join(tokens))


def _run(expression: str) -> None:
    try:
        selector = DeviceSelector(expression)
    except CompileError:
        return
    try:
        _, cost = selector.evaluate(DEVICE)
    except (EvaluationError, EvaluationCancelledError):
        return
    assert 0 <= cost <= COST_LIMIT


NUMBERS = st.integers(-5, 5)


@st.composite
def arithmetic(draw: st.DrawFn, depth: int = 3) -> tuple[str, int | None]:
    """Return an expression of integers with its value, None for a division by zero."""
    if depth == 0 or draw(st.booleans()):
        number = draw(NUMBERS)
        return (str(number), number)
    left, one = draw(arithmetic(depth=depth - 1))
    right, other = draw(arithmetic(depth=depth - 1))
    operator = draw(st.sampled_from("+-*/%"))
    text = f"({left}) {operator} ({right})"
    if one is None or other is None or (operator in "/%" and other == 0):
        return (text, None)
    quotient = 0 if other == 0 else abs(one) // abs(other) * (1 if one * other >= 0 else -1)
    results = {
        "+": one + other,
        "-": one - other,
        "*": one * other,
        "/": quotient,
        "%": one - quotient * other,
    }
    return (text, results[operator])


@given(arithmetic())
@settings(max_examples=40, deadline=None)
def test_arithmetic_agrees_with_that_of_integers(case: tuple[str, int | None]) -> None:
    text, expected = case
    selector = DeviceSelector(f"{text} == {0 if expected is None else expected}")
    if expected is None:
        with pytest.raises(EvaluationError, match="by zero"):
            selector.matches(DEVICE)
    else:
        assert selector.matches(DEVICE)


TRUTH = st.sampled_from(["true", "false", "device.attributes['x'].missing == 1"])


@given(st.lists(TRUTH, min_size=1, max_size=6), st.permutations(range(6)))
@settings(max_examples=40, deadline=None)
def test_the_order_of_a_conjunction_does_not_matter(terms: list[str], order: list[int]) -> None:
    shuffled = [terms[i] for i in order if i < len(terms)]
    assert _outcome(" && ".join(terms)) == _outcome(" && ".join(shuffled))
    assert _outcome(" || ".join(terms)) == _outcome(" || ".join(shuffled))


def _outcome(expression: str) -> bool | str:
    try:
        return DeviceSelector(expression).matches(DEVICE)
    except EvaluationError as error:
        return str(error)
