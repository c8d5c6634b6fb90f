"""Replacing the frameworks of an engine: attempts under way keep theirs."""

from __future__ import annotations

from scheduler.engine import Framework
from scheduler.framework import QueuedPodInfo, Registry, Status, unschedulable
from scheduler.framework.extension_points import FILTER
from scheduler.framework.extension_points import QUEUE_SORT as QUEUE_SORT_POINT
from tests.unit.engine.harness import PROFILE, QUEUE_SORT, World, plugin, profile


def replace(world: World, frameworks: dict[str, Framework], percentage: int = 0) -> None:
    world.engine.replace_frameworks(
        frameworks, percentage_of_nodes_to_score=percentage, plugin_time_budget=float("inf")
    )


def rejecting(world: World, name: str = PROFILE) -> Framework:
    """Return a framework whose only filter rejects every node."""
    reject = plugin("Reject", filter=lambda state, pod, node: unschedulable("never"))
    points = {FILTER.yaml: ["Reject"], QUEUE_SORT_POINT.yaml: [QUEUE_SORT.name]}
    given = profile(points, scheduler_name=name)
    return Framework(given, Registry([reject, QUEUE_SORT]), world.framework.handle)


def test_next_attempt_runs_the_new_plugins() -> None:
    world = World()
    world.nodes("a")
    assert world.chosen() == "a"
    replace(world, {PROFILE: rejecting(world)})
    assert "never" in world.failure_message()


def test_framework_that_stays_keeps_its_results_and_a_new_one_has_none() -> None:
    world = World()
    world.nodes("a")
    world.chosen()
    before = world.engine.algorithms[PROFILE]
    replace(world, {PROFILE: world.framework, "other": rejecting(world, "other")})
    assert world.engine.algorithms[PROFILE] is before
    replace(world, {PROFILE: world.framework}, percentage=50)
    assert world.engine.algorithms[PROFILE] is not before


def test_attempt_under_way_ends_with_its_own_plugins_although_the_profile_is_gone() -> None:
    unreserved: list[str] = []

    def unreserve(state: object, pod: object, node: str) -> None:
        unreserved.append(node)

    def reserve(state: object, pod: object, node: str) -> Status | None:
        replace(world, {})
        return None

    world = World(plugin("Reserving", reserve=reserve, unreserve=unreserve))
    world.nodes("a")
    attempt = world.engine.attempt(QueuedPodInfo(world.pod(), 0.0))
    assert attempt.failure is None
    assert world.engine.abandon(attempt)
    assert unreserved == ["a"]
