"""A61 and related scenarios, from the strict attempt to the relaxed placement, without fakes.

The API server is a stock one unless stated otherwise. Tests advance its clock, so nothing here
depends on the speed of the machine.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from config import FeatureGates
from devtools.embedded_service import bound_to, condition, find, scheduling, until
from scheduler.service.options import RunOptions
from simulator import EmbeddedCluster, SimClock
from simulator.controllers.autoscaler_groups import parse_settings
from simulator.objects import JsonObject
from tests.integration.autoscaling.zones import (
    FALLBACK,
    GATE,
    PROVISIONING,
    History,
    group,
    populate,
    spread_pod,
)
from tests.unit.repository.tree import ROOT

ON = RunOptions(feature_gates=FeatureGates({GATE: True}))
TURN_SECONDS = 10.0
"""The autoscaler's interval."""


def cluster(**options: Any) -> EmbeddedCluster:
    return EmbeddedCluster(clock=SimClock(rate=0.0), seed=1, **options)


@pytest.fixture
async def stock() -> AsyncIterator[EmbeddedCluster]:
    async with cluster() as running:
        populate(running)
        yield running


def configure(running: EmbeddedCluster, *groups: dict[str, Any], **settings: Any) -> None:
    running.autoscaler.configure(parse_settings({"groups": list(groups), **settings}))


async def rejected(running: EmbeddedCluster, name: str) -> None:
    """Wait until the strict attempt has rejected the pod."""
    await until(lambda: condition(running, name).get("reason") == "Unschedulable", "refusal")
    assert bound_to(running, name) == ""


def holds(running: EmbeddedCluster, name: str, kind: str) -> str:
    """Return the status of a condition."""
    found = (find(running, name) or {}).get("status", {}).get("conditions", ())
    return next((str(each["status"]) for each in found if each["type"] == kind), "")


async def run_autoscaler(running: EmbeddedCluster, seconds: float = TURN_SECONDS) -> None:
    """Advance the clock, and run the autoscaler."""
    loops = running.autoscaler.describe()["loops"]
    running.clock.advance(seconds)
    await until(lambda: running.autoscaler.describe()["loops"] > loops, "a loop")


async def test_a61_a_zone_without_stock_ends_in_the_other_zone(stock: EmbeddedCluster) -> None:
    configure(stock, group(state="stockout"))
    history = History(stock, "second")
    async with scheduling(stock, options=ON):
        stock.create(spread_pod("second"))
        await rejected(stock, "second")
        await run_autoscaler(stock)
        await until(lambda: holds(stock, "second", PROVISIONING) == "True", "a promise")
        assert bound_to(stock, "second") == ""
        await run_autoscaler(stock, 20)
        await until(lambda: bound_to(stock, "second") == "n1", "the relaxed placement")
        assert history.in_order(
            "Unschedulable",
            "TriggeredScaleUp",
            f"{PROVISIONING}=True",
            "ScaleUpFailed",
            "NotTriggerScaleUp",
            f"{PROVISIONING}=False",
            "bound to n1",
        ), history.steps
    made = stock.get("v1", "Pod", "second")
    applied = made["metadata"]["annotations"]["kubestow.io/topology-spread-fallback-applied"]
    assert "topology.kubernetes.io/zone" in applied


async def test_a61_a_rejected_request_ends_there_too(stock: EmbeddedCluster) -> None:
    configure(stock, group(state="refuse"))
    history = History(stock, "second")
    async with scheduling(stock, options=ON):
        stock.create(spread_pod("second"))
        await rejected(stock, "second")
        await run_autoscaler(stock)
        assert "FailedToScaleUpGroup" in history.steps
        assert holds(stock, "second", PROVISIONING) == "", "the pod has no condition yet"
        await run_autoscaler(stock)
        await until(lambda: bound_to(stock, "second") == "n1", "the relaxed placement")
        assert history.in_order("NotTriggerScaleUp", f"{PROVISIONING}=False", "bound to n1")


async def test_a61_karpenter_that_finds_no_capacity(stock: EmbeddedCluster) -> None:
    configure(stock, group(state="stockout"), flavor="karpenter")
    history = History(stock, "second")
    async with scheduling(stock, options=ON):
        stock.create(spread_pod("second"))
        await rejected(stock, "second")
        await run_autoscaler(stock)
        await until(lambda: holds(stock, "second", PROVISIONING) == "True", "a promise")
        await run_autoscaler(stock, 20)
        await until(lambda: bound_to(stock, "second") == "n1", "the relaxed placement")
        assert history.in_order(
            "Nominated",
            "InsufficientCapacityError",
            "FailedScheduling",
            f"{PROVISIONING}=False",
            "bound to n1",
        ), history.steps


async def test_a_node_that_does_come_keeps_the_spread(stock: EmbeddedCluster) -> None:
    configure(stock, group())
    history = History(stock, "second")
    async with scheduling(stock, options=ON):
        stock.create(spread_pod("second"))
        await rejected(stock, "second")
        await run_autoscaler(stock)
        await until(lambda: holds(stock, "second", PROVISIONING) == "True", "a promise")
        stock.clock.advance(20)
        await until(lambda: bound_to(stock, "second") == "z2-1", "the strict placement")
        assert f"{PROVISIONING}=False" not in history.steps
    assert holds(stock, "second", FALLBACK) != "True"


async def test_a_promise_keeps_the_constraint_strict_until_it_is_broken(
    stock: EmbeddedCluster,
) -> None:
    configure(stock, group(state="hang"))
    async with scheduling(stock, options=ON):
        stock.create(spread_pod("second"))
        await rejected(stock, "second")
        await run_autoscaler(stock)
        await until(lambda: holds(stock, "second", PROVISIONING) == "True", "a promise")
        await run_autoscaler(stock, 800)
        assert bound_to(stock, "second") == ""
        await run_autoscaler(stock, 100)
        await until(lambda: bound_to(stock, "second") == "n1", "the relaxed placement")


