"""Two schedulers, or one that is killed, never sell more of a device than it has.

Shares of a capacity and partitions that use the same counters: the API server stores any number of
them. Whether pods were bound to too many shows at the end of each round, since none ends before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.devices import Devices, by_template, claim_controllers
from tests.envtest.workload import until

pytestmark = pytest.mark.envtest("kube-controller-manager")

FAST: Final = {"clientConnection": {"qps": 1000, "burst": 1000}}
SLOWLY: Final = {"clientConnection": {"qps": 10, "burst": 10}, "kubestow": {"bindConcurrency": 2}}
OTHER: Final = "kubestow-other"
ROUNDS: Final = 3
PLACES: Final = 6
"""Claims that the devices of a node serve at the same time."""


def publish_shares(devices: Devices, node: str) -> None:
    """Publish one device for `PLACES` claims."""
    capacity = {"slots": {"value": str(PLACES)}}
    devices.publish(node, 1, allowMultipleAllocations=True, capacity=capacity)
    devices.template("place", capacity={"requests": {"slots": "1"}})


def publish_partitions(devices: Devices, node: str) -> None:
    """Publish twice as many partitions of a device as fit on it."""
    consumed = {"counterSet": "chip", "counters": {"units": {"value": "1"}}}
    partitions = [
        {"name": f"part-{each}", "consumesCounters": [consumed]} for each in range(2 * PLACES)
    ]
    counters = [{"name": "chip", "counters": {"units": {"value": str(PLACES)}}}]
    devices.publish_slice(node, partitions, of=2)
    devices.publish_slice(node, [], of=2, number=1, sharedCounters=counters)
    devices.template("place")


KINDS: Final = pytest.mark.parametrize(
    "publish", [publish_shares, publish_partitions], ids=["shares", "partitions"]
)
Publish = Callable[[Devices, str], None]


@pytest.fixture(scope="module", autouse=True)
def controllers(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    with claim_controllers(control_plane, "claim-controller-of-races") as process:
        yield process


def create_pods(devices: Devices, count: int, *schedulers: str) -> None:
    """Create pods with a claim for one place each, in turns for these schedulers."""
    first = len(devices.work.pods())
    for number in range(count):
        devices.work.pod(
            f"p-{first + number}",
            cpu="10m",
            scheduler_name=schedulers[number % len(schedulers)] if schedulers else "",
            resourceClaims=by_template("place"),
        )


def until_full(devices: Devices, bound: int) -> None:
    """Wait until so many pods are bound, and no claim holds a place without one."""

    def settled() -> bool:
        return len(devices.work.bound()) >= bound and len(devices.allocated()) == PLACES

    until(settled, f"{bound} bound, {PLACES} claims with devices")
    assert len(devices.work.bound()) == bound


def finish_all(devices: Devices) -> None:
    """End all bound pods that run."""
    for name in devices.work.bound():
        devices.finish(name)


@KINDS
def test_two_schedulers_sell_nothing_twice(
    control_plane: ControlPlane,
    devices: Devices,
    publish: Publish,
    request: pytest.FixtureRequest,
) -> None:
    other = {**FAST, "profiles": [{"schedulerName": OTHER}]}
    processes = [
        start_kubestow(control_plane, FAST, name="kubestow-shares-one"),
        start_kubestow(control_plane, other, name="kubestow-shares-two"),
    ]
    for process in processes:
        request.addfinalizer(process.stop)
    node = f"{devices.work.namespace}-node"
    devices.work.node(node, cpu="64")
    publish(devices, node)
    for number in range(ROUNDS):
        create_pods(devices, PLACES + 2, "", OTHER)
        # Two are left over from each round before.
        until_full(devices, PLACES * (number + 1))
        finish_all(devices)
    until(lambda: len(devices.work.bound()) == len(devices.work.pods()), "the last ones bound")
    finish_all(devices)
    devices.until_free()
    for process in processes:
        process.stop_cleanly()


@KINDS
def test_a_killed_scheduler_leaves_nothing_sold_twice(
    control_plane: ControlPlane, devices: Devices, publish: Publish
) -> None:
    """Killed while claims are allocated whose pods are not bound."""
    node = f"{devices.work.namespace}-node"
    devices.work.node(node, cpu="64")
    publish(devices, node)
    create_pods(devices, PLACES + 2)
    process = start_kubestow(control_plane, SLOWLY, name="kubestow-shares-killed")

    def in_the_middle() -> bool:
        return len(devices.allocated()) > len(devices.work.bound())

    until(in_the_middle, "a claim is allocated, its pod not bound")
    process.kill()
    process = start_kubestow(control_plane, FAST, name="kubestow-shares-again")
    until_full(devices, PLACES)
    finish_all(devices)
    until(lambda: len(devices.work.bound()) == PLACES + 2, "the others bound")
    finish_all(devices)
    devices.until_free()
    process.stop_cleanly()
