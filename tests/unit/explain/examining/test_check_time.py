"""Plugins that call `check_time` end with the time of a cycle, a trial or an explanation."""

from __future__ import annotations

from typing import Any

from scheduler.engine.overruns import MAX_BUDGET_FACTOR
from scheduler.explain.examining.trial_decision import TrialDecisions
from scheduler.framework import CycleState, unschedulable
from tests.unit.engine.harness import World, plugin
from tests.unit.explain.examining.explaining import ExplainedWorld

SECONDS = 0.5


def searching(world: list[World]) -> type[Any]:
    """Return a plugin whose Filter takes a tenth of a second for each of a thousand steps."""

    def search(state: CycleState, *_: Any) -> None:
        for _step in range(1000):
            world[0].clock.time += 0.1
            try:
                state.check_time()
            except Exception as error:
                error.add_note("while it searched steps")
                raise

    return plugin("Searching", filter=search)


def test_the_failure_of_a_cycle_tells_what_a_plugin_was_doing() -> None:
    known: list[World] = []
    world = World(searching(known), cycle_seconds=SECONDS)
    known.append(world)
    world.nodes("n1")
    failed = world.attempt().failure
    assert failed is not None
    assert "s of CPU time, while it searched steps; it may use 0.5s" in failed.message
    assert "resource claims" in failed.message


def test_a_trial_ends_within_a_plugin() -> None:
    known: list[World] = []
    world = World(searching(known))
    known.append(world)
    world.nodes("n1")
    before = world.clock.time
    decision = TrialDecisions(world.engine).decide(world.pod(), 0.0, seconds=2.0)
    assert decision.cut
    assert world.clock.time - before < 3.0


def test_an_explanation_ends_within_a_plugin() -> None:
    known: list[World] = []
    world = ExplainedWorld(searching(known), cycle_seconds=SECONDS)
    known.append(world)
    world.nodes("n1")
    world.pending()
    before = world.clock.time
    explained = world.explain()
    assert "an attempt now would end with an error: the scheduling cycle used" in explained.summary
    assert world.clock.time - before < MAX_BUDGET_FACTOR * SECONDS + 1.0


def test_what_other_nodes_lack_besides_takes_no_time_from_the_answer() -> None:
    """The search runs for a node that another plugin rejects, after the answer is known."""
    known: list[World] = []
    rejects = plugin("Rejects", filter=lambda *_: unschedulable("not here"))
    world = ExplainedWorld(rejects, searching(known), cycle_seconds=SECONDS)
    known.append(world)
    world.nodes("n1")
    world.pending()
    before = world.clock.time
    explained = world.explain()
    assert explained.nodes is not None
    assert [each.reasons for each in explained.nodes.rejections] == [("not here",)]
    assert not explained.nodes.error
    assert world.clock.time > before + SECONDS, "it was searched for"
