"""Gangs whose members use resource claims."""

from __future__ import annotations

from typing import Any

from scheduler.testing import node
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster

GROUP = "resource.k8s.io/v1"
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


def add_devices(cluster: GangCluster, name: str, count: int) -> None:
    """Add a node of 8 CPU with devices."""
    cluster.add_node(node(name, cpu=8))
    listed = [{"name": f"device-{number}"} for number in range(count)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": listed}
    cluster.add(
        {"apiVersion": GROUP, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
    )


def add_claims(cluster: GangCluster, *names: str) -> None:
    """Add a class, and claims for one device each."""
    cluster.add({"apiVersion": GROUP, "kind": "DeviceClass", "metadata": {"name": "gpu"}})
    for name in names:
        metadata = {"name": name, "namespace": "default"}
        cluster.add(
            {"apiVersion": GROUP, "kind": "ResourceClaim", "metadata": metadata, "spec": SPEC}
        )


def using(claim: str) -> dict[str, Any]:
    """Return the spec of a pod that uses a claim."""
    return {"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}


def test_members_that_share_an_open_claim_wait_and_are_not_tried_without_end(
    cycles: list[bool],
) -> None:
    with GangCluster(nodes=2) as cluster:
        add_devices(cluster, "with", 1)
        add_claims(cluster, "shared")
        cluster.add_group(3)
        cluster.add_members(3, spec=using("shared"))
        cluster.tick(60)
        assert not cluster.bound()
        assert len(cycles) <= 2


def test_members_with_claims_of_their_own_get_different_devices(cycles: list[bool]) -> None:
    with GangCluster(nodes=1) as cluster:
        for name in ("x", "y"):
            add_devices(cluster, name, 1)
        add_claims(cluster, "a", "b")
        cluster.add_group(2)
        for claim in ("a", "b"):
            cluster.add_members(1, spec=using(claim))
        cluster.tick(5)
        assert set(cluster.bound().values()) == {"x", "y"}
        assert cycles == [True]


def test_a_gang_that_fails_gives_its_devices_back() -> None:
    with GangCluster(nodes=0) as cluster:
        add_devices(cluster, "with", 1)
        add_claims(cluster, "shared", "other")
        cluster.add_group(6)
        cluster.add_members(6, spec=using("shared"))
        cluster.tick(5)
        assert not cluster.bound()
        cluster.add_group(1, "h")
        cluster.add_members(1, "h", spec=using("other"))
        cluster.tick(5)
        assert len(cluster.bound("h-pod")) == 1
