"""The cache is bounded in bytes, and evicts the least recently used signature first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.result_cache import (
    CachedResult,
    Recorded,
    RecordedPlugins,
    ResultCache,
    narrow_zeros,
    wide_enough,
)
from scheduler.framework import (
    SKIP,
    Columns,
    CycleState,
    PreFilterResult,
    ReuseRule,
    unschedulable,
)
from tests.unit.engine.harness import World, plugin


def entry(capacity: int = 100) -> CachedResult:
    return CachedResult(capacity, 1, 1)


def test_an_entry_is_as_large_as_its_arrays() -> None:
    result = entry(100)
    empty = result.nbytes
    assert empty == result.rejected_by.nbytes
    result.raw[0] = np.zeros(100, dtype=np.int64)
    result.codes[0] = np.zeros(100, dtype=np.int32)
    result.feasible = np.arange(50, dtype=np.intp)
    assert result.nbytes == empty + 800 + 400 + 50 * result.feasible.itemsize


def kept(results: ResultCache, *keys: str) -> None:
    """Put entries and get each again, so that they are kept."""
    for key in keys:
        results.put(key, entry(), "pod")
        results.settle(key)
        assert results.get(key, "other") is not None


def test_the_least_recently_used_entry_goes_beyond_the_budget() -> None:
    results = ResultCache(budget=3 * entry().nbytes)
    kept(results, "a", "b", "c")
    assert results.get("a", "other") is not None
    kept(results, "d")
    assert [key for key in "abcd" if results.get(key, "other") is not None] == ["a", "c", "d"]
    statistics = results.statistics()
    assert (statistics.entries, statistics.evictions) == (3, 1)
    assert statistics.bytes == 3 * entry().nbytes


class TestTrial:
    """Signatures that are seen once do not push out those that come back."""

    def test_only_the_last_ones_are_on_trial(self) -> None:
        results = ResultCache(budget=32 * entry().nbytes)
        for key in "abcd":
            results.put(key, entry(), "pod")
            results.settle(key)
        assert results.statistics().bytes == 2 * entry().nbytes
        assert [key for key in "abcd" if results.get(key, "other") is not None] == ["c", "d"]

    def test_kept_ones_outlive_any_number_of_them(self) -> None:
        results = ResultCache(budget=16 * entry().nbytes)
        kept(results, "a", "b")
        for key in range(100):
            results.put(key, entry(), "pod")
            results.settle(key)
        assert results.get("a", "other") is not None
        assert results.get("b", "other") is not None
        assert results.statistics().entries == 3

    def test_further_attempts_at_one_pod_are_no_reason_to_keep_its_signature(self) -> None:
        results = ResultCache(budget=16 * entry().nbytes)
        for _ in range(3):
            for key in range(10):
                for _attempt in range(2):
                    if results.get(key, str(key)) is None:
                        results.put(key, entry(), str(key))
                    results.settle(key)
        statistics = results.statistics()
        assert (statistics.entries, statistics.hits, statistics.misses) == (1, 30, 30)

    def test_signatures_in_turn_are_kept_from_their_second_time_on(self) -> None:
        results = ResultCache(budget=32 * entry().nbytes)
        misses = []
        for turn in range(4):
            for key in range(10):
                pod = f"{turn}-{key}"
                if results.get(key, pod) is None:
                    results.put(key, entry(), pod)
                results.settle(key)
            misses.append(results.statistics().misses)
        assert misses == [10, 18, 18, 18]
        assert results.statistics().entries == 10


def test_the_newest_entry_stays_even_if_it_alone_is_too_large() -> None:
    results = ResultCache(budget=1)
    results.put("a", entry(), "pod")
    results.settle("a")
    assert results.get("a", "other") is not None


def test_growth_is_accounted_for_when_settled() -> None:
    results = ResultCache()
    result = entry()
    results.put("a", result, "pod")
    results.settle("a")
    result.total = np.zeros(100, dtype=np.int64)
    results.settle("a")
    assert results.statistics().bytes == result.nbytes
    results.settle("unknown")
    results.discard("a")
    results.discard("a")
    assert results.statistics().bytes == 0


def test_clear_forgets_everything() -> None:
    results = ResultCache()
    results.put("a", entry(), "pod")
    results.settle("a")
    results.clear()
    statistics = results.statistics()
    assert (statistics.entries, statistics.bytes) == (0, 0)


def columnar(code: int) -> type[Any]:
    return plugin(
        "F",
        filter=lambda *_: None,
        filter_reuse=ReuseRule(Columns.USAGE),
        filter_rows=lambda state, pod, table, rows: np.full(len(rows), code, dtype=np.int32),
        filter_status=lambda *_: unschedulable("no"),
        score_reuse=ReuseRule(Columns.USAGE),
        score_rows=lambda state, pod, table, rows: table.pod_count[rows],
    )


def test_bytes_of_signatures_without_feasible_nodes_are_counted() -> None:
    world = World(columnar(1))
    world.nodes("node1", "node2")
    world.algorithm.search.results.budget = 1
    for milli in (100, 200, 300):
        assert world.attempt(world.pod(**world.requests(milli))).failure is not None
    statistics = world.algorithm.search.results.statistics()
    assert (statistics.entries, statistics.evictions) == (1, 2)
    assert statistics.bytes > 0


def test_an_evicted_signature_is_evaluated_again() -> None:
    world = World(columnar(0))
    world.nodes("node1", "node2")
    world.cache.add_pod(world.pod("other", nodeName="node2"))
    world.algorithm.search.results.budget = 1
    for milli in (100, 200, 100, 200):
        assert world.chosen(world.pod(**world.requests(milli))) == "node2"
    assert world.algorithm.search.results.statistics().evictions == 3


_codes = st.lists(
    st.sampled_from([0, 1, 127, 128, 32767, 32768, (1 << 31) - 1, -1]), min_size=1, max_size=40
)


@given(_codes, _codes)
def test_codes_are_kept_as_narrow_as_they_can_be_and_never_cut(
    first: list[int], later: list[int]
) -> None:
    rows = np.arange(len(first))
    codes = np.array(first, dtype=np.int32)
    column = narrow_zeros(100, codes)
    column[rows] = codes
    assert column[rows].tolist() == first
    if min(first) >= 0 and max(first) < 128:
        assert column.itemsize == 1
    wider = wide_enough(column, np.array(later, dtype=np.int32))
    wider[50 : 50 + len(later)] = later
    assert wider[rows].tolist() == first
    assert wider[50 : 50 + len(later)].tolist() == later


def test_a_code_too_large_for_its_column_is_reported_unchanged() -> None:
    """The first search sees small codes only; then one node changes."""
    large = 70_000
    world = World(
        plugin(
            "F",
            filter=lambda *_: None,
            filter_reuse=ReuseRule(Columns.USAGE),
            filter_rows=lambda state, pod, table, rows: np.where(
                table.pod_count[rows] > 0, large, 3
            ).astype(np.int32),
            filter_status=lambda state, pod, code: unschedulable(f"code {code}"),
        )
    )
    world.nodes("node1", "node2", "node3")
    assert world.failure_message() == "0/3 nodes are available: 3 code 3."
    world.cache.add_pod(world.pod("other", nodeName="node2"))
    assert world.failure_message() == f"0/3 nodes are available: 1 code {large}, 2 code 3."


class TestRecordedPlugins:
    """Recorded results are summed up: most plugins skip a pod, and all of them do so at once."""

    @staticmethod
    def plugins(*names: str) -> tuple[SimpleNamespace, ...]:
        return tuple(SimpleNamespace(name=name) for name in names)

    def test_the_sum_replaces_the_recorded_plugins(self) -> None:
        recorded, plugins = RecordedPlugins(), self.plugins("skips", "writes", "runs")
        recorded["skips"] = Recorded(SKIP, ())
        recorded["writes"] = Recorded(None, (("key", 1),))
        recorded.sum_up(plugins)
        state = CycleState()
        assert recorded.replay(plugins, state.skip_filter, state) == plugins[2:]
        assert (state.skip_filter, state.data) == ({"skips"}, {"key": 1})

    @pytest.mark.parametrize("result", [unschedulable("no"), PreFilterResult(frozenset("n"))])
    def test_there_is_no_sum_if_a_plugin_narrows_the_nodes(self, result: object) -> None:
        recorded, plugins = RecordedPlugins(), self.plugins("skips", "narrows")
        recorded["skips"] = Recorded(SKIP, ())
        recorded["narrows"] = Recorded(result, ())
        recorded.sum_up(plugins)
        state = CycleState()
        assert recorded.replay(plugins, state.skip_filter, state) == plugins
        assert not state.skip_filter


def test_a_kept_entry_is_measured_now_and_then() -> None:
    results, result = ResultCache(), entry()
    results.put("a", result, "pod")
    results.settle("a")
    assert results.get("a", "other") is result
    results.settle("a")
    result.total = np.zeros(100, dtype=np.int64)
    for _ in range(16):
        results.settle("a")
    assert results.statistics().bytes == result.nbytes
