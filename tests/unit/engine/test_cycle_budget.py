"""The budget of a cycle, on a clock that the plugins advance by their own cost."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Generator
from typing import Any

import pytest

from scheduler.engine.cycle_time import CycleBudget
from scheduler.engine.errors import CycleBudgetError
from scheduler.engine.failure import REASON_SCHEDULER_ERROR, SET_ASIDE
from scheduler.engine.overruns import FIRST_PAUSE, MAX_BUDGET_FACTOR, MAX_PAUSE, Overruns
from scheduler.framework import QueuedPodInfo, unschedulable
from tests.unit.engine.harness import Clock, World, plugin
from tests.unit.extenders.test_extender import FILTER, ScriptedTransport, engine_of


class Slow:
    """Plugin methods that take time: seconds by extension point."""

    def __init__(self, **costs: float) -> None:
        self.costs = costs
        self.calls: list[str] = []
        self.world: World

    def method(self, point: str, answer: Any = None) -> Callable[..., Any]:
        def called(*_: Any) -> Any:
            self.calls.append(point)
            self.world.clock.time += self.costs.get(point, 0.0)
            return answer

        return called

    def worlds(self, *plugins: type[Any], nodes: int = 2, budget: float = 0.5) -> World:
        # With a Score plugin every node is filtered, not only the first that fits.
        anything = plugin("Anything", score=lambda *_: 1)
        self.world = World(*plugins, anything, cycle_seconds=budget)
        self.world.nodes(*(f"n{number}" for number in range(nodes)))
        return self.world


def test_a_cycle_within_its_budget_leaves_no_trace() -> None:
    slow = Slow(filter=0.2)
    world = slow.worlds(plugin("F", filter=slow.method("filter")))
    attempt = world.attempt()
    assert attempt.failure is None
    assert attempt.cost == pytest.approx(0.4)
    assert world.metrics.late_cycles == []
    assert world.engine.statistics()["templates_over_budget"] == 0


def test_a_scalar_filter_is_stopped_at_the_row_that_uses_the_budget_up() -> None:
    slow = Slow(filter=0.2)
    world = slow.worlds(plugin("F", filter=slow.method("filter")), nodes=50)
    failed = world.attempt().failure
    assert failed is not None
    assert slow.calls == ["filter"] * 3
    assert failed.reason == REASON_SCHEDULER_ERROR
    assert failed.pause == FIRST_PAUSE
    assert failed.unschedulable_plugins == frozenset()
    assert "given up after 0.60s of CPU time; it may use 0.5s" in failed.message
    assert "No pod of this template is tried for 10s, then one with 1s" in failed.message
    assert world.metrics.late_cycles == ["given_up"]


@pytest.mark.parametrize(
    ("costly", "spared"),
    [("pre_filter", "filter"), ("filter", "score"), ("filter", "pre_score"), ("score", "reserve")],
)
def test_the_budget_is_checked_between_extension_points(costly: str, spared: str) -> None:
    slow = Slow(**{costly: 0.6})
    methods = {
        "pre_filter": slow.method("pre_filter"),
        "filter": slow.method("filter"),
        "pre_score": slow.method("pre_score"),
        "score": slow.method("score", 1),
        "reserve": slow.method("reserve"),
        "unreserve": slow.method("unreserve"),
    }
    world = slow.worlds(plugin("P", **methods))
    attempt = world.attempt()
    assert attempt.failure is not None
    assert attempt.failure.pause == FIRST_PAUSE
    assert spared not in slow.calls
    assert not world.cache.is_assumed(attempt.info.uid)


def test_scalar_scores_are_stopped_between_rows() -> None:
    slow = Slow(score=0.3)
    world = slow.worlds(plugin("S", score=slow.method("score", 1)), nodes=50)
    assert world.attempt().failure is not None
    assert slow.calls == ["score", "score"]


def test_post_filter_is_not_begun_without_budget() -> None:
    slow = Slow(filter=0.6)
    world = slow.worlds(
        plugin("F", filter=slow.method("filter", unschedulable("full"))),
        plugin("P", post_filter=slow.method("post_filter")),
        nodes=1,
    )
    failed = world.attempt().failure
    assert failed is not None
    assert slow.calls == ["filter"]
    assert failed.pause == FIRST_PAUSE


def test_a_budget_error_raised_in_post_filter_ends_the_cycle() -> None:
    def search(*_: Any) -> Any:
        world.clock.time += 0.6
        world.budget.check()

    world = Slow().worlds(
        plugin("F", filter=lambda *_: unschedulable("full")), plugin("P", post_filter=search)
    )
    assert world.attempt().failure is not None
    assert world.metrics.late_cycles == ["given_up"]


def test_a_late_result_is_kept_and_the_next_pod_is_paused() -> None:
    def late(*_: Any) -> Any:
        world.clock.time += 3.0
        return unschedulable("full")

    world = Slow().worlds(plugin("P", pre_filter=late), nodes=1)
    attempt = world.attempt()
    assert attempt.failure is not None
    assert attempt.failure.unschedulable_plugins == {"P"}
    assert attempt.failure.pause == FIRST_PAUSE
    assert attempt.cost == pytest.approx(3.0)
    assert world.metrics.late_cycles == ["finished_late"]


def hostile_world() -> tuple[Slow, World]:
    slow = Slow(filter=100.0)
    return slow, slow.worlds(plugin("F", filter=slow.method("filter")))


def test_pods_of_the_template_are_set_aside_without_being_tried() -> None:
    slow, world = hostile_world()
    world.attempt(world.pod("first"))
    slow.calls.clear()
    for number in range(100):
        failed = world.attempt(world.pod(f"clone{number}")).failure
        assert failed is not None
        assert failed.message == SET_ASIDE
        assert failed.nominating is None
        assert 0 < failed.pause <= FIRST_PAUSE
    assert slow.calls == []
    assert world.metrics.late_cycles == ["given_up", *["set_aside"] * 100]


def test_other_templates_and_namespaces_are_tried() -> None:
    slow, world = hostile_world()
    world.attempt(world.pod("first"))
    slow.costs.clear()
    assert world.attempt(world.pod("other", **world.requests(100))).failure is None
    elsewhere = world.pod("elsewhere")
    elsewhere.metadata.namespace = "another"
    assert world.attempt(elsewhere).failure is None
    assert world.attempt(world.pod("clone")).failure is not None


def test_pause_and_budget_double_up_to_their_limits() -> None:
    slow, world = hostile_world()
    pauses = []
    for _ in range(8):
        attempt = world.attempt()
        assert attempt.failure is not None
        pauses.append(attempt.failure.pause)
        world.clock.time += attempt.failure.pause
    assert pauses == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0]
    assert len(slow.calls) == 8
    slow.costs["filter"] = 0.5 * MAX_BUDGET_FACTOR / 2
    assert world.attempt().failure is None


def test_a_slow_environment_learns_the_budget_that_its_pods_need() -> None:
    slow = Slow(filter=0.4)
    world = slow.worlds(plugin("F", filter=slow.method("filter")))
    paused = world.attempt(world.pod("first")).failure
    assert paused is not None
    world.clock.time += paused.pause
    for number in range(10):
        assert world.attempt(world.pod(f"p{number}")).failure is None


def test_after_a_cycle_that_kept_its_budget_the_pause_is_a_first_one() -> None:
    slow, world = hostile_world()
    for _ in range(3):
        attempt = world.attempt()
        assert attempt.failure is not None
        world.clock.time += attempt.failure.pause
    slow.costs["filter"] = 0.0
    assert world.attempt(world.pod("good")).failure is None
    slow.costs["filter"] = 100.0
    failed = world.attempt(world.pod("bad")).failure
    assert failed is not None
    assert failed.pause == FIRST_PAUSE


def test_zero_is_no_budget() -> None:
    slow = Slow(filter=100.0)
    world = slow.worlds(plugin("F", filter=slow.method("filter")), budget=float("inf"))
    attempt = world.attempt()
    assert attempt.failure is None
    assert attempt.cost == 0.0


def test_an_examination_outside_of_a_cycle_has_no_budget() -> None:
    _, world = hostile_world()
    world.attempt()
    for _ in range(3):
        world.clock.time += 10.0
        world.budget.check()


# -- cycles that wait


class Late(ScriptedTransport):
    """Answers when the test goes on."""

    async def send(self, *arguments: Any) -> Any:
        await _suspended()
        return await super().send(*arguments)


@types.coroutine
def _suspended() -> Generator[None, None, None]:
    yield


@pytest.mark.parametrize(("waits", "works", "in_time"), [(60.0, 0.1, True), (0.0, 0.2, False)])
def test_a_cycle_may_wait_for_an_extender_and_not_work_longer(
    waits: float, works: float, in_time: bool
) -> None:
    slow = Slow(filter=works, score=works)
    world = slow.worlds(
        plugin("F", filter=slow.method("filter"), score=slow.method("score", 1)), nodes=1
    )
    world.node("another")
    engine = engine_of(world, Late(filter={"NodeNames": ["n0", "another"]}), FILTER)
    info = QueuedPodInfo(world.pod(), 0.0)
    steps = engine.decide(info)
    steps.send(None)
    world.clock.time += waits
    # Whoever looks at pods meanwhile is not within the cycle.
    world.budget.check()
    with pytest.raises(StopIteration) as end:
        steps.send(None)
    attempt = end.value.value
    assert (attempt.failure is None) is in_time
    if in_time:
        assert attempt.cost == pytest.approx(4 * works)
    else:
        assert attempt.failure.pause == FIRST_PAUSE
        with pytest.raises(StopIteration) as end:
            engine.decide(info).send(None)
        assert end.value.value.failure.message == SET_ASIDE


# -- CPU time


class TwoClocks(Clock):
    """Wall time, and CPU time that passes more slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu = 0.0
        self.readings = 0

    def thread_time(self) -> float:
        self.readings += 1
        return self.cpu

    def pass_time(self, wall: float, cpu: float) -> None:
        self.time += wall
        self.cpu += cpu


