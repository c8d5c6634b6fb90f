"""Pods of a real API server are scheduled, rejected with a reason, or left to other schedulers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest


@pytest.fixture(scope="module")
def kubestow(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    """Run one scheduler for all tests here, without upstream's rate limits for its client."""
    process = start_kubestow(
        control_plane,
        {"clientConnection": {"qps": 1000, "burst": 1000}},
        name="kubestow-scheduling",
    )
    yield process
    process.stop_cleanly()


def test_200_pods_go_to_50_nodes(work: Workload) -> None:
    work.follow()
    # Exactly full: 4 pods of 900m fit on a node of 4 CPUs, and there are 4 for each.
    for number in range(50):
        work.node(f"node-{number:02}", cpu="4")
    for number in range(200):
        work.pod(f"pod-{number:03}", cpu="900m")
    assert len(work.until_bound()) == 200
    assert work.overfull() == {}
    assert set(work.bindings().values()) == {1}
    until(lambda: len(work.events("Scheduled")) == 200, "an event for each pod")


def test_a_gated_pod_waits_for_its_gate(work: Workload) -> None:
    work.node("node-gate")
    work.pod("gated", gates=["example.com/wait"])
    work.pod("free")
    work.until_bound("free")
    condition = work.condition("gated")
    assert (condition["status"], condition["reason"]) == ("False", "SchedulingGated")
    assert "gated" not in work.bound()
    assert work.events("FailedScheduling") == []
    work.open_gates("gated")
    assert work.until_bound("gated")["gated"] == "node-gate"
    assert work.condition("gated")["status"] == "True"


def test_a_pod_that_fits_nowhere_shows_why_and_fits_later(work: Workload) -> None:
    work.node("node-small", cpu="1")
    work.node("node-tainted", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    made = work.pod("large", cpu="2")
    condition = work.until_rejected("large")
    assert condition["status"] == "False"
    assert condition["reason"] == "Unschedulable"
    assert condition["message"].startswith(
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    )
    assert condition["observedGeneration"] == made["metadata"]["generation"]
    (event,) = until(lambda: work.events("FailedScheduling"), "an event")
    assert event["type"] == "Warning"
    assert event["action"] == "Scheduling"
    assert event["note"] == condition["message"]
    assert event["regarding"]["uid"] == made["metadata"]["uid"]
    assert event["reportingController"] == "kubestow"
    work.node("node-large", cpu="4")
    assert work.until_bound("large")["large"] == "node-large"
    condition = work.condition("large")
    assert (condition["status"], condition.get("reason")) == ("True", None)


def test_pods_of_other_schedulers_are_left_alone_but_counted(work: Workload) -> None:
    work.node("node-shared", cpu="1")
    work.pod("theirs", cpu="800m", scheduler_name="another-scheduler")
    work.bind("theirs", "node-shared")
    work.pod("not-ours", cpu="100m", scheduler_name="absent")
    work.pod("ours", cpu="500m")
    assert "Insufficient cpu" in work.until_rejected("ours")["message"]
    assert work.condition("not-ours") == {}
    work.delete_pod("theirs")
    work.until_bound("ours")


HOLD = '''
from pathlib import Path
import asyncio


class Hold:
    """Delays pods before they are bound, until a file exists."""

    name = "Hold"

    def __init__(self, args, handle):
        self.directory = Path(__file__).parent

    async def pre_bind(self, state, pod, node_name):
        (self.directory / f"held-{pod.metadata.name}").touch()
        while not (self.directory / f"go-{pod.metadata.name}").exists():
            await asyncio.sleep(0.01)
'''


@pytest.fixture
def held(control_plane: ControlPlane, tmp_path: Path) -> Iterator[tuple[Workload, Path]]:
    """Run a scheduler whose binds wait for files in a directory."""
    (tmp_path / "kubestow_hold.py").write_text(HOLD)
    profile = {
        "schedulerName": "holding",
        "plugins": {"multiPoint": {"enabled": [{"name": "kubestow_hold:Hold"}]}},
    }
    process = start_kubestow(
        control_plane,
        {"profiles": [profile]},
        [f"--plugin-dir={tmp_path}"],
        name="kubestow-holding",
    )
    with Workload(control_plane, "held", scheduler_name="holding") as workload:
        yield workload, tmp_path
    process.stop_cleanly()


def hold(directory: Path, name: str) -> None:
    until((directory / f"held-{name}").exists, f"{name} held before its bind")


def release(directory: Path, name: str) -> None:
    (directory / f"go-{name}").touch()


def test_a_bind_that_comes_too_late_is_not_a_failure(held: tuple[Workload, Path]) -> None:
    """409: another scheduler bound the pod first. 404: it was deleted meanwhile."""
    work, directory = held
    work.follow()
    work.node("node-first", cpu="1")
    work.pod("taken", cpu="400m")
    work.pod("deleted", cpu="400m")
    work.pod("recreated", cpu="200m")
    for name in ("taken", "deleted", "recreated"):
        hold(directory, name)
    work.node("node-second", cpu="1")
    work.bind("taken", "node-second")
    work.delete_pod("deleted")
    work.delete_pod("recreated")
    again = work.pod("recreated", cpu="200m")
    for name in ("taken", "deleted", "recreated"):
        release(directory, name)
    # The new pod of that name is no longer delayed, and the resources of the others are free.
    work.until_bound("recreated")
    work.pod("filler", cpu="700m")
    hold(directory, "filler")
    release(directory, "filler")
    nodes = work.until_bound("filler")
    assert nodes["taken"] == "node-second"
    assert nodes["filler"] == "node-first"
    assert work.pods()["recreated"]["metadata"]["uid"] == again["metadata"]["uid"]
    for name in nodes:
        assert work.condition(name)["status"] == "True"
    assert set(work.bindings().values()) == {1}
    assert work.overfull() == {}
