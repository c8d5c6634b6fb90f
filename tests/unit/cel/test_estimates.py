"""The estimated cost of an expression is the one for which the API server refuses it.

`estimated_costs.json` holds expressions of all functions and macros, with the `MaxCost` that
`CompileCELExpression` of k8s.io/dynamic-resource-allocation v0.37.2 returned for them, null where
it refused to compile them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from scheduler.cel import CompileError, DeviceSelector, EvaluationError, check_storable
from scheduler.cel.devices import environment, estimated_cost

COSTS: Final[list[tuple[str, int | None]]] = [
    (expression, cost)
    for expression, cost in json.loads(
        (Path(__file__).parent / "estimated_costs.json").read_text(encoding="utf-8")
    )
]


def estimate(expression: str) -> int | None:
    try:
        return estimated_cost(expression)
    except CompileError:
        return None


def test_costs_are_those_of_the_api_server() -> None:
    wrong = {
        expression: (estimate(expression), cost)
        for expression, cost in COSTS
        if estimate(expression) != cost
    }
    assert not wrong


def test_every_function_is_among_the_expressions() -> None:
    texts = " ".join(expression for expression, _ in COSTS)
    missing = {name for name in environment().functions if name.strip("_") not in texts}
    assert missing <= {"includes"}


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(1000).all(x, lists.range(1000).all(y, x >= y))",
        "device.capacity['a'].b != quantity('1')",
        "['a', 'b'].join() == 'ab'",
    ],
)
def test_an_expression_above_the_limit_is_not_stored(expression: str) -> None:
    DeviceSelector(expression)
    with pytest.raises(CompileError, match="too complex, exceeds cost limit"):
        check_storable(expression)


def test_an_expression_within_the_limit_is_stored() -> None:
    check_storable("lists.range(1000).all(x, x >= 0) && device.driver == 'gpu.example.com'")


@pytest.mark.parametrize(
    "part",
    [
        "cel.bind(a, {0}, {1})",
        "optional.of({0}).optMap(a, {1}).orValue(0)",
        "[{0}].map(a, {1})[0]",
        "(true ? {0} : {1})",
    ],
)
def test_work_is_linear_in_the_size_of_the_expression(part: str) -> None:
    expression = "1"
    for _ in range(30):
        expression = part.format(expression, "1")
    assert estimated_cost(f"{expression} == 1 || true") > 0


@pytest.mark.parametrize(
    "expression",
    [
        "cel.bind(x, null, x.isLessThan(quantity('1')))",
        "cel.bind(x, null, quantity('1').isLessThan(x))",
        "cel.bind(x, null, x.isGreaterThan(semver('1.2.3')))",
        "cel.bind(x, null, semver('1.2.3').compareTo(x) == 0)",
        "cel.bind(x, null, x.getFullYear() == 2020)",
        "cel.bind(x, null, timestamp(x) == timestamp(0))",
        "cel.bind(x, null, duration(x) == duration('1s'))",
        "cel.bind(x, null, x.getHost() == 'a')",
        "cel.bind(x, null, x.containsIP('::1'))",
        "cel.bind(x, null, sign(x) == 1)",
        "null.isInteger()",
    ],
)
def test_null_is_no_value_of_an_object_type_at_run_time(expression: str) -> None:
    with pytest.raises(EvaluationError, match="no such overload"):
        DeviceSelector(expression).matches({})


def test_an_integer_is_not_converted_to_a_duration() -> None:
    with pytest.raises(EvaluationError, match="type conversion error from 'int'"):
        DeviceSelector("cel.bind(x, 1, duration(x) == duration('1s'))").matches({})
    with pytest.raises(CompileError, match="invalid duration argument"):
        DeviceSelector("duration(1) == duration('1s')")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("'%s'.format([1, 2]) == ''", r"too many arguments.*expected 1, got 2"),
        ("'%s %s'.format([1]) == ''", "index 1 out of range"),
        ("'%d'.format(['a']) == ''", "%d cannot format string"),
        ("'%s'.format([[optional.none()]]) == ''", "%s cannot format optional_type"),
        ("'%s'.format([{'a': ip('::1')}]) == ''", "%s cannot format net.IP"),
        ("'%q'.format([1]) == ''", 'unrecognized "q"'),
    ],
)
def test_a_literal_that_cannot_be_formatted_is_refused(expression: str, text: str) -> None:
    with pytest.raises(CompileError, match=text):
        DeviceSelector(expression)
