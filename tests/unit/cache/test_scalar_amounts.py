"""Amounts of scalar resources: whether few or many rows have one, results are those of a column."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cache.scalar_amounts import ScalarAmounts

CAPACITY = 64
NAMES = ("example.com/a", "example.com/b")
SHARED, RARE = NAMES
LARGEST = (1 << 63) - 1

_rows = st.integers(0, CAPACITY - 1)
_amounts = st.integers(-3, 3)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(NAMES), _rows, _amounts),
        st.tuples(st.just("add"), st.sampled_from(NAMES), _rows, _amounts),
        st.tuples(st.just("add all"), st.just(""), _rows, st.just(1)),
        st.tuples(st.just("add all"), st.just(""), _rows, st.just(-1)),
        st.tuples(st.just("grow"), st.just(""), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(_steps)
def test_after_any_sequence_of_writes_it_equals_a_dense_block(
    steps: list[tuple[str, str, int, int]],
) -> None:
    amounts = ScalarAmounts(CAPACITY)
    dense = {name: np.zeros(CAPACITY, dtype=np.int64) for name in NAMES}
    capacity = CAPACITY
    for what, name, row, amount in steps:
        match what:
            case "put":
                amounts.put(name, row, amount)
                dense[name][row] = amount
            case "add":
                amounts.add(name, row, amount)
                dense[name][row] += amount
            case "add all":
                amounts.add_all([(SHARED, 2), (RARE, 1)], row, amount)
                dense[SHARED][row] += 2 * amount
                dense[RARE][row] += amount
            case _ if capacity < 8 * CAPACITY:
                capacity *= 2
                amounts.grow(capacity)
                dense = {each: np.pad(dense[each], (0, capacity // 2)) for each in dense}
    picked = np.array([3, 1, 5, capacity - 1], dtype=np.intp)
    for name, column in dense.items():
        assert amounts.of(name, slice(0, capacity)).tolist() == column.tolist()
        assert amounts.of(name, picked).tolist() == column[picked].tolist()
        assert [amounts.at(name, row) for row in range(capacity)] == column.tolist()
    assert amounts.nonzero() == {
        (name, row): int(column[row])
        for name, column in dense.items()
        for row in np.flatnonzero(column).tolist()
    }
    assert bool(amounts) or not amounts.nonzero()


def test_a_name_that_many_rows_have_is_a_column_until_they_are_few_in_a_larger_table() -> None:
    amounts = ScalarAmounts(CAPACITY)
    amounts.put(RARE, 7, 1)
    for row in range(8):
        amounts.put(SHARED, row, 2)
    one_column = CAPACITY * 8
    assert amounts.nbytes > one_column
    amounts.grow(2 * CAPACITY)
    assert amounts.nbytes < 2 * one_column
    assert amounts.of(SHARED, slice(0, 9)).tolist() == [2] * 8 + [0]


def test_a_name_without_amounts_is_dropped() -> None:
    amounts = ScalarAmounts(CAPACITY)
    amounts.put(RARE, 7, 1)
    amounts.add(RARE, 7, -1)
    amounts.put(SHARED, 7, 0)
    assert not amounts
    assert amounts.at(RARE, 7) == 0


def test_the_column_of_a_name_without_amounts_is_dropped() -> None:
    amounts = ScalarAmounts(CAPACITY)
    for end, amount in ((amounts.put, 0), (amounts.add, -2)):
        for row in range(8):
            amounts.put(SHARED, row, 2)
        assert amounts.nbytes == CAPACITY * 8
        for row in range(8):
            assert amounts
            end(SHARED, row, amount)
        assert not amounts
        assert amounts.nbytes == 0
    amounts.add(SHARED, 3, 1)
    assert amounts.nonzero() == {(SHARED, 3): 1}


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_beyond_64_bits_are_undone_when_their_pods_go(sign: int) -> None:
    amounts = ScalarAmounts(CAPACITY)
    for _ in range(3):
        amounts.add(RARE, 7, sign * LARGEST)
    # The sum means nothing then, but it can still be read.
    assert amounts.of(RARE, slice(7, 8)).tolist() == [amounts.at(RARE, 7)]
    for _ in range(2):
        amounts.add(RARE, 7, -sign * LARGEST)
    assert amounts.at(RARE, 7) == sign * LARGEST


def test_memory_follows_the_rows_that_have_a_resource() -> None:
    nodes = 2000
    amounts = ScalarAmounts(2048)
    for row in range(nodes):
        amounts.put(f"example.com/{row}", row, 1)
    assert amounts.nbytes < nodes * 400


def test_the_most_widespread_names_come_first_in_either_form() -> None:
    amounts = ScalarAmounts(CAPACITY)
    for row in range(40):
        amounts.put(SHARED, row, 1)
    amounts.put(RARE, 3, 1)
    amounts.put("example.com/c", 4, 1)
    assert amounts.most_widespread(2) == [SHARED, RARE]
    assert amounts.most_widespread(9) == [SHARED, RARE, "example.com/c"]
