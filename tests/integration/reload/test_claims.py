"""Reloads while claims are in flight: none is allocated twice, and none keeps what it lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from simulator.faults import FaultRule
from simulator.objects import JsonObject
from tests.integration.reload.running import PROFILE, Running, running, until
from tests.integration.reload.test_under_way import SLOW, held, write

GROUP = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
OTHER_ARGUMENTS = f"""\
{PROFILE}  pluginConfig:
  - name: DynamicResources
    args: {{bindingTimeout: 60s}}
"""


def create(world: Running, kind: str, name: str, spec: JsonObject, **metadata: str) -> None:
    world.cluster.create(
        {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
    )


def one_device(world: Running, *claims: str) -> None:
    """Create a node with one device, and claims for one each."""
    world.node("n")
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    create(world, "DeviceClass", "gpu", {"selectors": [selector]})
    spec: JsonObject = {
        "driver": DRIVER,
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d0"}],
    }
    create(world, "ResourceSlice", "n", spec)
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    for each in claims:
        create(
            world, "ResourceClaim", each, {"devices": {"requests": requests}}, namespace="default"
        )


def uses(claim: str) -> list[JsonObject]:
    return [{"name": "gpu", "resourceClaimName": claim}]


def status(world: Running, claim: str) -> JsonObject:
    found = world.cluster.get(GROUP, "ResourceClaim", claim)
    stored: JsonObject = found.get("status") or {}
    return stored


def is_rejected(world: Running, pod: str) -> bool:
    conditions: list[Any] = world.cluster.get("v1", "Pod", pod)["status"].get("conditions") or []
    return any("cannot allocate all claims" in each.get("message", "") for each in conditions)


@pytest.mark.parametrize("following", [PROFILE, OTHER_ARGUMENTS])
async def test_a_device_in_flight_is_not_allocated_by_the_new_plugins(
    tmp_path: Path, following: str
) -> None:
    write(tmp_path)
    async with running(tmp_path, SLOW) as world:
        one_device(world, "first", "second")
        old = await held(world, "Permit", resourceClaims=uses("first"))
        assert await world.reload(following) == "success"
        world.pod("late", resourceClaims=uses("second"))
        await until(lambda: is_rejected(world, "late"))
        assert not status(world, "first")
        (waiting,) = old.handle.waiting_pods()
        waiting.allow("Slow")
        await until(lambda: world.node_of("held"))
        assert [each["name"] for each in status(world, "first")["reservedFor"]] == ["held"]
        assert not status(world, "second")
        devices = world.plugin("DynamicResources")._devices
        await until(lambda: not devices.allocated.any_in_flight)
        devices.validate()
        world.validate()


async def test_a_device_is_free_when_a_pod_is_rejected_after_a_reload(tmp_path: Path) -> None:
    write(tmp_path)
    async with running(tmp_path, SLOW) as world:
        one_device(world, "first", "second")
        old = await held(world, "Permit", resourceClaims=uses("first"))
        assert await world.reload(OTHER_ARGUMENTS) == "success"
        world.pod("late", resourceClaims=uses("second"))
        await until(lambda: is_rejected(world, "late"))
        (waiting,) = old.handle.waiting_pods()
        waiting.reject("Slow", "no")
        # Either pod may come first now; the other has to wait.
        await until(lambda: world.node_of("held") or world.node_of("late"))
        bound, pending = ("first", "second") if world.node_of("held") else ("second", "first")
        assert len(status(world, bound)["reservedFor"]) == 1
        assert not status(world, pending)
        devices = world.plugin("DynamicResources")._devices
        await until(lambda: not devices.allocated.any_in_flight)
        devices.validate()
        world.validate()


SILENT = FaultRule(action="silence", verb="patch", resource="resourceclaims/status", times=1)
WRITES = {
    "finalizer": [msgspec.structs.replace(SILENT, resource="resourceclaims")],
    "status": [SILENT],
    "status stored without a response": [
        msgspec.structs.replace(SILENT, action="drop-answer"),
        FaultRule(action="silence", verb="get", resource="resourceclaims", times=1),
    ],
    "binding": [msgspec.structs.replace(SILENT, verb="create", resource="pods/binding")],
}
"""Faults at writes of PreBind, the last of which is held until the faults are cleared."""


async def in_the_middle(world: Running, rules: list[FaultRule]) -> None:
    """Let a pod that gets the only device be held at a write, reload, and let another want it."""
    one_device(world, "first", "second")
    for rule in rules:
        world.cluster.faults.add(rule)
    world.pod("held", resourceClaims=uses("first"))
    await until(lambda: world.cluster.faults.describe()[-1]["acted"])
    assert await world.reload(OTHER_ARGUMENTS) == "success"
    world.pod("late", resourceClaims=uses("second"))
    await until(lambda: is_rejected(world, "late"))
    assert not world.node_of("held")


async def nothing_is_left(world: Running) -> None:
    devices = world.plugin("DynamicResources")._devices
    await until(lambda: not devices.allocated.any_in_flight)
    assert not devices.unsettled
    devices.validate()
    world.validate()


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITES)
async def test_a_write_that_a_reload_interrupts_is_finished(tmp_path: Path, write: str) -> None:
    async with running(tmp_path) as world:
        await in_the_middle(world, WRITES[write])
        world.cluster.faults.clear()
        await until(lambda: world.node_of("held"))
        assert [each["name"] for each in status(world, "first")["reservedFor"]] == ["held"]
        assert not status(world, "second")
        await nothing_is_left(world)
        assert not world.node_of("late")


@pytest.mark.parametrize("write", ["finalizer", "status"])
async def test_a_claim_deleted_while_it_is_written_frees_its_device(
    tmp_path: Path, write: str
) -> None:
    async with running(tmp_path) as world:
        await in_the_middle(world, WRITES[write])
        table = "resourceclaims.resource.k8s.io"
        world.cluster.store.delete(table, "default", "first")
        world.cluster.faults.clear()
        await until(lambda: world.node_of("late"))
        assert [each["name"] for each in status(world, "second")["reservedFor"]] == ["late"]
        await nothing_is_left(world)
        assert not world.node_of("held")