async def test_an_autoscaler_that_is_down_reports_nothing_and_nothing_softens(
    stock: EmbeddedCluster,
) -> None:
    configure(stock, group(state="stockout"))
    stock.runner.switch("autoscaler", False)
    history = History(stock, "second")
    async with scheduling(stock, options=ON):
        stock.create(spread_pod("second"))
        await rejected(stock, "second")
        stock.clock.advance(3600)
        assert history.steps == ["Unschedulable"]
        stock.runner.switch("autoscaler", True)
        await until(lambda: holds(stock, "second", PROVISIONING) == "True", "a promise")
        assert bound_to(stock, "second") == ""


async def test_native_the_autoscaler_writes_the_condition_itself() -> None:
    async with cluster(personality="native") as running:
        populate(running)
        configure(running, group(state="stockout"))
        history = History(running, "second")
        off = {"nodeProvisioningBridge": {"mode": "Off"}}
        async with scheduling(running, options=ON, kubestow=off):
            running.create(spread_pod("second", native=True))
            await rejected(running, "second")
            await run_autoscaler(running)
            assert holds(running, "second", PROVISIONING) == "True"
            await run_autoscaler(running, 20)
            await until(lambda: bound_to(running, "second") == "n1", "the relaxed placement")
            assert history.in_order(f"{PROVISIONING}=True", f"{PROVISIONING}=False", "bound to n1")


async def test_a58_the_bridge_yields_to_a_native_autoscaler() -> None:
    async with cluster(personality="native") as running:
        populate(running)
        configure(running, group(state="stockout"))
        async with scheduling(running, options=ON):
            running.create(spread_pod("second", native=True))
            await rejected(running, "second")
            await run_autoscaler(running)
            await run_autoscaler(running, 20)
            await until(lambda: bound_to(running, "second") == "n1", "the relaxed placement")
        made = running.get("v1", "Pod", "second")
        managers = {
            entry["manager"]
            for entry in made["metadata"]["managedFields"]
            if PROVISIONING in str(entry)
        }
        assert managers == {"cluster-autoscaler"}


async def test_a48_a_server_with_the_gate_off_makes_strict_pods() -> None:
    async with cluster(personality="native") as running:
        populate(running)
        configure(running, group(state="refuse"))
        async with scheduling(running, options=ON):
            running.gates["apiserver"].change({GATE: False})
            running.create(spread_pod("dropped", native=True))
            await rejected(running, "dropped")
            await run_autoscaler(running)
            await run_autoscaler(running)
            await until(lambda: holds(running, "dropped", PROVISIONING) == "False", "a verdict")
            running.gates["apiserver"].change({GATE: True})
            running.create(spread_pod("kept", native=True))
            await rejected(running, "kept")
            await run_autoscaler(running)
            await until(lambda: bound_to(running, "kept") == "n1", "the relaxed placement")
            assert bound_to(running, "dropped") == ""


async def test_a48_a_scheduler_with_the_gate_off_ignores_the_field() -> None:
    off = RunOptions(feature_gates=FeatureGates({GATE: False}))
    async with cluster(personality="native") as running:
        populate(running)
        configure(running, group(state="refuse"))
        async with scheduling(running, options=off):
            running.create(spread_pod("second", native=True))
            await rejected(running, "second")
            await run_autoscaler(running)
            await run_autoscaler(running)
            assert holds(running, "second", PROVISIONING) == "False"
            assert holds(running, "second", FALLBACK) == ""
            assert bound_to(running, "second") == ""
        # With the gate on again, the field, which the pod still has, takes effect.
        async with scheduling(running, options=ON):
            await until(lambda: bound_to(running, "second") == "n1", "the relaxed placement")


@pytest.mark.slow
async def test_a61_over_http_against_an_ordinary_kubestow_run(
    stock: EmbeddedCluster, tmp_path: Path
) -> None:
    """The HTTP requests of a user, and `kubestow run` as a command."""
    kubeconfig = stock.write_kubeconfig(tmp_path / "kc.yaml")
    program = [sys.executable, "-c", "from scheduler.cli.main import main; main()", "run"]
    flags = ["--kubeconfig", str(kubeconfig), "--secure-port=0", "--leader-elect=false"]
    history = History(stock, "second")
    process = await asyncio.create_subprocess_exec(
        *program,
        *flags,
        f"--feature-gates={GATE}=true",
        cwd=ROOT,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "POD_NAMESPACE": "kubestow-system"},
    )
    try:
        async with aiohttp.ClientSession(stock.url) as session:
            await _post(session, "/_kubestow/autoscaler/groups", group(state="stockout"))
            await _post(session, "/api/v1/namespaces/default/pods", spread_pod("second"))
            await rejected(stock, "second")
            await _post(session, "/_kubestow/clock", {"advance": 10})
            await until(lambda: f"{PROVISIONING}=True" in history.steps, "a promise")
            await _post(session, "/_kubestow/clock", {"advance": 20})
        await until(lambda: bound_to(stock, "second") == "n1", "the relaxed placement")
    finally:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            await process.wait()
    assert process.returncode == 0
    assert history.in_order(
        "TriggeredScaleUp", "ScaleUpFailed", "NotTriggerScaleUp", "bound to n1"
    ), history.steps


async def _post(session: aiohttp.ClientSession, path: str, body: JsonObject) -> None:
    async with session.post(path, json=body) as response:
        assert response.status in (200, 201), await response.text()
