"""B57 in small: the churn of `make soak`, and its detection of a leak."""

from __future__ import annotations

import pytest

from benchmarks.bound_sum import BoundSum
from benchmarks.quota_soak import LIMIT, soak
from devtools.embedded_service import bind, delete, node, patch_status, pod
from simulator import EmbeddedCluster


@pytest.mark.slow
async def test_b57_churn_exceeds_nothing_and_leaves_nothing() -> None:
    said: list[str] = []
    report = await soak(3.0, seed=7, say=said.append)
    assert report.problems == []
    assert report.finished >= report.binds > 0
    assert max(report.most_used.values()) <= LIMIT


@pytest.mark.soak
async def test_b57_a_minute_of_churn() -> None:
    report = await soak(60.0, seed=8, say=print)
    assert report.problems == []


async def test_the_sum_follows_pods_that_are_bound_finish_and_go() -> None:
    async with EmbeddedCluster(controllers=(), seed=1) as cluster:
        cluster.create(node("n1"))
        total = BoundSum(cluster)
        cluster.create(pod("a", "1500m"))
        cluster.create(pod("b", "2"))
        assert total.now == 0
        bind(cluster, "a", "n1")
        bind(cluster, "b", "n1")
        assert (total.now, total.most, total.binds) == (3500, 3500, 2)
        patch_status(cluster, "a", {"phase": "Succeeded"})
        assert total.now == 2000
        delete(cluster, "b")
        assert (total.now, total.most) == (0, 3500)
