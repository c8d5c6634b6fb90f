"""Fake kubelets over an API server that knows nothing of them, by HTTP only."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scheduler.client.configuration import ClientConfiguration
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from simulator import EmbeddedCluster, FaultRule, Settings, outside_kubelets
from simulator.controllers.node_status import SIMULATED_LABEL
from simulator.errors import ApiError
from simulator.objects import JsonObject, dig
from simulator.outside_kubelets import NodeTakenError, OutsideKubelets, templates
from tests.integration.simulator.client import until

HOLD = "example.com/hold"


@asynccontextmanager
async def client_of(cluster: EmbeddedCluster) -> AsyncIterator[ApiClient]:
    async with Transport(ClientConfiguration(cluster.url)) as transport:
        yield ApiClient(transport)


@asynccontextmanager
async def kubelets_of(cluster: EmbeddedCluster, nodes: int = 1) -> AsyncIterator[OutsideKubelets]:
    """Kubelets of `nodes` nodes that are ready."""
    async with client_of(cluster) as client:
        kubelets = OutsideKubelets(client, templates(nodes), Settings(terminate_seconds=0))
        task = asyncio.create_task(kubelets.run())
        try:
            await until(lambda: kubelets.ready.is_set() or task.done())
            assert not task.done(), task.exception()
            yield kubelets
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def bare_cluster() -> EmbeddedCluster:
    return EmbeddedCluster(controllers=())


def node(cluster: EmbeddedCluster, name: str = "simulated-0") -> JsonObject:
    return cluster.get("v1", "Node", name)


def pod(cluster: EmbeddedCluster, name: str = "a") -> JsonObject | None:
    try:
        return cluster.get("v1", "Pod", name)
    except ApiError:
        return None


def phase(cluster: EmbeddedCluster, name: str = "a") -> str | None:
    found: str | None = dig(pod(cluster, name) or {}, "status", "phase")
    return found


def create_pod(cluster: EmbeddedCluster, on: str, name: str = "a", **metadata: object) -> None:
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **metadata},
            "spec": {"nodeName": on, "containers": [{"name": "c", "image": "i"}]},
        }
    )


async def test_nodes_are_registered_ready_and_alive() -> None:
    async with bare_cluster() as cluster, kubelets_of(cluster, 3):
        zones = [
            node(cluster, f"simulated-{number}")["metadata"]["labels"][
                "topology.kubernetes.io/zone"
            ]
            for number in range(3)
        ]
        assert zones == ["zone-0", "zone-0", "zone-0"]
        assert node(cluster)["metadata"]["labels"][SIMULATED_LABEL] == "true"
        ready = [one for one in node(cluster)["status"]["conditions"] if one["type"] == "Ready"]
        assert [one["status"] for one in ready] == ["True"]
        lease = cluster.get("coordination.k8s.io/v1", "Lease", "simulated-2", "kube-node-lease")
        assert lease["spec"]["leaseDurationSeconds"] == 40
        assert lease["metadata"]["ownerReferences"][0]["name"] == "simulated-2"


async def test_nodes_of_an_earlier_run_are_taken_up_again() -> None:
    async with bare_cluster() as cluster:
        async with kubelets_of(cluster):
            first = cluster.get("coordination.k8s.io/v1", "Lease", "simulated-0", "kube-node-lease")
        async with kubelets_of(cluster):
            second = cluster.get(
                "coordination.k8s.io/v1", "Lease", "simulated-0", "kube-node-lease"
            )
        assert second["metadata"]["uid"] == first["metadata"]["uid"]
        assert second["spec"]["renewTime"] > first["spec"]["renewTime"]


async def test_a_node_with_a_kubelet_of_its_own_is_left_alone() -> None:
    async with bare_cluster() as cluster, client_of(cluster) as client:
        cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "simulated-0"}})
        before = node(cluster)
        with pytest.raises(NodeTakenError, match=r"without the label kubestow\.io/simulated"):
            await OutsideKubelets(client, templates(1)).run()
        assert node(cluster) == before


async def test_a_bound_pod_runs_and_goes_when_it_is_deleted() -> None:
    async with bare_cluster() as cluster, kubelets_of(cluster):
        create_pod(cluster, "elsewhere", "foreign")
        create_pod(cluster, "simulated-0")
        await until(lambda: phase(cluster) == "Running")
        types = {one["type"] for one in (pod(cluster) or {})["status"]["conditions"]}
        assert types >= {"PodScheduled", "Ready"}
        assert phase(cluster, "foreign") == "Pending"

        pods = cluster.resources.of_kind("v1", "Pod")
        cluster.api.delete(pods, "default", "a")
        await until(lambda: pod(cluster) is None)


async def test_a_pod_with_a_finalizer_ends_and_stays_until_it_is_released() -> None:
    async with bare_cluster() as cluster, kubelets_of(cluster):
        create_pod(cluster, "simulated-0", finalizers=[HOLD])
        await until(lambda: phase(cluster) == "Running")
        pods = cluster.resources.of_kind("v1", "Pod")
        cluster.api.delete(pods, "default", "a")
        await until(lambda: dig(pod(cluster) or {}, "metadata", "deletionGracePeriodSeconds") == 0)
        assert phase(cluster) == "Succeeded"

        released = dict(pod(cluster) or {})
        released["metadata"] = {**released["metadata"], "finalizers": []}
        cluster.api.update(pods, "default", "a", released)
        await until(lambda: pod(cluster) is None)


async def test_allocatable_follows_capacity() -> None:
    async with bare_cluster() as cluster, kubelets_of(cluster):
        nodes = cluster.resources.of_kind("v1", "Node")

        def offer(capacity: JsonObject) -> None:
            now = node(cluster)
            status = {**now["status"], "capacity": capacity}
            cluster.api.update(
                nodes, "", "simulated-0", {**now, "status": status}, subresource="status"
            )

        own = node(cluster)["status"]["capacity"]
        offer({**own, "example.com/foo": "5"})
        await until(lambda: node(cluster)["status"]["allocatable"].get("example.com/foo") == "5")
        offer(own)
        await until(lambda: node(cluster)["status"]["allocatable"] == own)


async def test_a_node_marked_as_lost_is_ready_again() -> None:
    async with bare_cluster() as cluster, kubelets_of(cluster):
        nodes = cluster.resources.of_kind("v1", "Node")
        now = node(cluster)
        lost = [
            {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"},
            {"type": "example.com/Kept", "status": "True"},
        ]
        body = {**now, "status": {**now["status"], "conditions": lost}}
        cluster.api.update(nodes, "", "simulated-0", body, subresource="status")

        def states() -> dict[str, str]:
            found = node(cluster)["status"]["conditions"]
            return {one["type"]: one["status"] for one in found}

        await until(lambda: states()["Ready"] == "True")
        assert states()["example.com/Kept"] == "True"


async def test_a_write_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside_kubelets, "RETRY_SECONDS", 0.0)
    async with bare_cluster() as cluster, kubelets_of(cluster):
        failing = FaultRule(action="error", verb="patch", resource="pods/status", code=500, times=3)
        cluster.faults.add(failing)
        create_pod(cluster, "simulated-0")
        await until(lambda: phase(cluster) == "Running")
        assert cluster.faults.describe()[0]["acted"] == 3


async def test_the_command_line_names_the_node_that_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with bare_cluster() as cluster:
        cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "box-0"}})
        kubeconfig = cluster.write_kubeconfig(tmp_path / "kubeconfig")
        arguments = ["--kubeconfig", str(kubeconfig), "--nodes", "1", "--prefix", "box-"]
        with pytest.raises(SystemExit, match="1"):
            await asyncio.to_thread(outside_kubelets.main, arguments)
    assert "error: node box-0 exists without the label" in capsys.readouterr().err
