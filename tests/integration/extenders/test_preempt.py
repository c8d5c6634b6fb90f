"""Extenders that choose among the candidates of preemption."""

from __future__ import annotations

from typing import Any

import pytest

from devtools.embedded_service import (
    bind,
    bound_to,
    find,
    node,
    pod,
    scheduling,
    settled,
    until,
)
from simulator import EmbeddedCluster
from simulator.objects import priority_class
from tests.integration.extenders.extender import ExtenderServer
from tests.integration.extenders.setup import BY_NAME, entry, message, uid


@pytest.fixture
def important(cluster: EmbeddedCluster) -> dict[str, Any]:
    """Two full nodes, and a pod of priority that needs one of them."""
    cluster.create(priority_class("high", 1000))
    for name in ("n1", "n2"):
        cluster.create(node(name, cpu="1"))
        cluster.create(pod(f"on-{name}", terminationGracePeriodSeconds=0))
        bind(cluster, f"on-{name}", name)
    return pod("p", priorityClassName="high")


@pytest.mark.parametrize("short", [True, False])
async def test_an_extender_decides_among_victims(
    cluster: EmbeddedCluster, extender: ExtenderServer, important: dict[str, Any], short: bool
) -> None:
    chosen = uid(cluster, "on-n2")
    extender.responses["preempt"] = lambda _: {
        "NodeNameToMetaVictims": {"n2": {"Pods": [{"UID": chosen}], "NumPDBViolations": 0}}
    }
    mine = entry(extender, "preempt", nodeCacheCapable=short)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(important)
        await until(lambda: bound_to(cluster, "p") == "n2", "bound")
        assert find(cluster, "on-n1") is not None
    call = extender.sent("preempt")[0]
    assert call["Pod"]["metadata"]["name"] == "p"
    if short:
        assert call["NodeNameToVictims"] is None
        assert call["NodeNameToMetaVictims"]["n2"] == {
            "Pods": [{"UID": chosen}], "NumPDBViolations": 0,
        }  # fmt: skip
    else:
        assert call["NodeNameToMetaVictims"] is None
        (victim,) = call["NodeNameToVictims"]["n2"]["Pods"]
        assert victim["spec"]["nodeName"] == "n2"
        assert victim["spec"]["terminationGracePeriodSeconds"] == 0


PREEMPT_FAULTS: list[tuple[Any, bool, str]] = [
    (500, False, "preemption: failed preempt with extender at URL {url}/preempt, code 500"),
    ({"NodeNameToMetaVictims": {"n1": {"Pods": []}}}, False,
     'preemption: extender "{url}/preempt": expected at least one victim pod on node "n1"'),
    ({"NodeNameToMetaVictims": {"n9": {"Pods": [{"UID": "u"}]}}}, False,
     'preemption: extender "{url}/preempt": node "n9" not found'),
    ({"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u"}]}}}, False,
     "claims to preempt pod (UID: u) on node: n1, but the pod is not found on that node"),
    ({"NodeNameToMetaVictims": {"n1": {"Pods": []}}}, True, "no candidate node for preemption"),
    ({"NodeNameToMetaVictims": None}, False, "no candidate node for preemption"),
]  # fmt: skip


@pytest.mark.parametrize(("response", "ignorable", "text"), PREEMPT_FAULTS)
async def test_no_pod_is_evicted_when_an_extender_leaves_no_candidate(
    cluster: EmbeddedCluster, extender: ExtenderServer, important: dict[str, Any],
    response: Any, ignorable: bool, text: str,
) -> None:  # fmt: skip
    extender.responses["preempt"] = lambda _: response
    mine = entry(extender, "preempt", **BY_NAME, ignorable=ignorable)
    async with scheduling(cluster, extenders=[mine]) as scheduler:
        cluster.create(important)
        await until(lambda: message(cluster), "condition")
        assert text.format(url=extender.url) in message(cluster)
        await settled(scheduler)
        assert find(cluster, "on-n1") is not None
        assert find(cluster, "on-n2") is not None


async def test_preemption_goes_on_without_an_ignorable_extender_that_fails(
    cluster: EmbeddedCluster, extender: ExtenderServer, important: dict[str, Any]
) -> None:
    extender.responses["preempt"] = lambda _: 500
    mine = entry(extender, "preempt", **BY_NAME, ignorable=True)
    async with scheduling(cluster, extenders=[mine]):
        cluster.create(important)
        await until(lambda: bound_to(cluster, "p"), "bound")
