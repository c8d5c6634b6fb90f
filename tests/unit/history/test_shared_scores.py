"""Decisions share the scores of the best nodes, and each tells the moment it was made."""

from __future__ import annotations

from typing import Any, Final

from scheduler.engine import Attempt, Framework
from scheduler.framework import QueuedPodInfo, Registry
from scheduler.framework.extension_points import SCORE
from scheduler.history import Decision, DecisionHistory, DecisionRecorder
from scheduler.history.remembered import Remembered
from tests.unit.engine.harness import PROFILE, QUEUE_SORT, Handle, World, plugin, profile
from tests.unit.explain.examining.explaining import ExplainedWorld, in_tree_world

MANY: Final = 40


class Recorded:
    """A world whose attempts are recorded, and what each record was right after its attempt."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.history = DecisionHistory()
        self.recorder = DecisionRecorder(self.history, world.cache.table, world.clock.monotonic)
        self.at_once: dict[str, Decision] = {}

    def place(self, name: str, **spec: Any) -> Decision:
        attempt: Attempt = self.world.engine.attempt(
            QueuedPodInfo(self.world.pod(name, **spec), 0.0, attempts=1)
        )
        self.recorder.record(attempt)
        self.at_once[name] = self.now()[name]
        return self.at_once[name]

    def now(self) -> dict[str, Decision]:
        return {each.pod.removeprefix("default/"): each for each in self.history.every()}

    def kept(self, name: str) -> Remembered:
        found = self.history.last(f"default/{name}", name, 1)
        assert found is not None
        return found


def add_node(world: ExplainedWorld, name: str, cpu: str = "64") -> None:
    world.node(name, allocatable={"cpu": cpu, "memory": "256Gi", "pods": "500"})


def equal_nodes() -> Recorded:
    """Make so many equal nodes that the chosen one is hardly ever among the first."""
    world = in_tree_world()
    for number in range(MANY):
        add_node(world, f"n{number}")
    return Recorded(world)


def test_the_best_nodes_are_those_with_the_highest_totals() -> None:
    recorded = equal_nodes()
    searched = 0
    for number in range(MANY):
        # So small that several pods go to one node before its total sinks below those of others.
        requests = {"requests": {"cpu": "100m", "memory": "64Mi"}}
        spec = {"containers": [{"name": "c", "resources": requests}]}
        decision = recorded.place(f"p{number}", **spec)
        scored = recorded.world.algorithm.scored
        assert scored is not None
        _, totals, _, equal = scored
        searched += equal is not None
        highest = sorted(totals.tolist(), reverse=True)[: len(decision.best)]
        assert sorted((each.total for each in decision.best), reverse=True) == highest
        assert decision.best[0].node == decision.node
    assert 0 < searched < MANY


def test_pods_of_a_template_on_equal_nodes_share_what_is_equal() -> None:
    recorded = equal_nodes()
    decisions = [recorded.place(f"p{number}") for number in range(10)]
    kept = [recorded.kept(f"p{number}").best for number in range(10)]
    assert len({id(each) for each in kept}) < len(kept)
    for decision in decisions:
        assert decision.best[0].node == decision.node
        assert len({each.node for each in decision.best}) == 5
        assert {each.total for each in decision.best} == {decision.score}


def test_a_record_tells_the_moment_of_its_decision_whatever_happens_afterwards() -> None:
    recorded = equal_nodes()
    world: Any = recorded.world
    for number in range(10):
        recorded.place(f"p{number}")
        if number % 3 == 0:
            world.cache.remove_node(f"n{number}")
        if number % 4 == 1:
            add_node(world, f"n{number}", cpu="32")
        if number % 5 == 2:
            add_node(world, f"late-{number}", cpu="128")
    recorded.recorder.replace_frameworks({})
    assert recorded.now() == recorded.at_once


def test_a_node_that_takes_the_row_of_another_is_named() -> None:
    """It is equal to the one before it, so that no total changes."""
    recorded = equal_nodes()
    table = recorded.world.cache.table
    for number in range(4):
        recorded.place(f"p{number}")
    before = recorded.place("before")
    first = min(table.row_of(each.node) or 0 for each in before.best[1:])
    gone = table.names[first]
    recorded.world.cache.remove_node(gone)
    add_node(recorded.world, "heir")  # type: ignore[arg-type]
    assert table.row_of("heir") == first
    after = recorded.place("after")
    assert gone in [each.node for each in before.best]
    assert gone not in [each.node for each in after.best]
    assert "heir" in [each.node for each in after.best]
    assert recorded.now()["before"] == before


def test_a_record_survives_a_profile_with_other_plugins() -> None:
    world = World(plugin("Old", score=lambda _state, _pod, node: int(node.name[1:])))
    world.nodes("n1", "n2", "n3")
    recorded = Recorded(world)
    before = recorded.place("before")
    new = plugin("New", score=lambda _state, _pod, node: 90 - int(node.name[1:]))
    handle: Any = Handle(world)
    points = {"queueSort": [QUEUE_SORT.name], SCORE.yaml: ["New"]}
    framework = Framework(profile(points, weights={"New": 2}), Registry([new, QUEUE_SORT]), handle)
    world.engine.replace_frameworks(
        {PROFILE: framework}, percentage_of_nodes_to_score=0, plugin_time_budget=float("inf")
    )
    recorded.recorder.replace_frameworks({PROFILE: framework})
    after = recorded.place("after")
    assert [each.plugin for each in after.best[0].scores] == ["New"]
    assert after.score == 2 * 89
    assert [each.plugin for each in before.best[0].scores] == ["Old"]
    assert recorded.now() == recorded.at_once


def test_shared_scores_are_counted_once_and_until_the_last_decision_is_gone() -> None:
    recorded = equal_nodes()
    for number in range(3 * MANY):
        recorded.place(f"p{number}")
    history = recorded.history
    held = history.bytes_used
    history.resize(1, 1)
    assert 0 < history.bytes_used < held
    history.resize(0, 1)
    assert history.bytes_used == 0
