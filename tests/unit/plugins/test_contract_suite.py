"""The contract suite for plugins finds each kind of violation."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from scheduler.framework import (
    Columns,
    ReuseRule,
    Status,
    pending,
    unresolvable,
    unschedulable,
)
from scheduler.testing import (
    ContractViolation,
    PluginCase,
    check_plugin_contract,
    check_reuse_contract,
)
from tests.unit.plugins.clusters import Cluster, node, pod

FULL = unschedulable("full")


class Good:
    """Rejects the first row and scores by row number, in both forms."""

    name: ClassVar[str] = "Good"
    filter_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.USAGE)

    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        return FULL if node.pod_count else None

    def filter_rows(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        return (table.pod_count[rows] > 0).astype(np.int32)

    def filter_status(self, state: Any, pod: Any, code: int) -> Status:
        return FULL

    def score(self, state: Any, pod: Any, node: Any) -> Any:
        return int(node.row)

    def score_rows(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        return rows.astype(np.int64)


class Nameless(Good):
    name: ClassVar[str] = ""


class OtherStatus(Good):
    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        return None


class OtherReason(Good):
    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        return unresolvable("full") if node.pod_count else None


class WrongType(Good):
    def filter_rows(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        return super().filter_rows(state, pod, table, rows).astype(np.int64)


class WrongLength(Good):
    def score_rows(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        return np.zeros(len(table.rows) + 1, dtype=np.int64)


class Unordered(Good):
    def score_rows(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        return np.sort(rows).astype(np.int64)


class OtherScore(Good):
    def score(self, state: Any, pod: Any, node: Any) -> Any:
        return int(node.row) + 1


class OutOfRange(Good):
    def normalize_scores(self, state: Any, pod: Any, table: Any, rows: Any, scores: Any) -> Any:
        return scores + 101


class Spoiling(Good):
    def normalize_scores(self, state: Any, pod: Any, table: Any, rows: Any, scores: Any) -> Any:
        scores += 1
        return scores


class RejectsLate(Good):
    def pre_score(self, state: Any, pod: Any, table: Any, feasible: Any) -> Any:
        return FULL


class Forgetful(Good):
    def __init__(self) -> None:
        self.calls = 0

    def pre_filter(self, state: Any, pod: Any, table: Any) -> Any:
        self.calls += 1
        return unschedulable(str(self.calls))


class Writing(Good):
    def filter(self, state: Any, pod: Any, node: Any) -> Any:
        return super().filter(state, pod, node)

    def pre_filter(self, state: Any, pod: Any, table: Any) -> Any:
        table.requested[0, 0] += 1


class OddGate(Good):
    def pre_enqueue(self, pod: Any) -> Any:
        return Status(code=pending().code.SKIP)


class OddEvents(Good):
    def events_to_register(self) -> Any:
        return ["Node/Add"]


class NoStatus:
    name: ClassVar[str] = "NoStatus"

    def filter_rows(self, state: Any, pod: Any, table: Any, rows: Any) -> Any:
        return np.zeros(len(rows), dtype=np.int32)


class Nothing:
    name: ClassVar[str] = "Nothing"


class SingleUse(Good):
    def __init__(self) -> None:
        self.reserved = ["once"]

    def reserve(self, state: Any, pod: Any, node_name: str) -> Any:
        return None

    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        self.reserved.pop()


@pytest.fixture
def case() -> PluginCase:
    cluster = Cluster([node("a"), node("b"), node("c")], {"a": [pod()]})
    return PluginCase(cluster.table, [cluster.intern(pod())])


def test_a_good_plugin_passes(case: PluginCase) -> None:
    check_plugin_contract(Good(), case)


@pytest.mark.parametrize(
    ("plugin", "complaint"),
    [
        (Nameless(), "declares no name"),
        (OtherStatus(), "node a: filter returned Success, filter_rows Unschedulable: full"),
        (OtherReason(), "node a: filter returned UnschedulableAndUnresolvable: full"),
        (WrongType(), "filter_rows returned int64, not int32"),
        (WrongLength(), "score_rows gave 4 numbers for 3 rows"),
        (Unordered(), r"score_rows for rows \[2, 1, 0\] returned \[0, 1, 2\]"),
        (OtherScore(), "node a: score returned 1, score_rows 0"),
        (OutOfRange(), "final scores from 101 to 103 are not within 0 to 100"),
        (Spoiling(), "normalize_scores modified its input"),
        (RejectsLate(), "pre_score returned Unschedulable"),
        (Forgetful(), "pre_filter returned first .* and then"),
        (Writing(), "changed the node table"),
        (OddGate(), "pre_enqueue returned Skip"),
        (OddEvents(), "events_to_register returned 'Node/Add'"),
        (NoStatus(), "filter_rows without filter_status"),
        (Nothing(), "implements no extension point"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_bad_plugin_is_reported(case: PluginCase, plugin: Any, complaint: str) -> None:
    with pytest.raises(ContractViolation, match=complaint):
        check_plugin_contract(plugin, case)


def test_unreserve_is_called_more_often_than_reserve(case: PluginCase) -> None:
    with pytest.raises(IndexError):
        check_plugin_contract(SingleUse(), case)


class Undeclared(Good):
    filter_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.LABELS)


@pytest.mark.parametrize(("plugin", "declared"), [(Good(), True), (Undeclared(), False)])
def test_an_undeclared_dependency_is_reported(plugin: Any, declared: bool) -> None:
    cluster = Cluster([node("a"), node("b")])
    case = PluginCase(cluster.table, [cluster.intern(pod())])

    def change() -> None:
        cluster.place(pod(), "b")

    if declared:
        check_reuse_contract(plugin, case, change)
        return
    with pytest.raises(ContractViolation, match="filter_rows of node b went from 0 to 1"):
        check_reuse_contract(plugin, case, change)
