"""Kueue's `waitForPodsReady` counts the time that the quota holds a pod: its consequences.

docs/deferred-quota.md describes the set-up that each kind of job needs. Here each runs in a wrong
one: Kueue may admit more than the quota of the namespace lets run.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Final

import pytest

from tests.envtest.workload import until
from tests.thirdparty.cluster import Cluster
from tests.thirdparty.conftest import ClusterFactory
from tests.thirdparty.kueue import Kueue
from tests.thirdparty.team import Team

pytestmark = pytest.mark.thirdparty("kueue")

GATE: Final = {"ResourceQuotaDeferredEnforcement": True}
HELD: Final = "ResourceQuotaValidated"
TIMEOUT_SECONDS: Final = 40
CONFIG: Final = {
    "waitForPodsReady": {
        "timeout": f"{TIMEOUT_SECONDS}s",
        "recoveryTimeout": f"{TIMEOUT_SECONDS}s",
        "requeuingStrategy": {"backoffBaseSeconds": 1, "backoffMaxSeconds": 2},
    }
}


@pytest.fixture(scope="module")
def cluster(make_cluster: ClusterFactory) -> Cluster:
    cluster = make_cluster(components=("deferred-quota-policies", "deferred-quota-mark"))
    cluster.start_kubestow(feature_gates=GATE)
    cluster.node("n1", {"cpu": "64", "memory": "256Gi", "pods": "200"})
    Kueue(cluster).start(CONFIG)
    return cluster


def test_the_effect_of_a_held_pod_on_each_kind_of_job(cluster: Cluster) -> None:
    """All kinds run at once, as each waits for the same timeout."""
    with ExitStack() as teams:

        def team(name: str, *, cpu: int, guarded: bool) -> Team:
            made = teams.enter_context(Team(cluster, name, cpu=cpu, guarded=guarded))
            made.queue(cpu=8)
            return made

        plain = team("plain", cpu=2, guarded=True)
        group = team("group", cpu=2, guarded=True)
        elastic = team("elastic", cpu=3, guarded=True)
        job = team("job", cpu=2, guarded=False)

        elastic.job("a", parallelism=2, elastic=True)
        running = elastic.until_bound(2)
        elastic.scale("a", 4)
        for number in range(3):
            plain.pod(f"p{number}")
            group.pod(f"g{number}", group="g", group_size=3)
        job.job("a", parallelism=3)
        for each, bound in ((plain, 2), (group, 2), (job, 2), (elastic, 3)):
            until(partial(_was_full, each, bound), f"the quota of {each.name} full, a pod held")
        (loser,) = [life.name for life in plain.history().lives.values() if HELD in life.reasons]

        # A plain pod is a workload of its own: it alone is deleted, and not replaced.
        until(lambda: loser not in plain.pods(), "the held plain pod deleted")
        assert len(plain.bound()) == 2

        # All pods of a group are deleted, those that were running too.
        until(lambda: not group.pods(), "all pods of the group deleted")

        # An elastic job loses those that were running before it grew. (Kueue 0.15.2 cannot start
        # it again: a conflict with the annotation that its first slice left in the pod template.)
        until(lambda: not set(running) & set(elastic.pods()), "the pods of the elastic job deleted")

        # A Job is suspended and queued again: with the room that it needs it runs.
        until(lambda: _requeued(job), "the job queued again")
        job.limit(3)
        job.until_bound(3)

        for each, limit in ((plain, 2), (group, 2), (elastic, 3), (job, 3)):
            history = each.history()
            assert history.most_cpu == limit * 1000
            assert not history.unschedulable()


def _was_full(team: Team, bound: int) -> bool:
    """Whether so many pods were bound and another held, be it that Kueue has ended them since."""
    lives = team.history().lives.values()
    return sum(life.bound is not None for life in lives) >= bound and any(
        HELD in life.reasons for life in lives
    )


def _requeued(team: Team) -> bool:
    counts = [
        each.get("status", {}).get("requeueState", {}).get("count", 0) for each in team.workloads()
    ]
    return max(counts, default=0) > 0
