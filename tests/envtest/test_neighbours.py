"""Other schedulers on a real API server: nominations, victims, and kubelets that reject pods.

No kubelet runs: the test writes what another scheduler or a kubelet would write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.inspecting import Inspector
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Json, Workload, until

pytestmark = pytest.mark.envtest

THEIRS: Final = "another-scheduler"
EVICTS_ALL: Final = "kubestow-evicts-all"
CLASSES: Final = {"neighbours-mid": 500, "neighbours-high": 1000}


@pytest.fixture(scope="module")
def kubestow(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    for name, value in CLASSES.items():
        control_plane.admin.ensure(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": name}, "value": value},
        )
    arguments = {"name": "DefaultPreemption", "args": {"victimSchedulers": "All"}}
    process = start_kubestow(
        control_plane,
        {
            "clientConnection": {"qps": 1000, "burst": 1000},
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
            "kubestow": {"kubeletRejectionBackoff": "3s"},
            "profiles": [
                {"schedulerName": "kubestow"},
                {"schedulerName": EVICTS_ALL, "pluginConfig": [arguments]},
            ],
        },
        name="kubestow-neighbours",
    )
    yield process
    process.stop_cleanly()


def write_status(work: Workload, name: str, **status: object) -> None:
    path = f"/api/v1/namespaces/{work.namespace}/pods/{name}/status"
    work.control_plane.admin.request("PATCH", path, {"status": status})


def big(work: Workload, name: str, scheduler_name: str = "", **spec: Any) -> Json:
    return work.pod(
        name,
        cpu="800m",
        scheduler_name=scheduler_name,
        terminationGracePeriodSeconds=0,
        **spec,
    )


def test_a_nomination_by_another_scheduler_is_honored(work: Workload) -> None:
    work.node("node-promised", cpu="1")
    big(work, "theirs", THEIRS, priorityClassName="neighbours-mid")
    write_status(work, "theirs", nominatedNodeName="node-promised")
    big(work, "lower")
    assert work.until_rejected("lower")["message"].startswith(
        "0/1 nodes are available: 1 Insufficient cpu."
    )
    write_status(work, "theirs", nominatedNodeName=None)
    assert work.until_bound("lower")["lower"] == "node-promised"


def test_a_pod_of_higher_priority_takes_the_nominated_place(work: Workload) -> None:
    work.node("node-outranked", cpu="1")
    big(work, "theirs", THEIRS, priorityClassName="neighbours-mid")
    write_status(work, "theirs", nominatedNodeName="node-outranked")
    big(work, "higher", priorityClassName="neighbours-high")
    assert work.until_bound("higher")["higher"] == "node-outranked"
    assert work.pods()["theirs"]["status"]["nominatedNodeName"] == "node-outranked"


def test_a_profile_with_all_victims_evicts_pods_of_other_schedulers(work: Workload) -> None:
    work.node("node-all", cpu="1")
    big(work, "theirs", THEIRS)
    work.bind("theirs", "node-all")
    big(work, "ours", priorityClassName="neighbours-high")
    assert work.until_rejected("ours")["message"].endswith(
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    assert "theirs" in work.bound()
    work.delete_pod("ours")
    big(work, "evicts-all", EVICTS_ALL, priorityClassName="neighbours-high")
    assert work.until_bound("evicts-all")["evicts-all"] == "node-all"
    assert "theirs" not in work.pods()


@pytest.mark.parametrize("reason", ["OutOfcpu", "UnexpectedAdmissionError"])
def test_a_node_whose_kubelet_rejects_pods_is_avoided_for_a_while(
    work: Workload, control_plane: ControlPlane, kubestow: ManagedProcess, reason: str
) -> None:
    inspector = Inspector(kubestow, control_plane)

    def counted() -> float:
        return inspector.sample("kubestow_kubelet_rejections_total", reason=reason)

    before = counted()
    work.node("node-rejects", cpu="4")
    big(work, "first")
    work.until_bound("first")
    write_status(work, "first", phase="Failed", reason=reason, message="Pod was rejected: it is")
    until(lambda: counted() == before + 1, "the rejection is counted")
    big(work, "second")
    assert work.until_rejected("second")["message"].startswith(
        "0/1 nodes are available: 1 node(s) recently rejected a pod like this."
    )
    # A new node requeues it long before the backoff of the node ends or the next flush.
    work.node("node-welcomes", cpu="4")
    assert work.until_bound("second")["second"] == "node-welcomes"
    # The backoff of the node expires.
    work.delete_node("node-welcomes")
    big(work, "third")
    assert work.until_bound("third")["third"] == "node-rejects"
