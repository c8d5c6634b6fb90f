"""Results by kind of pod and row, dropped when the row changes or the kind falls out of use."""

from __future__ import annotations

from collections.abc import Collection

from scheduler.cache import NodeTable
from scheduler.engine.row_cache import MAX_KINDS, RowCache
from tests.unit.engine.harness import World


class Results:
    """The rows with a known result."""

    def __init__(self, capacity: int) -> None:
        self.known: set[int] = set()

    def forget(self, rows: Collection[int]) -> None:
        self.known.difference_update(rows)


def table_of(*names: str) -> NodeTable:
    world = World()
    world.nodes(*names)
    return world.cache.table


def test_results_of_changed_rows_are_dropped() -> None:
    table = table_of("n1", "n2")
    cache = RowCache(table, Results)
    cache.recall("kind").known |= {0, 1}
    assert cache.recall("kind").known == {0, 1}
    table.note_nominations("n2")
    assert cache.recall("kind").known == {0}


def test_all_results_are_dropped_with_a_new_revision_or_version() -> None:
    table = table_of("n1")
    cache = RowCache(table, Results)
    cache.recall("kind", (1,)).known.add(0)
    assert cache.recall("kind", (2,)).known == set()
    cache.recall("kind", (2,)).known.add(0)
    table.bump("services")
    assert cache.recall("kind", (2,)).known == set()


def test_all_results_are_dropped_when_the_table_grows() -> None:
    world = World()
    cache = RowCache(world.cache.table, Results)
    cache.recall("kind").known.add(10_000)
    world.nodes(*(f"n{number}" for number in range(world.cache.table.capacity + 1)))
    assert cache.recall("kind").known == set()


def test_the_least_recently_used_kind_is_dropped() -> None:
    cache = RowCache(table_of("n1"), Results)
    for kind in range(MAX_KINDS):
        cache.recall(kind).known.add(0)
    cache.recall(0)
    cache.recall("one more")
    assert len(cache) == MAX_KINDS
    assert [cache.recall(kind).known for kind in (0, 1)] == [{0}, set()]
