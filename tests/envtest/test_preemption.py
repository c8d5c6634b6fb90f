"""Preemption on a real API server: which pods are evicted, and where the preemptor is bound.

No kubelet runs, so a pod without a grace period disappears as soon as it is deleted; a finalizer
keeps a victim terminating for as long as a test needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Json, Workload, until

pytestmark = pytest.mark.envtest

CLASSES: Final[dict[str, Json]] = {
    "mid": {"value": 500},
    "high": {"value": 1000},
    "polite": {"value": 1000, "preemptionPolicy": "Never"},
}
FINALIZER: Final = "example.com/still-here"


@pytest.fixture(scope="module")
def kubestow(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    for name, parts in CLASSES.items():
        control_plane.admin.ensure(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": f"preemption-{name}"}, **parts},
        )
    process = start_kubestow(
        control_plane,
        {"clientConnection": {"qps": 1000, "burst": 1000}, "podInitialBackoffSeconds": 1},
        name="kubestow-preemption",
    )
    yield process
    process.stop_cleanly()


def low(work: Workload, name: str, **parts: Any) -> Json:
    """Create a pod that ends at once when it is deleted."""
    return work.pod(name, cpu="800m", terminationGracePeriodSeconds=0, **parts)


def important(work: Workload, name: str, priority: str = "high", **parts: Any) -> Json:
    return work.pod(name, cpu="800m", priorityClassName=f"preemption-{priority}", **parts)


def set_finalizers(work: Workload, name: str, *finalizers: str) -> None:
    patch = {"metadata": {"finalizers": list(finalizers) or None}}
    path = f"/api/v1/namespaces/{work.namespace}/pods/{name}"
    work.control_plane.admin.request("PATCH", path, patch)


def nomination(work: Workload, name: str) -> str:
    return str(work.pods()[name]["status"].get("nominatedNodeName", ""))


def until_nominated(work: Workload, name: str, node: str) -> None:
    until(lambda: nomination(work, name) == node, f"{name} nominated to {node!r}")


def test_a_pod_of_lower_priority_makes_room(work: Workload) -> None:
    work.node("node-only", cpu="1")
    low(work, "victim")
    work.until_bound("victim")
    made = important(work, "preemptor")
    assert work.until_bound("preemptor")["preemptor"] == "node-only"
    assert "victim" not in work.pods()
    (event,) = until(lambda: work.events("Preempted"), "an event about the victim")
    assert event["regarding"]["name"] == "victim"
    assert event["related"]["name"] == "preemptor"
    preemptor = f"Preempted by pod {made['metadata']['uid']} on node node-only"
    assert event["note"] == f"{preemptor}: its priority is 1000, its scheduler kubestow"
    assert (event["type"], event["action"]) == ("Normal", "Preempting")
    assert work.overfull() == {}


def test_the_preemptor_waits_and_lands_on_its_nominated_node(work: Workload) -> None:
    work.node("node-wait", cpu="1")
    low(work, "victim")
    work.until_bound("victim")
    set_finalizers(work, "victim", FINALIZER)
    important(work, "preemptor")
    until_nominated(work, "preemptor", "node-wait")
    ending = until(
        lambda: (pod := work.pods()["victim"])["metadata"].get("deletionTimestamp") and pod,
        "the victim is ending",
    )
    (condition,) = (
        each for each in ending["status"]["conditions"] if each["type"] == "DisruptionTarget"
    )
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    assert condition["message"] == "kubestow: preempting to accommodate a higher priority pod"
    assert [each["type"] for each in ending["status"]["conditions"]].count("PodScheduled") == 1
    assert "preemptor" not in work.bound()
    assert work.until_rejected("preemptor")["message"].startswith(
        "0/1 nodes are available: 1 Insufficient cpu."
    )
    set_finalizers(work, "victim")
    assert work.until_bound("preemptor")["preemptor"] == "node-wait"


def test_a_disruption_budget_is_respected_where_possible(work: Workload) -> None:
    budgets = f"/apis/policy/v1/namespaces/{work.namespace}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"keep": "yes"}}}
    admin = work.control_plane.admin
    admin.request("POST", budgets, {"metadata": {"name": "keep"}, "spec": spec})
    for number in range(3):
        work.node(f"node-{number}", cpu="1")
        low(work, f"pod-{number}", nodeName=f"node-{number}")
        if number != 1:
            patch = {"metadata": {"labels": {"keep": "yes"}}}
            path = f"/api/v1/namespaces/{work.namespace}/pods/pod-{number}"
            admin.request("PATCH", path, patch)
    important(work, "first")
    assert work.until_bound("first")["first"] == "node-1"
    assert "pod-1" not in work.pods()
    # No other victims are left: now preemption violates the budget.
    important(work, "second")
    assert work.until_bound("second")["second"] in ("node-0", "node-2")
    assert len(work.pods()) == 3


def test_a_preemptor_that_loses_its_place_is_retried(work: Workload) -> None:
    work.node("node-contested", cpu="1")
    low(work, "victim")
    work.until_bound("victim")
    set_finalizers(work, "victim", FINALIZER)
    important(work, "mid", "mid")
    until_nominated(work, "mid", "node-contested")
    important(work, "high")
    until_nominated(work, "high", "node-contested")
    set_finalizers(work, "victim")
    assert work.until_bound("high")["high"] == "node-contested"
    until_nominated(work, "mid", "")
    assert "mid" not in work.bound()
    work.node("node-spare", cpu="1")
    assert work.until_bound("mid")["mid"] == "node-spare"


def test_pods_of_other_schedulers_are_no_victims_and_never_is_never(work: Workload) -> None:
    work.node("node-shared", cpu="1")
    low(work, "theirs", scheduler_name="another-scheduler")
    work.bind("theirs", "node-shared")
    important(work, "ours")
    assert work.until_rejected("ours")["message"].endswith(
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    important(work, "polite", "polite")
    assert work.until_rejected("polite")["message"].endswith(
        "preemption: not eligible due to preemptionPolicy=Never."
    )
    assert "theirs" in work.bound()
    assert work.events("Preempted") == []
