"""Scenarios A23 and A25 through the service: preemption while soft, and what happens then (S11)."""

from __future__ import annotations

from devtools.embedded_service import bound_to, delete, find, until
from simulator import EmbeddedCluster
from tests.integration.fallback.stage import BACKOFF, PF, ZONE, Stage, spread, staged, zone_node


async def preempt_while_soft(stage: Stage) -> None:
    """Z2 is out of reach. In Z1, which spreading forbids, `slow` can be evicted, but takes time.

    Attempt 1 is strict and finds no victims; then `slow` comes, and attempt 2 is soft and evicts.
    """
    stage.create(zone_node("z1", "Z1"), zone_node("z2", "Z2"))
    stage.running("r1", "z1", priorityClassName="higher")
    stage.running("full", "z2", "4", app="other", priorityClassName="higher")
    stage.create(spread("p", f"{ZONE}={PF}", cpu="2", priorityClassName="high"))
    await stage.attempted("p", 1)
    stage.running("slow", "z1", "3", app="other")
    stage.patch("slow", {"metadata": {"finalizers": ["example.com/slow"]}})
    await stage.retried("p", 2)


def nominated(cluster: EmbeddedCluster) -> str:
    found = find(cluster, "p")
    assert found is not None
    return str(found["status"].get("nominatedNodeName", ""))


def victims(cluster: EmbeddedCluster) -> set[str]:
    """Pods that are gone, or on their way."""
    names = ("r1", "full", "slow")
    found = {name: find(cluster, name) for name in names}
    return {
        name for name, pod in found.items() if pod is None or "deletionTimestamp" in pod["metadata"]
    }


async def test_a23_what_preemption_nominated_while_soft_is_not_given_up(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        await preempt_while_soft(stage)
        assert (nominated(cluster), victims(cluster)) == ("z1", {"slow"})
        assert stage.condition("p")["status"] == "True"
        for attempt in (3, 4, 5):
            # Something happens that might help, while the victim is still there.
            stage.create(zone_node(f"z2-{attempt}", "Z2", cpu="0"))
            await stage.quiet()
            stage.wiring.scheduling.queue.activate([stage.newest("p")])
            await stage.attempted("p", attempt)
            assert nominated(cluster) == "z1", "a strict attempt would have given it up"
            assert victims(cluster) == {"slow"}, "no other pod is evicted"
        stage.patch("slow", {"metadata": {"finalizers": None}})
        delete_if_there(cluster, "slow")
        await stage.bound("p", "z1")
        assert stage.attempts("p") == 6, "the very next attempt; a strict one would come first"


async def test_a25_a_restart_in_the_midst_of_it(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await preempt_while_soft(stage)
    async with staged(cluster) as stage:
        await stage.attempted("p", 1)
        assert (nominated(cluster), victims(cluster)) == ("z1", {"slow"})
        assert stage.condition("p")["status"] == "True"
        stage.patch("slow", {"metadata": {"finalizers": None}})
        delete_if_there(cluster, "slow")
        await stage.bound("p", "z1")


def delete_if_there(cluster: EmbeddedCluster, name: str) -> None:
    if find(cluster, name) is not None:
        delete(cluster, name)


async def test_a17_a_condition_that_is_false_for_good_leaves_scoring_to_prefer_the_right_zone(
    cluster: EmbeddedCluster,
) -> None:
    """1.5: capacity returns; soft, the emptier zone still scores higher."""
    async with staged(cluster) as stage:
        await stage.rejected_once(f"{ZONE}=NodeProvisioningFailed")
        stage.provisioning("p", "False")
        await stage.quiet()
        delete(cluster, "full")
        await stage.quiet()
        stage.advance(BACKOFF)
        await until(lambda: bound_to(cluster, "p") == "z2")
