"""LicenceTokens: no pool gives more tokens than it has, and none is lost."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.licence_tokens.licence_tokens import (
    ANNOTATION,
    FREE,
    MALFORMED,
    MAX_POOLS,
    POOLS,
    LicenceTokens,
    wanted,
)
from scheduler import offline
from scheduler.api import CustomObject, ObjectMeta, Pod
from scheduler.framework import CycleState, Handle, NoArgs, QueueingHint
from scheduler.framework.plugin_class import class_problems
from scheduler.offline import Arrival, JsonObject
from tests.unit.plugins.clusters import Cluster, pod

EXAMPLE = Path(__file__).parents[3] / "examples" / "licence_tokens"


class Gauges:
    """The metrics of the plugin."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, ...], float] = {}

    def gauge(self, name: str, *labels: str, value: float) -> None:
        self.values[name, *labels] = value


class World:
    """The plugin, its pools and its pods."""

    def __init__(self, **pools: object) -> None:
        self.cluster = Cluster()
        self.gauges = Gauges()
        handle = SimpleNamespace(
            listers=self.cluster.objects, subscriptions=self.cluster.objects, metrics=self.gauges
        )
        self.plugin = LicenceTokens(NoArgs(), cast("Handle", handle))
        for name, tokens in pools.items():
            self.pool(name, tokens)
        self._count = 0

    def pool(self, name: str, tokens: object) -> CustomObject:
        made = CustomObject(metadata=ObjectMeta(name=name), spec={"tokens": tokens})
        self.cluster.add_object(POOLS, made)
        return made

    def pod(self, licences: str, node: str = "") -> Pod:
        self._count += 1
        made = pod(metadata={"name": f"p{self._count}", "annotations": {ANNOTATION: licences}})
        made.metadata.uid = f"uid-{self._count}"
        made.spec.node_name = node
        return made

    def reasons(self, made: Pod) -> tuple[str, ...]:
        status = self.plugin.pre_filter(CycleState(), made, cast("Any", None))
        return () if status is None else status.reasons

    def reserve(self, made: Pod) -> bool:
        return self.plugin.reserve(CycleState(), made, "n") is None

    def unreserve(self, made: Pod) -> None:
        self.plugin.unreserve(CycleState(), made, "n")

    def free(self, pool: str) -> float:
        return self.gauges.values[FREE, pool]


@pytest.mark.parametrize(
    ("licences", "reasons"),
    [
        ("", ()),
        ("matlab=2", ()),
        ("matlab=3", ("not enough free tokens in licence pool matlab",)),
        ("matlab=1, ansys=1", ("there is no licence pool ansys",)),
        ("matlab", (MALFORMED,)),
        ("matlab=-1", (MALFORMED,)),
        ("matlab=1,matlab=1", (MALFORMED,)),
        ("matlab=" + "9" * 5_000, (MALFORMED,)),
        (",".join(f"p{number}=1" for number in range(MAX_POOLS + 1)), (MALFORMED,)),
    ],
)
def test_a_pod_needs_free_tokens_in_each_pool(licences: str, reasons: tuple[str, ...]) -> None:
    assert World(matlab=2).reasons(World(matlab=2).pod(licences)) == reasons


@pytest.mark.parametrize("tokens", [None, "3", True, [], -1])
def test_a_pool_without_a_number_has_no_tokens(tokens: object) -> None:
    world = World(matlab=tokens)
    assert world.reasons(world.pod("matlab=1")) == (
        "not enough free tokens in licence pool matlab",
    )


def test_tokens_are_held_from_reserve_until_the_pod_ends() -> None:
    world = World(matlab=2)
    first, second = world.pod("matlab=2"), world.pod("matlab=1")
    assert world.reserve(first)
    assert not world.reserve(second)
    assert world.free("matlab") == 0
    world.cluster.objects.publish("pods", first, None)
    assert world.free("matlab") == 2
    assert world.reserve(second)


