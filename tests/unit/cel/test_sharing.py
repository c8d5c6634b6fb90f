"""Lists that are concatenated, ranges and their parts share what they are made of."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.devices import Device
from scheduler.cel import (
    DeviceSelector,
    EvaluationCancelledError,
    EvaluationError,
    device_value,
    metering,
)
from scheduler.cel.evaluation import Evaluation
from scheduler.cel.metering import MAX_MEMORY
from scheduler.cel.values import MAX_PARTS, Joined, joined, section

DEVICE = device_value("gpu.example.com", Device())
STORED = "cel.bind(a,lists.range(500000),lists.range(99).map(x,[a+a,a+a,a+a]).size()>0)"
"""The API server stores it, and it made 150 million references."""


TEXT = "cel.bind(t, '\U0001f600'.replace('\U0001f600', '" + "\U0001f600" * 1000 + "'), {})"


def matches(expression: str) -> bool:
    return DeviceSelector(expression).matches(DEVICE)


def peak(expression: str) -> int:
    """Return the bytes that an evaluation takes at most, however it ends."""
    selector = DeviceSelector(expression)
    tracemalloc.start()
    try:
        selector.matches(DEVICE)
    except (EvaluationCancelledError, EvaluationError):
        pass
    finally:
        _, found = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return found


def test_an_expression_of_large_concatenations_takes_little_memory() -> None:
    assert matches(STORED)
    assert peak(STORED) < 1 << 20


@given(st.lists(st.lists(st.integers(), max_size=200), min_size=1, max_size=80))
def test_a_concatenation_is_a_list(parts: list[list[int]]) -> None:
    evaluation, expected = Evaluation([]), list(chain.from_iterable(parts))
    found: Sequence[int] = parts[0]
    for each in parts[1:]:
        found = joined(evaluation, found, each)
        assert type(found) is not Joined or len(found.parts) <= MAX_PARTS
    assert list(found) == expected
    assert len(found) == len(expected)
    assert [found[i] for i in range(len(found))] == expected
    middle = len(expected) // 2
    assert list(found[middle:]) == expected[middle:]
    assert section(evaluation, found, 0, middle) == expected[:middle]


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(3) == [0, 1, 2] && type(lists.range(3)) == list",
        "lists.range(100) + [1] == lists.range(100) + lists.range(2).slice(1, 2)",
        "lists.range(5).reverse() == [4, 3, 2, 1, 0] && lists.range(5).slice(1, 3) == [1, 2]",
        "(lists.range(100) + [7])[100] == 7 && (lists.range(100) + [7])[99] == 99",
        "(lists.range(100) + [7]).last().value() == 7 && 7 in (lists.range(3) + [7])",
        "(lists.range(100) + [7]).lastIndexOf(7) == 100 && lists.range(0).size() == 0",
        "'%s'.format([lists.range(3)]) == '[0, 1, 2]' && [1] + lists.range(70) != [1]",
        "(lists.range(100) + [-1]).min() == -1 && (lists.range(100) + [-1]).sum() == 4949",
        "[lists.range(2), lists.range(70) + [1]].flatten().size() == 73",
        "(lists.range(70) + [1]).exists(x, x == 69)",
        "optional.ofNonZeroValue(lists.range(0)) == optional.none()",
    ],
)
def test_lists_that_share_are_lists(expression: str) -> None:
    assert matches(expression)


@pytest.mark.parametrize(
    "expression",
    [
        # Small temporary texts, of which each iteration forgets its own.
        "lists.range(2500).all(a, ('%d'.format([a]) + 'abc').size() > 0)",
        # 11 MB in total.
        TEXT.format("lists.range(1000).all(x, '%s'.format([t]).size() > 0)"),
    ],
)
def test_what_an_iteration_made_is_given_back(
    expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metering, "MAX_MEMORY", 256 << 10)
    assert matches(expression)


GROWN = TEXT.format("cel.bind(u, t.replace('\U0001f600', '" + "\U0001f600" * 50 + "'), {})")


@pytest.mark.parametrize(
    "expression",
    [
        GROWN.format("lists.range(5000).map(x, u.substring(1)).size() > 0"),
        GROWN.format("lists.range(5000).map(x, [u + u]).size() > 0"),
        GROWN.format("lists.range(5000).map(x, u.split('x')).size() > 0"),
        GROWN.format("lists.range(5000).map(x, bytes(u)).size() > 0"),
        GROWN.format("lists.range(5000).map(x, '%s'.format([u])).size() > 0"),
        GROWN.format("lists.range(5000).map(x, [u, u].join()).size() > 0"),
        GROWN.format("lists.range(5000).map(x, optional.of(u.trim() + 'x')).size() > 0"),
        GROWN.format("lists.range(5000).transformMap(k, x, u + 'x').size() > 0"),
        GROWN.format("lists.range(5000).filter(x, [u + 'x'].map(y, y + u).size() > 0).size() > 0"),
        GROWN.format("lists.range(50).all(x, lists.range(50).map(y, u + 'x').size() > 0)"),
        " && ".join(
            f"lists.range(50).all(x, cel.bind({each}, lists.range(30000).map(y, y), true))"
            for each in "abc"
        ),
        "lists.range(300).map(x, cel.bind(a, lists.range(9000) + [1], [a.reverse()])).size() > 0",
        "lists.range(40000).map(x, ip('ffff::1')).size() > 0",
        "lists.range(40000).map(x, quantity('1Gi').add(x)).size() > 0",
        "lists.range(30000).map(x, {x: x}).size() > 0",
    ],
)
def test_the_memory_of_an_evaluation_is_limited(expression: str) -> None:
    assert peak(expression) < MAX_MEMORY + (8 << 20)
