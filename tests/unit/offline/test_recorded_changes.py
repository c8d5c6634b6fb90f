"""Worlds of recordings: what others did then happens at its time, and decisions are made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scheduler import offline
from scheduler.offline.experiment import Scenario, Simulation
from scheduler.recording.format import BundleError
from tests.unit.offline.bundle_files import (
    ATTEMPT,
    Line,
    change,
    small,
    stored,
    write_bundle,
)

LATER = "2001-09-09T01:47:00Z"
NODE = stored(offline.node("n", cpu=4))
BIG = offline.node("big", cpu=32)


def pod(name: str = "web", **more: Any) -> dict[str, Any]:
    """Return a pod as it was recorded, with a node if `nodeName` is given."""
    spec = {key: more.pop(key) for key in ("nodeName",) if key in more}
    made = stored(offline.pod(name, cpu=1, **more))
    return {**made, "spec": {**made["spec"], **spec}}


def world(tmp_path: Path, *stream: Line, **options: Any) -> offline.World:
    return offline.World.load(write_bundle(tmp_path / "file", small(*stream)), **options)


def test_pods_and_nodes_come_and_go_at_their_times(tmp_path: Path) -> None:
    stream = [
        change(pod("late", namespace="default"), second=5.0),
        change(stored(BIG), plural="nodes", second=7.0),
        change(pod("later"), second=9.0),
        change(pod("late"), "DELETED", second=60.0),
        change(NODE, "DELETED", "nodes", second=70.0),
    ]
    with world(tmp_path, *stream) as found:
        result = found.run()
        assert {each.pod: each.time for each in result.placed} == {
            "default/web": 0.0, "default/late": 5.0, "default/later": 9.0
        }  # fmt: skip
        assert found.now >= 70.0
        assert sorted(found.placements()) == ["default/later", "default/web"]
        assert found._assembly.tables.get("nodes", "n") is None


def test_decisions_of_the_recorded_scheduler_are_not_repeated(tmp_path: Path) -> None:
    elsewhere = pod(nodeName="moon", labels={"new": "label"})
    elsewhere["status"] = {"phase": "Running", "nominatedNodeName": "moon"}
    with world(tmp_path, change(elsewhere, "MODIFIED", second=3.0)) as found:
        found.run()
        now = found.pod("default/web")
        assert found.placements() == {"default/web": "n"}
        assert now.metadata.labels == {"new": "label"}
        assert now.status.nominated_node_name == ""


def test_pods_of_other_schedulers_are_where_they_were(tmp_path: Path) -> None:
    other = pod("other")
    other["spec"]["schedulerName"] = "other"
    bound = {**other, "spec": {**other["spec"], "nodeName": "n"}}
    stream = [change(other, second=1.0), change(bound, "MODIFIED", second=2.0)]
    with world(tmp_path, *stream) as found:
        found.run(1.5)
        assert "default/other" not in found.placements()
        found.run()
        assert found.placements()["default/other"] == "n"


def test_recorded_victims_are_not_deleted_and_their_successors_do_not_come(
    tmp_path: Path,
) -> None:
    preempting = {"reason": "Unschedulable", "victims": ["default/web"]}
    going = {**pod(nodeName="n")}
    going["metadata"] = {**going["metadata"], "deletionTimestamp": LATER}
    successor = pod()
    successor["metadata"] = {**successor["metadata"], "uid": "web-2"}
    stream: list[Line] = [
        ("attempt", ATTEMPT | {"pod": "default/x", "uid": "x", "outcome": preempting}),
        change(going, "MODIFIED", second=2.0),
        change(going, "DELETED", second=32.0),
        change(successor, second=33.0),
    ]
    with world(tmp_path, *stream) as found:
        found.run()
        assert found.pod("default/web").uid == "web-uid"
        assert not found.pod("default/web").terminating


@pytest.mark.parametrize("bound", [True, False])
def test_a_deletion_by_a_user_happens(tmp_path: Path, bound: bool) -> None:
    going = pod(nodeName="n")
    going["metadata"] = {**going["metadata"], "deletionTimestamp": LATER}
    with world(tmp_path, change(going, "MODIFIED", second=2.0)) as found:
        if not bound:
            found.drop_node("n")
        found.run()
        # What never ran here is gone at once, as in a cluster.
        assert [each.terminating for each in found._assembly.tables.pods.list()] == [True] * bound


def test_what_was_removed_from_the_world_does_not_come_back(tmp_path: Path) -> None:
    with world(tmp_path, change(NODE, "MODIFIED", "nodes", second=2.0)) as found:
        found.drop_node("n")
        found.run()
        assert found._assembly.tables.get("nodes", "n") is None
        assert [each.pod for each in found.waiting()] == ["default/web"]


def test_a_malformed_change_is_named_when_its_time_comes(tmp_path: Path) -> None:
    bad = {**NODE, "status": {"allocatable": {"cpu": "many"}}}
    with (
        world(tmp_path, change(bad, "MODIFIED", "nodes", second=2.0)) as found,
        pytest.raises(BundleError, match=r"malformed delta: .*many"),
    ):
        found.run()


def test_adopted_pods_of_other_schedulers_are_scheduled(tmp_path: Path) -> None:
    other = pod("other")
    other["spec"]["schedulerName"] = "other"
    lines = small(object=[NODE, pod(), other])
    path = write_bundle(tmp_path / "file", lines, kind="Bundle")
    with offline.World.load(path) as found:
        found.schedule()
        assert sorted(found.placements()) == ["default/web"]
    with offline.World.load(path, adopt=True) as found:
        found.schedule()
        assert sorted(found.placements()) == ["default/other", "default/web"]


def test_a_simulation_lasts_as_long_as_the_recording(tmp_path: Path) -> None:
    stream = [change(pod("late"), second=50.0), ("due", {"time": 1e9 + 100, "monotonic": 150.0})]
    path = write_bundle(tmp_path / "file", small(*stream))
    run = Simulation(Scenario((str(path),))).run("default")
    assert run.figures["placed"] == 2
    assert len(run.samples) > 50
    assert run.samples[-1]["time"] >= 50.0