def test_unreserve_gives_back_what_was_reserved_and_nothing_else() -> None:
    world = World(matlab=2)
    first, second = world.pod("matlab=1"), world.pod("matlab=1")
    assert world.reserve(first)
    world.unreserve(second)
    world.unreserve(first)
    world.unreserve(first)
    assert world.free("matlab") == 2


def test_a_restarted_plugin_learns_from_bound_pods_who_holds_what() -> None:
    world = World(matlab=2)
    bound = world.pod("matlab=2", node="n")
    for _ in range(2):
        world.cluster.objects.publish("pods", None, bound)
    world.cluster.objects.publish("pods", None, world.pod("broken", node="n"))
    world.cluster.objects.publish("pods", None, world.pod("matlab=1"))
    assert world.free("matlab") == 0


def test_events_about_other_pools_do_not_wake_a_pod() -> None:
    world = World(matlab=0, ansys=0)
    waiting, ansys = world.pod("matlab=1"), world.pod("ansys=1", node="n")
    ended, changed = (each.hint for each in world.plugin.events_to_register())
    assert ended is not None
    assert changed is not None
    assert ended(waiting, ansys, None) is QueueingHint.SKIP
    assert ended(waiting, world.pod("matlab=1", node="n"), None) is QueueingHint.QUEUE
    assert changed(waiting, None, world.pool("ansys", 3)) is QueueingHint.SKIP
    assert changed(waiting, None, world.pool("matlab", 3)) is QueueingHint.QUEUE


def test_pods_of_a_simulated_cluster_take_turns() -> None:
    """Five tokens of the pool in pools.yaml; each pod needs two and runs for a minute."""
    files = EXAMPLE / "pools.yaml"
    with offline.World.load(files, config=EXAMPLE / "config.yaml", plugin_dirs=[EXAMPLE]) as world:
        world.add_nodes(offline.node(cpu=16))
        job = offline.pod("job", annotations={ANNOTATION: "matlab=2"})
        result = world.run(workload=[Arrival(0, job, count=5, duration=60.0)])
        assert sorted(round(each.time, -1) for each in result.placed) == [0, 0, 60, 60, 120]
        world.add_pods(offline.pod("large", annotations={ANNOTATION: "matlab=6"}))
        (waiting,) = world.schedule().waiting
        assert "not enough free tokens in licence pool matlab" in waiting.reason
        with world.trial() as trial:
            trial.add(bigger(6))
            assert trial.place("default/large")
        world.at(world.now + 30, lambda: world.add(bigger(6)))
        (placed,) = world.run(until=world.now + 60).placed
        assert placed.pod == "default/large"


def bigger(tokens: int) -> JsonObject:
    return {
        "apiVersion": "example.com/v1",
        "kind": "LicencePool",
        "metadata": {"name": "matlab"},
        "spec": {"tokens": tokens},
    }


@settings(max_examples=50)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(("reserve", "unreserve", "bound", "ended")), st.integers(0, 5)),
        max_size=40,
    )
)
def test_no_pool_gives_more_than_it_has_and_none_is_lost(steps: list[tuple[str, int]]) -> None:
    world = World(matlab=4)
    pods = [world.pod(f"matlab={number % 3 + 1}") for number in range(6)]
    holding: set[int] = set()
    for step, number in steps:
        made = pods[number]
        if step == "reserve" and number not in holding:
            if world.reserve(made):
                holding.add(number)
        elif step == "bound" and number in holding:
            made.spec.node_name = "n"
            world.cluster.objects.publish("pods", made, made)
        elif step == "unreserve":
            world.unreserve(made)
            holding.discard(number)
        elif step == "ended":
            world.cluster.objects.publish("pods", made, None)
            made.spec.node_name = ""
            holding.discard(number)
        used = sum(wanted(pods[each])["matlab"] for each in holding)
        assert used <= 4
        if (FREE, "matlab") in world.gauges.values:
            assert world.free("matlab") == 4 - used


def test_the_class_has_no_problems() -> None:
    assert list(class_problems(LicenceTokens)) == []
