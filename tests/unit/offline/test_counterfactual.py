"""The same arrivals, run times and nodes, with other decisions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from config import Configuration
from scheduler.api.meta import Condition
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.client.deltas import Delta, DeltaType
from scheduler.client.resources import NODES, PODS
from scheduler.framework import Registry
from scheduler.offline import node as node_manifest
from scheduler.offline import pod as pod_manifest
from scheduler.offline.assembly import read
from scheduler.offline.counterfactual import replay
from scheduler.offline.happenings import Happenings

BEGAN = 1_000_000.0
NAME = "default-scheduler"


def profile(strategy: str = "LeastAllocated") -> tuple[Configuration, Registry]:
    scoring = {"type": strategy, "resources": [{"name": "cpu", "weight": 1}]}
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": scoring}}
    text = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": NAME, "pluginConfig": [fit]}],
    }
    from pathlib import Path
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(text))
        return read(path, (), {})


def a_node(name: str, cpu: float = 4) -> Node:
    found: Node = NODES.decode(json.dumps(node_manifest(name, cpu=cpu)).encode())
    return found


def a_pod(name: str, cpu: float = 1, **spec: Any) -> Pod:
    manifest = json.loads(json.dumps(pod_manifest(name, cpu=cpu)))
    manifest["spec"] |= {"schedulerName": NAME, **spec}
    manifest["metadata"] |= {"uid": f"uid-{name}", "namespace": "default"}
    found: Pod = PODS.decode(json.dumps(manifest).encode())
    return found


class Story:
    """Tells happenings second by second."""

    def __init__(self, *nodes: Node, pods: Sequence[Pod] = ()) -> None:
        self.happenings = Happenings([NAME])
        self.happenings.begin({"nodes": nodes, "pods": pods}, BEGAN)
        self.known: dict[str, Pod] = {each.uid: each for each in pods}

    def arrives(self, time: float, pod: Pod) -> None:
        self.known[pod.uid] = pod
        self._note(time, "pods", Delta(DeltaType.ADDED, pod))

    def bound(self, time: float, pod: Pod, node: str) -> None:
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        new = msgspec.structs.replace(pod, spec=spec)
        self._note(time, "pods", Delta(DeltaType.MODIFIED, new, self.known[pod.uid]))
        self.known[pod.uid] = new

    def ends(self, time: float, pod: Pod, *, preempted: bool = False) -> None:
        old = self.known.pop(pod.uid)
        if preempted:
            reason = Condition("DisruptionTarget", "True", "PreemptionByScheduler")
            old = msgspec.structs.replace(
                old, status=msgspec.structs.replace(old.status, conditions=(reason,))
            )
        self._note(time, "pods", Delta(DeltaType.DELETED, old, old))

    def node(self, time: float, node: Node) -> None:
        self._note(time, "nodes", Delta(DeltaType.ADDED, node))

    def _note(self, time: float, plural: str, delta: Delta[Any]) -> None:
        self.happenings.note(plural, [delta], BEGAN + time)


def test_what_waited_there_is_placed_at_once_here() -> None:
    """The scheduler in force took 30 s to see that there is room."""
    story, waits = Story(a_node("n1")), a_pod("a", cpu=3)
    story.arrives(10, waits)
    story.bound(40, waits, "n1")
    found = replay(story.happenings, *profile(), BEGAN + 60)
    assert (found.seconds, found.there["placed"], found.here["placed"]) == (60.0, 1, 1)
    assert found.there["wait_max"] == pytest.approx(30.0)
    assert found.here["wait_max"] < 1.0
    halfway = next(each for each in found.moments if each.time >= 30)
    assert (halfway.there["waiting"], halfway.here["waiting"]) == (1, 0)
    assert halfway.there["cpu_allocation"] == 0.0
    assert halfway.here["cpu_allocation"] == pytest.approx(75.0)


def test_a_pod_runs_as_long_as_it_did_there() -> None:
    story, first, second = Story(a_node("n1")), a_pod("a", cpu=3), a_pod("b", cpu=3)
    story.arrives(0, first)
    story.arrives(1, second)
    story.bound(20, first, "n1")
    story.ends(30, first)
    story.bound(31, second, "n1")
    found = replay(story.happenings, *profile(), BEGAN + 60)
    # Placed at once here, it ends after the 10 s that it ran there, and makes room then.
    assert found.here["placed"] == 2
    assert found.here["wait_max"] == pytest.approx(9.0, abs=2.0)
    assert found.there["wait_max"] == pytest.approx(30.0)


def test_packing_leaves_room_for_large_pods() -> None:
    nodes = [a_node(f"n{index}", cpu=8) for index in range(4)]
    story = Story(*nodes)
    for index in range(8):
        small = a_pod(f"small-{index}", cpu=2)
        story.arrives(index, small)
        story.bound(index + 0.1, small, f"n{index % 4}")
    for index in range(2):
        story.arrives(20 + index, a_pod(f"large-{index}", cpu=8))
    found = replay(story.happenings, *profile("MostAllocated"), BEGAN + 60)
    assert (found.there["waiting"], found.here["waiting"]) == (2, 0)
    assert found.there["cpu_fragmentation_mean"] > found.here["cpu_fragmentation_mean"]


def test_nodes_come_and_pods_of_others_are_as_they_were() -> None:
    story, other = Story(a_node("n1")), a_pod("other", cpu=4, schedulerName="else")
    story.arrives(1, other)
    story.bound(2, other, "n1")
    waits = a_pod("a", cpu=4)
    story.arrives(5, waits)
    story.node(20, a_node("n2"))
    story.bound(25, waits, "n2")
    found = replay(story.happenings, *profile(), BEGAN + 60)
    assert found.here["placed"] == 1
    assert found.here["wait_max"] == pytest.approx(15.0, abs=1.0)
    assert found.there["wait_max"] == pytest.approx(20.0)


def test_evictions_of_both_are_counted() -> None:
    low, high = a_pod("low", cpu=4), a_pod("high", cpu=4, priority=10)
    story = Story(a_node("n1"))
    story.arrives(0, low)
    story.bound(1, low, "n1")
    story.arrives(10, high)
    story.ends(12, low, preempted=True)
    story.bound(13, high, "n1")
    found = replay(story.happenings, *profile(), BEGAN + 60)
    assert (found.there["evicted"], found.here["evicted"]) == (1, 1)


def test_a_pod_that_never_ran_there_goes_at_its_time() -> None:
    story, waits = Story(a_node("n1", cpu=1)), a_pod("a", cpu=4)
    story.arrives(0, waits)
    story.ends(30, waits)
    found = replay(story.happenings, *profile(), BEGAN + 60)
    assert (found.there["waiting"], found.here["waiting"]) == (0, 0)
    assert found.moments[10].here["waiting"] == 1


def test_it_ends_where_there_was_no_room_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.offline.happenings.MAX_PODS", 2)
    story = Story(a_node("n1"))
    for index in range(5):
        story.arrives(10 * index, a_pod(f"a-{index}"))
    assert len(story.happenings.lives) == 2
    found = replay(story.happenings, *profile(), BEGAN + 60)
    assert found.seconds == 10.0
    assert any("more happened than is kept" in each for each in found.notes)
