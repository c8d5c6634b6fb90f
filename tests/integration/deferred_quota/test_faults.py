"""Faults of the API server: bound pods never use more than the quota."""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks.bound_sum import BoundSum
from devtools.embedded_service import node, settled, until
from simulator import EmbeddedCluster, FaultRule
from tests.integration.deferred_quota.stage import CPU, Stage, staged
from tests.integration.deferred_quota.test_usage_writer import shows


def bind_fault(action: str, **more: object) -> FaultRule:
    return FaultRule(action=action, verb="create", resource="pods/binding", **more)  # type: ignore[arg-type]


async def calm(stage: Stage) -> None:
    """All has settled, and nothing is reserved or drifted."""
    await stage.quiet()
    await until(lambda: not list(stage.ledger.reserved()), "nothing reserved")
    stage.ledger.validate()


async def test_b26_a_bind_whose_answer_is_lost_keeps_its_share(cluster: EmbeddedCluster) -> None:
    total = BoundSum(cluster)
    cluster.faults.add(bind_fault("drop-answer", times=1))
    # The watch would tell; hide it, so that only the GET can.
    hidden = cluster.faults.add(FaultRule(action="hide", verb="watch", resource="pods", name="a"))
    async with staged(cluster) as stage:
        await stage.quota(cpu=1000)
        cluster.faults.remove(hidden)
        stage.released("a")
        await until(lambda: stage.wiring.connections.dispatcher.statistics().bind.sent == 1)
        hidden = cluster.faults.add(
            FaultRule(action="hide", verb="watch", resource="pods", name="a")
        )
        stage.released("b")
        await stage.held("b")
        await until(
            lambda: stage.wiring.connections.dispatcher.statistics().settled == 1, "settled"
        )
        await settled(stage.wiring)
        stage.advance()
        await stage.quiet()
        assert stage.is_bound("a")
        assert not stage.is_bound("b")
        assert total.most == 1000
        assert stage.used() == {CPU: "1000"}
        cluster.faults.remove(hidden)


async def test_the_share_is_kept_as_long_as_the_outcome_is_unknown(
    cluster: EmbeddedCluster,
) -> None:
    total = BoundSum(cluster)
    cluster.faults.add(bind_fault("drop-answer", times=1))
    gets = cluster.faults.add(FaultRule(action="error", verb="get", resource="pods", code=500))
    watch = cluster.faults.add(
        FaultRule(action="delay", verb="watch", resource="pods", name="a", seconds=0.05)
    )
    async with staged(cluster) as stage:
        await stage.quota(cpu=1000)
        stage.released("a")
        await until(
            lambda: stage.wiring.connections.dispatcher.statistics().settling == 1, "settling"
        )
        stage.released("b")
        await stage.held("b")
        stage.advance(600)
        await stage.quiet_ledger()
        assert not stage.is_bound("b")
        assert stage.used() == {CPU: "1000"}
        cluster.faults.remove(gets)
        cluster.faults.remove(watch)
        await calm(stage)
        assert total.most == 1000


@pytest.mark.slow
async def test_b25_a_bind_that_surely_failed_gives_its_share_back(cluster: EmbeddedCluster) -> None:
    total = BoundSum(cluster)
    cluster.faults.add(bind_fault("cut", times=2))
    async with staged(cluster) as stage:
        await stage.quota(cpu=1000)
        stage.released("a", "b")

        def one_bound() -> bool:
            stage.advance(1)
            return total.binds == 1

        await until(one_bound)
        await calm(stage)
        assert total.most == 1000
        assert stage.used() == {CPU: "1000"}


async def test_b24_slow_binds_hold_their_share_meanwhile(cluster: EmbeddedCluster) -> None:
    total = BoundSum(cluster)
    cluster.clock.set_rate(0)
    cluster.faults.add(bind_fault("delay", seconds=5))
    async with staged(cluster) as stage:
        await stage.quota(cpu=3000)
        names = [f"p{number}" for number in range(10)]
        stage.released(*names)
        await until(lambda: stage.ledger.statistics().reserved == 3)
        await until(lambda: stage.ledger.statistics().held == 7)
        stage.advance()
        await stage.quiet_ledger()
        assert stage.ledger.statistics().reserved == 3

        def answered() -> bool:
            # More than once: a request that arrives later is delayed from then on.
            cluster.clock.advance(6)
            return total.binds == 3

        await until(answered)
        await calm(stage)
        assert (total.now, total.most) == (3000, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_b24_races_with_latency_and_faults_never_exceed_the_limit(
    cluster: EmbeddedCluster, seed: int
) -> None:
    total = BoundSum(cluster)
    for index, action in enumerate(("drop-answer", "error", "cut", "delay")):
        more = {"seconds": 0.02} if action == "delay" else {}
        cluster.faults.add(
            bind_fault(action, name=f"*{(seed + index) % 10}", times=8, code=503, **more)
        )
    async with staged(cluster, [node(f"n{number}", "20") for number in range(3)]) as stage:
        await stage.quota(cpu=4000)
        for wave in range(5):
            names = [f"w{wave}-{number}" for number in range(10)]
            stage.released(*names)

            def full(names: list[str]) -> bool:
                stage.advance(1)
                return sum(map(stage.is_bound, names)) == 4

            await until(partial(full, names))
            for name in names:
                stage.delete(name)
            await until(lambda: stage.ledger.statistics().pods == 0)
        await calm(stage)
        assert total.most == 4000
        assert total.now == 0


async def test_b58_the_api_server_is_gone_for_a_minute(cluster: EmbeddedCluster) -> None:
    total = BoundSum(cluster)
    async with staged(cluster) as stage:
        await stage.quota(cpu=3000)
        stage.released("a", "b")
        await stage.bound("a", "b")
        outage = [
            cluster.faults.add(FaultRule(action="cut", verb=verb))
            for verb in ("create", "get", "patch", "list", "watch")
        ]
        # Meanwhile gates go, pods end, and what we try fails.
        names = [f"p{number}" for number in range(6)]
        stage.released(*names)
        stage.finish("a")
        for _ in range(6):
            stage.advance(10)
            await stage.quiet_ledger()
        assert total.most <= 3000
        for rule in outage:
            cluster.faults.remove(rule)

        def full() -> bool:
            stage.advance(1)
            return total.now == 3000

        await until(full, "two of six run beside b")
        await calm(stage)
        assert (total.most, total.binds) == (3000, 4)
        assert stage.used() == {CPU: "3000"}

        def all_ran() -> bool:
            for name in ("b", *names):
                if stage.is_bound(name):
                    stage.finish(name)
            stage.advance(1)
            return total.binds == 8

        await until(all_ran, "every pod runs")
        assert total.most == 3000


async def test_b21_a_deleting_pod_counts_until_its_grace_is_over(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=1000)
        stage.released("a", terminationGracePeriodSeconds=30)
        await stage.bound("a")
        stage.released("b")
        await stage.held("b")
        stage.delete_gracefully("a", 30)
        await until(lambda: stage.seen("a").metadata.deletion_timestamp)
        stage.advance(45)
        await stage.quiet_ledger()
        assert stage.used() == {CPU: "1000"}, "within the second grace"
        stage.advance(20)
        await stage.bound("b")


async def test_b24_published_usage_never_exceeds_the_limit_by_us(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=2000)
        stage.released(*(f"p{number}" for number in range(5)))
        await shows(stage, {CPU: "2000"})
        await stage.quiet()
        await shows(stage, {CPU: "2000"})
