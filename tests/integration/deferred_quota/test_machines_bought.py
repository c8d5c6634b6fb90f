"""RC3: how many machines an autoscaler buys for a crowd that a quota lets run only in part.

Seen beside the real Karpenter: quota 24 CPU, 40 pods of 3 CPU that were ungated at once, 20
machines, 15 of them for nothing. Both autoscalers are imitated, in virtual time.
"""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.bound_sum import BoundSum
from simulator import EmbeddedCluster, SimClock
from simulator.controllers.autoscaler_groups import parse_settings
from testing.embedded_service import bound_to, condition, node, until
from tests.integration.deferred_quota.stage import HELD, Stage, staged

LIMIT, PODS, SIZE = 24, 40, 3
RUN = LIMIT // SIZE
SCAN_SECONDS = 10.0


class Market:
    """A cluster without nodes whose autoscaler may buy any number of one kind."""

    def __init__(self, flavor: str, cpu: int) -> None:
        self.cluster = EmbeddedCluster(
            clock=SimClock(rate=0.0),
            controllers=("quota", "autoscaler"),
            autoscaler=parse_settings(
                {
                    "flavor": flavor,
                    "scanInterval": SCAN_SECONDS,
                    "groups": [
                        {
                            "name": "pool",
                            "max": 100,
                            "provisionSeconds": 30,
                            "template": {
                                "allocatable": {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
                            },
                        }
                    ],
                }
            ),
            seed=1,
        )
        self.names = [f"p{number:02}" for number in range(PODS)]

    @property
    def bought(self) -> int:
        """Machines that are there or on their way."""
        return int(self.cluster.autoscaler.describe()["groups"][0]["size"])

    @property
    def running(self) -> int:
        return sum(1 for name in self.names if bound_to(self.cluster, name))

    async def look(self, stage: Stage) -> None:
        """The autoscaler's time passes, and the scheduler's."""
        loops = self.cluster.autoscaler.describe()["loops"]
        self.cluster.clock.advance(SCAN_SECONDS)
        await until(lambda: self.cluster.autoscaler.describe()["loops"] > loops, "a loop")
        stage.advance()
        await stage.quiet()

    async def ungate_all(self, stage: Stage) -> None:
        """Everybody at once; each pod waits for quota or for a node then."""
        await stage.quota(cpu=LIMIT * 1000)
        for name in self.names:
            stage.gated(name, str(SIZE))
        stage.ungate(*self.names)

        def told() -> bool:
            stage.wake()
            reasons = [condition(self.cluster, name).get("reason") for name in self.names]
            return all(reason in ("Unschedulable", HELD) for reason in reasons)

        await until(told, "all told")
        await stage.quiet()


@pytest.fixture(params=["cluster-autoscaler", "karpenter"])
def flavor(request: Any) -> str:
    return str(request.param)


@pytest.mark.parametrize("there", [0, 1], ids=["empty", "one-node"])
@pytest.mark.parametrize("cpu", [4, 8])
async def test_rc3_at_most_one_machine_too_many_is_bought(
    flavor: str, cpu: int, there: int
) -> None:
    """Beside a node that is too small for anybody, and from none at all."""
    nodes = [node(f"small-{number}", "1") for number in range(there)]
    market = Market(flavor, cpu)
    total = BoundSum(market.cluster)
    needed = -(-RUN // (cpu // SIZE))
    async with market.cluster, staged(market.cluster, nodes) as stage:
        await market.ungate_all(stage)
        for _ in range(20):
            await market.look(stage)
            if market.running == RUN:
                break
        assert market.running == RUN
        # The others are held all the time, and nobody buys anything for them.
        for _ in range(10):
            await market.look(stage)
        assert market.running == RUN
        assert market.bought <= needed + 1
        # Who ends makes room for the next, on the machines that are there.
        for name in [name for name in market.names if bound_to(market.cluster, name)]:
            stage.finish(name)
        await until(lambda: market.running == 2 * RUN, "the next ones")
        for _ in range(5):
            await market.look(stage)
        assert market.bought <= needed + 1
    assert total.most <= LIMIT * 1000


async def test_rc3_without_claims_it_buys_for_everybody(flavor: str) -> None:
    """What made the safe behaviour the default; this story would see it come back."""
    market = Market(flavor, 8)
    async with market.cluster, staged(market.cluster, [], {"claimPending": False}) as stage:
        await market.ungate_all(stage)
        await market.look(stage)
        assert market.bought == PODS // 2
