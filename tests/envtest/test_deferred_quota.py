"""kubestow publishes and enforces deferred quota on a real API server with the quota controller.

The scheduler runs as its ServiceAccount with the permissions of manifests/rbac.yaml; the test acts
as users and kubelets. kube-controller-manager recounts every quota every five seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import Binaries, ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.guarded_plane import guarded_plane, node
from tests.envtest.quota_requests import pod
from tests.envtest.workload import until

pytestmark = pytest.mark.envtest("kube-controller-manager")

PREFIX: Final = "deferred.kubestow.io/"
CPU: Final = f"{PREFIX}requests.cpu-millis"
RESYNC: Final = ["--resource-quota-sync-period=5s"]
CONTROLLERS: Final = ["resourcequota-controller"]
GATE: Final = "ResourceQuotaDeferredEnforcement"


@pytest.fixture(scope="module")
def plane(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    directory = tmp_path_factory.mktemp("deferred")
    with guarded_plane(envtest_binaries, directory, RESYNC, controllers=CONTROLLERS) as running:
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "110"}
        running.admin.request("POST", "/api/v1/nodes", node("n1", amounts))
        yield running


@pytest.fixture
def scheduler(plane: ControlPlane) -> Iterator[ManagedProcess]:
    process = start_scheduler(plane)
    yield process
    process.stop()


def start_scheduler(plane: ControlPlane, name: str = "kubestow") -> ManagedProcess:
    account = plane.service_account_kubeconfig("kubestow-system", "kubestow")
    return start_kubestow(plane, feature_gates={GATE: True}, kubeconfig=account, name=name)


class Team:
    """A namespace with one quota."""

    def __init__(self, plane: ControlPlane, name: str, hard: dict[str, str]) -> None:
        self.admin = plane.admin
        self.base = f"/api/v1/namespaces/{name}"
        plane.admin.ensure("/api/v1/namespaces", {"metadata": {"name": name}})
        self.quota_path = f"{self.base}/resourcequotas/q"
        body = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
        plane.admin.request("POST", f"{self.base}/resourcequotas", body)
        until(lambda: set(self.status().get("hard", {})) == set(hard), "the quota counted")

    def quota(self) -> dict[str, Any]:
        return self.admin.request("GET", self.quota_path)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.quota().get("status") or {}
        return found

    def shows(self, used: dict[str, str]) -> None:
        until(lambda: self.status().get("used") == used, f"status.used {used}")

    def released(self, name: str, cpu: str, **spec: Any) -> None:
        """A pod whose only gate was removed."""
        request = pod(name, {"cpu": cpu}, gated=True, schedulerName="kubestow", **spec)
        until(
            lambda: self.admin.exchange("POST", f"{self.base}/pods", request.body)[0] == 201,
            f"{name} created",
        )
        self.admin.request("PATCH", f"{self.base}/pods/{name}", {"spec": {"schedulingGates": None}})

    def pod(self, name: str) -> dict[str, Any]:
        return self.admin.request("GET", f"{self.base}/pods/{name}")

    def until_bound(self, name: str) -> None:
        until(lambda: self.pod(name)["spec"].get("nodeName"), f"{name} bound")

    def until_held(self, name: str) -> None:
        until(lambda: self.reason(name) == "ResourceQuotaValidated", f"{name} held")

    def reason(self, name: str) -> str:
        conditions = self.pod(name)["status"].get("conditions") or []
        found = [each for each in conditions if each["type"] == "PodScheduled"]
        return str(found[0].get("reason", "")) if found else ""

    def finish(self, name: str) -> None:
        path = f"{self.base}/pods/{name}/status"
        self.admin.request("PATCH", path, {"status": {"phase": "Succeeded"}})

    def delete(self, name: str) -> None:
        self.admin.request("DELETE", f"{self.base}/pods/{name}", {"gracePeriodSeconds": 0})


def a_resync(plane: ControlPlane, name: str) -> None:
    """Wait until the controller has recounted every quota twice.

    It recounts all in one pass: once it has corrected a wrong one, it has passed the others.
    """
    canary = Team(plane, name, {"pods": "5"})
    for wrong in ("3", "4"):
        patch = {"status": {"used": {"pods": wrong}}}
        plane.admin.request("PATCH", f"{canary.quota_path}/status", patch)
        canary.shows({"pods": "0"})


def writers(quota: dict[str, Any]) -> set[str]:
    """Return the managers that wrote the usage of the deferred key."""
    return {
        str(each["manager"])
        for each in quota["metadata"].get("managedFields", ())
        if f"f:{CPU}" in each.get("fieldsV1", {}).get("f:status", {}).get("f:used", {})
    }


def test_b06_b45_usage_is_published_and_shown_by_kubectl(
    plane: ControlPlane, scheduler: ManagedProcess
) -> None:
    team = Team(plane, "b45", {CPU: "2k", "pods": "5"})
    team.shows({CPU: "0", "pods": "0"})
    team.released("a", "1500m")
    team.until_bound("a")
    team.shows({CPU: "1500", "pods": "1"})
    described = plane.kubectl("describe", "quota", "-n", "b45", "q")
    (row,) = [line.split() for line in described.splitlines() if CPU in line]
    assert row == [CPU, "1500", "2k"]
    text = scheduler.log.read_text().lower()
    assert "forbidden" not in text
    assert "was not published" not in text


def test_b07_b10_a_held_pod_is_never_shown_and_takes_over_what_is_freed(
    plane: ControlPlane, scheduler: ManagedProcess
) -> None:
    team = Team(plane, "b10", {CPU: "2k"})
    team.released("a", "2")
    team.until_bound("a")
    team.shows({CPU: "2k"})
    team.released("b", "1")
    team.until_held("b")
    a_resync(plane, "b10-canary")
    assert team.status()["used"] == {CPU: "2k"}
    team.finish("a")
    team.until_bound("b")
    team.shows({CPU: "1k"})


def test_b44_what_is_published_survives_the_controller_and_is_ours_alone(
    plane: ControlPlane, scheduler: ManagedProcess
) -> None:
    team = Team(plane, "b44", {CPU: "4k", "pods": "10"})
    for name in ("a", "b", "c"):
        team.released(name, "1")
        team.until_bound(name)
    team.shows({CPU: "3k", "pods": "3"})
    # A deletion: the controller counts its own key at once, ours follows.
    team.delete("a")
    team.shows({CPU: "2k", "pods": "2"})
    # An edit of the limits.
    plane.admin.request("PATCH", team.quota_path, {"spec": {"hard": {CPU: "5k"}}})
    until(lambda: team.status()["hard"] == {CPU: "5k", "pods": "10"}, "the limit copied")
    assert team.status()["used"] == {CPU: "2k", "pods": "2"}
    # Resyncs write nothing.
    version = team.quota()["metadata"]["resourceVersion"]
    a_resync(plane, "b44-canary")
    assert team.quota()["metadata"]["resourceVersion"] == version
    # Nor does a restarted controller.
    second = plane.start_controller_manager(RESYNC, controllers=CONTROLLERS, name="second-manager")
    a_resync(plane, "b44-second")
    second.stop()
    assert team.quota()["metadata"]["resourceVersion"] == version
    assert team.status()["used"] == {CPU: "2k", "pods": "2"}
    assert all("controller-manager" not in each for each in writers(team.quota()))


def test_b28_b39_a_restarted_scheduler_publishes_the_same(plane: ControlPlane) -> None:
    team = Team(plane, "b28", {CPU: "2k"})
    first = start_scheduler(plane)
    team.released("a", "2")
    team.until_bound("a")
    team.released("b", "1")
    team.until_held("b")
    team.shows({CPU: "2k"})
    first.kill()
    # While no scheduler runs, a pod ends and a client writes a wrong usage.
    patch = {"status": {"used": {CPU: "7"}}}
    plane.admin.request("PATCH", f"{team.quota_path}/status", patch)
    second = start_scheduler(plane, "kubestow-again")
    team.shows({CPU: "2k"})
    held = team.pod("b")["metadata"]["resourceVersion"]
    a_resync(plane, "b28-canary")
    assert team.pod("b")["metadata"]["resourceVersion"] == held, (
        "the condition is not written again"
    )
    team.finish("a")
    team.until_bound("b")
    team.shows({CPU: "1k"})
    second.stop()


def test_b27_two_schedulers_share_a_quota_through_its_annotation(plane: ControlPlane) -> None:
    args = {"name": "ResourceQuota", "args": {"reservation": "Api"}}
    processes = [
        start_kubestow(
            plane,
            {"profiles": [{"schedulerName": name, "pluginConfig": [args]}]},
            feature_gates={GATE: True},
            name=name,
        )
        for name in ("one", "two")
    ]
    team = Team(plane, "b27", {CPU: "3k"})
    team.shows({CPU: "0"})
    names = [f"p{number}" for number in range(12)]
    for number, name in enumerate(names):
        request = pod(name, {"cpu": "1"}, gated=True, schedulerName=("one", "two")[number % 2])
        plane.admin.request("POST", f"{team.base}/pods", request.body)
    for name in names:
        path = f"{team.base}/pods/{name}"
        plane.admin.request("PATCH", path, {"spec": {"schedulingGates": None}})

    def running() -> list[str]:
        pods: Any = plane.admin.request("GET", f"{team.base}/pods")["items"]
        found = [
            str(each["metadata"]["name"])
            for each in pods
            if each["spec"].get("nodeName") and each["status"].get("phase") != "Succeeded"
        ]
        assert len(found) <= 3, "the limit is exceeded"
        return found

    finished: set[str] = set()

    def all_ran() -> bool:
        for name in running():
            team.finish(name)
            finished.add(name)
        return finished == set(names)

    until(all_ran, "all had their turn")
    team.shows({CPU: "0"})
    until(lambda: not (team.quota()["metadata"].get("annotations") or {}), "no entry left")
    for process in processes:
        process.stop()
