"""kubestow beside the descheduler 0.36: evicted pods are placed strictly, and evictions end.

Nothing here depends on when it runs: the tests count its runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import ManagedProcess
from tests.envtest.workload import until
from tests.thirdparty.cluster import Cluster
from tests.thirdparty.conftest import ClusterFactory
from tests.thirdparty.descheduler import Descheduler, install, start_descheduler
from tests.thirdparty.spread import SpreadStory

pytestmark = pytest.mark.thirdparty("descheduler")

REST: Final = 5
"""Runs of the descheduler without an eviction after which it is at rest."""
SPREAD: Final = "RemovePodsViolatingTopologySpreadConstraint"


@pytest.fixture(scope="module")
def cluster(make_cluster: ClusterFactory) -> Cluster:
    """A cluster with the descheduler's permissions."""
    made = make_cluster(components=["node-provisioning-bridge"])
    install(made)
    return made


StartKubestow = Callable[[dict[str, Any]], ManagedProcess]
StartDescheduler = Callable[[str, str, dict[str, Any]], Descheduler]


@pytest.fixture
def start_kubestow(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[StartKubestow]:
    """Starts kubestow with arguments of plugins, for one test."""
    started: list[ManagedProcess] = []

    def start(plugins: dict[str, Any]) -> ManagedProcess:
        arguments = [{"name": name, "args": args} for name, args in plugins.items()]
        profile = {"schedulerName": "kubestow", "pluginConfig": arguments}
        config = {"profiles": [profile], "kubestow": {"timeBasedHintPeriod": "1s"}}
        started.append(cluster.start_kubestow(config, name=f"{request.node.name}-kubestow"))
        return started[0]

    yield start
    for process in started:
        process.stop()


@pytest.fixture
def descheduler(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[StartDescheduler]:
    """Starts the descheduler for the nodes of a story, for one test."""
    started: list[Descheduler] = []

    def start(story: str, plugin: str, arguments: dict[str, Any]) -> Descheduler:
        name = f"{request.node.name}-descheduler"
        made = start_descheduler(cluster, plugin, arguments, story=story, name=name)
        started.append(made)
        return made

    yield start
    for each in started:
        each.process.stop()


def until_rest(descheduler: Descheduler) -> int:
    """Wait until some runs in a row evict no pod; return the number of evictions until then."""
    seen = descheduler.evictions(), descheduler.runs()

    def rests() -> bool:
        nonlocal seen
        evictions, runs = descheduler.evictions(), descheduler.runs()
        if evictions != seen[0]:
            seen = evictions, runs
        return runs >= seen[1] + REST

    until(rests, f"{REST} runs of the descheduler in a row without an eviction")
    return seen[0]


def test_softened_pods_go_where_they_belong_when_there_is_room(
    cluster: Cluster, start_kubestow: StartKubestow, descheduler: StartDescheduler
) -> None:
    """Zone b has no room; its pods soften and run in zone a. Then zone b gets a node."""
    start_kubestow({"PodTopologySpread": {"nodeProvisioningTimeout": "2s"}})
    with SpreadStory(cluster, "spread") as story:
        story.deployment("web", 4, "2")
        until(lambda: story.in_zones() == {"zone-a": 4}, "all pods in zone a")
        softened = until(lambda: len(found := story.softened()) == 3 and found, "three softened")
        arguments = {"namespaces": {"include": ["spread"]}, "constraints": ["DoNotSchedule"]}
        running = descheduler("spread", SPREAD, arguments)
        assert until_rest(running) == 0, "there is no room elsewhere"
        story.zone_node("more-b", "zone-b", 16)
        story.report("room in zone b")
        until(lambda: story.in_zones() == {"zone-a": 2, "zone-b": 2}, "evenly spread")
        story.report("evenly spread")
        assert until_rest(running) == 2
        assert story.in_zones() == {"zone-a": 2, "zone-b": 2}
        assert story.softened() == softened, "none of the new pods"


def test_low_node_utilization(
    cluster: Cluster, start_kubestow: StartKubestow, descheduler: StartDescheduler
) -> None:
    """A node at 75 % and an empty one beside it: two pods move, within their zone."""
    start_kubestow({"PodTopologySpread": {"nodeProvisioningTimeout": "2s"}})
    with SpreadStory(cluster, "low", room=8) as story:
        story.zone_node("more-b", "zone-b", 16)
        story.deployment("web", 8, "1500m")
        until(lambda: story.in_zones() == {"zone-a": 4, "zone-b": 4}, "evenly spread")
        story.zone_node("more-a", "zone-a", 8)
        arguments = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
        running = descheduler("low", "LowNodeUtilization", arguments)
        until(lambda: running.evictions() == 2, "two pods evicted")
        story.report("two pods evicted")
        expected = {"low-static-a": 2, "low-more-a": 2, "low-more-b": 4}
        until(lambda: story.on_nodes() == expected, "two pods on the empty node")
        story.report("placed")
        assert until_rest(running) == 2
        assert story.on_nodes() == expected
        assert not story.softened()


def test_high_node_utilization(
    cluster: Cluster, start_kubestow: StartKubestow, descheduler: StartDescheduler
) -> None:
    """A pod alone on its node moves to the fuller one. It needs the score MostAllocated."""
    resources = [{"name": "cpu", "weight": 1}]
    most = {"scoringStrategy": {"type": "MostAllocated", "resources": resources}}
    start_kubestow({"NodeResourcesFit": most})
    with SpreadStory(cluster, "high", room=8) as story:
        story.deployment("full", 5, "1500m", node="static-a")
        until(lambda: story.on_nodes() == {"high-static-a": 5}, "a full node")
        story.zone_node("more-a", "zone-a", 8)
        story.deployment("web", 1, "1500m")
        until(lambda: story.on_nodes() == {"high-static-a": 5, "high-more-a": 1}, "two nodes")
        story.scale("full", 4)
        until(lambda: story.on_nodes() == {"high-static-a": 4, "high-more-a": 1}, "some room")
        running = descheduler("high", "HighNodeUtilization", {"thresholds": {"cpu": 50}})
        until(lambda: story.on_nodes() == {"high-static-a": 5}, "all on one node")
        assert until_rest(running) == 1
        assert story.on_nodes() == {"high-static-a": 5}
        assert not story.softened()
