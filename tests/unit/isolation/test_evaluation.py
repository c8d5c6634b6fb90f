"""All of one plugin's PreFilter, Filter and Score for one pod."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.engine_world import EngineWorld
from scheduler.framework import SKIP, CycleState, PluginError, error, unresolvable, unschedulable
from scheduler.isolation.evaluation import CycleEndedError, CycleTable, evaluate


class Odd:
    """Rejects every second node."""

    name = "Odd"

    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        return unschedulable("odd") if node.row % 2 else None

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return int(node.row)


class OddRows:
    name = "OddRows"

    def filter_rows(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        return (rows % 2 * 7).astype(np.int32)

    def filter_status(self, state: Any, pod: Any, code: int) -> Any:
        return unschedulable("odd")

    def score_rows(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        return rows.astype(np.int64)


@pytest.mark.parametrize("plugin", [Odd(), OddRows()])
def test_scalar_and_columnar_forms_give_the_same(plugin: Any) -> None:
    world = EngineWorld(5)
    found = evaluate(plugin, CycleState(0.0), world.pod(), CycleTable(world.cache.table))
    rows = world.cache.table.rows
    reasons = [found.statuses[code].reasons if code else () for code in found.codes[rows].tolist()]
    assert reasons == [(), ("odd",), (), ("odd",), ()]
    assert found.scores[rows].tolist() == [0, 0, 2, 0, 4]


@pytest.mark.parametrize(("result", "filters"), [(SKIP, False), (None, True)])
def test_skip_of_pre_filter_leaves_filter_out_and_score_in(result: Any, filters: bool) -> None:
    class Skipping(Odd):
        def pre_filter(self, state: Any, pod: Any, table: Any) -> Any:
            return result

    world = EngineWorld(3)
    found = evaluate(Skipping(), CycleState(0.0), world.pod(), world.cache.table)
    assert found.result is result
    assert found.codes.any() == filters
    assert found.scores[world.cache.table.rows].tolist() == ([0, 0, 2] if filters else [0, 1, 2])


def test_a_rejection_by_pre_filter_ends_it() -> None:
    class Rejecting(Odd):
        def pre_filter(self, state: Any, pod: Any, table: Any) -> Any:
            return unresolvable("never")

    world = EngineWorld(3)
    found = evaluate(Rejecting(), CycleState(0.0), world.pod(), world.cache.table)
    assert not found.codes.any()
    assert not found.scores.any()


@pytest.mark.parametrize(
    ("result", "kind"), [(error("broken"), PluginError), (True, TypeError), ("no", TypeError)]
)
def test_what_is_no_rejection_is_an_error(result: Any, kind: type[Exception]) -> None:
    class Broken(Odd):
        def filter(self, state: Any, pod: Any, node: Any) -> Any:
            return result

    world = EngineWorld(1)
    with pytest.raises(kind):
        evaluate(Broken(), CycleState(0.0), world.pod(), world.cache.table)


def test_the_table_cannot_be_read_when_the_cycle_has_ended() -> None:
    table = CycleTable(EngineWorld(2).cache.table)
    node_info = table.node_info
    assert node_info(1).row == 1
    table.end()
    with pytest.raises(CycleEndedError):
        node_info(1)
    with pytest.raises(CycleEndedError):
        _ = table.rows
