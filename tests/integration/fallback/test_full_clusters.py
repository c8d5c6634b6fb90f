"""Every node is full: NodeResourcesFit rejects the pod before PodTopologySpread (rule S5)."""

from __future__ import annotations

import pytest

from devtools.embedded_service import delete, find, until
from simulator import EmbeddedCluster
from tests.integration.fallback.stage import (
    BACKOFF,
    NPF,
    PF,
    ZONE,
    Stage,
    spread,
    staged,
    zone_node,
)


def full(stage: Stage, balloon: str) -> None:
    """No CPU anywhere. In Z1, which spreading forbids, a pod of priority class `balloon`."""
    stage.create(zone_node("z1", "Z1"), zone_node("z2", "Z2"))
    stage.running("r1", "z1", priorityClassName="higher")
    stage.running("balloon", "z1", "3", app="other", priorityClassName=balloon)
    stage.running("full", "z2", "4", app="other", priorityClassName="higher")


async def test_story_3_the_only_balloon_is_in_the_wrong_zone(cluster: EmbeddedCluster) -> None:
    """Only preemption meets the constraint: what it could free is in the zone that is ruled out."""
    async with staged(cluster) as stage:
        full(stage, "")
        stage.create(spread("p", f"{ZONE}={PF}", priorityClassName="high"))
        await stage.attempted("p", 1)
        assert stage.place("p") == "backoff", "its own outcome wakes it"
        await stage.retried("p", 2)
        assert stage.condition("p")["reason"] == "CriteriaMet"
        await stage.bound("p", "z1")
        assert find(cluster, "balloon") is None
        assert find(cluster, "full") is not None


async def test_the_condition_wakes_a_pod_that_spreading_kept_from_preempting(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        full(stage, "")
        stage.create(spread("p", f"{ZONE}={NPF}", priorityClassName="high"))
        await stage.attempted("p", 1)
        await stage.stays("p", 1)
        await until(lambda: stage.events("FailedScheduling"))
        (note,) = set(stage.events("FailedScheduling"))
        assert note.endswith(f" (fallback waits for: zone: {NPF})")
        stage.provisioning("p", "False")
        await stage.retried("p", 2)
        await stage.bound("p", "z1")
        assert find(cluster, "balloon") is None


async def test_the_timeout_runs_while_spreading_keeps_it_from_preempting(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster, nodeProvisioningTimeout="5m") as stage:
        full(stage, "")
        stage.create(spread("p", f"{ZONE}={NPF}", priorityClassName="high"))
        await stage.attempted("p", 1)
        stage.advance(290)
        await stage.stays("p", 1, 0)
        stage.advance(40)
        await stage.retried("p", 2)
        await stage.bound("p", "z1")


@pytest.mark.parametrize("criterion", [NPF, PF])
async def test_where_relaxing_cannot_help_nothing_wakes_it(
    cluster: EmbeddedCluster, criterion: str
) -> None:
    """No pod can be preempted; room in the wrong zone is used as soon as it exists."""
    async with staged(cluster, nodeProvisioningTimeout="5m") as stage:
        full(stage, "higher")
        stage.create(spread("p", f"{ZONE}={criterion}", priorityClassName="high"))
        await stage.attempted("p", 1)
        stage.provisioning("p", "False")
        await stage.stays("p", 1, 600 + BACKOFF)
        assert stage.condition("p") == {}
        delete(cluster, "balloon")
        await stage.bound("p", "z1")
        assert stage.attempts("p") == 2
