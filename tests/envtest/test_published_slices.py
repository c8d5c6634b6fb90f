"""Slices as the helper of kubelet drivers publishes them: generations, and pools of several slices.

A driver that changes its devices first writes slices of the next generation, one by one, and then
deletes those of the last one. Until all are there the pool must not be used.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.devices import Devices, by_template, claim_controllers
from tests.envtest.test_dynamic_resources import FAST
from tests.envtest.test_hostile_devices import until_reason
from tests.envtest.workload import Json, until

pytestmark = pytest.mark.envtest("kube-controller-manager")


@pytest.fixture(scope="module", autouse=True)
def processes(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    with claim_controllers(control_plane, "slice-controllers"):
        process = start_kubestow(control_plane, FAST, name="kubestow-slices")
        yield process
        process.stop()


@pytest.fixture
def node(devices: Devices) -> str:
    name = f"{devices.work.namespace}-node"
    devices.work.node(name, cpu="64", pods=1000)
    return name


def pool(node: str, generation: int, slices: int) -> Json:
    return {"name": node, "generation": generation, "resourceSliceCount": slices}


def names(prefix: str, count: int) -> list[Json]:
    return [{"name": f"{prefix}-{each}"} for each in range(count)]


def test_a_pool_is_replaced_by_one_of_a_higher_generation(devices: Devices, node: str) -> None:
    devices.publish_slice(node, names("old", 1), number=0, pool=pool(node, 1, 2))
    devices.publish_slice(node, names("elder", 1), number=1, pool=pool(node, 1, 2))
    devices.work.pod("first", cpu="1m", resourceClaims=by_template())
    devices.work.pod("second", cpu="1m", resourceClaims=by_template())
    until(lambda: len(devices.work.bound()) == 2, "the devices of both slices")
    # The next generation has three slices, of which two are there.
    devices.publish_slice(node, names("new", 1), number=2, pool=pool(node, 2, 3))
    devices.publish_slice(node, names("newer", 1), number=3, pool=pool(node, 2, 3))
    devices.work.pod("third", cpu="1m", resourceClaims=by_template())
    until_reason(devices, "third", "cannot allocate all claims")
    devices.publish_slice(node, names("newest", 1), number=4, pool=pool(node, 2, 3))
    until(lambda: "third" in devices.work.bound(), "the complete generation")
    # The driver deletes what is of an earlier generation; what is allocated stays allocated.
    devices.delete_slice(node)
    devices.delete_slice(node, number=1)
    for each in ("fourth", "fifth", "sixth"):
        devices.work.pod(each, cpu="1m", resourceClaims=by_template())
    until(lambda: len(devices.work.bound()) == 5, "all devices of the new generation")
    (left,) = {"fourth", "fifth", "sixth"} - set(devices.work.bound())
    until_reason(devices, left, "cannot allocate all claims")
    taken = sorted(each.partition("/")[2] for held in devices.allocated().values() for each in held)
    assert taken == ["elder-0", "new-0", "newer-0", "newest-0", "old-0"]
    assert devices.taken_twice() == []
    devices.finish("third")
    until(lambda: left in devices.work.bound(), "the device that was given back")


def test_a_slice_that_grows_by_an_update_serves_the_pods_that_wait(
    devices: Devices, node: str
) -> None:
    devices.publish_slice(node, names("device", 1))
    for each in ("first", "second"):
        devices.work.pod(each, cpu="1m", resourceClaims=by_template())
    until(lambda: len(devices.work.bound()) == 1, "the only device")
    devices.replace_slice(node, names("device", 2), pool=pool(node, 2, 1))
    until(lambda: len(devices.work.bound()) == 2, "the device that was added")
    assert devices.taken_twice() == []
