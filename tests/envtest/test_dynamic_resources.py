"""Devices beside the real kube-controller-manager: claims are made, allocated, reserved, released.

One device is never allocated twice, by one scheduler or by two, and nothing is left allocated.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.devices import (
    FINALIZER,
    Devices,
    by_name,
    by_template,
    claim_controllers,
    consumers,
    results,
)
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest("kube-controller-manager")

FAST = {"clientConnection": {"qps": 1000, "burst": 1000}}
SLOWLY = {"clientConnection": {"qps": 10, "burst": 10}, "kubestow": {"bindConcurrency": 1}}
OTHER = "kubestow-other"
RACERS = 12


def bound(work: Workload, count: int) -> bool:
    return len(work.bound()) == count


@pytest.fixture(scope="module", autouse=True)
def controllers(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    with claim_controllers(control_plane, "claim-controller") as process:
        yield process


@pytest.fixture
def work(devices: Devices) -> Workload:
    return devices.work


@pytest.fixture
def scheduler(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    process = start_kubestow(control_plane, FAST, name="kubestow-devices")
    yield process
    process.stop_cleanly()


def test_a_claim_of_a_template_is_allocated_and_released(
    work: Workload, devices: Devices, scheduler: ManagedProcess
) -> None:
    for name in ("with-device", "without-device"):
        work.node(name)
    devices.publish("with-device", 1)
    work.pod("p", resourceClaims=by_template())
    assert work.until_bound("p") == {"p": "with-device"}
    ((name, claim),) = devices.claims().items()
    assert name.startswith("p-gpu-")
    assert consumers(claim) == ["p"]
    assert FINALIZER in claim["metadata"]["finalizers"]
    assert [each["device"] for each in results(claim)] == ["device-0"]

    work.pod("next", resourceClaims=by_template())
    message = work.until_rejected("next")["message"]
    assert "cannot allocate all claims" in message
    devices.finish("p")
    assert work.until_bound("next")["next"] == "with-device"
    until(lambda: name not in devices.claims(), "the claim went with its pod")


def test_a_shared_claim_is_allocated_once_and_held_to_the_end(
    work: Workload, devices: Devices, scheduler: ManagedProcess
) -> None:
    work.node("shared-node")
    devices.publish("shared-node", 2)
    devices.claim("shared")
    for name in ("a", "b", "c"):
        work.pod(name, resourceClaims=by_name("shared"))
    work.until_bound("a", "b", "c")
    assert sorted(consumers(devices.claims()["shared"])) == ["a", "b", "c"]
    assert len(devices.allocated()["shared"]) == 1
    for name in ("a", "b"):
        devices.finish(name)
    until(lambda: consumers(devices.claims()["shared"]) == ["c"], "only c is left")
    assert devices.allocated()
    devices.finish("c")
    devices.until_free()


def test_claims_are_deleted_in_any_phase(
    work: Workload, devices: Devices, scheduler: ManagedProcess
) -> None:
    work.node("phases")
    devices.claim("open")
    work.pod("waits", resourceClaims=by_name("open"))
    work.until_rejected("waits")
    devices.delete_claim("open")
    until(lambda: "open" not in devices.claims(), "nothing holds an open claim")

    devices.publish("phases", 1)
    devices.claim("used")
    work.pod("uses", resourceClaims=by_name("used"))
    work.until_bound("uses")
    devices.delete_claim("used")
    assert "used" in devices.claims(), "its pod runs"
    work.pod("late", resourceClaims=by_name("used"))
    devices.finish("uses")
    until(lambda: "used" not in devices.claims(), "the claim went after its pod")
    devices.claim("new")
    work.pod("after", resourceClaims=by_name("new"))
    assert work.until_bound("after")["after"] == "phases", "the device is free again"
    assert {"waits", "late"}.isdisjoint(work.bound())


@pytest.mark.parametrize("kill", [False, True], ids=["term", "kill"])
def test_a_restart_leaks_nothing(
    control_plane: ControlPlane, work: Workload, devices: Devices, kill: bool
) -> None:
    for number in range(4):
        work.node(f"restart-{kill}-{number}".lower())
        devices.publish(f"restart-{kill}-{number}".lower(), 5)
    for number in range(20):
        work.pod(f"p-{number}", cpu="10m", resourceClaims=by_template())
    process = start_kubestow(control_plane, SLOWLY, name="kubestow-devices-restarted")
    until(lambda: len(work.bound()) >= 4, "some bound")
    if kill:
        process.kill()
        assert len(work.bound()) < 20, "this is the middle"
    else:
        # What is under way may end.
        process.stop()
    process = start_kubestow(control_plane, FAST, name="kubestow-devices-again")
    work.until_bound()
    assert devices.taken_twice() == []
    for name in work.pods():
        devices.finish(name)
    devices.until_free()
    process.stop_cleanly()


def test_two_schedulers_never_allocate_one_device_twice(
    control_plane: ControlPlane,
    work: Workload,
    devices: Devices,
    request: pytest.FixtureRequest,
) -> None:
    other = {**FAST, "profiles": [{"schedulerName": OTHER}]}
    processes = [
        start_kubestow(control_plane, FAST, name="kubestow-devices-one"),
        start_kubestow(control_plane, other, name="kubestow-devices-two"),
    ]
    for process in processes:
        # Also if the test fails: later ones have pods with the same schedulerName.
        request.addfinalizer(process.stop)
    work.node("contested", cpu="64")
    for _ in range(3):
        batch = len(work.pods())
        for number in range(RACERS):
            name = OTHER if number % 2 else ""
            work.pod(
                f"p-{batch + number}",
                cpu="10m",
                scheduler_name=name,
                resourceClaims=by_template(),
            )
        if not batch:
            devices.publish("contested", RACERS // 2)
        until(lambda: len(devices.allocated()) >= RACERS // 2, "all devices allocated")
        until(partial(bound, work, batch + RACERS // 2), "as many pods bound as devices")
        assert devices.used_twice() == []
        until(lambda: not devices.taken_twice(), "no device is allocated twice")
        for name in work.bound():
            devices.finish(name)
        until(partial(bound, work, batch + RACERS), "the others bound when devices are free")
        assert devices.used_twice() == []
        until(lambda: not devices.taken_twice(), "no device is allocated twice")
        for name in work.bound():
            devices.finish(name)
    devices.until_free()
    for process in processes:
        process.stop_cleanly()
