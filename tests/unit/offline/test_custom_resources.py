"""Custom objects in worlds: listers, events, hints, files, trials and questions have them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from scheduler import offline
from scheduler.api import CustomObject, Named, Pod
from scheduler.explain.records import Change, WhatIfQuestion
from scheduler.explain.what_if.changes import ChangeError
from scheduler.explain.what_if.questions import Answer, Question
from scheduler.framework import (
    ActionType,
    BasePlugin,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    Handle,
    NoArgs,
    NodeInfo,
    QueueingHint,
    Status,
    unresolvable,
)
from scheduler.offline import JsonObject, World, WorldError
from scheduler.testing import Cluster
from scheduler.testing.enabling import EnabledPlugin, world_with
from tests.unit.explain.what_if.live_state import live_state

RACKS = "example.com/v1/racks"


class RackFilter(BasePlugin):
    """Keeps pods off nodes without a rack, and off those of closed racks."""

    name = "example.com/RackFilter"
    required_resources = (RACKS,)

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        self._listers = handle.listers
        self.heard: list[tuple[bool, bool]] = []
        handle.subscriptions.on_object(RACKS, self._changed)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        rack = self._listers[RACKS].get(node.labels.get("rack", ""))
        if rack is None:
            return unresolvable("node(s) without a rack")
        return unresolvable("node(s) in closed racks") if self.closed(rack) else None

    def closed(self, rack: Any) -> bool:
        assert isinstance(rack, CustomObject)
        return bool(rack.spec.get("closed"))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changed = ClusterEvent("racks.v1.example.com", ActionType.ADD | ActionType.UPDATE)
        return [ClusterEventWithHint(changed, self._opened)]

    def _opened(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        return QueueingHint.SKIP if self.closed(new) else QueueingHint.QUEUE

    def _changed(self, old: Any, new: Any) -> None:
        self.heard.append((old is not None, new is not None))


class RackSpec(Named):
    """The part of a rack that is read."""

    spec: dict[str, bool] = {}


class TypedRackFilter(RackFilter):
    """The same filter, with a type of its own for racks."""

    name = "example.com/TypedRackFilter"
    resource_types: ClassVar[Mapping[str, type[Named]]] = {RACKS: RackSpec}

    def closed(self, rack: Any) -> bool:
        assert isinstance(rack, RackSpec)
        return rack.spec.get("closed", False)


def rack(name: str, *, closed: bool = False, **spec: object) -> JsonObject:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Rack",
        "metadata": {"name": name},
        "spec": {"closed": closed, **spec},
    }


def dumped(tmp_path: Path, *items: JsonObject) -> Path:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


@pytest.fixture(params=[RackFilter, TypedRackFilter])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with world_with([EnabledPlugin(request.param)]) as made:
        made.add_nodes(offline.node("n1", labels={"rack": "r1"}))
        yield made


@pytest.mark.parametrize("made", [RackFilter, TypedRackFilter])
def test_a_cluster_of_a_test_has_custom_objects(cluster: Cluster, made: type[RackFilter]) -> None:
    cluster.enable(made)
    cluster.add_node(offline.node("n1", labels={"rack": "r1"}))
    cluster.add_pods(offline.pod("p"))
    cluster.assert_unschedulable("p", plugin=made.name, reason="without a rack")
    cluster.add(rack("r1", closed=True))
    cluster.assert_unschedulable("p", plugin=made.name, reason="without a rack")
    assert cluster.add(rack("r1")) == "r1"
    cluster.assert_scheduled("p", node="n1")
    assert cluster.plugin(made.name).heard == [(False, True), (True, True)]


def test_the_hint_of_a_plugin_decides_about_changes_of_custom_objects(world: World) -> None:
    world.add(rack("r1", closed=True))
    world.add_pods(offline.pod("p"))
    (waiting,) = world.schedule().waiting
    assert "1 node(s) in closed racks" in waiting.reason
    world.add(rack("r2", closed=True))
    world.schedule()
    assert world.waiting()[0].attempts == 1
    world.add(rack("r1"))
    assert [each.node for each in world.schedule().placed] == ["n1"]
    world.remove("Rack", "r1")
    with pytest.raises(WorldError, match=r"there is no racks\.v1\.example\.com r1"):
        world.remove("Rack", "r1")


def test_custom_objects_of_files_are_those_that_a_plugin_reads(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [
                    {
                        "schedulerName": "kubestow",
                        "plugins": {
                            "multiPoint": {"enabled": [{"name": f"{__name__}:TypedRackFilter"}]}
                        },
                    }
                ],
            }
        )
    )
    shelf = {"apiVersion": "example.com/v1", "kind": "Shelf", "metadata": {"name": "s"}}
    other = {"apiVersion": "example.org/v1", "kind": "Rack", "metadata": {"name": "r1"}}
    items = rack("r1"), offline.node("n1", labels={"rack": "r1"}), shelf, other, offline.pod("p")
    objects = offline.Objects.read(dumped(tmp_path, *items))
    assert len(objects) == 5
    with World(objects, config=config) as world:
        assert [each for each in world.notes if "skipped" in each] == [
            "example.com/v1 Shelf: 1 skipped, since scheduling reads no such objects",
            "example.org/v1 Rack: 1 skipped, since scheduling reads no such objects",
        ]
        assert [each.node for each in world.schedule().placed] == ["n1"]
    with World(objects) as plain:
        assert "example.com/v1 Rack: 1 skipped, since scheduling reads no such objects" in (
            plain.notes
        )
        with pytest.raises(WorldError, match=r"example\.com/v1 Rack: scheduling reads no such"):
            plain.add(rack("r1"))


def test_a_malformed_custom_object_is_an_error_that_names_it(world: World) -> None:
    with pytest.raises(WorldError, match=r"racks\.v1\.example\.com r1: .*\$\.spec"):
        world.add({**rack("r1"), "spec": ["not", "a", "mapping"]})


def test_a_trial_takes_custom_objects_back(world: World) -> None:
    world.add_pods(offline.pod("p"))
    world.schedule()
    before = live_state(world)
    with world.trial() as trial:
        assert not trial.place("default/p")
        trial.add(rack("r1"))
        assert trial.place("default/p").node == "n1"
    assert live_state(world) == before


def answer(world: World, *changes: Change) -> Answer:
    world._settle()
    asked = WhatIfQuestion(pod="default/p", changes=list(changes))
    question = Question(world._assembly.trial_parts(), asked, slice_seconds=10.0)
    for _ in question.run():
        pass
    return question.answer


@pytest.mark.parametrize("kind", ["Rack", "Rack.example.com", "racks.v1.example.com"])
def test_a_question_may_change_custom_objects(world: World, kind: str) -> None:
    world.add_pods(offline.pod("p"))
    added = Change("add", kind, "r1", value=rack("r1"))
    closed = Change("set", kind, "r1", "/spec/closed", True)
    gone = Change("remove", kind, "r1")
    assert answer(world).placed == []
    assert answer(world, added).placed == ["n1"]
    assert answer(world, added, closed).placed == []
    assert answer(world, added, closed, gone).placed == []
    world.add(rack("r1"))
    assert answer(world, closed).placed == []
    assert answer(world, gone).placed == []


def test_a_question_about_a_kind_that_nothing_reads_says_what_is_read(world: World) -> None:
    world.add_pods(offline.pod("p"))
    with pytest.raises(ChangeError, match=r"reads no 'Shelf'; .*racks\.v1\.example\.com"):
        answer(world, Change("add", "Shelf", "s", value={"metadata": {"name": "s"}}))
