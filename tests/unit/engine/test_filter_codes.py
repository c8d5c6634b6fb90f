"""Codes of a columnar Filter may be any numbers but 0: each stands for its own rejection."""

from __future__ import annotations

import numpy as np

from scheduler.api import Pod
from scheduler.framework import (
    Codes,
    CycleState,
    Handle,
    NoArgs,
    NodeInfo,
    NodeTableView,
    Rows,
    Status,
    unresolvable,
)
from scheduler.testing import Cluster, node, pod

CODES = (-1, 1, -40_000)


class Signed:
    """Rejects each node with another code."""

    name = "example.com/Signed"

    def __init__(self, args: NoArgs, handle: Handle) -> None: ...

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return self.filter_status(state, pod, CODES[node.row])

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        codes: Codes = np.array(CODES, dtype=np.int32)[rows]
        return codes

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        return unresolvable(f"code {code}")


def test_negative_codes_are_explained_as_the_plugin_words_them(cluster: Cluster) -> None:
    cluster.enable(Signed)
    for name in ("n1", "n2", "n3"):
        cluster.add_node(node(name))
    cluster.add_pods(pod("p"))
    for code in CODES:
        cluster.assert_unschedulable("p", plugin="example.com/Signed", reason=f"1 code {code}")
    (waiting,) = cluster.world.waiting()
    assert waiting.decision is not None
    found = {each.reason for each in waiting.decision.rejections}
    assert found == {"code -1", "code 1", "code -40000"}
