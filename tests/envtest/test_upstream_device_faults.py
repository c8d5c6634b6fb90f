"""Claims that kube-scheduler v1.36.2 leaves pending, or allocates wrongly, and why it should not.

Each test is one row of the table of devices in `docs/differences.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.devices import Devices, by_name
from tests.envtest.workload import Json, Workload

pytestmark = pytest.mark.envtest

CONFIG: Final = {"clientConnection": {"qps": 1000, "burst": 1000}}
TAINTS: Final = [{"key": "bad", "effect": "NoSchedule"}]


@pytest.fixture(scope="module", autouse=True)
def scheduler(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    process = start_kubestow(control_plane, CONFIG, name="kubestow-device-faults")
    yield process
    process.stop_cleanly()


@pytest.fixture
def work(devices: Devices) -> Workload:
    devices.work.node(NODE.format(devices.work.namespace))
    return devices.work


NODE: Final = "node-of-{}"


def partition(name: str, units: int = 1, **fields: Any) -> Json:
    """Return a device that consumes units of the counter of its pool."""
    counters = {"units": {"value": str(units)}}
    consumed = [{"counterSet": "set", "counters": counters}]
    return {"name": name, "consumesCounters": consumed, **fields}


def publish(devices: Devices, *partitions: Json, units: int = 1) -> None:
    """Publish partitions of which `units` may be in use at a time."""
    node = NODE.format(devices.work.namespace)
    counters = [{"name": "set", "counters": {"units": {"value": str(units)}}}]
    devices.publish_slice(node, [], of=2, number=1, sharedCounters=counters)
    devices.publish_slice(node, partitions, of=2)


def allocated(devices: Devices, claim: str) -> list[str]:
    """Return the names of the devices that a claim holds."""
    return [each.rpartition("/")[2] for each in devices.allocated()[claim]]


def test_a_taint_that_refuses_a_device_leaves_its_counter_to_the_next(
    work: Workload, devices: Devices
) -> None:
    """kubernetes#140436."""
    publish(devices, partition("bad", taints=TAINTS), partition("good"))
    devices.claim("one")
    work.pod("p", resourceClaims=by_name("one"))
    work.until_bound("p")
    assert allocated(devices, "one") == ["good"]


def test_a_constraint_that_refuses_a_device_leaves_its_counter_to_the_next(
    work: Workload, devices: Devices
) -> None:
    """kubernetes#140436."""
    rack = f"{devices.driver}/rack"
    first, other, alike = (
        partition(name, attributes={"rack": {"int": value}})
        for name, value in (("first", 0), ("other", 1), ("alike", 0))
    )
    publish(devices, first, other, alike, units=2)
    devices.claim("pair", 2, constraints=[{"matchAttribute": rack}])
    work.pod("p", resourceClaims=by_name("pair"))
    work.until_bound("p")
    assert allocated(devices, "pair") == ["first", "alike"]


def test_a_device_that_can_be_shared_gives_its_counter_back(
    work: Workload, devices: Devices
) -> None:
    """kubernetes#140436: the second request is for a device that the first one took at first."""
    shared = partition("shared", allowMultipleAllocations=True)
    large = partition("large", attributes={"large": {"bool": True}})
    publish(devices, shared, large, {"name": "plain"})
    is_large = f'"large" in device.attributes["{devices.driver}"]'
    devices.requests(
        "both",
        {"name": "any", "exactly": {"deviceClassName": devices.driver}},
        {
            "name": "large",
            "exactly": {
                "deviceClassName": devices.driver,
                "selectors": [{"cel": {"expression": is_large}}],
            },
        },
    )
    work.pod("p", resourceClaims=by_name("both"))
    work.until_bound("p")
    assert allocated(devices, "both") == ["plain", "large"]


def test_admin_access_needs_no_counter_of_a_device_in_use(work: Workload, devices: Devices) -> None:
    """kubernetes#140729, KEP-5018."""
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    namespace = f"/api/v1/namespaces/{work.namespace}"
    work.control_plane.admin.request("PATCH", namespace, label)
    publish(devices, partition("only"))
    devices.claim("own")
    work.pod("owner", resourceClaims=by_name("own"))
    work.until_bound("owner")
    devices.claim("watched", adminAccess=True)
    work.pod("monitor", resourceClaims=by_name("watched"))
    work.until_bound("monitor")
    assert allocated(devices, "watched") == ["only"]


def test_all_devices_with_counters_are_allocated(work: Workload, devices: Devices) -> None:
    """kubernetes#138885."""
    publish(devices, partition("a"), partition("b"), units=2)
    devices.claim("all", allocationMode="All")
    work.pod("p", resourceClaims=by_name("all"))
    work.until_bound("p")
    assert allocated(devices, "all") == ["a", "b"]


def test_distinct_values_are_distinct_within_one_request(work: Workload, devices: Devices) -> None:
    devices.publish_slice(
        NODE.format(work.namespace),
        [
            {"name": f"d{number}", "attributes": {"rack": {"int": rack}}}
            for number, rack in enumerate((0, 1, 0, 2))
        ],
    )
    constraint = {"distinctAttribute": f"{devices.driver}/rack"}
    devices.claim("three", 3, constraints=[constraint])
    work.pod("p", resourceClaims=by_name("three"))
    work.until_bound("p")
    assert allocated(devices, "three") == ["d0", "d1", "d3"]


def test_two_pods_share_a_claim_and_have_one_of_their_own(work: Workload, devices: Devices) -> None:
    """kubernetes#139016: the shared device is open to both nodes, the others are not."""
    other = f"{NODE.format(work.namespace)}-2"
    work.node(other)
    local = f'"net" in device.attributes["{devices.driver}"]'
    for node in (NODE.format(work.namespace), other):
        devices.publish(node, 1)
    net = {"name": "net0", "attributes": {"net": {"bool": True}}}
    devices.publish_slice("net", [net], nodeName=None, allNodes=True)
    devices.claim("shared", selectors=[{"cel": {"expression": local}}])
    for number in (1, 2):
        selectors = [{"cel": {"expression": f"!({local})"}}]
        devices.claim(f"own-{number}", selectors=selectors)
        work.pod(
            f"p-{number}",
            resourceClaims=[
                {"name": "net", "resourceClaimName": "shared"},
                {"name": "own", "resourceClaimName": f"own-{number}"},
            ],
        )
    work.until_bound("p-1", "p-2")
    assert allocated(devices, "shared") == ["net0"]
