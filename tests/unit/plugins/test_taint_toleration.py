"""TaintToleration: upstream's `taint_toleration.go`, and its hints."""

from __future__ import annotations

from typing import Any

import pytest

from plugins import TaintToleration
from scheduler.framework import SKIP, ActionType, ClusterEvent, Code, CycleState, EventResource
from scheduler.framework.events import NODE_ADD
from tests.unit.plugins.clusters import (
    Cluster,
    final_scores,
    hint,
    node,
    pod,
    raw_scores,
    statuses,
    taint,
)

GATE = "TaintTolerationComparisonOperators"
DEDICATED = "dedicated=user1:NoSchedule"
NODE_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
POD_TOLERATION = ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_TOLERATION)


def tolerating(*tolerations: dict[str, str]) -> Any:
    return pod({"tolerations": list(tolerations)})


def equal(key: str, value: str, effect: str = "") -> dict[str, str]:
    return {"key": key, "operator": "Equal", "value": value, "effect": effect}


def exists(key: str = "", effect: str = "") -> dict[str, str]:
    return {"key": key, "operator": "Exists", "effect": effect}


@pytest.mark.parametrize(
    ("taints", "tolerations", "passes"),
    [
        pytest.param([], [], True, id="no taint"),
        pytest.param([DEDICATED], [], False, id="no toleration"),
        pytest.param([DEDICATED], [equal("dedicated", "user1", "NoSchedule")], True, id="equal"),
        pytest.param([DEDICATED], [equal("dedicated", "user1")], True, id="empty effect"),
        pytest.param([DEDICATED], [exists("dedicated")], True, id="exists by key"),
        pytest.param([DEDICATED], [exists()], True, id="exists everything"),
        pytest.param([DEDICATED], [equal("dedicated", "user2")], False, id="another value"),
        pytest.param([DEDICATED], [equal("", "user1")], True, id="quirk: empty key with Equal"),
        pytest.param(
            [DEDICATED, "a=b:NoSchedule"], [exists("dedicated"), exists("a")], True, id="two of two"
        ),
        pytest.param([DEDICATED, "a=b:NoSchedule"], [exists("a")], False, id="one of two"),
        pytest.param(
            [DEDICATED], [exists("dedicated", "PreferNoSchedule")], False, id="another effect"
        ),
        pytest.param(["a=b:PreferNoSchedule"], [], True, id="preference only"),
        pytest.param(["a=b:NoExecute"], [], False, id="NoExecute rejects"),
        pytest.param(["a=b:NoExecute"], [exists("a", "NoSchedule")], False, id="NoExecute stays"),
    ],
)
def test_filter(taints: list[str], tolerations: list[dict[str, str]], passes: bool) -> None:
    cluster = Cluster([node("n", taints=[taint(each) for each in taints])])

    status = statuses(TaintToleration(None, cluster.handle()), cluster, tolerating(*tolerations))[
        "n"
    ]

    assert (status is None) is passes
    if status is not None:
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert status.reasons == ("node(s) had untolerated taint(s)",)


@pytest.mark.parametrize(
    ("operator", "bound", "actual", "tolerated"),
    [
        ("Gt", "950", "900", False),
        ("Gt", "950", "960", True),
        ("Gt", "950", "950", False),
        ("Lt", "800", "900", False),
        ("Lt", "800", "-900", True),
        ("Gt", "1", "high", False),
        ("Gt", "1", "007", False),
        ("Gt", "1", "+7", False),
        ("Gt", "-0", "7", False),
        ("Gt", "1", "9223372036854775808", False),
    ],
)
def test_comparison_operators_need_their_gate(
    operator: str, bound: str, actual: str, tolerated: bool
) -> None:
    cluster = Cluster([node("n", taints=[taint(f"level={actual}:NoSchedule")])])
    subject = tolerating({"key": "level", "operator": operator, "value": bound})

    on = TaintToleration(None, cluster.handle(**{GATE: True}))
    off = TaintToleration(None, cluster.handle())

    assert (statuses(on, cluster, subject)["n"] is None) is tolerated
    assert statuses(off, cluster, subject)["n"] is not None


@pytest.mark.parametrize(
    ("per_node", "tolerations", "raw", "final"),
    [
        pytest.param([[], []], [], [0, 0], [100, 100], id="no taints, all 100"),
        pytest.param(
            [["a=1:PreferNoSchedule"], ["b=1:PreferNoSchedule"]],
            [equal("a", "1", "PreferNoSchedule")],
            [0, 1],
            [100, 0],
            id="one tolerated, one not",
        ),
        pytest.param(
            [[], ["a=1:PreferNoSchedule"], ["a=1:PreferNoSchedule", "b=1:PreferNoSchedule"]],
            [],
            [0, 1, 2],
            [100, 50, 0],
            id="untolerated taints are counted",
        ),
        pytest.param(
            [["a=1:NoSchedule"], ["a=1:NoExecute"], ["a=1:PreferNoSchedule"]],
            [],
            [0, 0, 1],
            [100, 100, 0],
            id="only PreferNoSchedule counts",
        ),
        pytest.param(
            [["a=1:PreferNoSchedule"], []],
            [equal("a", "1", "NoSchedule")],
            [1, 0],
            [0, 100],
            id="a toleration of NoSchedule does not help",
        ),
        pytest.param(
            [["a=1:PreferNoSchedule"], []],
            [exists()],
            [0, 0],
            [100, 100],
            id="a toleration without effect helps",
        ),
    ],
)
def test_score(
    per_node: list[list[str]], tolerations: list[dict[str, str]], raw: list[int], final: list[int]
) -> None:
    cluster = Cluster(
        node(f"n{index}", taints=[taint(each) for each in taints])
        for index, taints in enumerate(per_node)
    )
    plugin = TaintToleration(None, cluster.handle())

    assert raw_scores(plugin, cluster, tolerating(*tolerations)) == raw
    assert final_scores(plugin, cluster, tolerating(*tolerations)) == final


def test_pre_score_never_skips() -> None:
    cluster = Cluster([node()])
    plugin = TaintToleration(None, cluster.handle())

    assert plugin.pre_score(CycleState(), pod(), cluster.table, cluster.table.rows) is not SKIP


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        pytest.param(None, [], True, id="untainted node appears"),
        pytest.param(None, [DEDICATED], False, id="tainted node appears"),
        pytest.param(None, ["a:PreferNoSchedule"], True, id="a preference does not matter"),
        pytest.param([DEDICATED], [], True, id="taint lifted"),
        pytest.param([DEDICATED, "a:NoSchedule"], ["a:NoSchedule"], False, id="one of two lifted"),
        pytest.param(["a:PreferNoSchedule"], [], False, id="was fine before"),
    ],
)
def test_node_hints(old: list[str] | None, new: list[str], wakes: bool) -> None:
    plugin = TaintToleration(None, Cluster().handle())
    before = None if old is None else node(taints=[taint(each) for each in old])
    after = node(taints=[taint(each) for each in new])

    event = NODE_ADD if old is None else NODE_TAINT

    assert hint(plugin, event, pod(), before, after) is wakes


@pytest.mark.parametrize(("uid", "wakes"), [("u", True), ("another", False)])
def test_own_toleration_update_wakes(uid: str, wakes: bool) -> None:
    plugin = TaintToleration(None, Cluster().handle())

    assert hint(plugin, POD_TOLERATION, pod(), pod(), pod(metadata={"uid": uid})) is wakes
