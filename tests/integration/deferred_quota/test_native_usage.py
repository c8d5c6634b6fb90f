"""Native mode: usage is raised after a binding, and a server that is not native is reported."""

from __future__ import annotations

from collections.abc import Callable

from devtools.embedded_service import (
    bound_to,
    event_notes,
    pod,
    sample,
    settled,
    until,
)
from plugins.resource_quota.plugin import GATE
from scheduler.controllers.quota_usage.native_usage import NOT_NATIVE
from scheduler.controllers.quota_usage.quota_patcher import MAX_ATTEMPTS
from simulator import EmbeddedCluster, FaultRule
from tests.integration.deferred_quota.test_personalities import (
    GATES,
    HELD,
    _quota,
    _reason,
    _running,
    _set_gates,
    _used,
)

ERRORS = "scheduler_resource_quota_writer_errors_total"
STATUS = "resourcequotas/status"


def shows(cluster: EmbeddedCluster, cpu: str) -> Callable[[], bool]:
    return lambda: _used(cluster)["requests.cpu"] == cpu


async def test_q10_a_binding_is_charged_without_the_controller() -> None:
    async with _running("native", "Native") as (cluster, wiring):
        await _quota(cluster, wiring, {"requests.cpu": "5", "pods": "9"})
        cluster.runner.switch("quota", False)
        cluster.create(pod("g", "1500m", gates=GATES))
        _set_gates(cluster, "g")
        await until(lambda: bound_to(cluster, "g"))
        await until(shows(cluster, "1500m"))
        # The number of pods is the API server's alone.
        assert _used(cluster)["pods"] == "1"


async def test_q10_the_recount_of_the_controller_and_ours_agree() -> None:
    async with _running("native", "Native", quota_resync_seconds=0.1) as (cluster, wiring):
        await _quota(cluster, wiring, {"requests.cpu": "9"})
        for name in ("a", "b", "c"):
            cluster.create(pod(name, "2", gates=GATES))
            _set_gates(cluster, name)
        await until(shows(cluster, "6"))
        await settled(wiring)
        assert shows(cluster, "6")()


async def test_conflicts_are_retried_and_then_left_to_the_controller() -> None:
    async with _running("native", "Native") as (cluster, wiring):
        await _quota(cluster, wiring, {"requests.cpu": "9"})
        cluster.runner.switch("quota", False)
        conflict = FaultRule(action="error", verb="patch", resource=STATUS, code=409, times=3)
        cluster.faults.add(conflict)
        cluster.create(pod("a", "2", gates=GATES))
        _set_gates(cluster, "a")
        await until(shows(cluster, "2"))
        assert sample(wiring, ERRORS) == 0
        lasting = FaultRule(
            action="error", verb="patch", resource=STATUS, code=409, times=MAX_ATTEMPTS
        )
        cluster.faults.add(lasting)
        cluster.create(pod("b", "3", gates=GATES))
        _set_gates(cluster, "b")
        await until(lambda: sample(wiring, ERRORS) == 1)
        assert shows(cluster, "2")()
        # The plugin goes by the ledger all the same.
        cluster.create(pod("c", "5", gates=GATES))
        _set_gates(cluster, "c")
        assert "used: requests.cpu=5" in await _reason(cluster, "c", HELD)
        cluster.runner.switch("quota", True)


async def test_b52_a_server_that_is_not_native_is_told_of_once() -> None:
    async with _running("stock", "Native") as (cluster, wiring):
        await _quota(cluster, wiring, {"requests.cpu": "5"})
        cluster.create(pod("g", "4", gates=GATES))

        def charged() -> bool:
            known = wiring.state.listers["resourcequotas"].get("q", "default")
            return known is not None and known.status.used.get("requests.cpu") == "4"

        await until(charged)
        checks = wiring.controllers.quota.native_usage
        assert checks is not None
        checks.check()
        assert event_notes(cluster, NOT_NATIVE) == []
        for _ in range(3):
            checks.check()
        await until(lambda: event_notes(cluster, NOT_NATIVE))
        assert "does not implement KEP-5465" in event_notes(cluster, NOT_NATIVE)[0]


async def test_b52_a_native_server_is_not_suspected() -> None:
    async with _running("native", "Native") as (cluster, wiring):
        await _quota(cluster, wiring, {"requests.cpu": "5"})
        cluster.create(pod("runs", "4", gates=GATES))
        _set_gates(cluster, "runs")
        await until(shows(cluster, "4"))
        cluster.create(pod("g", "4", gates=GATES))
        await until(lambda: wiring.state.listers["pods"].get("g", "default"))
        assert wiring.controllers.quota.native_usage is not None
        for _ in range(3):
            wiring.controllers.quota.native_usage.check()
        await settled(wiring)
        assert event_notes(cluster, NOT_NATIVE) == []
        assert wiring.connections.configuration.feature_gates.enabled(GATE)