def test_wall_time_without_cpu_time_is_not_counted() -> None:
    clock = TwoClocks()
    budget = CycleBudget(clock.monotonic, 0.5, clock.thread_time)
    budget.begin(clock.time, 0.5)
    for _ in range(7):
        clock.pass_time(5.0, 0.0625)
        budget.check()
    clock.pass_time(5.0, 0.0625)
    with pytest.raises(CycleBudgetError) as error:
        budget.check()
    assert error.value.used == pytest.approx(0.5)
    with pytest.raises(CycleBudgetError):
        budget.check()
    budget.end()
    budget.check()


def test_ordinary_cycles_share_a_reading_of_the_cpu_clock() -> None:
    clock = TwoClocks()
    budget = CycleBudget(clock.monotonic, 0.5, clock.thread_time)
    for _ in range(40):
        budget.begin(clock.time, 0.5)
        clock.pass_time(0.000_25, 0.000_25)
        budget.check()
        budget.end()
    assert clock.readings <= 3


def test_work_since_the_shared_reading_is_not_charged_to_the_cycle() -> None:
    clock = TwoClocks()
    budget = CycleBudget(clock.monotonic, 0.5, clock.thread_time)
    budget.begin(clock.time, 0.5)
    clock.pass_time(0.004, 0.004)
    budget.end()
    budget.begin(clock.time, 0.5)
    clock.pass_time(0.4, 0.4)
    assert budget.used(clock.time) == pytest.approx(0.4)


