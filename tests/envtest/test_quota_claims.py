"""The real quota controller and the plugin for deferred quota count the devices of claims alike.

Under the extended resources of their classes, which pods may ask for as well. So does the embedded
controller, which also counts claims, and their devices by class.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from devtools.control_plane.control_plane import ApiServerOptions, Binaries, ControlPlane
from plugins.resource_quota.device_claims import DeviceClaims
from plugins.resource_quota.usage import pod_usage
from scheduler.api.devices import DeviceClass, ResourceClaim
from scheduler.api.pod import Pod
from scheduler.api.quantity import parse
from simulator.quota_evaluators import evaluator_of
from simulator.resources import RESOURCES
from simulator.store import Store
from tests.envtest.quota_requests import alternatives, pod
from tests.envtest.workload import until

pytestmark = pytest.mark.envtest("kube-controller-manager")

Json = dict[str, Any]

GROUP: Final = "/apis/resource.k8s.io/v1"
NAMESPACE: Final = "claims"
CLAIMS: Final = f"{GROUP}/namespaces/{NAMESPACE}/resourceclaims"
CORE: Final = f"/api/v1/namespaces/{NAMESPACE}"
TABLES: Final = {
    "resourceclaims.resource.k8s.io": CLAIMS,
    "deviceclasses.resource.k8s.io": f"{GROUP}/deviceclasses",
    "pods": f"{CORE}/pods",
}
"""What counts, and what that depends on, by its table of the embedded server."""
NAMED: Final = "example.com/gpu"
IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
COUNT: Final = "count/resourceclaims.resource.k8s.io"
BY_CLASS: Final = tuple(f"{each}.deviceclass.resource.k8s.io/devices" for each in ("gpu", "nic"))
EXTENDED: Final = tuple(f"requests.{each}" for each in (NAMED, f"{IMPLICIT}gpu", f"{IMPLICIT}nic"))
LIMITS: Final = dict.fromkeys((COUNT, *BY_CLASS, *EXTENDED), "1000")


def request(name: str, class_name: str = "gpu", count: int = 1, **more: Any) -> Json:
    exactly = {"deviceClassName": class_name, **more}
    if more.get("allocationMode") != "All":
        exactly["count"] = count
    return {"name": name, "exactly": exactly}


CASES: Final[dict[str, list[Json]]] = {
    "one": [request("r")],
    "several": [request("r", count=3), request("q", "nic", 2), request("p")],
    "all": [request("r", allocationMode="All"), request("q", "nic")],
    "alternatives": [alternatives("r", ("gpu", 4), ("gpu", 6), ("nic", 1)), request("q")],
    "admin": [request("r", count=2, adminAccess=True)],
    "without a class": [request("r", "missing", 5)],
    "shares": [request("r", count=2, capacity={"requests": {"memory": "1Gi"}})],
}


@pytest.fixture(scope="module")
def plane(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    directory = tmp_path_factory.mktemp("quota-claims")
    with ControlPlane(envtest_binaries, ApiServerOptions(), directory) as running:
        running.start_controller_manager(
            ["--resource-quota-sync-period=1s"], controllers=["resourcequota-controller"]
        )
        admin = running.admin
        labels = {"resource.kubernetes.io/admin-access": "true"}
        admin.request(
            "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": labels}}
        )
        for name, spec in CLASSES.items():
            admin.request(
                "POST", f"{GROUP}/deviceclasses", {"metadata": {"name": name}, "spec": spec}
            )
        quota = {"metadata": {"name": "q"}, "spec": {"hard": LIMITS}}
        admin.request("POST", f"{CORE}/resourcequotas", quota)
        until(lambda: status(running).keys() == LIMITS.keys(), "the quota counted")
        yield running


CLASSES: Final[dict[str, Json]] = {"gpu": {"extendedResourceName": NAMED}, "nic": {}}


def status(plane: ControlPlane, quota: str = "q") -> dict[str, str]:
    found: Any = plane.admin.request("GET", f"{CORE}/resourcequotas/{quota}")
    used: dict[str, str] = (found.get("status") or {}).get("used") or {}
    return used


def used(plane: ControlPlane) -> dict[str, int]:
    """Return the usage, without zeros."""
    return {key: nano for key, text in status(plane).items() if (nano := parse(text).nano)}


def counted_by_plugin(plane: ControlPlane) -> dict[str, int]:
    """Return what the plugin counts of the objects of the namespace."""
    sums: dict[str, int] = {}
    pods = {
        each["metadata"]["name"]: msgspec.convert(each, Pod, strict=False)
        for each in listed(plane, f"{CORE}/pods")
    }

    def set_devices(_namespace: str, usage: Any) -> None:
        sums.clear()
        sums.update(usage)

    claims = DeviceClaims(set_devices, lambda name, _namespace: pods.get(name))
    for each in listed(plane, f"{GROUP}/deviceclasses"):
        claims.device_class(None, msgspec.convert(each, DeviceClass, strict=False))
    for each in listed(plane, CLAIMS):
        claims.claim(None, msgspec.convert(each, ResourceClaim, strict=False))
    for pod_ in pods.values():
        for key, nano in pod_usage(pod_).items():
            sums[key] = sums.get(key, 0) + nano
    return {key: nano for key, nano in sums.items() if key in EXTENDED and nano}


def counted_by_simulator(plane: ControlPlane) -> dict[str, int]:
    """Return what the embedded quota controller counts of claims and pods."""
    store = Store()
    for table, path in TABLES.items():
        for each in listed(plane, path):
            metadata = each["metadata"]
            store.create(table, metadata.get("namespace", ""), metadata["name"], each)
    totals: dict[str, int] = {}
    for resource in RESOURCES:
        if resource.table not in TABLES or not resource.namespaced:
            continue
        for version in store.items(resource.table):
            for key, amount in evaluator_of(resource, store).usage(version.obj, 0.0).items():
                totals[key] = totals.get(key, 0) + amount.nano
    return {key: nano for key, nano in totals.items() if key in LIMITS and nano}


def listed(plane: ControlPlane, path: str) -> list[Json]:
    found: Any = plane.admin.request("GET", path)
    items: list[Json] = found["items"]
    return items


def until_alike(plane: ControlPlane) -> dict[str, int]:
    """Wait until the real controller has counted what the others count; return that."""
    expected = counted_by_simulator(plane)
    deferred = {key: nano for key, nano in expected.items() if key in EXTENDED}
    assert counted_by_plugin(plane) == deferred
    until(lambda: used(plane) == expected, f"{expected}, have {used(plane)}")
    return expected


def clear(plane: ControlPlane) -> None:
    for path in (CLAIMS, f"{CORE}/pods"):
        for each in listed(plane, path):
            name = each["metadata"]["name"]
            plane.admin.request("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})
    until(lambda: not used(plane), "nothing used any more")


@pytest.mark.parametrize("name", CASES)
def test_all_count_the_devices_of_claims_alike(name: str, plane: ControlPlane) -> None:
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": CASES[name]}}}
    plane.admin.request("POST", CLAIMS, body)
    try:
        until_alike(plane)
    finally:
        clear(plane)


@pytest.mark.parametrize("resource", [NAMED, f"{IMPLICIT}gpu", f"{IMPLICIT}nic"])
def test_a_claim_for_extended_resources_and_its_pod_count_alike(
    resource: str, plane: ControlPlane
) -> None:
    """The scheduler makes the claim; what its pod asks for counts once."""
    amounts = {resource: "3"}
    made: Any = plane.admin.request("POST", f"{CORE}/pods", pod("p", amounts, amounts).body)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": True}
    metadata = {
        "name": "p-extended-resources",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{**owner, "uid": made["metadata"]["uid"]}],
    }
    class_name = "nic" if resource.endswith("nic") else "gpu"
    spec = {"devices": {"requests": [request("container-0-request-0", class_name, 3)]}}
    plane.admin.request("POST", CLAIMS, {"metadata": metadata, "spec": spec})
    try:
        assert until_alike(plane)[f"requests.{resource}"] == parse("3").nano
    finally:
        clear(plane)


def test_admission_and_deferred_usage_agree_on_the_limit(plane: ControlPlane) -> None:
    """The plugin counts as much as the real server admits."""
    quota = {"metadata": {"name": "strict"}, "spec": {"hard": {f"requests.{NAMED}": "4"}}}
    plane.admin.request("POST", f"{CORE}/resourcequotas", quota)
    codes = []
    try:
        until(lambda: status(plane, "strict"), "counted")
        for name, count in (("a", 3), ("b", 2), ("c", 1)):
            body: Json = {
                "metadata": {"name": name},
                "spec": {"devices": {"requests": [request("r", count=count)]}},
            }
            code = 403 if name == "b" else 201
            until(lambda: exchange(plane, body, dry=True) == code, f"{name}: {code}")  # noqa: B023
            codes.append(exchange(plane, body))
        assert codes == [201, 403, 201]
        assert until_alike(plane)[f"requests.{NAMED}"] == parse("4").nano
    finally:
        plane.admin.request("DELETE", f"{CORE}/resourcequotas/strict")
        clear(plane)


def exchange(plane: ControlPlane, body: Json, *, dry: bool = False) -> int:
    path = f"{CLAIMS}?dryRun=All" if dry else CLAIMS
    code, _ = plane.admin.exchange("POST", path, body, "application/json")
    return code
