"""Every function of every library accounts for its work and memory, however large its arguments."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Final

import pytest

from devtools.hostile.work import WorkCount
from scheduler.api.quantity import parse as parse_quantity
from scheduler.cel.calls import application
from scheduler.cel.declarations import Library, Overload, shared
from scheduler.cel.devices import environment
from scheduler.cel.errors import EvaluationCancelledError, EvaluationError
from scheduler.cel.evaluation import Evaluation
from scheduler.cel.libraries import named_formats, networks, versions
from scheduler.cel.metering import MAX_MEMORY
from scheduler.cel.types import BOOL, STRING, Type
from scheduler.cel.values import Duration, Joined, Optional, Timestamp, Uint

LARGE: Final = 1_000_000
MAX_LINES: Final = 60_000
"""Lines of Python between two checks for interruption, some 5 ms."""
SLACK: Final = 13 << 20
"""Bytes of three copies of the longest string, which one call may make before they count."""
MAX_CHECKS: Final = 4

CONSTANT: Final = frozenset(
    {
        "bytes", "dyn", "first", "format.named", "hasValue", "last", "or", "orValue", "size",
        "string", "type", "value", "bool", "major", "minor", "patch",
        # The zone of a timestamp.
        *(name for name in environment().functions if name.startswith("get")),
    }
)  # fmt: skip
"""Functions that look at a part of their arguments that does not grow with them."""


def texts() -> Iterator[str]:
    yield "a" * LARGE
    yield "\U0001f600" * LARGE
    yield "1" * LARGE
    yield "1.1.1-" + "a." * 7_000 + "a"
    yield "1:" * (LARGE // 2)
    yield "/?" + "a=%41&" * 1_500
    yield "1h" * 9_000
    yield "%s" * 2_000
    yield "\\pL" * 3_000


def lists() -> Iterator[Sequence[Any]]:
    yield range(LARGE)
    yield [1] * LARGE
    yield ["a" * 1000] * 100_000
    yield [[1] * 1000] * 1000
    yield Joined((range(LARGE // 2), [1] * (LARGE // 2)))
    yield list(range(600))
    yield [1.5] * LARGE
    yield [b"a" * 1000] * 100_000


VALUES: Final[dict[str, list[Any]]] = {
    "string": [*texts(), "a", "", "("],
    "bytes": [b"a" * LARGE, b"\xff" * LARGE],
    "list": [*lists(), []],
    "map": [dict.fromkeys(range(100_000), 1), {"a": list(range(LARGE))}],
    "bool": [True],
    "int": [1, LARGE],
    "uint": [Uint(3)],
    "double": [1.5],
    "google.protobuf.Duration": [Duration(1)],
    "google.protobuf.Timestamp": [Timestamp(1)],
    "optional_type": [Optional([1] * LARGE)],
    "kubernetes.Quantity": [parse_quantity("1" * 400)],
    "kubernetes.Semver": [versions.parse("1.1.1-" + "a." * 7_000 + "a")],
    "kubernetes.URL": [networks.url("/?" + "a=%41&" * 1_500)],
    "net.IP": [networks.ip("ffff::1")],
    "net.CIDR": [networks.cidr("ffff::/16")],
    "kubernetes.NamedFormat": list(named_formats.FORMATS.values()),
}
VALUES["dyn"] = [VALUES["list"][0], VALUES["list"][1], VALUES["list"][3], VALUES["string"][0]]


def values(parameter: Type) -> list[Any]:
    if parameter.name == "list" and parameter.parameters[0].name == "optional_type":
        return [[Optional(1)] * LARGE, range(LARGE)]
    return VALUES["dyn" if parameter.is_variable else parameter.name]


OVERLOADS: Final = {
    # One of those that differ in the types of elements only: they have the same values here.
    f"{name}({', '.join(each.name for each in overload.parameters)})": overload
    for name, overloads in environment().functions.items()
    for overload in overloads
}


def calls(overload: Overload) -> Iterator[list[Any]]:
    """Yield arguments: each large value in each position, beside the first of the others."""
    choices = [values(each) for each in overload.parameters]
    if overload.parameters == (STRING, STRING):
        yield from map(list, product(*choices))
        return
    for position, choice in enumerate(choices):
        for value in choice:
            arguments = [each[0] for each in choices]
            arguments[position] = value
            yield arguments


@pytest.mark.slow
@pytest.mark.parametrize("overload", OVERLOADS.values(), ids=OVERLOADS)
def test_the_work_between_two_checks_is_limited(overload: Overload) -> None:
    call, work = application(overload), WorkCount()
    for arguments in calls(overload):
        longest = last = 0

        def check(stop: Callable[[], None] = after(MAX_CHECKS)) -> None:  # noqa: B008 - per call
            nonlocal longest, last
            longest, last = max(longest, work.lines - last), work.lines
            stop()

        evaluation = Evaluation([], check)
        with work.counting():
            outcome(call, evaluation, arguments)
        longest = max(longest, work.lines - last)
        assert longest <= MAX_LINES, [str(each)[:30] for each in arguments]


@pytest.mark.slow
@pytest.mark.parametrize("overload", OVERLOADS.values(), ids=OVERLOADS)
def test_memory_is_accounted_for(overload: Overload) -> None:
    call = application(overload)
    for arguments in calls(overload):
        evaluation = Evaluation([], after(3 * MAX_CHECKS))
        tracemalloc.start()
        try:
            outcome(call, evaluation, arguments)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak <= min(evaluation.memory, MAX_MEMORY) + SLACK, [
            str(each)[:30] for each in arguments
        ]


def after(number: int) -> Callable[[], None]:
    """Return a check that ends an evaluation, since the rest of a large argument is alike."""
    remaining = iter(range(number))

    def check() -> None:
        if next(remaining, None) is None:
            raise EvaluationCancelledError("enough")

    return check


def outcome(call: Any, evaluation: Evaluation, arguments: list[Any]) -> Any:
    try:
        return call(evaluation, arguments)
    except (EvaluationError, EvaluationCancelledError):
        return None


def test_functions_without_an_account_do_constant_work() -> None:
    free = {
        name
        for name, overloads in environment().functions.items()
        for each in overloads
        if each.work is shared
    }
    assert free <= CONSTANT | {"startsWith"}


def test_a_function_that_does_not_account_for_its_work_cannot_be_declared() -> None:
    with pytest.raises(AssertionError, match="f does not account"):
        Library().function("f", (STRING,), BOOL, str.isupper)


def test_the_enumeration_knows_every_type() -> None:
    for name, overloads in environment().functions.items():
        for each in overloads:
            assert all(map(values, each.parameters)), name


def test_a_piece_that_takes_too_long_is_refused_before_it_begins() -> None:
    with pytest.raises(EvaluationCancelledError, match="more work"):
        Evaluation([]).spend(10**6)
