"""The smallest number of nodes is found, and a reason where no number helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import offline
from scheduler.offline.growth import least

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
PERMIT = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      multiPoint: {enabled: [{name: 'tests.unit.offline.waiting_plugins:Slow'}]}
"""


def spread(key: str) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return {"topologySpreadConstraints": [constraint]}


def alone() -> dict[str, Any]:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    }


def web(count: int, name: str = "web", **options: Any) -> tuple[dict[str, Any], int]:
    """A template and the number of its pods."""
    return offline.pod(name, **{"cpu": 3, "labels": {"app": "web"}, **options}), count


@pytest.mark.parametrize(
    ("pods", "nodes", "hopeless"),
    [
        ([web(1)], 0, 0),
        ([web(5)], 2, 0),
        ([web(5, cpu="500m")], 0, 0),
        ([web(4, spec=alone())], 3, 0),
        ([web(1, "large", cpu=32), web(5)], 2, 1),
        ([web(3, cpu=32)], 0, 3),
        # All new nodes are in zone a, and zone b has room for one.
        ([web(6, spec=spread(ZONE))], 1, 3),
    ],
    ids=["fits", "small", "tiny", "apart", "one too large", "all too large", "zones"],
)
def test_the_smallest_number_is_found(
    pods: list[tuple[dict[str, Any], int]], nodes: int, hopeless: int
) -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("old", cpu=4, labels={ZONE: "b"}))
        for pod in pods:
            world.add_pods(pod[0], count=pod[1])
        kind = offline.node("more", cpu=8, labels={ZONE: "a"})
        before = world.copy().schedule().to_json()
        found = offline.nodes_needed(world, kind)
        assert (found.nodes, len(found.hopeless)) == (nodes, hopeless)
        assert all(each.reason.startswith("0/") for each in found.hopeless)
        assert bool(found.with_one_less) is (nodes > 0)
        assert found.on_added == sum(found.nodes_by_pods.values())
        assert len(found.nodes_by_pods) == nodes
        assert world.schedule().to_json() == before, "the world is as it was"


def test_the_answer_names_nodes_and_pods() -> None:
    with offline.World() as world:
        world.add_pods(offline.pod("web", cpu=3), count=3)
        world.add_pods(offline.pod("gated", spec={"schedulingGates": [{"name": "x"}]}))
        found = offline.nodes_needed(world, offline.node("more", cpu=4))
        assert found.nodes == 3
        assert found.nodes_by_pods == {"more-0": 1, "more-1": 1, "more-2": 1}
        assert found.placed == ("default/web-0", "default/web-1", "default/web-2")
        assert found.gated == ("default/gated",)
        (one_less,) = found.with_one_less
        assert one_less.reason.startswith("0/2 nodes are available: 2 Insufficient cpu")


def test_nobody_is_evicted_to_save_a_node() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node(cpu=4))
        world.add_pods(offline.pod("low", cpu=4))
        world.schedule()
        world.add_pods(offline.pod("high", cpu=4, priority=10))
        found = offline.nodes_needed(world, offline.node("more", cpu=4))
        assert (found.nodes, found.evicted_with_one_less) == (1, ("default/low",))


def test_a_limit_ends_the_search() -> None:
    with offline.World() as world:
        world.add_pods(offline.pod("web", cpu=3), count=9)
        kind = offline.node("more", cpu=4)
        found = offline.nodes_needed(world, kind, limit=5)
        assert (found.nodes, len(found.hopeless), found.limited) == (5, 4, True)
        assert not offline.nodes_needed(world, kind, limit=9).limited
        assert offline.nodes_needed(world, kind, limit=0).nodes == 0


def test_pods_that_only_scheduling_rejects_are_hopeless(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(PERMIT)
    annotations = {"example.com/waits-at": "Permit", "example.com/delay": "1"}
    with offline.World(config=config) as world:
        world.add_pods(offline.pod("never", annotations=annotations))
        found = offline.nodes_needed(world, offline.node("more"))
        assert found.nodes == 0
        (hopeless,) = found.hopeless
        assert hopeless.pod == "default/never"


def test_a_node_like_another_has_its_daemon_pods_and_not_its_state() -> None:
    owner = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "log", "controller": True}]
    agent = offline.pod("agent", cpu=1, node="old")
    agent["metadata"]["ownerReferences"] = [{**owner[0], "uid": "u"}]
    with offline.World() as world:
        world.add_nodes(
            offline.node(
                "old",
                cpu=4,
                labels={ZONE: "a"},
                taints=("gpu:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"),
                unschedulable=True,
            )
        )
        world.add(agent)
        tolerating = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
        world.add_pods(offline.pod("web", cpu=2, spec=tolerating), count=2)
        kind = offline.node_like(world, "old")
        assert kind.node["spec"]["taints"] == [{"key": "gpu", "effect": "NoSchedule"}]
        assert kind.node["metadata"]["labels"][ZONE] == "a"
        assert len(kind.pods) == 1
        # Without the agents one node of 4 CPUs would be enough.
        assert offline.nodes_needed(world, kind).nodes == 2
        assert offline.nodes_needed(world, kind.node).nodes == 1
        with pytest.raises(offline.WorldError, match="there is no Node other"):
            offline.node_like(world, "other")


@pytest.mark.slow
@settings(max_examples=15)
@given(
    sizes=st.lists(st.sampled_from([1, 2, 3, 5]), max_size=9),
    free=st.integers(0, 4),
    seed=st.integers(0, 3),
)
def test_every_number_is_the_smallest_with_which_all_are_scheduled(
    sizes: list[int], free: int, seed: int
) -> None:
    def filled(nodes: int) -> offline.World:
        world = offline.World(seed=seed)
        if free:
            world.add_nodes(offline.node("old", cpu=free))
        for number in range(nodes):
            world.add_nodes(offline.node(f"more-{number}", cpu=5))
        for number, cpu in enumerate(sizes):
            world.add_pods(offline.pod(f"web-{number}", cpu=cpu))
        return world

    with filled(0) as world:
        found = offline.nodes_needed(world, offline.node("more", cpu=5))
    assert not found.hopeless
    with filled(found.nodes) as enough:
        assert not enough.schedule().waiting
    if found.nodes:
        with filled(found.nodes - 1) as less:
            assert less.schedule().waiting


@given(answer=st.integers(0, 60), guess=st.integers(0, 60), bound=st.integers(0, 60))
def test_the_search_finds_the_least_number_with_few_questions(
    answer: int, guess: int, bound: int
) -> None:
    asked: list[int] = []

    def fits(number: int) -> bool:
        asked.append(number)
        return number >= answer

    guess = min(guess, bound)
    assert least(fits, guess, bound) == (answer if answer <= bound else None)
    assert all(0 <= each <= bound for each in asked)
    assert len(asked) <= 14
