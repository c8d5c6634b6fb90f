"""Hostile devices and claims on a real API server: other pods are scheduled, and nothing leaks.

Each test ends with a claim for every device: it is allocated only if nothing else holds one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from devtools.control_plane.admin import ApiError
from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.devices import (
    Devices,
    by_name,
    by_template,
    claim_controllers,
    consumers,
    results,
)
from tests.envtest.workload import Json, until

pytestmark = pytest.mark.envtest("kube-controller-manager")

SLICES: Final = 79
"""Of 128 devices each, the most that a slice may have: 10,112 on one node."""
CONFIG: Final = {
    "clientConnection": {"qps": 1000, "burst": 1000},
    "podMaxBackoffSeconds": 2,
}
PENDING: Final = 100
CONDITIONS: Final = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]}


@pytest.fixture(scope="module", autouse=True)
def controllers(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    with claim_controllers(control_plane, "claim-controller-of-hostile-devices") as process:
        yield process


@pytest.fixture(autouse=True)
def scheduler(control_plane: ControlPlane, devices: Devices) -> Iterator[ManagedProcess]:
    process = start_kubestow(control_plane, CONFIG, name="kubestow-hostile-devices")
    yield process
    assert process.running, process.describe("ended")
    process.stop_cleanly()


@pytest.fixture
def node(devices: Devices) -> str:
    name = f"{devices.work.namespace}-node"
    devices.work.node(name, cpu="64", pods=1000)
    return name


def until_reason(devices: Devices, pod: str, text: str) -> None:
    """Wait until the condition of a pod has a text."""

    def shows() -> bool:
        return text in devices.work.condition(pod).get("message", "")

    until(shows, f"{text!r} in the condition of {pod}")


def others_are_scheduled(devices: Devices, *names: str) -> None:
    """Create pods without claims, and wait until they are bound."""
    for name in names:
        devices.work.pod(name, cpu="1m")
    devices.work.until_bound(*names)


def all_are_free(devices: Devices, count: int) -> None:
    """Bind a pod to every device, after all other pods are gone."""
    for name in devices.work.pods():
        devices.work.delete_pod(name)
    devices.until_free()
    devices.claim("every-device", count)
    devices.work.pod("last", cpu="1m", resourceClaims=by_name("every-device"))
    devices.work.until_bound("last")
    assert len(devices.allocated()["every-device"]) == count
    devices.work.delete_pod("last")
    devices.until_free()


def test_ten_thousand_devices_on_a_node(devices: Devices, node: str) -> None:
    """A constraint contradicts any two of them, and a claim may not have all of them."""
    for number in range(SLICES):
        listed = [
            {"name": f"d-{each}", "attributes": {"serial": {"int": each}}}
            for each in range(128 * number, 128 * (number + 1))
        ]
        devices.publish_slice(node, listed, of=SLICES, number=number)
    equal: Json = {"requests": [], "matchAttribute": f"{devices.driver}/serial"}
    for name in ("first", "second"):
        devices.claim(f"equal-{name}", 2, constraints=[equal])
        devices.work.pod(name, cpu="1m", resourceClaims=by_name(f"equal-{name}"))
    devices.claim("everything", allocationMode="All")
    devices.work.pod("greedy", cpu="1m", resourceClaims=by_name("everything"))
    until_reason(devices, "first", "scheduling cycle given up after")
    until_reason(devices, "greedy", "exceeds the claim limit of 32")
    others_are_scheduled(devices, "a", "b")
    devices.claim("many", 32)
    devices.work.pod("modest", cpu="1m", resourceClaims=by_name("many"))
    devices.work.until_bound("modest")
    assert len(devices.allocated()["many"]) == 32
    assert {"first", "second", "greedy"}.isdisjoint(devices.work.bound())
    all_are_free(devices, 32)


def test_a_pool_that_stays_incomplete_and_counters_that_contradict(
    devices: Devices, node: str
) -> None:
    consumed = {"counterSet": "chip", "counters": {"units": {"value": "1"}}}
    listed = [{"name": f"part-{each}", "consumesCounters": [consumed]} for each in range(2)]
    devices.publish_slice(node, listed, of=2)
    devices.template("all", allocationMode="All")
    devices.work.pod("one", cpu="1m", resourceClaims=by_template())
    devices.work.pod("all", cpu="1m", resourceClaims=by_template("all"))
    until_reason(devices, "one", "cannot allocate all claims")
    until_reason(devices, "all", f"{node} is currently being updated")
    others_are_scheduled(devices, "a")
    # The pool is complete now, but its devices consume a counter that is not there.
    wrong = [{"name": "chip", "counters": {"other": {"value": "2"}}}]
    devices.publish_slice(node, [], of=2, number=1, sharedCounters=wrong)
    until_reason(devices, "one", "invalid resource pools were encountered")
    until_reason(devices, "all", "is currently invalid")
    others_are_scheduled(devices, "b")
    devices.delete_slice(node, number=1)
    right = [{"name": "chip", "counters": {"units": {"value": "2"}}}]
    devices.publish_slice(node, [], of=2, number=1, sharedCounters=right)
    # One of the two pods gets what it asked for, and then perhaps the other.
    until(lambda: {"one", "all"} & set(devices.work.bound()), "a pod bound to the valid pool")
    all_are_free(devices, 2)


def test_two_drivers_whose_pools_and_devices_have_the_same_names(
    devices: Devices, node: str
) -> None:
    other = f"other.{devices.driver}"
    listed = [{"name": "device-0"}, {"name": "device-1"}]
    devices.publish_slice(node, listed)
    devices.publish_slice(node, listed, number=1, driver=other)
    devices.delete_class()
    devices.create_class(f'device.driver in ["{devices.driver}", "{other}"]')
    pods = [f"p-{number}" for number in range(5)]
    for name in pods:
        devices.work.pod(name, cpu="1m", resourceClaims=by_template())
    until(lambda: len(devices.work.bound()) == 4, "a pod bound to each device")
    held = {
        (each["driver"], each["pool"], each["device"])
        for claim in devices.claims().values()
        for each in results(claim)
    }
    assert len(held) == 4, "each is held once"
    (waiting,) = set(pods) - set(devices.work.bound())
    until_reason(devices, waiting, "cannot allocate all claims")
    # A device of one driver that is free does not free that of the other.
    ended = next(iter(devices.work.bound()))
    devices.finish(ended)
    devices.work.until_bound(waiting)
    all_are_free(devices, 4)


def test_an_expression_with_a_match_at_every_character_of_a_long_text(
    devices: Devices, node: str
) -> None:
    grown = "".join(f"cel.bind(x{i}, x{i - 1} + x{i - 1}, " for i in range(1, 7))
    text = f"cel.bind(x0, '{'a' * 8000}', {grown}x6.findAll('a').size() > 0{')' * 7}"
    devices.publish(node, 2)
    devices.delete_class()
    devices.create_class(text)
    devices.work.pod("p", cpu="1m", resourceClaims=by_template())
    until_reason(devices, "p", "takes more work than kubestow allows")
    others_are_scheduled(devices, "a")
    devices.delete_class()
    devices.create_class()
    all_are_free(devices, 2)


EXPRESSIONS: Final = {
    "cost": ("['a'].all(a, " * 2 + "'x'.matches('(x+x+)+y') || true" + ")" * 2, ""),
    "type": ('device.attributes["gpu"].size() > 0 || device.driver.size() == true', ""),
    "attribute": ('device.attributes["{driver}"].serial > "a"', "no such overload"),
    "missing": ('device.attributes["{driver}"].absent == 1', "no such key: absent"),
    "result": ('device.attributes["{driver}"].serial', "could not be converted to bool"),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_that_fail(name: str, devices: Devices, node: str) -> None:
    """A class of one tenant that the API server stores, or refuses."""
    expression, text = EXPRESSIONS[name]
    devices.publish(node, 2, attributes={"serial": {"int": 1}})
    devices.delete_class()
    refused = False
    try:
        devices.create_class(expression.replace("{driver}", devices.driver))
    except ApiError:
        refused = True
    if refused:
        assert not text
        devices.create_class()
        return
    devices.work.pod("p", cpu="1m", resourceClaims=by_template())
    if text:
        until_reason(devices, "p", f"class {devices.driver}: selector #0 on device ")
        until_reason(devices, "p", "CEL runtime error")
        until_reason(devices, "p", text)
    else:
        devices.work.until_bound("p")
    others_are_scheduled(devices, "a")
    devices.delete_class()
    devices.create_class()
    all_are_free(devices, 2)


def test_a_class_that_vanishes_while_its_pods_wait(devices: Devices, node: str) -> None:
    devices.work.pod("p", cpu="1m", resourceClaims=by_template())
    until_reason(devices, "p", "cannot allocate all claims")
    devices.delete_class()
    devices.publish(node, 2)
    until_reason(devices, "p", f"device class {devices.driver} does not exist")
    others_are_scheduled(devices, "a")
    devices.create_class()
    devices.work.until_bound("p")
    all_are_free(devices, 2)


def test_many_pods_of_one_tenant_that_never_fit(devices: Devices, node: str) -> None:
    devices.publish(node, 2)
    devices.template("three", count=3)
    for number in range(PENDING):
        devices.work.pod(f"p-{number}", cpu="1m", resourceClaims=by_template("three"))
    until_reason(devices, "p-0", "cannot allocate all claims")
    others_are_scheduled(devices, "a", "b")
    devices.work.pod("fits", cpu="1m", resourceClaims=by_template())
    devices.work.until_bound("fits")
    devices.finish("fits")
    devices.work.pod("fits-as-well", cpu="1m", resourceClaims=by_template())
    devices.work.until_bound("fits-as-well")
    assert len(devices.work.bound()) == 4
    all_are_free(devices, 2)


def in_pre_bind(devices: Devices, pod: str) -> None:
    """Wait until a pod waits for the conditions of its device: allocated, and not bound."""
    until(
        lambda: any(
            each["regarding"]["name"] == pod
            for each in devices.work.events("BindingConditionsPending")
        ),
        f"{pod} waits in PreBind",
    )
    assert pod not in devices.work.bound()


def test_pods_and_claims_that_are_deleted_in_prebind(devices: Devices, node: str) -> None:
    devices.publish(node, 1, **CONDITIONS)
    devices.work.pod("gone", cpu="1m", resourceClaims=by_template())
    in_pre_bind(devices, "gone")
    devices.work.delete_pod("gone")
    devices.until_free()
    # The claim is deleted instead: it stays until its pod is gone.
    devices.claim("named")
    devices.work.pod("second", cpu="1m", resourceClaims=by_name("named"))
    in_pre_bind(devices, "second")
    devices.delete_claim("named")
    others_are_scheduled(devices, "a")
    assert consumers(devices.claims()["named"]) == ["second"]
    devices.work.delete_pod("second")
    until(lambda: "named" not in devices.claims(), "the claim went after its pod")
    # The device is free for the next one, whose driver reports it as ready.
    devices.claim("third")
    devices.work.pod("third", cpu="1m", resourceClaims=by_name("third"))
    in_pre_bind(devices, "third")
    devices.report("third", "Ready")
    devices.work.until_bound("third")