def test_a_full_garbage_collection_is_not_charged_to_the_cycle() -> None:
    clock, collections = TwoClocks(), [7]
    budget = CycleBudget(clock.monotonic, 0.5, clock.thread_time, lambda: collections[0])
    budget.begin(clock.time, 0.5)
    clock.pass_time(3.0, 3.0)
    collections[0] += 1
    budget.check()
    assert budget.used(clock.time) == 0.0
    clock.pass_time(0.4, 0.4)
    budget.check()
    clock.pass_time(0.2, 0.2)
    with pytest.raises(CycleBudgetError):
        budget.check()


def test_waiting_is_not_cost() -> None:
    clock = TwoClocks()
    budget = CycleBudget(clock.monotonic, 0.5, clock.thread_time)
    answered = asyncio.Event()

    async def cycle() -> str:
        clock.pass_time(0.2, 0.2)
        budget.check()
        await answered.wait()
        clock.pass_time(0.2, 0.2)
        budget.check()
        return "done"

    async def run() -> None:
        budget.begin(clock.time, 0.5)
        work = asyncio.create_task(_awaited(budget, cycle()))
        await asyncio.sleep(0)
        clock.pass_time(60.0, 10.0)  # others work while the cycle waits
        budget.check()
        answered.set()
        assert await work == "done"
        assert budget.used(clock.time) == pytest.approx(0.4)

    asyncio.run(run())


