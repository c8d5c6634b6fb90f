"""The work of compiling grows with the size of an expression, whatever its types are."""

from __future__ import annotations

from itertools import chain, cycle, product

import pytest

from devtools.hostile.work import WorkCount
from scheduler.api.devices import Device
from scheduler.cel import (
    CompileError,
    DeviceSelector,
    EvaluationCancelledError,
    EvaluationError,
    ParsedExpression,
    device_value,
)
from scheduler.cel.devices import environment
from scheduler.cel.metering import Check, Meter
from scheduler.cel.parser import MAX_LENGTH
from scheduler.cel.types import (
    ANY,
    BOOL,
    DYN,
    INT,
    NULL,
    STRING,
    Type,
    Unifier,
    list_of,
    map_of,
    may_fit,
)


def compile_error(expression: str, check: Check | None = None) -> str:
    try:
        DeviceSelector(expression, check)
    except CompileError as error:
        return str(error)
    return ""


DEVICE = device_value("gpu.example.com", Device())


def bound(number: int, value: str, body: str) -> str:
    """Return bindings of b1, b2, ...; in their values ONE and TWO are the two before, BODY last."""
    bindings = "".join(
        f"cel.bind(b{i},{value.replace('ONE', f'b{i - 1}').replace('TWO', f'b{max(i - 2, 0)}')},"
        for i in range(1, number + 1)
    )
    return f"cel.bind(b0,1,{bindings}{body.replace('LAST', f'b{number}')}{')' * (number + 1)}"


MAX_LINES = 100_000
"""Lines of Python between two checks for interruption, some 8 ms."""
DOUBLED = "{ONE:ONE}"
GROWING = "{ONE:TWO}"
MANY = "&&".join(["LAST==LAST"] * 40)

EXPRESSIONS = {
    "doubled": bound(100, DOUBLED, "size(LAST)>0"),
    "doubled lists": bound(100, "[{1:ONE},{2:ONE}]", "size(LAST)>0"),
    "growing": bound(100, GROWING, "size(LAST)>0"),
    "compared": bound(60, DOUBLED, MANY),
    "compared with another": bound(
        30, GROWING, f"cel.bind(c,LAST,{bound(30, GROWING, '[OTHER,c].size()>0')})"
    ).replace("OTHER", "b30"),
    "in lists": bound(40, GROWING, "[" + ",".join(["LAST"] * 500) + "].size()>0"),
    "unknown": bound(60, "[optional.none(),optional.of(ONE)]", MANY),
    "loops": "[1]" + ".map(x,[x,x])" * 60 + ".size()>0",
    "empty lists": "[" + "[]," * 3000 + "[]].size()>0",
    "one text": "'" + "x" * 10_000 + "'==''",
    "terms": "&&".join(["1<1"] * 1900),
    "numbers": "[" + "1," * 5000 + "1].size()>0",
    "signs": "!" * 5000 + "true",
    "empty brackets": "&&".join(["[]==[]"] * 1200),
    "mismatch": bound(60, DOUBLED, "LAST+1"),
    "mismatch of elements": bound(60, DOUBLED, "[LAST,[LAST]].size()>0"),
    "deep": bound(9, "[" * 100 + "ONE" + "]" * 100, "LAST==LAST"),
}


@pytest.mark.slow
@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_the_work_of_compiling_is_limited(expression: str) -> None:
    assert len(expression) <= MAX_LENGTH
    work = WorkCount()
    with work.counting():
        message = compile_error(expression)
    assert len(message) < 2000
    assert work.lines < 120 * len(expression) + 20_000


@pytest.mark.slow
@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_compiling_can_be_interrupted(expression: str) -> None:
    work, last, longest = WorkCount(), 0, 0

    def check() -> None:
        nonlocal last, longest
        longest, last = max(longest, work.lines - last), work.lines

    with work.counting():
        compile_error(expression, check)
    assert max(longest, work.lines - last) < MAX_LINES


def test_the_check_ends_compiling() -> None:
    def check() -> None:
        raise EvaluationCancelledError("timed out")

    with pytest.raises(CompileError, match="timed out"):
        DeviceSelector(EXPRESSIONS["numbers"], check)


def test_types_are_compared_node_by_node() -> None:
    one, other = INT, INT
    for _ in range(200):
        one, other = map_of(one, one), map_of(other, other)
    assert one == other
    assert one != map_of(one, BOOL)
    assert hash(one) == hash(other)


def test_the_text_of_a_large_type_is_cut() -> None:
    what: Type = INT
    for _ in range(200):
        what = map_of(what, list_of(what))
    assert len(str(what)) < 1000
    assert str(what).endswith("...")
    assert str(map_of(INT, list_of(BOOL))) == "map(int, list(bool))"


@pytest.mark.slow
@pytest.mark.parametrize("levels", [2, 30, 44])
def test_values_that_are_nested_deeply_are_compared_or_refused(levels: int) -> None:
    expression = bound(levels, "[" * 100 + "ONE" + "]" * 100, "LAST==LAST")
    selector = DeviceSelector(expression)
    if levels == 2:
        assert selector.matches(DEVICE)
    else:
        with pytest.raises(EvaluationError, match="nested too deeply"):
            selector.matches(DEVICE)


def test_parsing_goes_on_after_an_interruption_as_if_there_was_none() -> None:
    expression = f"[{'1+1,' * 1000}1].size() == 1001 && size('{'x' * 50}') == 50"
    parsed, interruptions = ParsedExpression(expression), 0

    def interrupt() -> None:
        raise InterruptedError

    for check in cycle((interrupt, None)):
        try:
            if parsed.advance(check):
                break
        except InterruptedError:
            interruptions += 1
    assert interruptions > 1
    assert DeviceSelector(parsed).matches({})


def test_no_overload_that_fits_is_skipped() -> None:
    overloads = chain.from_iterable(environment().functions.values())
    types = {str(t): t for each in overloads for t in (*each.parameters, each.result)}
    types |= {str(each): each for each in (DYN, ANY, NULL, list_of(DYN), map_of(INT, STRING))}
    fitting = 0
    for value, target in product(types.values(), repeat=2):
        if Unifier(Meter([])).assignable(value, target):
            fitting += 1
            assert may_fit(value, target), f"{value} fits {target}"
    assert len(types) < fitting < len(types) ** 2
