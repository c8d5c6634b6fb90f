"""Kueue gates, suspends and slices; kubestow binds what it admits, within the deferred quota.

Each scenario runs with and without the policies P1 to P6 in force in its namespace. What Kueue may
admit is its nominal quota, what may be bound the quota of the namespace.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

import pytest

from tests.envtest.workload import until
from tests.thirdparty.cluster import Cluster
from tests.thirdparty.conftest import ClusterFactory
from tests.thirdparty.kueue import Kueue
from tests.thirdparty.team import HOSTNAME, NODE_LABELS, Team

pytestmark = [
    pytest.mark.thirdparty("kueue"),
    pytest.mark.parametrize("guarded", [False, True], ids=["open", "guarded"]),
]

GATE: Final = {"ResourceQuotaDeferredEnforcement": True}


@pytest.fixture(scope="module")
def cluster(make_cluster: ClusterFactory) -> Cluster:
    cluster = make_cluster(components=("deferred-quota-policies", "deferred-quota-mark"))
    cluster.start_kubestow(feature_gates=GATE)
    for name in ("n1", "n2"):
        cluster.node(name, {"cpu": "128", "memory": "256Gi", "pods": "200"}, NODE_LABELS)
    Kueue(cluster).start()
    return cluster


def name_of(base: str, guarded: bool) -> str:
    return f"{base}-guarded" if guarded else base


def report(what: str, latencies: Sequence[float]) -> None:
    """Print how long it took from the last gate to the node."""
    if latencies:
        median, worst = statistics.median(latencies) * 1000, latencies[-1] * 1000
        print(
            f"\n{what}: ungated to bound, {len(latencies)} pods: "
            f"median {median:.0f} ms, worst {worst:.0f} ms"
        )


def check(team: Team, limit: int, *, gated: bool = True) -> None:
    """Assert the invariants of every scenario: `limit` is the greatest so far, in cores."""
    history = team.history()
    assert history.most_cpu == limit * 1000, "the whole quota was used, and no more"
    assert not history.unschedulable(), "there is room on the nodes"
    assert not gated or any(life.gated for life in history.lives.values())
    for life in history.lives.values():
        assert life.gated_reasons <= {"SchedulingGated"}, life
        assert set(life.reasons) <= {"ResourceQuotaValidated"}, life
    report(team.name, history.latencies())


def test_plain_pods_are_bound_as_kueue_admits_them(cluster: Cluster, guarded: bool) -> None:
    with Team(cluster, name_of("plain", guarded), cpu=4, guarded=guarded) as team:
        team.queue(cpu=4)
        for number in range(20):
            team.pod(f"p{number}")
        finished: set[str] = set()

        def all_ran() -> bool:
            for name in team.bound():
                team.finish(name)
                finished.add(name)
            return len(finished) == 20

        team.until_bound(4)
        team.until_used(4)
        assert len(team.gated()) == 16
        until(all_ran, "all pods had their turn")
        team.until_used(0)
        check(team, 4)
        marks = {life.marked for life in team.history().lives.values()}
        assert marks == {guarded}, "P5 marks what Kueue's webhook gates"


def test_pods_that_kueue_admits_beyond_the_quota_are_held(cluster: Cluster, guarded: bool) -> None:
    with Team(cluster, name_of("held", guarded), cpu=4, guarded=guarded) as team:
        team.queue(cpu=8)
        for number in range(10):
            team.pod(f"p{number}")
        bound, held = team.until_bound(4), team.until_held(4)
        assert len(team.until_gated(2)) == 2
        for name in held:
            # A pod that was queued before others took the quota is held in its cycle, whose message
            # says more.
            assert (
                "quota exceeded: deferred, requested: requests.cpu=1, used: requests.cpu=4, "
                "limited: requests.cpu=4"
            ) in team.message(name)
        team.until_used(4)
        team.finish(bound[0])
        team.until_gated(1)
        team.until_bound(4)
        check(team, 4)
        team.limit(8)
        team.until_bound(8)
        team.until_gated(1)
        check(team, 8)


def test_a_pod_larger_than_the_quota_delays_no_other_pod(cluster: Cluster, guarded: bool) -> None:
    with Team(cluster, name_of("large", guarded), cpu=8, guarded=guarded) as team:
        team.queue(cpu=8)
        if guarded:
            message = until(lambda: team.rejection("9"), "P1 rejects it")
            assert "exceeded quota: deferred, requested: requests.cpu-millis=9000" in message
        else:
            team.pod("large", cpu="9", queued=False)
            assert team.until_held(1) == ["large"]
            assert team.message("large").endswith("(exceeds the quota even when empty)")
        for number in range(4):
            team.pod(f"small-{number}")
        team.until_bound(4)
        team.until_used(4)
        if not guarded:
            # Fits an empty quota, but not what is left of this one.
            team.pod("middle", cpu="8", queued=False)
            until(lambda: "middle" in team.held(), "the middle one held")
            assert "used: requests.cpu=4," in team.message("middle")
        team.pod("two", cpu="2")
        until(lambda: "two" in team.bound(), "two bound")
        team.until_used(6)
        check(team, 6)


def test_pod_groups_start_together_and_wait_together(cluster: Cluster, guarded: bool) -> None:
    with Team(cluster, name_of("groups", guarded), cpu=4, guarded=guarded) as team:
        team.queue(cpu=4)
        team.pod("a0", group="a", group_size=3)
        team.pod("a1", group="a", group_size=3)
        team.until_gated(2)
        team.pod("a2", group="a", group_size=3)
        first = team.until_bound(3)
        for number in range(4):
            team.pod(f"b{number}", group="b", group_size=4)
        team.until_gated(4)
        assert sorted(team.bound()) == sorted(first)
        team.finish(*first)
        assert sorted(team.until_bound(4)) == ["b0", "b1", "b2", "b3"]
        check(team, 4)


def test_a_pod_group_beyond_the_quota_is_bound_in_part(cluster: Cluster, guarded: bool) -> None:
    with Team(cluster, name_of("group-part", guarded), cpu=2, guarded=guarded) as team:
        team.queue(cpu=4)
        for number in range(3):
            team.pod(f"a{number}", group="a", group_size=3)
        bound = team.until_bound(2)
        team.until_held(1)
        team.finish(bound[0])
        team.until_bound(2)
        team.until_held(0)
        check(team, 2)


def test_jobs_start_when_kueue_admits_them(cluster: Cluster, guarded: bool) -> None:
    with Team(cluster, name_of("jobs", guarded), cpu=4, guarded=guarded) as team:
        team.queue(cpu=4)
        team.job("a", parallelism=4)
        first = team.until_bound(4)
        team.job("b", parallelism=3)
        until(lambda: len(team.workloads()) == 2, "Kueue knows of both jobs")
        assert cluster.get(f"{team.jobs}/b")["spec"]["suspend"]
        assert sorted(team.pods()) == sorted(first)
        team.finish(*first)
        team.until_bound(3)
        check(team, 4, gated=False)
        assert not any(life.gated for life in team.history().lives.values())


def test_a_job_beyond_the_quota_has_its_pods_held_or_rejected(
    cluster: Cluster, guarded: bool
) -> None:
    with Team(cluster, name_of("job-part", guarded), cpu=2, guarded=guarded) as team:
        team.queue(cpu=4)
        team.job("a", parallelism=2)
        first = team.until_bound(2)
        team.until_used(2)
        team.job("b", parallelism=2)
        if guarded:
            until(lambda: team.events("FailedCreate"), "the job controller cannot create the pods")
            (event, *_) = team.events("FailedCreate")
            assert (
                "exceeded quota: deferred, requested: requests.cpu-millis=1000"
                in (event["message"])
            )
            assert sorted(team.pods()) == sorted(first)
        else:
            team.until_held(2)
        team.finish(*first)
        team.until_bound(2)
        check(team, 2, gated=False)


def test_an_elastic_job_grows_into_what_the_quota_leaves(cluster: Cluster, guarded: bool) -> None:
    with Team(cluster, name_of("elastic", guarded), cpu=4, guarded=guarded) as team:
        team.queue(cpu=8)
        team.job("a", parallelism=2, elastic=True)
        first = team.until_bound(2)
        team.scale("a", 6)
        team.until_bound(4)
        held = team.until_held(2)
        assert set(first) <= set(team.bound()), "none of the first was lost"
        check(team, 4)
        team.limit(6)
        team.until_bound(6)
        assert set(held) <= set(team.bound())
        team.scale("a", 3)
        team.until_bound(3)
        team.until_used(3)
        check(team, 6)
        lives = team.history().lives.values()
        assert all(life.gated and life.marked == guarded for life in lives)


def test_the_nodes_that_kueue_chooses_are_used(cluster: Cluster, guarded: bool) -> None:
    """Topology-aware scheduling: Kueue sets a node selector when it removes its second gate."""
    with Team(cluster, name_of("topology", guarded), cpu=2, guarded=guarded) as team:
        team.queue(cpu=4, flavor="by-host")
        for number in range(3):
            team.pod(f"a{number}", group="a", group_size=3, one_host=True)
        bound = team.until_bound(2)
        (held,) = team.until_held(1)
        team.finish(bound[0])
        until(lambda: held in team.bound(), "the last of the group bound")
        pods = team.pods().values()
        nodes = {each["spec"]["nodeName"] for each in pods}
        assert len(nodes) == 1
        assert {each["spec"]["nodeSelector"][HOSTNAME] for each in pods} == nodes
        check(team, 2)
