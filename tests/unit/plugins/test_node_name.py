"""NodeName: upstream's `node_name.go`."""

from __future__ import annotations

import pytest

from plugins import NodeName
from scheduler.framework import Code
from scheduler.framework.events import NODE_ADD, NODE_DELETE
from tests.unit.plugins.clusters import Cluster, hint, node, pod, statuses


@pytest.mark.parametrize(
    ("wanted", "passing"),
    [
        pytest.param("", ["a", "b"], id="no name fits everywhere"),
        pytest.param("b", ["b"], id="the named node only"),
        pytest.param("gone", [], id="an unknown name fits nowhere"),
    ],
)
def test_filter(wanted: str, passing: list[str]) -> None:
    cluster = Cluster([node("a"), node("b")])

    found = statuses(NodeName(None, cluster.handle()), cluster, pod({"nodeName": wanted}))

    assert [name for name, status in found.items() if status is None] == passing
    for status in filter(None, found.values()):
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert status.reasons == ("node(s) didn't match the requested node name",)


def test_any_new_node_wakes() -> None:
    plugin = NodeName(None, Cluster().handle())

    assert hint(plugin, NODE_ADD, pod(), None, node())
    assert not hint(plugin, NODE_DELETE, pod(), node(), None)
