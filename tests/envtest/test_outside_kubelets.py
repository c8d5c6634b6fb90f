"""Fake kubelets on a real control plane, whose controllers and admission treat them as real.

With all default admission plugins on, a new node is tainted until the node lifecycle controller
finds it ready, and a pod needs a service account.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from devtools.control_plane.admin import ApiError, JsonObject
from devtools.control_plane.control_plane import ApiServerOptions, Binaries, ControlPlane
from scheduler.client.configuration import load_configuration
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from simulator import Settings
from simulator.outside_kubelets import OutsideKubelets, templates

pytestmark = pytest.mark.envtest("kube-controller-manager")

NODE = "/api/v1/nodes/simulated-0"
PODS = "/api/v1/namespaces/default/pods"
CONTROLLERS = ("node-lifecycle-controller", "serviceaccount-controller")


@pytest.fixture(scope="module")
def bare(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Run a control plane with the controllers that matter here, and no nodes."""
    options = ApiServerOptions(disabled_admission_plugins=())
    directory = tmp_path_factory.mktemp("outside")
    with ControlPlane(envtest_binaries, options, directory) as plane:
        plane.start_controller_manager(controllers=CONTROLLERS)
        yield plane


@pytest.fixture
async def plane(bare: ControlPlane) -> AsyncIterator[ControlPlane]:
    """Return the control plane while one fake node is alive."""
    configuration = await load_configuration(kubeconfig=str(bare.kubeconfig))
    async with Transport(configuration) as transport:
        settings = Settings(terminate_seconds=0)
        kubelets = OutsideKubelets(ApiClient(transport), templates(1), settings)
        task = asyncio.create_task(kubelets.run())
        try:
            async with asyncio.timeout(120):
                await kubelets.ready.wait()
            yield bare
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def get(plane: ControlPlane, path: str) -> JsonObject | None:
    """Return an object, or None if it does not exist."""
    try:
        return await asyncio.to_thread(plane.admin.request, "GET", path)
    except ApiError as error:
        if error.status != 404:
            raise
        return None


async def until(
    plane: ControlPlane, path: str, holds: Callable[[JsonObject | None], object]
) -> JsonObject:
    """Wait until `holds` is true of the object and return it; fail after two minutes."""
    async with asyncio.timeout(120):
        while not holds(found := await get(plane, path)):  # noqa: ASYNC110 - it is elsewhere
            await asyncio.sleep(0.05)
    return found or {}


def part(found: JsonObject | None, *path: str) -> object:
    value: object = found
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


async def test_a_node_loses_its_taints_and_follows_its_capacity(plane: ControlPlane) -> None:
    await until(plane, NODE, lambda node: node and not part(node, "spec", "taints"))
    patch = {"status": {"capacity": {"example.com/foo": "2"}}}
    await asyncio.to_thread(plane.admin.request, "PATCH", f"{NODE}/status", patch)
    await until(
        plane, NODE, lambda node: part(node, "status", "allocatable", "example.com/foo") == "2"
    )


async def test_a_pod_runs_ends_and_is_held_by_its_finalizer(plane: ControlPlane) -> None:
    await until(
        plane, "/api/v1/namespaces/default/serviceaccounts/default", lambda account: account
    )
    pod = {
        "metadata": {"name": "a", "finalizers": ["example.com/hold"]},
        "spec": {
            "nodeName": "simulated-0",
            "terminationGracePeriodSeconds": 2,
            "containers": [
                {
                    "name": "c",
                    "image": "none.invalid/none:1",
                    "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
                }
            ],
        },
    }
    await asyncio.to_thread(plane.admin.request, "POST", PODS, pod)
    path = f"{PODS}/a"
    running = await until(plane, path, lambda pod: part(pod, "status", "phase") == "Running")
    conditions = part(running, "status", "conditions")
    assert isinstance(conditions, list)
    assert {"PodScheduled", "Ready"} <= {
        one["type"] for one in conditions if one["status"] == "True"
    }

    await asyncio.to_thread(plane.admin.request, "DELETE", path)
    ended = await until(
        plane, path, lambda pod: part(pod, "metadata", "deletionGracePeriodSeconds") == 0
    )
    assert part(ended, "status", "phase") == "Succeeded"
    release = {"metadata": {"finalizers": None}}
    await asyncio.to_thread(plane.admin.request, "PATCH", path, release)
    await until(plane, path, lambda pod: pod is None)
