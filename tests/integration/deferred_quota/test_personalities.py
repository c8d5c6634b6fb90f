"""A scheduler on either personality of the embedded server: who charges whom, and when.

The quota controller of the server is at work; usage is what `status.used` says.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import pytest

from config import FeatureGates
from devtools.embedded_service import (
    PROFILE,
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
from scheduler.service.options import RunOptions
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster
from simulator.admission import Personality
from simulator.api import MERGE_PATCH
from simulator.controllers.kueue import ADMISSION_GATE, QUEUE_LABEL, KueueSettings
from simulator.errors import ApiError

HELD: Final = "ResourceQuotaValidated"
GATES: Final = ("example.com/first", "example.com/second")
MILLIS: Final = "deferred.kubestow.io/requests.cpu-millis"


@asynccontextmanager
async def _running(
    personality: Personality, mode: str = "DeferredKeys", **options: Any
) -> AsyncIterator[tuple[EmbeddedCluster, Wiring]]:
    """A cluster with one large node, and a scheduler with the gate on."""
    args = {"name": "ResourceQuota", "args": {"quotaMode": mode}}
    profiles = [{"schedulerName": PROFILE, "pluginConfig": [args]}]
    run = RunOptions(feature_gates=FeatureGates.parse([f"{GATE}=true"]))
    settings = {"statusPatchDelay": "0s"}
    async with (
        EmbeddedCluster(personality=personality, seed=1, **options) as cluster,
        scheduling(cluster, options=run, kubestow=settings, profiles=profiles) as wiring,
    ):
        cluster.create(node("n1", "100"))
        yield cluster, wiring


async def _quota(cluster: EmbeddedCluster, wiring: Wiring, hard: dict[str, str]) -> None:
    """Create quota q; server and scheduler know it when this returns."""
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": hard},
    }
    cluster.create(body)

    def known() -> bool:
        stored = cluster.get("v1", "ResourceQuota", "q")
        seen: Any = wiring.state.listers["resourcequotas"].get("q", "default")
        counted = (stored.get("status") or {}).get("hard") == hard
        version = stored["metadata"]["resourceVersion"]
        return counted and seen is not None and seen.metadata.resource_version == version

    await until(known, "quota known")


def _used(cluster: EmbeddedCluster) -> dict[str, str]:
    found: dict[str, str] = cluster.get("v1", "ResourceQuota", "q")["status"]["used"]
    return found


def _set_gates(cluster: EmbeddedCluster, name: str, *gates: str) -> None:
    patch = {"spec": {"schedulingGates": [{"name": gate} for gate in gates] or None}}
    pods = cluster.resources.of_kind("v1", "Pod")
    cluster.api.patch(pods, "default", name, patch, MERGE_PATCH)


async def _reason(cluster: EmbeddedCluster, name: str, reason: str) -> str:
    await until(lambda: condition(cluster, name).get("reason") == reason, f"{name}: {reason}")
    return str(condition(cluster, name)["message"])


async def test_b5_b6_native_charges_when_the_last_gate_is_gone_and_the_pod_bound() -> None:
    async with _running("native", "Native") as (cluster, wiring):
        await _quota(cluster, wiring, {"requests.cpu": "5", "pods": "9"})
        cluster.create(pod("g", "5", gates=GATES))
        for gates in (GATES[:1], ()):
            assert _used(cluster) == {"requests.cpu": "0", "pods": "1"}
            _set_gates(cluster, "g", *gates)
        await until(lambda: bound_to(cluster, "g") == "n1", "bound")
        await until(lambda: _used(cluster) == {"requests.cpu": "5", "pods": "1"}, "charged")


async def test_b7_b8_native_holds_what_does_not_fit_and_releases_it() -> None:
    async with _running("native", "Native") as (cluster, wiring):
        await _quota(cluster, wiring, {"requests.cpu": "5"})
        for name in ("a", "b"):
            cluster.create(pod(name, "4", gates=GATES))
            _set_gates(cluster, name)
            await until(partial(_decided, cluster, name), f"{name} bound or held")
        message = await _reason(cluster, "b", HELD)
        assert message == (
            "quota exceeded: q, requested: requests.cpu=4, used: requests.cpu=4, "
            "limited: requests.cpu=5"
        )
        assert bound_to(cluster, "a") == "n1"
        patch_status(cluster, "a", {"phase": "Succeeded"})
        await until(lambda: bound_to(cluster, "b") == "n1", "released")
        await until(lambda: _used(cluster) == {"requests.cpu": "4"}, "charged")


async def test_b49_a_namespace_with_built_in_keys_only_is_the_api_servers_alone() -> None:
    """No double count: the pod's own charge is in `used`, and must not hold it."""
    async with _running("stock") as (cluster, wiring):
        await _quota(cluster, wiring, {"requests.cpu": "5"})
        cluster.create(pod("g", "5", gates=GATES))
        assert _used(cluster) == {"requests.cpu": "5"}
        _set_gates(cluster, "g")
        await until(lambda: bound_to(cluster, "g") == "n1", "bound")
        assert _used(cluster) == {"requests.cpu": "5"}
        with pytest.raises(ApiError, match="exceeded quota: q"):
            cluster.create(pod("h", "1", gates=GATES))


