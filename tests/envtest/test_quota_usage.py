"""B11: the real controller, the embedded one and kubestow count the same pods alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from devtools.control_plane.control_plane import ApiServerOptions, Binaries, ControlPlane
from plugins.resource_quota.usage import pod_usage as usage_of_plugin
from scheduler.api.pod import Pod
from scheduler.api.quantity import parse
from simulator.quota_usage import pod_usage as usage_of_simulator
from tests.envtest.quota_requests import GPU, pod, resources
from tests.envtest.workload import until

pytestmark = pytest.mark.envtest("kube-controller-manager")

BASE: Final = "/api/v1/namespaces/usage"
NOW: Final = 1_790_000_000.0
_KEYS: Final = (
    *("cpu", "memory", "ephemeral-storage", "pods", "count/pods", f"requests.{GPU}"),
    *("requests.cpu", "requests.memory", "requests.ephemeral-storage"),
    *("limits.cpu", "limits.memory", "limits.ephemeral-storage"),
    *("hugepages-2Mi", "requests.hugepages-2Mi"),
)
LIMITS: Final = dict.fromkeys(_KEYS, "1000Gi")


def _container(name: str, cpu: str, memory: str, **more: Any) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory}
    return {"name": name, "image": "none", "resources": resources(amounts, amounts), **more}


FULL: Final = {"cpu": "250m", "memory": "100Mi"}
SIDECAR: Final = _container("s", "300m", "64Mi", restartPolicy="Always")
PODS: Final = {
    "plain": pod("p", FULL, FULL),
    "uneven": pod("p", {"cpu": "1m", "memory": "1"}, {"cpu": "1500m", "memory": "1.5Gi"}),
    "large init": pod("p", FULL, FULL, initContainers=[_container("i", "3", "1Mi")]),
    "sidecar": pod("p", FULL, FULL, initContainers=[SIDECAR]),
    "init beside a sidecar": pod(
        "p", FULL, FULL, initContainers=[SIDECAR, _container("i", "2", "200Mi")]
    ),
    "init before a sidecar": pod(
        "p", FULL, FULL, initContainers=[_container("i", "400m", "1Gi"), SIDECAR]
    ),
    "pod level": pod("p", FULL, FULL, resources=resources({"cpu": "2"}, {"cpu": "4"})),
    "devices": pod("p", {**FULL, GPU: "2"}, {**FULL, GPU: "2"}),
    "huge pages": pod("p", {**FULL, "hugepages-2Mi": "4Mi"}, {**FULL, "hugepages-2Mi": "4Mi"}),
    "scratch": pod("p", {**FULL, "ephemeral-storage": "1G"}, {**FULL, "ephemeral-storage": "2G"}),
    "gated": pod("p", FULL, FULL, gated=True),
}
STATUSES: Final[dict[str, dict[str, Any]]] = {
    "shrinking": {"resources": resources({"cpu": "2", "memory": "1Gi"}, {"cpu": "2"})},
    "allocated": {"resources": {}, "allocatedResources": {"cpu": "3", "memory": "50Mi"}},
    "infeasible": {"resources": resources({"cpu": "100m", "memory": "10Mi"}, {"cpu": "100m"})},
    "finished": {},
}


@pytest.fixture(scope="module")
def plane(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    directory = tmp_path_factory.mktemp("quota-usage")
    with ControlPlane(envtest_binaries, ApiServerOptions(), directory) as running:
        running.start_controller_manager(
            ["--resource-quota-sync-period=1s"], controllers=["resourcequota-controller"]
        )
        running.admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": "usage"}})
        quota = {"metadata": {"name": "q"}, "spec": {"hard": LIMITS}}
        running.admin.request("POST", f"{BASE}/resourcequotas", quota)
        until(lambda: _used(running).keys() == LIMITS.keys(), "the quota counted")
        yield running


def _used(plane: ControlPlane) -> dict[str, str]:
    found: Any = plane.admin.request("GET", f"{BASE}/resourcequotas/q")
    used: dict[str, str] = (found.get("status") or {}).get("used") or {}
    return used


def _nano(used: dict[str, Any]) -> dict[str, int]:
    """Return the usage of the limited keys, without zeros."""
    amounts = {key: parse(text).nano for key, text in used.items() if key in LIMITS}
    return {key: nano for key, nano in amounts.items() if nano}


def _stored_status(name: str) -> dict[str, Any]:
    status = {"name": "c", "image": "none", "imageID": "", "ready": True, "restartCount": 0}
    stored: dict[str, Any] = {"containerStatuses": [{**status, **STATUSES[name]}]}
    if name == "infeasible":
        stored["conditions"] = [
            {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
        ]
    if name == "finished":
        stored["phase"] = "Succeeded"
    return {"status": stored}


@pytest.mark.parametrize("name", [*PODS, *STATUSES])
def test_b11_all_count_alike(name: str, plane: ControlPlane) -> None:
    admin = plane.admin
    request = PODS.get(name) or pod("p", FULL, FULL)
    admin.request("POST", f"{BASE}/pods", request.body)
    if name in STATUSES:
        admin.request("PATCH", f"{BASE}/pods/p/status", _stored_status(name))
    stored: Any = admin.request("GET", f"{BASE}/pods/p")
    try:
        counted = {key: str(amount) for key, amount in usage_of_simulator(stored, NOW).items()}
        expected = _nano(counted)
        if name != "finished":
            # The ledger, not the arithmetic of the plugin, decides whether a pod counts at all.
            usage = usage_of_plugin(msgspec.convert(stored, Pod, strict=False))
            assert {key: usage[key] for key in sorted(expected)} == dict(sorted(expected.items()))
            assert expected.keys() == {key for key, nano in usage.items() if key in LIMITS and nano}
        until(lambda: _nano(_used(plane)) == expected, f"{expected}, have {_nano(_used(plane))}")
    finally:
        admin.request("DELETE", f"{BASE}/pods/p", {"gracePeriodSeconds": 0})
        until(lambda: not _nano(_used(plane)), "nothing used any more")
