"""Equal pods in a row are placed as if each were attempted by itself."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.engine_world import PROFILE, EngineWorld
from benchmarks.growth_workloads import KINDS, pod
from scheduler import offline
from scheduler.engine.repetition import EqualPods

ZONE = "topology.kubernetes.io/zone"
SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "spread"}},
}
TEMPLATES: tuple[dict[str, Any], ...] = (
    offline.pod("small", cpu=0.1, memory="64Mi"),
    offline.pod("large", cpu=1, memory="1Gi"),
    offline.pod("one-zone", cpu=0.1, spec={"nodeSelector": {ZONE: "z1"}}),
    offline.pod("port", spec={"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}),
    offline.pod(
        "spread", cpu=0.1, labels={"app": "spread"}, spec={"topologySpreadConstraints": [SPREAD]}
    ),
    offline.pod("first", cpu=0.3, priority=10),
)
"""Pods that are repeated, that cannot be, and that soon fit nowhere."""

Steps = list[tuple[int, int, float, str]]
"""Template, number of pods, seconds until the next step, and what else happens then."""


def result_of(steps: Steps, seed: int) -> str:
    """Return the result of a run, and what was recorded about its decisions."""
    with offline.World(seed=seed) as world:
        for number in range(6):
            labels = {ZONE: f"z{number % 3}"}
            world.add_nodes(offline.node(f"n{number}", cpu=2 + number % 2, labels=labels))
        time, workload = 0.0, []
        for number, (template, count, pause, other) in enumerate(steps):
            name = f"p{number}"
            each = TEMPLATES[template % len(TEMPLATES)]
            workload.append(offline.Arrival(time, each, 50.0, name=name, count=count))
            if other == "node":
                node = offline.node(f"new-{number}", cpu=1, labels={ZONE: "z0"})
                world.at(time + pause / 2, partial(world.add_nodes, node))
            elif other == "label":
                node = offline.node("n0", cpu=2, labels={ZONE: "z2"})
                world.at(time + pause / 2, partial(world.add, node))
            time += pause
        found = world.run(until=time + 20.0, workload=workload)
        decisions = [str(each.decision) for each in found.placed]
        decisions += [str(each.decision) for each in found.waiting]
        return found.to_json().decode() + "\n".join(decisions)


@settings(max_examples=12)
@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, len(TEMPLATES) - 1),
            st.integers(1, 14),
            st.sampled_from([0.0, 0.0, 0.001, 1.0, 60.0]),
            st.sampled_from(["", "", "node", "label"]),
        ),
        min_size=1,
        max_size=8,
    ),
    seed=st.integers(0, 3),
)
def test_results_are_the_same_as_of_single_attempts(steps: Steps, seed: int) -> None:
    repeated = result_of(steps, seed)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(EqualPods, "before", lambda _self, _attempt: None)
        assert result_of(steps, seed) == repeated


def test_only_the_first_of_equal_pods_runs_a_whole_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    world = EngineWorld(20)
    searched: list[object] = []
    search = world.engine.algorithms[PROFILE].search
    find = search.find

    def counted(*arguments: Any) -> Any:
        searched.append(arguments)
        return find(*arguments)

    monkeypatch.setattr(search, "find", counted)
    for each in [pod(world, KINDS["plain"]) for _ in range(30)]:
        assert world.attempt(each).failure is None
    assert len(searched) == 1
    world.attempt(world.pod(cpu="200m"))
    world.attempt(pod(world, KINDS["plain"]))
    assert len(searched) == 3


def test_a_change_of_a_node_ends_a_row() -> None:
    world = EngineWorld(20)
    equal = EqualPods(world.cache.table)
    first, second = (world.attempt(pod(world, KINDS["plain"])) for _ in range(2))
    equal.after(first)
    assert equal.before(second) is not None
    equal.after(second)
    world.cache.remove_node("node-000003")
    assert equal.before(first) is None


def test_nothing_is_repeated_with_plugins_that_are_no_longer_in_force() -> None:
    world = EngineWorld(20)
    engine = world.engine
    equal = EqualPods(world.cache.table)
    first = world.attempt(pod(world, KINDS["plain"]))
    equal.after(first)
    engine.replace_frameworks(
        engine.frameworks, percentage_of_nodes_to_score=100, plugin_time_budget=1.0
    )
    second = world.attempt(pod(world, KINDS["plain"]))
    equal.after(first)
    assert equal.before(second) is None