@pytest.mark.parametrize("skewed", [False, True])
async def test_b52_a_controller_without_the_gate_holds_too_long_never_too_little(
    skewed: bool,
) -> None:
    """K1. The controller's recount counts what the API server deferred."""
    gates = {GATE: not skewed}
    options: dict[str, Any] = {"controller_gates": gates, "quota_resync_seconds": 0.2}
    async with _running("native", "Native", **options) as (cluster, wiring):
        await _quota(cluster, wiring, {"requests.cpu": "5"})
        for name in ("a", "b", "c"):
            cluster.create(pod(name, "2", gates=GATES))
        wanted = {"requests.cpu": "6" if skewed else "0"}
        await until(lambda: _used(cluster) == wanted, "recounted")
        if skewed:

            def seen() -> bool:
                known: Any = wiring.state.listers["resourcequotas"].get("q", "default")
                return bool(known.status.used.get("requests.cpu") == "6")

            await until(seen, "the scheduler knows")
        for name in ("a", "b", "c"):
            _set_gates(cluster, name)
        reasons = {"a", "b", "c"} if skewed else {"c"}
        await until(lambda: _held(cluster) >= reasons if skewed else len(_held(cluster)) == 1)
        await settled(wiring)
        bound = [name for name in ("a", "b", "c") if bound_to(cluster, name)]
        assert len(bound) == (0 if skewed else 2)


def _decided(cluster: EmbeddedCluster, name: str) -> bool:
    return bool(bound_to(cluster, name)) or condition(cluster, name).get("reason") == HELD


def _held(cluster: EmbeddedCluster) -> set[str]:
    return {name for name in ("a", "b", "c") if condition(cluster, name).get("reason") == HELD}


async def test_kueue_lets_pods_go_and_quota_holds_the_rest() -> None:
    """The selector that comes with the last gate's removal is the one that counts."""
    kueue = KueueSettings(batch=3, every_seconds=0.01, node_selector={"pool": "gpu"})
    async with _running("stock", kueue=kueue) as (cluster, wiring):
        await _quota(cluster, wiring, {MILLIS: "2k"})
        cluster.create(node("n2", "100", labels={"pool": "gpu"}))
        for name in ("a", "b", "c"):
            made = pod(name, "1", gates=(ADMISSION_GATE,))
            made["metadata"]["labels"] = {QUEUE_LABEL: "team"}
            cluster.create(made)
        await until(lambda: len(_held(cluster)) == 1, "one held")
        await settled(wiring)
        nodes = sorted(bound_to(cluster, name) for name in ("a", "b", "c"))
        assert nodes == ["", "n2", "n2"]
