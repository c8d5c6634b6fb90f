"""Gangs whose members use resource claims."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster

GROUP = "resource.k8s.io/v1"
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


def add_devices(cluster: GangCluster, name: str, count: int, *, cpu: int = 8) -> None:
    """Add a node with devices."""
    cluster.add_node(node(name, cpu=cpu))
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


def devices_of(cluster: GangCluster) -> Any:
    """Return what DynamicResources knows of devices."""
    found = cluster.plugin("DynamicResources")._devices
    found.validate()
    return found


def users_of(cluster: GangCluster, claim: str) -> set[str]:
    """Return the names of the pods that a claim is reserved for."""
    stored = devices_of(cluster).claims.get(claim, "default")
    return {each.name for each in stored.status.reserved_for}


def test_members_that_share_an_open_claim_are_bound_together(cycles: list[bool]) -> None:
    with GangCluster(nodes=2) as cluster:
        add_devices(cluster, "with", 1)
        add_claims(cluster, "shared")
        cluster.add_group(3)
        cluster.add_members(3, spec=using("shared"))
        cluster.tick(5)
        assert list(cluster.bound().values()) == ["with"] * 3
        assert cycles == [True]
        assert users_of(cluster, "shared") == {"g-pod-0", "g-pod-1", "g-pod-2"}
        assert len(devices_of(cluster).group_claims) == 0


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


def test_a_gang_is_not_tied_to_the_node_that_its_first_member_prefers(cycles: list[bool]) -> None:
    with GangCluster(nodes=0) as cluster:
        # The emptiest one has room for two members.
        add_devices(cluster, "small", 1, cpu=4)
        add_devices(cluster, "large", 1, cpu=16)
        cluster.add_pods(pod("others", cpu=10, spec={"nodeName": "large"}))
        add_claims(cluster, "shared")
        cluster.add_group(3)
        cluster.add_members(3, spec=using("shared"))
        cluster.tick(5)
        assert set(cluster.bound("g-").values()) == {"large"}
        assert cycles == [True]


def test_the_text_of_a_gang_that_shares_a_claim_counts_the_best_node(cycles: list[bool]) -> None:
    with GangCluster(nodes=1) as cluster:
        add_devices(cluster, "small", 1, cpu=2)
        add_devices(cluster, "large", 1, cpu=4)
        add_claims(cluster, "shared")
        cluster.add_group(3)
        keys = cluster.add_members(3, spec=using("shared"))
        assert "needs 3 pods, 2 fit" in cluster.message(keys[2])
        assert cycles == [False]
        cluster.add(node("large", cpu=6))
        cluster.tick(5)
        assert set(cluster.bound().values()) == {"large"}
        assert len(devices_of(cluster).group_claims) == 0


NODES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=3)
"""CPU in halves of a member's, and devices."""
MEMBERS = st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=5)
"""The claims that they use."""


@pytest.mark.slow
@given(NODES, st.lists(MEMBERS, min_size=1, max_size=3), st.data())
@settings(deadline=None, max_examples=25)
def test_claims_are_reserved_for_bound_members_only_and_nothing_stays_in_flight(
    nodes: list[tuple[int, int]], gangs: list[list[str]], data: st.DataObject
) -> None:
    with GangCluster(nodes=0) as cluster:
        for number, (room, devices) in enumerate(nodes):
            add_devices(cluster, f"n{number}", devices, cpu=2 * room)
        add_claims(cluster, "a", "b", "c")
        minima: dict[str, int] = {}
        used: dict[str, str] = {}
        for number, claims in enumerate(gangs):
            name = f"g{number}"
            minima[name] = data.draw(st.integers(1, len(claims)))
            cluster.add_group(minima[name], name)
            for claim in claims:
                spec = using(claim) if claim else {}
                (key,) = cluster.add_members(1, name, spec=spec)
                used[key] = claim
        cluster.tick(5)
        gone = data.draw(st.lists(st.sampled_from(sorted(used)), unique=True))
        for key in gone:
            cluster.world.delete_pod(key)
        cluster.tick(5)
        bound = cluster.bound()
        devices_known = devices_of(cluster)
        assert not devices_known.allocated.any_in_flight
        assert len(devices_known.group_claims) == 0
        for name, minimum in minima.items():
            mine = [key for key in bound if key.startswith(f"default/{name}-")]
            assert gone or not mine or len(mine) >= minimum
        for claim in "abc":
            users = {key for key in bound if used[key] == claim}
            reserved = {f"default/{each}" for each in users_of(cluster, claim)}
            assert users <= reserved
            assert reserved <= users | set(gone)
            places = {bound[key] for key in users}
            stored = devices_known.claims.get(claim, "default").status.allocation
            assert places <= ({each.pool for each in stored.devices.results} if stored else set())
        cluster.validate()
