"""Expressions that are built from all functions stay within limits, whatever they are charged."""

from __future__ import annotations

import tracemalloc
from itertools import islice
from typing import Final

import pytest

from devtools.hostile.expressions import ExpressionFuzzer
from devtools.hostile.work import WorkCount
from scheduler.api.devices import Device
from scheduler.cel import (
    CompileError,
    DeviceSelector,
    EvaluationCancelledError,
    EvaluationError,
    device_value,
)
from scheduler.cel.devices import environment
from scheduler.cel.metering import MAX_MEMORY, Check

EXPRESSIONS: Final = tuple(islice(ExpressionFuzzer(seed=37).expressions(), 12))
MAX_LINES: Final = 100_000
"""Lines of Python between two checks for interruption, some 8 ms."""
SLACK: Final = 8 << 20
DEVICE: Final = device_value("gpu.example.com", Device())


def run(expression: str, check: Check | None = None) -> None:
    """Compile and evaluate an expression; every failure is one that names the expression."""
    try:
        DeviceSelector(expression, check).matches(DEVICE, check)
    except (CompileError, EvaluationError, EvaluationCancelledError):
        return


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_work_between_two_checks_is_limited(expression: str) -> None:
    work, last, longest = WorkCount(), 0, 0

    def check() -> None:
        nonlocal last, longest
        longest, last = max(longest, work.lines - last), work.lines

    with work.counting():
        run(expression, check)
    assert max(longest, work.lines - last) < MAX_LINES


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_memory_is_limited(expression: str) -> None:
    tracemalloc.start()
    try:
        run(expression)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MAX_MEMORY + SLACK


def test_the_fuzzer_builds_expressions_of_every_function() -> None:
    number = sum(map(len, environment().functions.values()))
    built = "\n".join(islice(ExpressionFuzzer(seed=1).expressions(), number))
    missing = {
        name for name in environment().functions if name.strip("_").rpartition(".")[2] not in built
    }
    assert not missing


def test_most_expressions_compile() -> None:
    compiled = 0
    for each in islice(ExpressionFuzzer(seed=2).expressions(), 40):
        try:
            DeviceSelector(each)
        except CompileError:
            continue
        compiled += 1
    assert compiled > 30
