"""Filter requests to extenders, and the effect of their responses on a pod."""

from __future__ import annotations

from typing import Any

from devtools.embedded_service import (
    bound_to,
    condition,
    find,
    node,
    pod,
    scheduling,
    settled,
    until,
)
from simulator import EmbeddedCluster
from tests.integration.extenders.extender import ExtenderServer, hanging, names, only
from tests.integration.extenders.setup import BY_NAME, QUICK, entry, message


async def test_a_filter_gets_whole_objects_as_the_server_has_them(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    for name in ("n1", "n2", "n3"):
        cluster.create({**node(name), "x-unknown": {"to": "us"}})
    extender.responses["filter"] = lambda call: {
        "Nodes": {"items": [each for each in call["Nodes"]["items"] if names_of(each) == "n2"]}
    }
    async with scheduling(cluster, extenders=[entry(extender, "filter")]) as scheduler:
        cluster.create(pod("p", tolerations=[{"key": "k", "operator": "Exists"}]))
        await until(lambda: bound_to(cluster, "p") == "n2", "bound")
        await settled(scheduler)
    (call,) = extender.sent("filter")
    assert sorted(call) == ["NodeNames", "Nodes", "Pod"]
    assert call["NodeNames"] is None
    assert sorted(names(call)) == ["n1", "n2", "n3"]
    stored = find(cluster, "p")
    assert stored is not None
    assert call["Pod"]["spec"]["containers"] == stored["spec"]["containers"]
    assert call["Pod"]["spec"]["tolerations"] == stored["spec"]["tolerations"]
    assert call["Nodes"]["items"][0]["status"]["capacity"]["pods"] == "110"


def names_of(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["name"])


async def test_a_filter_that_keeps_nodes_gets_their_names(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    for name in ("n1", "n2", "full"):
        cluster.create(node(name, cpu="1m" if name == "full" else "4"))
    extender.responses["filter"] = only("n1")
    async with scheduling(cluster, extenders=[entry(extender, "filter", **BY_NAME)]):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "n1", "bound")
    (call,) = extender.sent("filter")
    assert call["Nodes"] is None
    # A node that a plugin rejected is not sent.
    assert sorted(call["NodeNames"]) == ["n1", "n2"]


async def test_filters_follow_each_other_ignorable_ones_last(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    for name in ("n1", "n2", "n3"):
        cluster.create(node(name))
    extender.responses["last"] = only("n2")
    extender.responses["first"] = only("n2", "n3")
    both = [
        entry(extender, **BY_NAME, filterVerb="last", ignorable=True),
        entry(extender, **BY_NAME, filterVerb="first"),
    ]
    async with scheduling(cluster, extenders=both):
        cluster.create(pod("p"))
        await until(lambda: bound_to(cluster, "p") == "n2", "bound")
    assert extender.verbs() == ["first", "last"]
    assert sorted(names(extender.sent("last")[0])) == ["n2", "n3"]


async def test_rejections_are_reported_and_any_event_requeues_the_pod(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    for name in ("n1", "n2"):
        cluster.create(node(name))
    extender.responses["filter"] = lambda call: {
        "FailedNodes": {"n1": "no licence", "n2": "no licence"},
        "FailedAndUnresolvableNodes": {"n2": "no such device", "unheard-of": "?"},
    }
    document = {**QUICK, "extenders": [entry(extender, "filter", **BY_NAME)]}
    async with scheduling(cluster, **document) as scheduler:
        cluster.create(pod("p"))
        await until(lambda: message(cluster), "condition")
        assert message(cluster).startswith(
            "0/2 nodes are available: 1 no licence, 1 no such device."
        )
        assert condition(cluster, "p")["reason"] == "Unschedulable"
        (view,) = [each for each in scheduler.scheduling.queue.views() if each.name == "p"]
        assert "Extender" in view.unschedulable_plugins
        extender.responses["filter"] = only("n1", "n2", "n3")
        cluster.create(node("n3"))
        await until(lambda: bound_to(cluster, "p"), "bound")


async def test_pods_without_managed_resources_are_not_sent(
    cluster: EmbeddedCluster, extender: ExtenderServer
) -> None:
    gpu = "example.com/gpu"
    cluster.create(node("n1"))
    extender.responses["filter"] = hanging
    managed = [{"name": gpu, "ignoredByScheduler": True}]
    mine = entry(extender, "filter", **BY_NAME, managedResources=managed)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(pod("plain"))
        await until(lambda: bound_to(cluster, "plain"), "bound")
        assert extender.calls == []
        extender.responses["filter"] = only("n1")
        devices = [{"name": "c", "resources": {"limits": {gpu: "1"}, "requests": {gpu: "1"}}}]
        # No node has any: NodeResourcesFit leaves the resource to the extender.
        cluster.create(pod("special", containers=devices))
        await until(lambda: bound_to(cluster, "special"), "bound")
        assert extender.verbs() == ["filter"]
