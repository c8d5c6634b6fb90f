"""`/debug/summary`: sums, the fullest nodes, the oldest pods, rates."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import msgspec
import pytest

from scheduler.cache import Cache
from scheduler.explain.pages.slices import in_slices
from scheduler.explain.pages.summary import MOMENTS, SAMPLES, SummaryPages
from scheduler.explain.records import NodeFill, Placement, ResourceUse, SummaryPage
from scheduler.metrics import SchedulerMetrics
from scheduler.service.serving.json_body import encode
from tests.unit.cache.objects import node, pod
from tests.unit.queue.doubles import SchedulingGatesDouble, make_pod
from tests.unit.queue.doubles import World as QueueWorld

GPU = "example.com/gpu"


class World:
    """A cache, a queue and metrics with a page about them."""

    def __init__(self) -> None:
        self.waiting = QueueWorld(SchedulingGatesDouble())
        self.clock = self.waiting.clock
        self.cache = Cache()
        self.metrics = SchedulerMetrics(process=False)
        self.placed: list[Placement] = []
        self.pages = SummaryPages(
            self.cache,
            self.waiting.queue,
            self.metrics,
            clock=self.clock,
            leading=lambda: True,
            placements=lambda limit: self.placed[:limit],
        )

    async def page(self, **query: str) -> SummaryPage:
        """Return the page as a client decodes it."""
        return msgspec.json.decode(encode(await self.pages.summary(query)), type=SummaryPage)


async def test_an_empty_cluster_has_a_page() -> None:
    page = await World().page()
    assert (page.nodes, page.pods, page.fullest, page.oldest, page.resources) == (0, 0, [], [], [])
    assert page.fill == [0] * 11
    assert (page.rates.seconds, page.rates.attempts) == (0.0, {})


async def test_moments_of_the_last_half_hour_are_kept() -> None:
    world = World()
    for _ in range(3 * MOMENTS):
        world.pages.start()
        world.pages.stop()
        world.clock.step(5.0)
    timeline = (await world.page()).timeline
    assert len(timeline) == MOMENTS
    assert {b.time - a.time for a, b in pairwise(timeline)} == {15.0}
    world.waiting.add(make_pod("web"))
    world.metrics.attempt("scheduled", "a", 0.1)
    world.pages.start()
    world.pages.stop()
    last = (await world.page()).timeline[-1]
    assert (last.waiting, last.placed, last.failed) == (1, 1, 0)


async def test_nodes_are_listed_by_their_fullest_resource() -> None:
    world = World()
    world.cache.set_node(node("idle"))
    gpus = {"cpu": "4", "memory": "8Gi", "pods": "10", GPU: "2"}
    world.cache.set_node(node("busy", allocatable=gpus, unschedulable=True))
    world.cache.set_node(node("half"))
    world.cache.add_pod(pod("a", "busy", requests={"cpu": "1", GPU: "2"}))
    world.cache.add_pod(pod("b", "half", requests={"cpu": "2", "memory": "1Gi"}))
    # A pod whose node is not known counts, and is no node.
    world.cache.add_pod(pod("c", "gone", requests={"cpu": "1"}))
    page = await world.page()
    assert page.fullest == [
        NodeFill("busy", 100, GPU, 1, unschedulable=True),
        NodeFill("half", 50, "cpu", 1, unschedulable=False),
        NodeFill("idle", 0, "cpu", 0, unschedulable=False),
    ]
    assert page.fill == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    assert (page.nodes, page.pods) == (3, 3)
    assert page.resources[0] == ResourceUse("cpu", 3.0, 12.0)
    assert ResourceUse(GPU, 2.0, 2.0) in page.resources
    assert [each.node for each in (await world.page(rows="1")).fullest] == ["busy"]


async def test_a_node_that_shrank_below_its_pods_is_more_than_full() -> None:
    world = World()
    world.cache.set_node(node("n", allocatable={"cpu": "1", "pods": "10"}))
    world.cache.add_pod(pod("a", "n", requests={"cpu": "3", "memory": "1Gi"}))
    (fullest,) = (await world.page()).fullest
    assert (fullest.percent, fullest.resource) == (300, "cpu")


async def test_the_pods_that_waited_longest_come_first_from_every_sub_queue() -> None:
    world = World()
    for name in ("first", "second", "third"):
        world.waiting.add(make_pod(name))
        world.clock.step(10.0)
    world.waiting.add(make_pod("gated", gates=["g"]))
    found = (await world.page(rows="2")).oldest
    assert [(each.name, each.waiting_since) for each in found] == [
        ("first", 1_000.0),
        ("second", 1_010.0),
    ]
    assert [each.name for each in (await world.page()).oldest] == [
        "first",
        "second",
        "third",
        "gated",
    ]


async def test_rates_are_averages_over_the_samples_that_are_kept() -> None:
    world = World()
    world.metrics.attempt("scheduled", "a", 0.1)
    world.pages.start()
    for _ in range(20):
        world.metrics.attempt("scheduled", "a", 0.1)
        world.metrics.attempt("scheduled", "b", 0.1)
    world.metrics.attempt("error", "a", 0.1)
    world.clock.step(10.0)
    page = await world.page()
    assert page.attempts == {"scheduled": 41, "error": 1}
    assert (page.rates.seconds, page.rates.attempts) == (10.0, {"scheduled": 4.0, "error": 0.1})
    for _ in range(SAMPLES):
        world.pages.stop()
        world.pages.start()
    world.clock.step(5.0)
    assert (await world.page()).rates.attempts == {"scheduled": 0.0, "error": 0.0}
    world.metrics.reset()
    assert (await world.page()).rates.attempts == {"scheduled": 0.0, "error": 0.0}
    world.pages.stop()
    assert not [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]


async def test_the_last_placements_are_those_asked_for() -> None:
    world = World()
    world.placed = [Placement(1.0, f"default/{n}", "n1", 1, 5, 0.1) for n in "ab"]
    assert (await world.page()).placed == world.placed
    assert (await world.page(rows="1")).placed == world.placed[:1]


@pytest.mark.parametrize("rows", ["-1", "101", "x", "1e3"])
async def test_a_number_of_rows_out_of_range_is_an_error(rows: str) -> None:
    with pytest.raises(ValueError, match="rows="):
        await World().pages.summary({"rows": rows})


async def test_a_pod_that_leaves_while_the_longest_waiting_are_looked_for_is_left_out() -> None:
    world = World()
    pods = [make_pod(name) for name in ("first", "second", "third")]
    for each in pods:
        world.waiting.add(each)
        world.clock.step(1.0)
    steps = world.waiting.queue.oldest(2)
    next(steps)
    world.waiting.queue.delete(pods[0])
    found = await in_slices(steps, world.clock)
    assert [each.name for each in found] == ["second", "third"]


async def test_other_tasks_run_while_a_long_queue_is_looked_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scheduler.queue.introspection._OLDEST_STEP", 1)
    monkeypatch.setattr("scheduler.explain.pages.slices.SLICE_SECONDS", 0.0)
    world = World()
    for number in range(20):
        world.waiting.add(make_pod(f"p{number:02}"))
        world.clock.step(1.0)
    asking = asyncio.create_task(world.page(rows="3"))
    slices = 0
    while not asking.done():
        await asyncio.sleep(0)
        slices += 1
    assert slices > 20
    assert [each.name for each in asking.result().oldest] == ["p00", "p01", "p02"]
