"""KEP-5465: usage is published in `status.used`, in absolute amounts, while a leader runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from devtools.embedded_service import node, pod, sample, until
from plugins.resource_quota.keys import PREFIX
from scheduler.api.quantity import NANO, parse
from scheduler.client.fence import Fence
from scheduler.controllers.quota_usage import usage_writer
from scheduler.controllers.quota_usage.publication import Publication
from scheduler.controllers.quota_usage.usage_writer import UsageWriter
from simulator import EmbeddedCluster, FaultRule
from simulator.api import MERGE_PATCH
from tests.integration.deferred_quota.stage import CPU, Stage, staged

ERRORS = "scheduler_resource_quota_writer_errors_total"


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(controllers=("quota",), seed=1) as running:
        yield running


def shown(stage: Stage, name: str = "q") -> dict[str, str]:
    """`status.used` as stored, without our prefix."""
    status: dict[str, Any] = stage.cluster.get("v1", "ResourceQuota", name).get("status") or {}
    used = (status.get("used") or {}).items()
    # The server writes 2000 as 2k.
    return {key.removeprefix(PREFIX): str(parse(raw).nano // NANO) for key, raw in used}


async def shows(stage: Stage, expected: dict[str, str], name: str = "q") -> None:
    await until(lambda: shown(stage, name) == expected, f"{name} shows {expected}")


class Log:
    """Every value of our key that the cluster ever stored."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.values: list[str] = []
        cluster.store.subscribe("resourcequotas", self._changed)

    def _changed(self, _table: str, change: Any) -> None:
        used = (change.version.obj.get("status") or {}).get("used") or {}
        raw = used.get(PREFIX + CPU)
        value = "" if raw is None else str(parse(raw).nano // NANO)
        if value and (not self.values or self.values[-1] != value):
            self.values.append(value)


async def test_b06_what_is_bound_is_published_and_what_ends_is_taken_off_later(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=5000)
        await shows(stage, {CPU: "0"})
        stage.released("a", cpu="1500m")
        await stage.bound("a")
        await shows(stage, {CPU: "1500"})
        stage.finish("a")
        await until(lambda: stage.used() == {CPU: "0"}, "the ledger knows")
        # The decrease has to last: with the clock standing nearly still nothing is written.
        assert shown(stage) == {CPU: "1500"}
        stage.advance(1.0)
        stage.advance(3.0)
        await shows(stage, {CPU: "0"})


async def test_b05_b10_neither_gated_nor_held_pods_are_ever_shown(cluster: EmbeddedCluster) -> None:
    log = Log(cluster)
    async with staged(cluster) as stage:
        await stage.quota(cpu=2000)
        stage.gated("waits", "2")
        stage.released("a", cpu="2")
        await stage.bound("a")
        await shows(stage, {CPU: "2000"})
        stage.ungate("waits")
        await stage.held("waits")
        stage.advance()
        await stage.quiet()
        assert shown(stage) == {CPU: "2000"}
        stage.finish("a")
        await stage.bound("waits")
        stage.advance()
        await stage.quiet()
        assert log.values == ["0", "2000"]


async def test_never_gated_pods_are_shown_from_their_creation(cluster: EmbeddedCluster) -> None:
    async with staged(cluster, [node("small", "1")]) as stage:
        await stage.quota(cpu=9000)
        cluster.create(pod("pending", "4"))
        await shows(stage, {CPU: "4000"})


async def test_b44_only_deferred_keys_are_written_beside_those_of_the_controller(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        body = {PREFIX + CPU: "4000", "pods": "10"}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
        cluster.create({**quota, "spec": {"hard": body}})
        await shows(stage, {CPU: "0", "pods": "0"})
        stage.released("a", "b")
        await stage.bound("a", "b")
        await shows(stage, {CPU: "2000", "pods": "2"})
        stage.delete("a")
        await until(lambda: shown(stage)["pods"] == "1")
        assert shown(stage)[CPU] == "2000"
        stage.advance(3)
        stage.advance(3)
        await shows(stage, {CPU: "1000", "pods": "1"})


async def test_several_quotas_and_a_new_key(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        for number in range(12):
            await stage.quota(f"q{number}", cpu=50000)
        stage.released("a", cpu="3")
        await stage.bound("a")
        for number in range(12):
            await shows(stage, {CPU: "3000"}, f"q{number}")
        await stage.patch_quota("q3", {"requests.memory": "8Gi"})
        await shows(stage, {CPU: "3000", "requests.memory": "0"}, "q3")


async def test_values_of_other_writers_are_overwritten(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=5000)
        stage.released("a")
        await stage.bound("a")
        await shows(stage, {CPU: "1000"})
        resource = cluster.resources.of_kind("v1", "ResourceQuota")
        patch = {"status": {"used": {PREFIX + CPU: "77"}}}
        cluster.api.patch(resource, "default", "q", patch, MERGE_PATCH, subresource="status")

        def put_right() -> bool:
            stage.advance(1)
            return shown(stage) == {CPU: "1000"}

        await until(put_right)


async def test_failed_writes_are_counted_and_repeated(cluster: EmbeddedCluster) -> None:
    cluster.faults.add(
        FaultRule(action="error", verb="patch", resource="resourcequotas/status", code=500, times=3)
    )
    async with staged(cluster) as stage:
        await stage.quota(cpu=5000)
        stage.released("a")
        await stage.bound("a")

        def written() -> bool:
            stage.advance(10)
            return shown(stage) == {CPU: "1000"}

        await until(written)
        assert sample(stage.wiring, ERRORS) == 3


async def test_a_write_cancelled_by_an_error_is_made_after_the_restart(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_writer, "RESTART_SECONDS", 0.0)
    real = UsageWriter._write
    broken: list[Publication] = []

    async def breaks_once(self: UsageWriter, write: Publication) -> None:
        if not broken:
            broken.append(write)
            raise RuntimeError("nobody expected this")
        await real(self, write)

    monkeypatch.setattr(UsageWriter, "_write", breaks_once)
    async with staged(cluster) as stage:
        await stage.quota(cpu=5000)
        await shows(stage, {CPU: "0"})
    assert broken


async def test_a_quota_that_is_deleted_and_created_again_is_published(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=5000)
        stage.released("a")
        await stage.bound("a")
        await shows(stage, {CPU: "1000"})
        stage.delete("q", "ResourceQuota")
        await until(lambda: stage.ledger.account("default", "q") is None)
        await stage.quota(cpu=7000)
        await shows(stage, {CPU: "1000"})
        assert sample(stage.wiring, ERRORS) == 0


class Shut(Fence):
    def allowed(self) -> bool:
        return False


async def test_o3_a_replica_that_may_not_write_does_not(cluster: EmbeddedCluster) -> None:
    log = Log(cluster)
    async with staged(cluster, fence=Shut()) as stage:
        await stage.quota(cpu=5000)
        stage.released("a")
        await until(lambda: sample(stage.wiring, ERRORS) > 0)
        assert log.values == []
