"""NodeCost scores nodes by a label; both of its forms say the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.columnar_score.node_cost import MAX_COST, UNKNOWN, NodeCost, NodeCostArgs
from scheduler.framework import CycleState
from scheduler.testing import PluginCase, check_plugin_contract, check_reuse_contract
from tests.unit.plugins.clusters import Cluster, final_scores, node, pod, raw_scores

LABEL = "example.com/cost"
NAMES = ("n0", "n1", "n2", "n3")

#: What a label may hold: digits, text, nothing at all, and more than 64 bits.
costs = st.none() | st.sampled_from(
    ("", "0", "007", "12", "120", "1.5", "cheap", str(MAX_COST + 1), str(2**63), "9" * 63)
)


def labels(cost: str | None) -> dict[str, str]:
    return {} if cost is None else {LABEL: cost}


def cluster(*written: str | None) -> Cluster:
    return Cluster(node(f"n{i}", labels=labels(cost)) for i, cost in enumerate(written))


def plugin(where: Cluster, label: str = LABEL) -> NodeCost:
    return NodeCost(NodeCostArgs(label=label), where.handle())


@pytest.mark.parametrize(
    ("written", "raw"),
    [
        ("120", 120),
        ("0", 0),
        ("007", 7),
        (None, UNKNOWN),
        ("", UNKNOWN),
        ("cheap", UNKNOWN),
        ("1.5", UNKNOWN),
        (str(MAX_COST + 1), MAX_COST),
        (str(2**63), UNKNOWN),
    ],
)
def test_the_raw_score_is_the_cost(written: str | None, raw: int) -> None:
    where = cluster("5", written)
    assert raw_scores(plugin(where), where, pod()) == [5, raw]


@pytest.mark.parametrize(
    ("written", "final"),
    [
        (["10", "20", "30"], [100, 50, 0]),
        (["10", None, "30"], [100, 0, 0]),
        (["10", "10", None], [100, 100, 0]),
        ([None, None], [0, 0]),
        (["0", str(MAX_COST)], [100, 0]),
    ],
)
def test_the_cheapest_node_gets_a_hundred(written: list[str | None], final: list[int]) -> None:
    where = cluster(*written)
    assert final_scores(plugin(where), where, pod()) == final


def test_only_feasible_nodes_are_compared() -> None:
    where = cluster("10", "20", "30")
    dearer = where.table.rows[1:]
    scores = np.array([20, 30], dtype=np.int64)
    final = plugin(where).normalize_scores(CycleState(), pod(), where.table, dearer, scores)
    assert final.tolist() == [100, 0]


@settings(max_examples=40)
@given(before=st.lists(costs, min_size=1, max_size=4), name=st.sampled_from(NAMES), after=costs)
def test_the_contract_holds_whatever_the_labels_are(
    before: list[str | None], name: str, after: str | None
) -> None:
    where = cluster(*before)
    case = PluginCase(where.table, [where.intern(pod())])
    check_plugin_contract(plugin(where), case)
    check_reuse_contract(
        plugin(where), case, lambda: where.cache.set_node(node(name, labels=labels(after)))
    )


def test_a_wrong_label_key_is_refused() -> None:
    assert [path for path, _ in NodeCost.validate_args(NodeCostArgs(label="a b"))] == ["label"]
    assert not list(NodeCost.validate_args(NodeCostArgs()))
