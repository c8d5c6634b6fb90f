"""KEP-3521 on a real API server, end to end: gated, partly opened, opened, scheduled.

The scheduler never flushes unschedulable pods, so that only the update that clears the gates can
free a pod.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.inspecting import Inspector
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

FIRST: Final = "example.com/first"
SECOND: Final = "example.com/second"
GATED: Final = ("False", "SchedulingGated")
CONNECTION: Final = {"clientConnection": {"qps": 1000, "burst": 1000}}
NO_FLUSH: Final = "--pod-max-in-unschedulable-pods-duration=0s"


@pytest.fixture(scope="module")
def scheduler(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    process = start_kubestow(control_plane, CONNECTION, [NO_FLUSH], name="kubestow-gates")
    yield process
    process.stop_cleanly()


@pytest.fixture
def inspector(control_plane: ControlPlane, scheduler: ManagedProcess) -> Inspector:
    return Inspector(scheduler, control_plane)


@pytest.fixture
def work(
    control_plane: ControlPlane, scheduler: ManagedProcess, request: pytest.FixtureRequest
) -> Iterator[Workload]:
    """Create a namespace named after the test."""
    with Workload(control_plane, request.node.originalname.replace("_", "-")[:63]) as workload:
        yield workload
        assert scheduler.running, scheduler.describe("ended")


def set_gates(work: Workload, name: str, gates: Sequence[str]) -> None:
    path = f"/api/v1/namespaces/{work.namespace}/pods/{name}"
    body = {"spec": {"schedulingGates": [{"name": gate} for gate in gates] or None}}
    work.control_plane.admin.request("PATCH", path, body)


def history(work: Workload, name: str) -> list[tuple[str, str]]:
    """Return status and reason of PodScheduled in every version of a pod, without repeats."""
    path = (
        f"/api/v1/namespaces/{work.namespace}/pods?watch=1&timeoutSeconds=1"
        f"&resourceVersion={work.start}&fieldSelector=metadata.name%3D{name}"
    )
    found: list[tuple[str, str]] = []
    for line in work.control_plane.kubectl("get", "--raw", path).splitlines():
        for each in json.loads(line)["object"]["status"].get("conditions") or ():
            state = (each["status"], each.get("reason", ""))
            if each["type"] == "PodScheduled" and found[-1:] != [state]:
                found.append(state)
    return found


def is_gated(inspector: Inspector, work: Workload, name: str, message: str) -> bool:
    view = inspector.queue(work.namespace).get(name)
    return view is not None and (view["place"], view["message"]) == ("gated", message)


def waiting_for(*gates: str) -> str:
    return f"waiting for scheduling gates: [{' '.join(gates)}]"


def condition(work: Workload, name: str) -> tuple[str, str]:
    found = work.condition(name)
    return found["status"], found.get("reason", "")


def test_a_pod_is_scheduled_when_the_last_gate_is_removed(
    work: Workload, inspector: Inspector
) -> None:
    work.node("node-gates")
    work.pod("gated", gates=[FIRST, SECOND])
    until(lambda: is_gated(inspector, work, "gated", waiting_for(FIRST, SECOND)), "gated")
    assert condition(work, "gated") == GATED
    assert inspector.sample("scheduler_pending_pods", queue="gated") == 1
    set_gates(work, "gated", [SECOND])
    until(lambda: is_gated(inspector, work, "gated", waiting_for(SECOND)), "gated by the other")
    # A pod that came later is bound while the other one waits: it was not merely slow.
    work.pod("free")
    work.until_bound("free")
    assert "gated" not in work.bound()
    assert condition(work, "gated") == GATED
    assert inspector.sample("scheduler_pending_pods", queue="gated") == 1
    assert inspector.queue(work.namespace)["gated"]["attempts"] == 0
    set_gates(work, "gated", [])
    assert work.until_bound("gated")["gated"] == "node-gates"
    until(lambda: not inspector.sample("scheduler_pending_pods", queue="gated"), "none gated")
    assert history(work, "gated") == [GATED, ("True", "")]
    assert work.events("FailedScheduling") == []


def test_a_gated_pod_that_would_fit_nowhere_is_not_called_unschedulable(
    work: Workload, inspector: Inspector
) -> None:
    """No event in the cluster changes that; without its gates the pod is unschedulable."""
    work.node("node-little", cpu="1")
    work.pod("gated", cpu="8", gates=[FIRST])
    until(lambda: is_gated(inspector, work, "gated", waiting_for(FIRST)), "gated")
    # Events that would requeue a pod that was rejected for lack of CPU.
    work.node("node-more", cpu="2")
    work.pod("rejected", cpu="8")
    work.until_rejected("rejected")
    work.pod("passing")
    work.until_bound("passing")
    work.delete_pod("passing")
    until(lambda: inspector.queue(work.namespace)["rejected"]["attempts"] >= 2, "an event")
    view = inspector.queue(work.namespace)["gated"]
    assert (view["place"], view["attempts"]) == ("gated", 0)
    assert history(work, "gated") == [GATED]
    set_gates(work, "gated", [])
    assert work.until_rejected("gated")["reason"] == "Unschedulable"
    assert history(work, "gated") == [GATED, ("False", "Unschedulable")]


def test_a_pod_whose_gates_are_cleared_reaches_the_active_queue(
    work: Workload, inspector: Inspector
) -> None:
    """The KEP's integration test, with the periodic flush off; counted by the queue's metric."""
    work.node("node-many", cpu="8")

    def cleared() -> float:
        return inspector.sample(
            "scheduler_queue_incoming_pods_total",
            queue="active",
            event="TargetPodUpdatePodSchedulingGatesEliminated",
        )

    names = [f"gated-{number:02}" for number in range(20)]
    for name in names:
        work.pod(name, gates=[FIRST])
    until(lambda: inspector.sample("scheduler_pending_pods", queue="gated") == len(names), "gated")
    before = cleared()
    for name in names:
        set_gates(work, name, [])
    assert set(work.until_bound(*names)) >= set(names)
    assert cleared() - before == len(names)
    # Like upstream, kubestow samples one plugin duration in ten, and there were more than twenty.
    assert (
        inspector.sample(
            "scheduler_plugin_execution_duration_seconds_count",
            plugin="SchedulingGates",
            extension_point="PreEnqueue",
        )
        >= 1
    )


def test_with_the_feature_off_a_gated_pod_is_tried_with_backoff(
    control_plane: ControlPlane,
) -> None:
    """The API server refuses the bind, so the pod waits longer after each attempt."""
    process = start_kubestow(
        control_plane,
        {**CONNECTION, "profiles": [{"schedulerName": "ungated"}]},
        [NO_FLUSH],
        feature_gates={"PodSchedulingReadiness": False},
        name="kubestow-ungated",
    )
    inspector = Inspector(process, control_plane)
    with Workload(control_plane, "ungated", scheduler_name="ungated") as work:
        work.node("node-ungated")
        work.pod("gated", gates=[FIRST])
        view = until(
            lambda: (
                (found := inspector.queue("ungated").get("gated"))
                and found["attempts"] >= 2
                and found["place"] == "backoff"
                and found
            ),
            "tried twice",
        )
        assert view["next_retry_reason"] == "backoff after an error"
        assert "non-empty .spec.schedulingGates" in view["message"]
        # Two seconds of backoff follow the second attempt; a loop would have made hundreds.
        assert view["attempts"] <= 4
        assert "gated" not in work.bound()
        set_gates(work, "gated", [])
        assert work.until_bound("gated")["gated"] == "node-ungated"
    process.stop_cleanly()
