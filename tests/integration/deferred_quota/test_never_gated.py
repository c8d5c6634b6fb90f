"""RC2: a never-gated pod that cannot run, beside deferred ones that can.

As recorded beside the real Kueue, with the imitation of it: quota of 8 GPUs, one number everywhere.
"""

from __future__ import annotations

from typing import Any

from devtools.embedded_service import node, pod, until
from simulator import EmbeddedCluster, SimClock
from simulator.controllers.kueue import ADMISSION_GATE, QUEUE_LABEL, KueueSettings
from simulator.objects import JsonObject
from tests.integration.deferred_quota.stage import HELD, Stage, staged
from tests.integration.deferred_quota.test_usage_writer import shows

GPU = "nvidia.com/gpu"
KEY = "requests.nvidia.com_gpu"
READY_SECONDS = 60.0


def gpu_node() -> JsonObject:
    made = node("n1", "64")
    made["status"]["allocatable"][GPU] = made["status"]["capacity"][GPU] = "32"
    return made


def gpu_pod(name: str, number: int, **spec: Any) -> JsonObject:
    amounts = {GPU: str(number)}
    container = {
        "name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}
    }  # fmt: skip
    return pod(name, containers=[container], **spec)


def queued(name: str, number: int) -> JsonObject:
    """A plain pod that Kueue has gated and will let go."""
    made = gpu_pod(name, number, gates=(ADMISSION_GATE,))
    made["metadata"]["labels"] = {QUEUE_LABEL: "team"}
    return made


def cluster() -> EmbeddedCluster:
    """Kueue lets everybody go at once, and deletes who is not ready in time."""
    return EmbeddedCluster(
        clock=SimClock(rate=0.0),
        controllers=("quota", "kueue"),
        kueue=KueueSettings(batch=10, every_seconds=0.0, pods_ready_timeout_seconds=READY_SECONDS),
        seed=1,
    )


def become_ready(stage: Stage, *names: str) -> None:
    for name in names:
        stage.update(
            name, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "status"
        )


async def test_rc2_one_that_can_never_run_holds_nobody() -> None:
    running = cluster()
    four = [f"d{number}" for number in range(4)]
    async with running, staged(running, [gpu_node()]) as stage:
        await stage.quota(hard={KEY: 8})
        running.create(gpu_pod("huge", 9))
        said = await stage.reason("huge", HELD)
        assert said["message"] == (
            f"quota exceeded: q, requested: requests.{GPU}=9, used: requests.{GPU}=0, "
            f"limited: requests.{GPU}=8 (exceeds the quota even when empty)"
        )
        await shows(stage, {KEY: "0"})
        for name in four:
            running.create(queued(name, 1))
        await stage.bound(*four)
        await shows(stage, {KEY: "4"})
        become_ready(stage, *four)
        running.clock.advance(READY_SECONDS + 1)
        # Kueue looks at all of them, and at one more that is really late.
        running.create(queued("late", 9))
        await until(lambda: not running.store.get("pods", "default", "late")
                    or stage.is_held("late"), "late is let go")  # fmt: skip
        running.clock.advance(READY_SECONDS + 1)
        await until(lambda: running.store.get("pods", "default", "late") is None, "deleted")
        assert all(running.store.get("pods", "default", name) for name in four)
        assert stage.notes("DeferredQuotaOvercommitted") == []


async def test_rc2_one_that_must_wait_holds_nobody_who_need_not() -> None:
    running = cluster()
    async with running, staged(running, [gpu_node()]) as stage:
        await stage.quota(hard={KEY: 8})
        four = [f"d{number}" for number in range(4)]
        for name in four:
            running.create(queued(name, 1))
        await stage.bound(*four)
        await shows(stage, {KEY: "4"})
        running.create(gpu_pod("large", 8))
        said = await stage.reason("large", HELD)
        assert f"used: requests.{GPU}=4, limited: requests.{GPU}=8" in said["message"]
        await shows(stage, {KEY: "4"})
        running.create(queued("deferred", 2))
        running.create(gpu_pod("plain", 2))
        await stage.bound("deferred", "plain")
        await shows(stage, {KEY: "8"})
        running.create(queued("next", 2))
        said = await stage.reason("next", HELD)
        # The same number as in the quota, for everybody.
        assert f"used: requests.{GPU}=8, limited: requests.{GPU}=8" in said["message"]
        assert stage.used() == {KEY: "8"}
        assert stage.notes("DeferredQuotaOvercommitted") == []
