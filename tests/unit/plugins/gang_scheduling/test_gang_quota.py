"""Gangs and deferred quota: quota that is enough for a part of a gang is not used for a part."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster


@pytest.fixture
def cluster() -> Iterator[GangCluster]:
    with GangCluster(8) as found:
        yield found
        found.validate()


def set_quota(cluster: GangCluster, cpus: int) -> None:
    hard = {"deferred.kubestow.io/requests.cpu-millis": str(cpus * 1000)}
    cluster.add(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "cpus", "namespace": "default"},
            "spec": {"hard": hard},
        }
    )


def test_g37_quota_for_a_part_binds_nobody_and_more_of_it_binds_all(cluster: GangCluster) -> None:
    set_quota(cluster, 6)
    cluster.add_group(4)
    cluster.add_members(4)
    cluster.tick(60)
    assert not cluster.bound()
    set_quota(cluster, 8)
    cluster.tick(60)
    assert len(cluster.bound()) == 4


def test_g37_of_two_gangs_that_race_for_the_last_quota_one_has_all(cluster: GangCluster) -> None:
    set_quota(cluster, 10)
    for name in "ab":
        cluster.add_group(4, name)
    for _ in range(4):
        for name in "ab":
            cluster.add_members(1, name)
    cluster.tick(60)
    assert sorted(len(cluster.bound(name)) for name in "ab") == [0, 4]
    first = "a" if cluster.bound("a") else "b"
    for key in list(cluster.bound(first)):
        cluster.world.remove("Pod", key.partition("/")[2], "default")
    cluster.tick(60)
    assert len(cluster.bound("b" if first == "a" else "a")) == 4


def test_g37_a_single_pod_gets_the_quota_that_is_too_little_for_a_gang(
    cluster: GangCluster,
) -> None:
    set_quota(cluster, 6)
    cluster.add_group(4)
    cluster.add_members(4)
    cluster.tick(5)
    (single,) = cluster.add_members(1, "", name="single", cpu=1)
    cluster.tick(60)
    assert single in cluster.bound()
    assert not cluster.bound("g-pod")
