"""Questions that would take long are refused before they begin, and slices end in between."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from scheduler import offline
from scheduler.explain.what_if import questions
from scheduler.explain.what_if.changes import ChangeError
from scheduler.explain.what_if.edits import MAX_EDITS
from scheduler.explain.what_if.limits import (
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_VALUES,
    Sizes,
)
from scheduler.explain.what_if.questions import Question, parse
from tests.unit.explain.what_if.live_state import live_state

POD = "default/big"
NODES = 60


@pytest.fixture(autouse=True)
def no_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no slice end early because a collection of garbage took its CPU time."""
    monkeypatch.setattr(questions, "thread_time", lambda: 0.0)


@contextmanager
def world_of_nodes(count: int = NODES) -> Iterator[offline.World]:
    with offline.World() as world:
        world.add_nodes(offline.node("n", cpu=4, labels={"disk": "ssd"}), count=count)
        world.add(offline.pod("big", cpu=8))
        world.schedule()
        yield world


def asked(world: offline.World, slice_seconds: float = 0.004, **fields: Any) -> Question:
    body = json.dumps({"pod": POD, **fields}).encode()
    return Question(world._assembly.trial_parts(), parse(body), slice_seconds=slice_seconds)


def apart_from_references(world: offline.World) -> dict[str, object]:
    """The live state without the signatures that a question under way holds."""
    found = live_state(world)
    del found["references"]
    return found


def removal(name: str) -> dict[str, str]:
    return {"action": "remove", "kind": "Node", "name": name}


def entries(count: int) -> dict[str, str]:
    return {f"k{index}": "1" for index in range(count)}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"add_nodes": [{"count": MAX_EDITS + 1}]}, "count of nodes to add"),
        ({"add_nodes": [{"name": f"a{i}", "count": 100} for i in range(99)]}, "nodes to add: 9900"),
        ({"add_nodes": [{"resources": entries(MAX_ENTRIES + 1)}]}, "resources of a node to add"),
        ({"add_nodes": [{"labels": entries(MAX_ENTRIES + 1)}]}, "labels of a node to add"),
        ({"add_nodes": [{"taints": ["k:NoSchedule"] * 51}]}, "taints of a node to add: 51"),
        ({"drop_nodes": ["a=b"] * 30, "cordon": ["a=b"] * 30}, "nodes to drop or cordon: 60"),
        ({"remove_pods": ["x"] * (MAX_EDITS + 1)}, "pods to remove"),
        ({"changes": [removal("n")] * (MAX_EDITS + 1)}, "changes: "),
        ({"fields": {f"/metadata/labels/{i}": "x" for i in range(51)}}, "fields: 51"),
        ({"fields": {"/spec/tolerations": [{}] * (MAX_ENTRIES + 1)}}, "entries of one list"),
        ({"fields": {"/spec/x": [[[0] * 50] * 50] * 3}}, f"have {MAX_VALUES} values"),
    ],
)
def test_a_question_that_is_too_large_is_refused_at_once(fields: dict[str, Any], text: str) -> None:
    with world_of_nodes(1) as world, pytest.raises(ChangeError, match=text):
        asked(world, **fields)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"cordon": ["disk=ssd", "kubernetes.io/hostname=n-0"]}, ""),
        ({"drop_nodes": ["disk=ssd"], "add_nodes": [{"count": MAX_EDITS}]}, "more than"),
        ({"add_nodes": [{"labels": entries(50), "count": MAX_EDITS}]}, "5000 values"),
        ({"pod": "", "manifest": {"spec": {"tolerations": [{}] * 51}}}, "entries of one list"),
    ],
)
def test_what_is_known_only_on_the_way_is_limited_as_well(
    fields: dict[str, Any], text: str
) -> None:
    with world_of_nodes() as world:
        before = live_state(world)
        question = asked(world, **fields)
        if text:
            with pytest.raises(ChangeError, match=text):
                list(question.run())
        else:
            list(question.run())
        assert live_state(world) == before