def test_a_suspended_cycle_still_has_a_budget_and_can_be_cancelled() -> None:
    clock = TwoClocks()
    budget = CycleBudget(clock.monotonic, 0.5, clock.thread_time)

    async def greedy() -> None:
        for _ in range(3):
            clock.pass_time(0.3, 0.3)
            await asyncio.sleep(0)
            budget.check()

    async def forever() -> None:
        await asyncio.Event().wait()

    async def run() -> None:
        budget.begin(clock.time, 0.5)
        with pytest.raises(CycleBudgetError):
            await _awaited(budget, greedy())
        waiting = asyncio.create_task(_awaited(budget, forever()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(run())


async def _awaited(budget: CycleBudget, work: Any) -> Any:
    return await budget.metered(work)


# -- overruns ----------------------------------------------------------------------------------


def test_the_number_of_templates_is_bounded() -> None:
    overruns = Overruns(capacity=3)
    world = World()
    pods = [world.pod(f"p{milli}", **world.requests(milli)) for milli in range(1, 6)]
    for pod in pods:
        overruns.overran(pod, 0.0)
        assert overruns.pause_left(pods[0], 1.0) > 0
    assert len(overruns.by_template) == 3
    assert overruns.pause_left(pods[0], 0.0) == FIRST_PAUSE
    assert overruns.pause_left(pods[1], 0.0) == 0.0


def test_a_pod_that_is_not_interned_is_its_own_template() -> None:
    overruns = Overruns()
    world = World()
    one, other = world.pod("one"), world.pod("other")
    one.interned = other.interned = None
    overruns.overran(one, 0.0)
    assert overruns.pause_left(one, 0.0)
    assert not overruns.pause_left(other, 0.0)
    assert overruns.factor(one) == 2.0


def test_the_longest_pause_equals_the_longest_stay_of_unschedulable_pods() -> None:
    overruns, pod = Overruns(), World().pod()
    for _ in range(50):
        known = overruns.overran(pod, 0.0)
    assert (known.pause, known.factor) == (MAX_PAUSE, MAX_BUDGET_FACTOR)


def test_the_budget_is_checked_between_plugins_of_pre_filter() -> None:
    slow = Slow(first=0.6)
    world = slow.worlds(
        plugin("A", pre_filter=slow.method("first"), filter=slow.method("filter")),
        plugin("B", pre_filter=slow.method("second")),
    )
    assert world.attempt().failure is not None
    assert slow.calls == ["first"]
