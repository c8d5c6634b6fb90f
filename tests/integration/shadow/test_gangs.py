"""A gang is chosen as a whole, and yields to what is bound as single pods do."""

from __future__ import annotations

import pytest

from devtools.embedded_service import add_gang, bind, node, until
from scheduler.explain.records.shadow import AGREEING
from simulator import EmbeddedCluster
from simulator.demos.gang.objects import POD_GROUPS
from tests.integration.shadow.stage import THEIRS, chosen, judged, listen, pod, shadow

GANGS = {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}}


async def test_a_gang_holds_its_nodes_until_it_is_bound(cluster: EmbeddedCluster) -> None:
    cluster.resources.add(POD_GROUPS)
    for number in range(2):
        cluster.create(node(f"n{number}"))
    async with shadow(cluster, points=GANGS) as wiring:
        seen = listen(wiring)
        names = add_gang(cluster, "train", 4, schedulerName=THEIRS)
        nodes = {each: await chosen(wiring, cluster, each) for each in names}
        assert sorted(nodes.values()) == ["n0", "n0", "n1", "n1"]
        for name, there in nodes.items():
            bind(cluster, name, there)
        await judged(wiring, seen, 4)
        assert {each.verdict for each in seen} <= set(AGREEING)


@pytest.mark.slow
async def test_a_gang_that_does_not_fit_holds_nothing(cluster: EmbeddedCluster) -> None:
    cluster.resources.add(POD_GROUPS)
    cluster.create(node("n0"))
    async with shadow(cluster, points=GANGS) as wiring:
        names = add_gang(cluster, "large", 3, schedulerName=THEIRS)
        cluster.create(pod("single", "4"))
        assert await chosen(wiring, cluster, "single") == "n0"
        await until(lambda: wiring.summary().waiting_here == 3)
        members = (cluster.get("v1", "Pod", name, "default") for name in names)
        uids = [each["metadata"]["uid"] for each in members]
        assert not any(wiring.follower.choices.get(uid) for uid in uids)
