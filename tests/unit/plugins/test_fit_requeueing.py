"""Queueing hints of NodeResourcesFit, as upstream's `fit.go`."""

from __future__ import annotations

from typing import Any

import pytest

from plugins import NodeResourcesFit
from plugins.node_resources.arguments import NodeResourcesFitArgs
from scheduler.api import Node, Pod
from scheduler.framework import ActionType, ClusterEvent, EventResource
from scheduler.framework.events import ASSIGNED_POD_DELETE, NODE_ADD
from tests.unit.api.objects import container
from tests.unit.plugins.clusters import Cluster, hint, node, pod

SCALE_DOWN = ActionType.UPDATE_POD_SCALE_DOWN
ALLOCATABLE = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_ALLOCATABLE)
GPU = "example.com/gpu"


def requesting(uid: str = "u", node_name: str = "", /, **requests: Any) -> Pod:
    return pod(
        {"containers": [container(requests=requests)], "nodeName": node_name},
        metadata={"uid": uid},
    )


def sized(**allocatable: Any) -> Node:
    return node(allocatable={"pods": 10, **allocatable})


@pytest.fixture
def plugin() -> NodeResourcesFit:
    return NodeResourcesFit(None, Cluster().handle())


@pytest.mark.parametrize(
    ("deleted", "wakes"),
    [
        pytest.param(pod({"nodeName": "n"}), True, id="was placed"),
        pytest.param(pod(status={"nominatedNodeName": "n"}), True, id="was nominated"),
        pytest.param(pod(), False, id="was neither"),
    ],
)
def test_pod_delete(plugin: NodeResourcesFit, deleted: Pod, wakes: bool) -> None:
    assert hint(plugin, ASSIGNED_POD_DELETE, requesting(cpu=1), deleted, None) is wakes


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        pytest.param(requesting(cpu=2), requesting(cpu=1), True, id="the pod itself"),
        pytest.param(
            requesting("x", "n", cpu=2), requesting("x", "n", cpu=1), True, id="placed, wanted"
        ),
        pytest.param(
            requesting("x", "n", memory=2),
            requesting("x", "n", memory=1),
            False,
            id="placed, not wanted",
        ),
        pytest.param(requesting("x", cpu=2), requesting("x", cpu=1), False, id="not placed"),
    ],
)
def test_scale_down(plugin: NodeResourcesFit, old: Pod, new: Pod, wakes: bool) -> None:
    resource = EventResource.ASSIGNED_POD if new.spec.node_name else EventResource.TARGET_POD

    assert hint(plugin, ClusterEvent(resource, SCALE_DOWN), requesting(cpu=1), old, new) is wakes


@pytest.mark.parametrize(
    ("wanted", "old", "new", "wakes"),
    [
        pytest.param(requesting(cpu=1), None, sized(cpu=1), True, id="fits the new node"),
        pytest.param(requesting(cpu=2), None, sized(cpu=1), False, id="too large for it"),
        pytest.param(requesting(), None, sized(pods=0), False, id="no pods allowed"),
        pytest.param(
            requesting(**{GPU: 1}), None, sized(cpu=1), False, id="extended resource missing"
        ),
        pytest.param(
            requesting(cpu=1), sized(cpu=1), sized(cpu=2), True, id="wanted resource grew"
        ),
        pytest.param(
            requesting(cpu=3), sized(cpu=1), sized(cpu=2), False, id="grew, still too small"
        ),
        pytest.param(
            requesting(cpu=1),
            sized(cpu=1, memory=1),
            sized(cpu=1, memory=2),
            False,
            id="another grew",
        ),
        pytest.param(requesting(cpu=1), sized(cpu=1), sized(cpu=1, pods=11), True, id="more pods"),
        pytest.param(
            requesting(), sized(cpu=1), sized(cpu=2), False, id="nothing wanted, cpu grew"
        ),
        pytest.param(
            requesting(**{GPU: 1}),
            sized(),
            sized(**{GPU: 1}),
            True,
            id="extended resource appeared",
        ),
    ],
)
def test_node_changes(
    plugin: NodeResourcesFit, wanted: Pod, old: Node | None, new: Node, wakes: bool
) -> None:
    assert hint(plugin, NODE_ADD if old is None else ALLOCATABLE, wanted, old, new) is wakes


def test_ignored_resources_do_not_prevent_a_retry() -> None:
    args = NodeResourcesFitArgs(ignored_resources=(GPU,))
    plugin = NodeResourcesFit(args, Cluster().handle())

    assert hint(plugin, NODE_ADD, requesting(cpu=1, **{GPU: 1}), None, sized(cpu=1))
