"""NodePorts: upstream's `node_ports.go`, and its hints."""

from __future__ import annotations

from typing import Any

import pytest

from plugins import NodePorts
from scheduler.api import Pod
from scheduler.framework import SKIP, Code, CycleState
from scheduler.framework.events import ASSIGNED_POD_DELETE, NODE_ADD
from tests.unit.api.objects import container
from tests.unit.plugins.clusters import Cluster, hint, node, pod, statuses


def port(text: str) -> dict[str, Any]:
    """`TCP/127.0.0.1/8001`; an empty address is left out."""
    protocol, ip, number = text.split("/")
    return {"protocol": protocol, "hostIP": ip, "hostPort": int(number)}


def spec(*ports: str) -> dict[str, Any]:
    return {"containers": [container(ports=[port(each) for each in ports])]}


def wanting(*ports: str, **parts: Any) -> Pod:
    return pod(spec(*ports), **parts)


@pytest.mark.parametrize(
    ("used", "wanted", "free"),
    [
        pytest.param([], ["TCP//80"], True, id="nothing used"),
        pytest.param(["UDP/127.0.0.1/8080"], ["UDP/127.0.0.1/9090"], True, id="another port"),
        pytest.param(["UDP/127.0.0.1/8080"], ["UDP/127.0.0.1/8080"], False, id="same UDP port"),
        pytest.param(["TCP/127.0.0.1/8080"], ["TCP/127.0.0.1/8080"], False, id="same TCP port"),
        pytest.param(["TCP/127.0.0.1/8080"], ["TCP/127.0.0.2/8080"], True, id="another address"),
        pytest.param(["UDP/127.0.0.1/8080"], ["TCP/127.0.0.1/8080"], True, id="another protocol"),
        pytest.param(["TCP//2", "TCP//3"], ["TCP//1", "TCP//3"], False, id="the second conflicts"),
        pytest.param(["TCP/0.0.0.0/8001"], ["TCP/127.0.0.1/8001"], False, id="wildcard in use"),
        pytest.param(["TCP/127.0.0.1/8001"], ["TCP//8001"], False, id="wildcard wanted"),
        pytest.param(
            ["TCP/127.0.0.1/8001"],
            ["TCP/10.0.10.10/8001", "TCP/0.0.0.0/8001"],
            False,
            id="wildcard among the wanted",
        ),
        pytest.param(["TCP/0.0.0.0/8001"], ["UDP/127.0.0.1/8001"], True, id="wildcard of TCP only"),
        pytest.param(
            ["TCP/0.0.0.0/8001", "UDP/0.0.0.0/8001"], ["UDP/127.0.0.1/8001"], False, id="of both"
        ),
        pytest.param(["TCP/::/80"], ["TCP/::1/80"], True, id="quirk: :: is no wildcard"),
    ],
)
def test_filter(used: list[str], wanted: list[str], free: bool) -> None:
    # Enough nodes for the vectorised path; "n" alone holds the ports.
    nodes = [node("n"), *(node(f"free-{index}") for index in range(5))]
    cluster = Cluster(nodes, {"n": [wanting(*used)]})

    found = statuses(NodePorts(None, cluster.handle()), cluster, wanting(*wanted))

    assert all(status is None for name, status in found.items() if name != "n")
    assert (found["n"] is None) is free
    if found["n"] is not None:
        assert found["n"].code is Code.UNSCHEDULABLE
        assert found["n"].reasons == ("node(s) didn't have free ports for the requested pod ports",)


@pytest.mark.parametrize("held", ["TCP/0.0.0.0/80", "TCP/127.0.0.1/80"])
def test_few_rows_have_the_same_results_as_many(held: str) -> None:
    cluster = Cluster([node("a"), node("b")], {"b": [wanting(held)]})
    plugin = NodePorts(None, cluster.handle())

    found = statuses(plugin, cluster, wanting("TCP/127.0.0.1/80"))

    assert [name for name, status in found.items() if status] == ["b"]


def test_a_released_port_is_free_again() -> None:
    cluster = Cluster([node("n")])
    plugin = NodePorts(None, cluster.handle())
    holder = cluster.place(wanting("TCP//80"), "n")

    assert statuses(plugin, cluster, wanting("TCP//80"))["n"] is not None
    cluster.cache.remove_pod(holder)
    assert statuses(plugin, cluster, wanting("TCP//80"))["n"] is None


@pytest.mark.parametrize(
    ("subject", "skips"),
    [
        pytest.param(pod(), True, id="no port"),
        pytest.param(
            pod({"initContainers": [container("i", ports=[port("TCP//80")])]}),
            True,
            id="ordinary init container",
        ),
        pytest.param(
            pod(
                {
                    "initContainers": [
                        container("i", ports=[port("TCP//80")], restartPolicy="Always")
                    ]
                }
            ),
            False,
            id="sidecar",
        ),
        pytest.param(wanting("TCP//80"), False, id="host port"),
    ],
)
def test_pre_filter(subject: Pod, skips: bool) -> None:
    cluster = Cluster()

    result = NodePorts(None, cluster.handle()).pre_filter(CycleState(), subject, cluster.table)

    assert result is (SKIP if skips else None)


@pytest.mark.parametrize(
    ("deleted", "wakes"),
    [
        pytest.param(pod({**spec("TCP//80"), "nodeName": "n"}), True, id="held the port"),
        pytest.param(pod({**spec("TCP//81"), "nodeName": "n"}), False, id="held another port"),
        pytest.param(pod({"nodeName": "n"}), False, id="held no port"),
        pytest.param(wanting("TCP//80"), False, id="never placed"),
        pytest.param(
            wanting("TCP//80", status={"nominatedNodeName": "n"}), True, id="was nominated"
        ),
    ],
)
def test_pod_delete_hints(deleted: Pod, wakes: bool) -> None:
    plugin = NodePorts(None, Cluster().handle())
    waiting = wanting("TCP/127.0.0.1/80")

    # Of a nominated pod as well (`EventHandlers._nomination_left`).
    assert hint(plugin, ASSIGNED_POD_DELETE, waiting, deleted, None) is wakes


def test_any_new_node_wakes() -> None:
    assert hint(NodePorts(None, Cluster().handle()), NODE_ADD, wanting("TCP//80"), None, node())
