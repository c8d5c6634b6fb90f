"""Scheduler or API server stop in the middle: no pod is lost and none bound twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

PODS = 200
NODES = 10
# A rate at which binding all pods takes twenty seconds, and few concurrent binds: otherwise the
# drain after SIGTERM would complete all of them.
SLOWLY = {"clientConnection": {"qps": 10, "burst": 10}, "kubestow": {"bindConcurrency": 1}}


def create(work: Workload) -> None:
    for number in range(NODES):
        work.node(f"restart-{number}", cpu="2100m", pods=PODS)
    for number in range(PODS):
        work.pod(f"pod-{number:03}", cpu="100m")


def more_are_bound(work: Workload, than: int) -> bool:
    return len(work.bound()) > than


def check(work: Workload, earlier: dict[str, str]) -> None:
    """Assert that all pods are bound, to their earlier nodes, and that no node is overcommitted."""
    nodes = work.until_bound()
    assert len(nodes) == PODS
    assert earlier.items() <= nodes.items()
    assert work.overfull() == {}
    counts = [event["regarding"]["uid"] for event in work.events("Scheduled")]
    assert len(counts) == len(set(counts)), "an event for each pod at most"


@pytest.fixture
def work(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Workload]:
    name = request.node.name.replace("_", "-").replace("[", "-").rstrip("]").lower()
    with Workload(control_plane, name) as workload:
        yield workload


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
def test_restart(control_plane: ControlPlane, work: Workload, number: signal.Signals) -> None:
    work.follow()
    create(work)
    started: list[ManagedProcess] = []
    for restart in range(3):
        before = work.bound()
        process = start_kubestow(control_plane, SLOWLY, name=f"kubestow-restart-{number.name}")
        started.append(process)
        if restart == 2:
            break
        until(partial(more_are_bound, work, len(before) + 20), "some more bound")
        if number is signal.SIGTERM:
            process.stop_cleanly()
        else:
            process.kill()
        assert len(before) < len(work.bound()) < PODS, "this is the middle"
    check(work, before)
    assert set(work.bindings().values()) == {1}
    if number is signal.SIGTERM:
        until(lambda: len(work.events("Scheduled")) == PODS, "every bind has its event")
    started[-1].stop()


@pytest.mark.parametrize("crash", [False, True], ids=["restarted", "killed"])
def test_the_api_server_stops(fresh_control_plane: ControlPlane, crash: bool) -> None:
    with Workload(fresh_control_plane, "outage") as work:
        create(work)
        process = start_kubestow(fresh_control_plane, SLOWLY)
        until(lambda: len(work.bound()) > 50, "some bound")
        before = work.bound()
        assert len(before) < PODS, "this is the middle"
        if crash:
            fresh_control_plane.kill_apiserver()
            fresh_control_plane.start_apiserver()
        else:
            fresh_control_plane.restart_apiserver()
        check(work, before)
        work.pod("afterwards")
        work.until_bound("afterwards")
        assert process.running, process.describe("ended")
        process.stop_cleanly()
