"""The feature gates of KEP-3521 and KEP-4247 switched off, against the real service."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import aiohttp
import pytest

from config import FeatureGates
from devtools.embedded_service import (
    bound_to,
    condition,
    delete,
    node,
    pod,
    sample,
    scheduling,
    settled,
    until,
)
from scheduler.queue import PodView, QueueState
from scheduler.service.options import RunOptions
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster
from tests.integration.requeueing.replay import HINTS_OFF, woken_by
from tests.integration.requeueing.table import TABLE

GATE: Final = "example.com/gate"
READINESS_OFF: Final = {"PodSchedulingReadiness": False}
BACKOFF: Final[dict[str, Any]] = {"podInitialBackoffSeconds": 1000, "podMaxBackoffSeconds": 1000}
"""Longer than any test: an attempt that such a backoff does not prevent is one too many."""


def options(**gates: bool) -> RunOptions:
    return RunOptions(pod_max_in_unschedulable_pods=timedelta(0), feature_gates=FeatureGates(gates))


def view(scheduler: Wiring, name: str) -> PodView | None:
    return scheduler.scheduling.queue.view("default", name)


def place(scheduler: Wiring, name: str) -> QueueState | None:
    found = view(scheduler, name)
    return None if found is None else found.place


async def clear_gates(cluster: EmbeddedCluster, name: str) -> None:
    headers = {"Content-Type": "application/merge-patch+json"}
    body: dict[str, Any] = {"spec": {"schedulingGates": None}}
    url = f"{cluster.url}/api/v1/namespaces/default/pods/{name}"
    async with (
        aiohttp.ClientSession() as session,
        session.patch(url, json=body, headers=headers) as response,
    ):
        assert response.status == 200, await response.text()


# -- PodSchedulingReadiness ------------------------------------------------------------------------


async def test_the_api_server_rejects_the_binding_of_a_gated_pod(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    cluster.create(pod("gated", gates=[GATE]))
    binding = {"metadata": {"name": "gated"}, "target": {"kind": "Node", "name": "n1"}}
    url = f"{cluster.url}/api/v1/namespaces/default/pods/gated/binding"
    async with aiohttp.ClientSession() as session, session.post(url, json=binding) as response:
        status = await response.json()
    assert (status["code"], status["reason"]) == (409, "Conflict")
    assert "non-empty .spec.schedulingGates" in status["message"]
    assert not bound_to(cluster, "gated")


async def test_with_readiness_off_a_gated_pod_is_tried_once_and_backs_off(
    cluster: EmbeddedCluster,
) -> None:
    """Neither its own status nor any event ends its backoff early."""
    cluster.create(node("n1"))
    cluster.create(pod("gated", gates=[GATE]))
    async with scheduling(cluster, options=options(**READINESS_OFF), **BACKOFF) as scheduler:
        await until(lambda: place(scheduler, "gated") is QueueState.BACKOFF, "rejected")
        await until(
            lambda: condition(cluster, "gated").get("reason") == "SchedulerError",
            "condition written",
        )
        cluster.create(node("n2"))
        cluster.create(pod("other"))
        await until(lambda: bound_to(cluster, "other"), "others are scheduled")
        delete(cluster, "other")
        await until(lambda: scheduler.state.cache.statistics().pods == 0, "its place is free again")
        await settled(scheduler)
        found = view(scheduler, "gated")
        assert found is not None
        assert (found.place, found.attempts) == (QueueState.BACKOFF, 1)
        assert found.next_retry_reason == "backoff after an error"
        assert "non-empty .spec.schedulingGates" in found.message
        assert sample(scheduler, "scheduler_schedule_attempts_total", result="error") == 1
        assert scheduler.state.cache.statistics().assumed_pods == 0


async def test_with_readiness_off_a_pod_is_bound_once_its_gates_are_removed(
    cluster: EmbeddedCluster,
) -> None:
    short: dict[str, Any] = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
    cluster.create(node("n1"))
    cluster.create(pod("gated", gates=[GATE]))
    async with scheduling(cluster, options=options(**READINESS_OFF), **short) as scheduler:
        await until(lambda: place(scheduler, "gated") is QueueState.BACKOFF, "rejected")
        await clear_gates(cluster, "gated")
        await until(lambda: bound_to(cluster, "gated") == "n1", "bound")
        await settled(scheduler)


async def test_with_readiness_on_no_attempt_is_made(cluster: EmbeddedCluster) -> None:
    """With the gate on, the pod is gated, and ungated without any flush."""
    cluster.create(node("n1"))
    cluster.create(pod("gated", gates=[GATE]))
    async with scheduling(cluster, options=options(), **BACKOFF) as scheduler:
        await until(lambda: place(scheduler, "gated") is QueueState.GATED, "gated")
        cluster.create(pod("other"))
        await until(lambda: bound_to(cluster, "other"), "others are scheduled")
        found = view(scheduler, "gated")
        assert found is not None
        assert (found.place, found.attempts) == (QueueState.GATED, 0)
        assert condition(cluster, "gated")["reason"] == "SchedulingGated"
        await clear_gates(cluster, "gated")
        await until(lambda: bound_to(cluster, "gated") == "n1", "bound")
        await settled(scheduler)


# -- SchedulerQueueingHints ------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["7", "19", "24", "27", "36", "50", "71"])
async def test_without_hints_all_pods_move_whose_plugins_registered_the_event(number: str) -> None:
    """Rows in which hints keep some pods, or all, from moving."""
    row = next(each for each in TABLE if each.number == number)
    assert row.requeued < set(row.pod_names)
    assert await woken_by(row, HINTS_OFF) == set(row.pod_names)


@pytest.mark.parametrize("number", ["1", "22", "69"])
async def test_without_hints_an_event_that_no_plugin_registered_moves_no_pod(number: str) -> None:
    """TaintToleration registered neither resources nor labels of pods, the features no labels."""
    row = next(each for each in TABLE if each.number == number)
    assert row.requeued < set(row.pod_names)
    assert await woken_by(row, HINTS_OFF) == row.requeued


async def test_without_hints_a_gate_is_still_a_gate(cluster: EmbeddedCluster) -> None:
    """The event of one pod's gates concerns all gated pods then, but it opens no other gate."""
    cluster.create(node("n1"))
    for name in ("free", "gated"):
        cluster.create(pod(name, gates=[GATE]))
    async with scheduling(cluster, options=options(**HINTS_OFF), **BACKOFF) as scheduler:
        await until(lambda: scheduler.scheduling.queue.statistics().gated == 2, "both gated")
        await clear_gates(cluster, "free")
        await until(lambda: bound_to(cluster, "free"), "bound")
        await settled(scheduler)
        found = view(scheduler, "gated")
        assert found is not None
        assert (found.place, found.attempts) == (QueueState.GATED, 0)
