"""The change log: a bounded window that never lies about what it no longer holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cache.change_log import ChangeLog


def test_a_reader_gets_the_union_of_groups_per_row() -> None:
    log = ChangeLog(8)
    log.append(3, 1)
    start = log.sequence
    log.append(5, 2)
    log.append(3, 4)
    log.append(5, 8)
    assert log.since(start) == {5: 10, 3: 4}
    assert log.since(0) == {3: 5, 5: 10}
    assert log.since(log.sequence) == {}


def test_a_reader_that_is_too_far_behind_is_told_so() -> None:
    log = ChangeLog(4)
    for row in range(4):
        log.append(row, 1)
    assert log.since(0) == dict.fromkeys(range(4), 1)
    log.append(4, 1)
    assert log.since(0) is None
    assert log.since(1) == dict.fromkeys(range(1, 5), 1)


def test_the_size_must_be_a_power_of_two() -> None:
    with pytest.raises(ValueError, match="power of two, not 6"):
        ChangeLog(6)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 7)), max_size=40), st.integers(0, 40))
def test_it_equals_a_list_that_keeps_everything(entries: list[tuple[int, int]], since: int) -> None:
    log = ChangeLog(8)
    for row, mask in entries:
        log.append(row, mask)
    since = min(since, len(entries))
    expected: dict[int, int] | None = {}
    if len(entries) - since > 8:
        expected = None
    else:
        for row, mask in entries[since:]:
            assert expected is not None
            expected[row] = expected.get(row, 0) | mask
    assert log.since(since) == expected
    assert log.sequence == len(entries)


def test_an_answer_is_kept_for_the_same_question_only() -> None:
    log = ChangeLog(8)
    log.append(1, 1)
    first = log.since(0)
    assert log.since(0) is first
    log.append(1, 2)
    assert log.since(0) == {1: 3}
    assert log.since(1) == {1: 2}
    assert first == {1: 1}


def test_readers_of_different_spans_do_not_displace_each_other() -> None:
    log = ChangeLog(8)
    for row in range(6):
        log.append(row, 1)
    first, second = log.since(0), log.since(4)
    assert log.since(0) is first
    assert log.since(4) is second
    log.append(7, 1)
    assert log.since(4) == {4: 1, 5: 1, 7: 1}


def test_few_answers_are_kept() -> None:
    log = ChangeLog(64)
    for row in range(64):
        log.append(row, 1)
        log.since(row)
    for since in range(64):
        log.since(since)
        assert len(log._spans) < 10


def test_rows_are_picked_by_group_and_without_those_that_are_no_nodes() -> None:
    log = ChangeLog(8)
    for row, mask in ((5, 1), (2, 3), (6, 1), (5, 2)):
        log.append(row, mask)
    changes = log.since(0)
    assert changes is not None
    valid = np.array([True] * 6 + [False] * 2)
    for columns, expected in ((1, [5, 2]), (2, [5, 2]), (4, []), (3, [5, 2])):
        rows, index = changes.picked(columns, valid)
        assert rows == index.tolist() == expected
        assert changes.picked(columns, valid)[1] is index
        assert not index.flags.writeable, "plugins get this very array"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 7)), max_size=8), st.integers(0, 7))
def test_picked_rows_are_those_whose_groups_meet(entries: list[tuple[int, int]], at: int) -> None:
    log = ChangeLog(8)
    for row, mask in entries:
        log.append(row, mask)
    changes = log.since(0)
    assert changes is not None
    rows, index = changes.picked(at, np.ones(4, dtype=np.bool_))
    assert rows == index.tolist() == [row for row, mask in changes.items() if mask & at]
    assert bool(changes.anywhere & at) == bool(rows)
