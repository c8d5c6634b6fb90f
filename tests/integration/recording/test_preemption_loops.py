"""A loop of preemption with another scheduler, recorded: a replay stops in the same attempts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devtools.embedded_service import (
    PROFILE,
    condition,
    delete,
    event_notes,
    find,
    node,
    pod,
    sample,
    scheduling,
    until,
)
from plugins.preemption_loops import EVENT_REASON
from scheduler.offline.replay import Replay
from simulator import EmbeddedCluster
from simulator.objects import priority_class
from tests.integration.recording.busy import Recording

PROFILES = [
    {
        "schedulerName": PROFILE,
        "pluginConfig": [{"name": "DefaultPreemption", "args": {"victimSchedulers": "All"}}],
    }
]


class OtherScheduler:
    """Puts the pod of a ReplicaSet back on the node as soon as it ends."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self.count = 0

    def place(self) -> None:
        """Place the pod unless it runs."""
        found = find(self._cluster, f"web-{self.count}") if self.count else None
        if found is not None:
            if "deletionTimestamp" not in found["metadata"]:
                return
            delete(self._cluster, f"web-{self.count}")
        self.count += 1
        made = pod(f"web-{self.count}", "4", schedulerName="other", nodeName="node-0")
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs"}
        made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        self._cluster.create(made)


@pytest.mark.parametrize("before", [0, 2], ids=["from the beginning", "from the third round"])
async def test_a_recorded_loop_is_reproduced(tmp_path: Path, before: int) -> None:
    async with EmbeddedCluster(controllers=(), seed=1) as cluster:
        cluster.create(node("node-0"))
        cluster.create(priority_class("high", 1000))
        backoff: dict[str, Any] = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
        async with scheduling(cluster, profiles=PROFILES, **backoff) as wiring:
            other = OtherScheduler(cluster)
            other.place()
            recording = Recording(wiring, tmp_path / "loop.recording")

            def rounds(count: int) -> bool:
                other.place()
                return other.count > count

            def stopped() -> bool:
                other.place()
                return "stopped for 1m0s" in str(condition(cluster, "urgent").get("message"))

            if not before:
                await recording.begin()
            cluster.create(pod("urgent", "4", priorityClassName="high"))
            if before:
                await until(lambda: rounds(before), "two rounds")
                await recording.begin()
            await until(stopped, "the stop")
            await until(lambda: event_notes(cluster, EVENT_REASON), "the Event")
            assert other.count == 4
            assert sample(wiring, "kubestow_preemption_loops_total") == 1
            await recording.end()
    with Replay.of(recording.path) as replay:
        found = list(replay.run())
    assert [each for each in found if each.result != "reproduced"] == []
    assert any("stopped for 1m0s" in each.recorded.message for each in found)
