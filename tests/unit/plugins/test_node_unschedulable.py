"""NodeUnschedulable: upstream's `node_unschedulable.go`, and its hints."""

from __future__ import annotations

from typing import Any

import pytest

from plugins import NodeUnschedulable
from scheduler.framework import ActionType, ClusterEvent, EventResource
from scheduler.framework.events import NODE_ADD
from tests.unit.plugins.clusters import Cluster, hint, node, pod, rejected, taint

CORDON = "node.kubernetes.io/unschedulable"
NODE_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
POD_TOLERATION = ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_TOLERATION)
TOLERATED = {"key": CORDON, "operator": "Exists"}


@pytest.fixture
def plugin() -> NodeUnschedulable:
    return NodeUnschedulable(None, Cluster().handle())


@pytest.mark.parametrize(
    ("tolerations", "passes"),
    [
        pytest.param([], False, id="no toleration"),
        pytest.param([TOLERATED], True, id="the cordon tolerated"),
        pytest.param([{"operator": "Exists"}], True, id="everything tolerated"),
        pytest.param([{**TOLERATED, "effect": "NoExecute"}], False, id="another effect tolerated"),
    ],
)
def test_cordoned_nodes(
    plugin: NodeUnschedulable, tolerations: list[dict[str, str]], passes: bool
) -> None:
    cluster = Cluster([node("open"), node("cordoned", unschedulable=True)])

    found = rejected(plugin, cluster, pod({"tolerations": tolerations}))

    assert found == ({} if passes else {"cordoned": ("node(s) were unschedulable",)})


def test_the_taint_of_a_cordoned_node_is_not_read(plugin: NodeUnschedulable) -> None:
    cluster = Cluster([node("n", taints=[taint(f"{CORDON}:NoSchedule")])])

    assert rejected(plugin, cluster, pod()) == {}


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        pytest.param(None, {}, True, id="a schedulable node appears"),
        pytest.param(None, {"unschedulable": True}, False, id="a cordoned node appears"),
        pytest.param({"unschedulable": True}, {}, True, id="uncordoned"),
        pytest.param({}, {"unschedulable": True}, False, id="cordoned"),
        pytest.param({"taints": [taint("a:NoSchedule")]}, {}, False, id="a mere taint lifted"),
    ],
)
def test_node_hints(
    plugin: NodeUnschedulable, old: dict[str, Any] | None, new: dict[str, Any], wakes: bool
) -> None:
    event = NODE_ADD if old is None else NODE_TAINT

    before = None if old is None else node(**old)

    assert hint(plugin, event, pod(), before, node(**new)) is wakes


@pytest.mark.parametrize(
    ("uid", "toleration", "wakes"),
    [
        ("u", TOLERATED, True),
        ("u", {"key": "other", "operator": "Exists"}, False),
        ("another", TOLERATED, False),
    ],
)
def test_toleration_hints(
    plugin: NodeUnschedulable, uid: str, toleration: dict[str, str], wakes: bool
) -> None:
    changed = pod({"tolerations": [toleration]}, metadata={"uid": uid})

    assert hint(plugin, POD_TOLERATION, pod(), pod(), changed) is wakes
