"""examples/gpu-queue on a real API server: Jobs by the real controller, guarded by the policies.

The scheduler runs as its ServiceAccount with the permissions of manifests/rbac.yaml. The test acts
as Kueue and the kubelets.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import Binaries, ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from simulator.demos.gpu_queue.objects import GPU, JOBS, LIMIT, NAMESPACE, QUOTA
from tests.envtest.guarded_plane import guarded_plane, node
from tests.envtest.workload import until

pytestmark = pytest.mark.envtest("kube-controller-manager")

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "gpu-queue"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
GATE: Final = "ResourceQuotaDeferredEnforcement"


@pytest.fixture(scope="module")
def plane(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    with guarded_plane(
        envtest_binaries,
        tmp_path_factory.mktemp("gpu-queue"),
        ["--resource-quota-sync-period=5s"],
        controllers=["resourcequota-controller", "job-controller"],
    ) as running:
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "12"}
        running.admin.request("POST", "/api/v1/nodes", node("gpu-1", amounts))
        yield running


@pytest.fixture
def scheduler(plane: ControlPlane) -> Iterator[ManagedProcess]:
    account = plane.service_account_kubeconfig("kubestow-system", "kubestow")
    process = start_kubestow(plane, feature_gates={GATE: True}, kubeconfig=account)
    yield process
    process.stop()


class Watched:
    """The pods of the example, checked at every read."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def pods(self) -> list[dict[str, Any]]:
        found: Any = self._plane.admin.request("GET", PODS)
        pods: list[dict[str, Any]] = found["items"]
        bound = [each for each in pods if self._uses(each)]
        assert len(bound) <= LIMIT, "the limit is exceeded"
        assert not [each for each in pods if self.condition(each).get("reason") == "Unschedulable"]
        return pods

    def states(self) -> Counter[str]:
        return Counter(map(self.state, self.pods()))

    def state(self, pod: dict[str, Any]) -> str:
        if pod["spec"].get("nodeName"):
            return "running" if self._uses(pod) else "done"
        return str(self.condition(pod).get("reason", ""))

    @staticmethod
    def condition(pod: dict[str, Any]) -> dict[str, Any]:
        conditions = pod.get("status", {}).get("conditions") or []
        return next((each for each in conditions if each["type"] == "PodScheduled"), {})

    @staticmethod
    def _uses(pod: dict[str, Any]) -> bool:
        ended = pod["status"].get("phase") in ("Succeeded", "Failed")
        return bool(pod["spec"].get("nodeName")) and not ended

    def ungate(self, pod: dict[str, Any]) -> None:
        body = {"spec": {"schedulingGates": None}}
        self._plane.admin.request("PATCH", f"{PODS}/{pod['metadata']['name']}", body)

    def finish(self, pod: dict[str, Any]) -> None:
        path = f"{PODS}/{pod['metadata']['name']}/status"
        self._plane.admin.request("PATCH", path, {"status": {"phase": "Succeeded"}})


def test_b1_b6_b7_b8_the_manifests_of_the_demo_work_on_a_real_cluster(
    plane: ControlPlane, scheduler: ManagedProcess
) -> None:
    plane.kubectl("apply", "-f", str(EXAMPLE / "namespace.yaml"))
    plane.kubectl("create", "-f", str(EXAMPLE / "jobs.yaml"))
    watched = Watched(plane)
    until(lambda: watched.states() == {"SchedulingGated": JOBS}, "all admitted, and gated")
    marks = {
        (each["metadata"].get("annotations") or {}).get("kubestow.io/quota-deferred")
        for each in watched.pods()
    }
    assert marks == {"true"}, "marked by policy P5"
    for each in watched.pods():
        watched.ungate(each)
    full = {"running": LIMIT, "ResourceQuotaValidated": JOBS - LIMIT}
    until(lambda: watched.states() == full, "eight placed, two held")
    exceeded = (
        f"quota exceeded: {QUOTA}, requested: requests.{GPU}=1, used: requests.{GPU}=8, "
        f"limited: requests.{GPU}=8"
    )
    for each in watched.pods():
        if watched.state(each) == "ResourceQuotaValidated":
            # A pod that was queued before others took the quota is held in its cycle, whose message
            # says more.
            assert exceeded in watched.condition(each)["message"]
    until(lambda: _events(plane) == JOBS - LIMIT, "an event for each held pod")
    first = next(each for each in watched.pods() if watched.state(each) == "running")
    watched.finish(first)
    next_state = {"running": LIMIT, "ResourceQuotaValidated": 1, "done": 1}
    until(lambda: watched.states() == next_state, "one released when one ended")
    for each in watched.pods():
        if watched.state(each) == "running":
            watched.finish(each)
    until(lambda: watched.states() == {"running": 1, "done": JOBS - 1}, "the last released")
    assert "forbidden" not in scheduler.log.read_text().lower()


def _events(plane: ControlPlane) -> int:
    """Return the pods with an event about the quota."""
    text = plane.kubectl("get", "events", "-n", NAMESPACE, "-o", "json")
    found = [
        each for each in json.loads(text)["items"] if each["reason"] == "ResourceQuotaExceeded"
    ]
    return len({each["involvedObject"]["name"] for each in found})
