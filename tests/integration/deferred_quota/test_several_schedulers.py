"""B27: several active schedulers share one quota through its annotation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from benchmarks.bound_sum import BoundSum
from config import FeatureGates
from devtools.embedded_service import (
    bound_to,
    condition,
    node,
    patch_status,
    pod,
    scheduling,
    settled,
    until,
)
from plugins.resource_quota.plugin import GATE
from scheduler.api.meta import second_time
from scheduler.controllers.quota_usage.inflight import ANNOTATION, EXPIRY_SECONDS
from scheduler.service.options import RunOptions
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster, FaultRule
from simulator.api import MERGE_PATCH
from tests.integration.deferred_quota.stage import CPU, HELD, staged

SECOND = "second"
API = {"reservation": "Api"}


@asynccontextmanager
async def another(cluster: EmbeddedCluster, args: Mapping[str, Any]) -> AsyncIterator[Wiring]:
    """A scheduler of another name, active at the same time."""
    profile = {
        "schedulerName": SECOND,
        "pluginConfig": [{"name": "ResourceQuota", "args": dict(args)}],
    }
    options = RunOptions(feature_gates=FeatureGates.parse([f"{GATE}=true"]))
    async with scheduling(
        cluster, options=options, kubestow={"statusPatchDelay": "0s"}, profiles=[profile]
    ) as wiring:
        yield wiring


def annotation(cluster: EmbeddedCluster) -> dict[str, Any]:
    found = cluster.get("v1", "ResourceQuota", "q")["metadata"].get("annotations") or {}
    return dict(json.loads(found.get(ANNOTATION, "{}")))


def annotate(cluster: EmbeddedCluster, value: str | None) -> None:
    resource = cluster.resources.of_kind("v1", "ResourceQuota")
    patch = {"metadata": {"annotations": {ANNOTATION: value}}}
    cluster.api.patch(resource, "default", "q", patch, MERGE_PATCH)


@pytest.mark.slow
@pytest.mark.parametrize(("reservation", "most"), [("Api", 3000), ("Memory", 6000)])
async def test_b27_two_schedulers_are_exact_or_overshoot_by_what_the_other_has_in_flight(
    cluster: EmbeddedCluster, reservation: str, most: int
) -> None:
    args = {"reservation": reservation}
    total = BoundSum(cluster)
    for digit in range(10):
        rule = FaultRule(
            action="delay",
            verb="create",
            resource="pods/binding",
            name=f"*{digit}",
            seconds=0.02 * ((digit * 7) % 5),
        )
        cluster.faults.add(rule)
    nodes = [node(f"n{number}", "50") for number in range(3)]
    async with staged(cluster, nodes, args) as stage, another(cluster, args) as second:
        await stage.quota(cpu=3000)
        await until(lambda: second.state.listers["resourcequotas"].get("q", "default"))
        for wave in range(2):
            names = [f"w{wave}-{number}" for number in range(10)]
            for index, name in enumerate(names):
                scheduler = SECOND if index % 2 else "kubestow"
                stage.released(name, schedulerName=scheduler)

            def full(names: list[str] = names) -> bool:
                stage.advance(0.5)
                return sum(bool(bound_to(cluster, name)) for name in names) >= 3

            await until(full, "three of ten bound")
            await settled(stage.wiring)
            await settled(second)
            for name in names:
                stage.delete(name)
            await until(lambda: stage.ledger.statistics().pods == 0)
            stage.advance(3)
            await until(lambda: not annotation(cluster), "no entry left")
        assert 3000 <= total.most <= most


@pytest.mark.slow
async def test_an_entry_is_written_before_the_bind_and_removed_after(
    cluster: EmbeddedCluster,
) -> None:
    cluster.clock.set_rate(0)
    cluster.faults.add(FaultRule(action="delay", verb="create", resource="pods/binding", seconds=5))
    async with staged(cluster, args=API) as stage:
        await stage.quota(cpu=3000)
        stage.released("a", cpu="1500m")
        await until(lambda: annotation(cluster))
        (entry,) = annotation(cluster).values()
        assert entry["amounts"] == {"deferred.kubestow.io/requests.cpu-millis": "1500"}
        assert annotation(cluster).keys() == {stage.uid("a")}
        assert not stage.is_bound("a")

        def bound() -> bool:
            cluster.clock.advance(6)
            return stage.is_bound("a")

        await until(bound)

        def removed() -> bool:
            stage.advance(1)
            return not annotation(cluster)

        await until(removed)
        assert stage.used() == {CPU: "1500"}


async def test_reservations_of_other_schedulers_count_until_they_expire(
    cluster: EmbeddedCluster,
) -> None:
    async with staged(cluster, args=API) as stage:
        await stage.quota(cpu=2000)
        stage.gated("theirs", "2")
        stamp = "2000-01-01T00:00:00Z"
        amounts = {"deferred.kubestow.io/requests.cpu-millis": "2000"}
        entry = {"amounts": amounts, "holder": "dead", "time": stamp}
        annotate(cluster, json.dumps({stage.uid("theirs"): entry}))
        stage.released("first")
        # Expired long ago: it means nothing.
        await stage.bound("first")
        now = stage.wiring.connections.clock.now()
        fresh = {**entry, "time": second_time(now)}
        annotate(cluster, json.dumps({stage.uid("theirs"): fresh}))
        await until(lambda: list(stage.ledger.reserved()), "their reservation is observed")
        stage.released("mine")
        await stage.reason("mine", HELD)
        stage.advance(EXPIRY_SECONDS + 1)
        await stage.bound("mine")


@pytest.mark.slow
async def test_an_entry_is_renewed_while_the_bind_takes_long(cluster: EmbeddedCluster) -> None:
    cluster.clock.set_rate(0)
    cluster.faults.add(FaultRule(action="delay", verb="create", resource="pods/binding", seconds=5))
    async with staged(cluster, args=API) as stage:
        await stage.quota(cpu=3000)
        stage.released("a")
        await until(lambda: annotation(cluster))
        (first,) = annotation(cluster).values()

        def renewed() -> bool:
            stage.advance(EXPIRY_SECONDS / 2)
            return any(each["time"] > first["time"] for each in annotation(cluster).values())

        await until(renewed)

        def bound() -> bool:
            cluster.clock.advance(6)
            return stage.is_bound("a")

        await until(bound)


@pytest.mark.parametrize("value", ["nonsense", "[]", '{"u": 3}', '{"u": {"holder": 1}}'])
async def test_an_unreadable_annotation_is_ignored(cluster: EmbeddedCluster, value: str) -> None:
    async with staged(cluster, args=API) as stage:
        await stage.quota(cpu=2000)
        annotate(cluster, value)
        stage.released("a")
        await stage.bound("a")


async def test_conflicts_with_other_writers_are_retried(cluster: EmbeddedCluster) -> None:
    async with staged(cluster, args=API) as stage:
        await stage.quota(cpu=2000)
        cluster.faults.add(
            FaultRule(action="error", verb="patch", resource="resourcequotas", code=409, times=3)
        )
        stage.released("a")
        await stage.bound("a")
        patch_status(cluster, "a", {"phase": "Succeeded"})
        assert condition(cluster, "a").get("status") == "True"


async def test_with_memory_nothing_is_written_into_the_quota(cluster: EmbeddedCluster) -> None:
    async with staged(cluster) as stage:
        await stage.quota(cpu=2000)
        stage.released("a")
        cluster.create(pod("b"))
        await stage.bound("a", "b")
        assert annotation(cluster) == {}


@pytest.mark.slow
async def test_a_pod_given_up_and_claimed_again_keeps_its_entry(cluster: EmbeddedCluster) -> None:
    async with staged(cluster, args=API) as stage:
        await stage.quota(cpu=3000)
        enforcement = stage.plugin.enforcement
        assert enforcement is not None
        for name in ("again", "other"):
            stage.gated(name)
        await until(lambda: all(stage.ledger.pod(stage.uid(name)) for name in ("again", "other")))
        again, other = stage.seen("again"), stage.seen("other")
        for each in (again, other):
            assert not stage.ledger.reserve(each)
        assert not await enforcement.prepare_bind(again)
        enforcement.unreserve(again)
        assert not stage.ledger.reserve(again)
        assert not await enforcement.prepare_bind(again)
        assert not await enforcement.prepare_bind(other)
        assert annotation(cluster).keys() == {again.uid, other.uid}
        # The sweep that takes the other one away leaves it as well.
        enforcement.unreserve(other)

        def removed() -> bool:
            stage.advance(1)
            return other.uid not in annotation(cluster)

        await until(removed)
        assert annotation(cluster).keys() == {again.uid}