def test_fields_that_scheduling_does_not_read_are_not_limited() -> None:
    container = {"name": "c", "env": [{"name": f"E{i}", "value": "x"} for i in range(500)]}
    with world_of_nodes() as world:
        question = asked(world, pod="", manifest={"spec": {"containers": [container]}})
        list(question.run())
    assert question.answer.placed


@pytest.mark.parametrize("depth", [MAX_DEPTH, 5000])
def test_a_deep_value_is_refused(depth: int) -> None:
    deep: list[Any] = []
    for _ in range(depth):
        deep = [deep]
    with pytest.raises(ChangeError, match="nests too deeply"):
        Sizes().add(deep, "it")


def test_every_change_may_end_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a CPU clock that runs a second at each look, no two changes share a slice."""
    times = iter(range(1_000_000))
    monkeypatch.setattr(questions, "thread_time", lambda: next(times))
    anti = {"topologyKey": "disk", "labelSelector": {"matchLabels": {"a": "b"}}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [anti, {**anti, "topologyKey": "z"}]}
    fields = {"/spec/affinity": {"podAntiAffinity": rule}}
    with world_of_nodes() as world:
        question = asked(world, fields=fields, cordon=["disk=ssd"], drop_nodes=["n-1", "n-2"])
        slices = len(list(question.run()))
    # Three selectors, the changes of 60 nodes of which two are dropped, and two terms.
    assert slices >= 3 + NODES + 4


def test_objects_that_change_while_changes_are_decoded_are_taken_as_they_are() -> None:
    with world_of_nodes(3) as world:
        question = asked(world, cordon=["n-0", "n-1"], remove_pods=["gone", "stays"])
        world.add(offline.pod("gone", node="n-2"))
        world.add(offline.pod("stays", node="n-2"))
        world._settle()
        steps = question.run()
        next(steps)
        world.remove("Node", "n-1")
        world.remove("Pod", "gone", "default")
        world._settle()
        before = apart_from_references(world)
        list(steps)
        assert question.answer.nodes == 2
        assert apart_from_references(world) == before


@pytest.mark.parametrize("kind", ["Pod", "Node"])
def test_an_object_created_meanwhile_ends_the_question(kind: str) -> None:
    made = offline.pod("new") if kind == "Pod" else offline.node("new")
    name = "default/new" if kind == "Pod" else "new"
    with world_of_nodes(3) as world:
        change = {"action": "add", "kind": kind, "name": name, "value": made}
        steps = asked(world, changes=[change]).run()
        next(steps)
        world.add(made)
        world.schedule()
        before = apart_from_references(world)
        with pytest.raises(ChangeError, match="created just now"):
            list(steps)
        assert apart_from_references(world) == before


def test_changes_of_one_object_build_on_each_other() -> None:
    def change(action: str, path: str = "", value: Any = None) -> dict[str, Any]:
        return {"action": action, "kind": "Node", "name": "new", "path": path, "value": value}

    changes = [
        change("add", value=offline.node("new", cpu=1)),
        change("set", "/status/allocatable/cpu", "2"),
        change("remove"),
        change("add", value=offline.node("new", cpu=16)),
        change("set", "/spec/unschedulable", True),
        change("set", "/spec/unschedulable", None),
    ]
    with world_of_nodes(3) as world:
        before = live_state(world)
        question = asked(world, changes=changes)
        list(question.run())
        assert question.answer.placed == ["new"]
        assert live_state(world) == before


def test_a_random_body_is_read_or_refused() -> None:
    chance, refused = random.Random(1), 0
    good = json.dumps({"pod": POD, "fields": {"/spec/priority": 1}, "copies": 3}).encode()
    with world_of_nodes(1) as world:
        for _ in range(500):
            body = bytearray(good)
            for _ in range(chance.randint(1, 4)):
                body[chance.randrange(len(body))] = chance.randrange(256)
            try:
                list(
                    Question(
                        world._assembly.trial_parts(), parse(bytes(body)), slice_seconds=1
                    ).run()
                )
            except (ChangeError, LookupError):
                refused += 1
    assert refused
