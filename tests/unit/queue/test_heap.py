"""The keyed heap against a plain model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.queue.heap import KeyedHeap

_KEYS = st.sampled_from([f"k{number}" for number in range(12)])
_OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), _KEYS, st.integers(0, 5)),
        st.tuples(st.just("remove"), _KEYS, st.just(0)),
        st.tuples(st.just("pop"), st.just(""), st.just(0)),
    ),
    max_size=200,
)


@given(_OPERATIONS)
def test_heap_behaves_like_a_sorted_list(operations: list[tuple[str, str, int]]) -> None:
    heap: KeyedHeap[str] = KeyedHeap()
    model: dict[str, tuple[int, int]] = {}
    for number, (operation, key, rank) in enumerate(operations):
        if operation == "push":
            heap.push(key, rank, f"item-{key}")
            model[key] = (rank, model[key][1] if key in model else number)
        elif operation == "remove":
            assert heap.remove(key) == (f"item-{key}" if key in model else None)
            model.pop(key, None)
        else:
            first = min(model, key=lambda each: model[each]) if model else None
            assert heap.pop() == (f"item-{first}" if first else None)
            if first:
                del model[first]
        assert heap.violations() == []
        order = sorted(model, key=lambda each: model[each])
        assert heap.ordered() == [f"item-{each}" for each in order]
        assert heap.ordered(2) == heap.ordered()[:2]
        assert [heap.rank(each) for each in order] == list(range(len(order)))
        assert len(heap) == len(model)


def test_equal_keys_leave_first_in_first_out_and_an_update_keeps_its_turn() -> None:
    heap: KeyedHeap[str] = KeyedHeap()
    for name in "abc":
        heap.push(name, 1, name)
    heap.push("a", 1, "a2")
    assert [heap.pop() for _ in range(4)] == ["a2", "b", "c", None]


def test_dead_entries_do_not_pile_up() -> None:
    heap: KeyedHeap[int] = KeyedHeap()
    heap.push("first", 0, 0)
    for number in range(10_000):
        heap.push("moving", 10_000 - number, number)
    assert len(heap._heap) < 200
    assert heap.pop() == 0


def test_a_broken_heap_is_reported() -> None:
    heap: KeyedHeap[int] = KeyedHeap()
    for number in range(3):
        heap.push(str(number), number, number)
    heap._heap.reverse()
    assert heap.violations()
    heap._heap.clear()
    assert heap.violations() == ["heap and key index hold different items"]


def test_a_sort_key_that_cannot_be_compared_changes_nothing() -> None:
    heap: KeyedHeap[str] = KeyedHeap()
    heap.push("a", 1, "a")
    heap.push("b", 2, "b")
    with pytest.raises(TypeError):
        heap.push("c", "text", "c")
    with pytest.raises(TypeError):
        heap.push("a", "text", "a2")
    assert heap.violations() == []
    assert heap.ordered() == ["a", "b"]
