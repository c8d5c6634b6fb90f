"""Decisions that a bundle without a recording remembers: judged, or not judged for a reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from config import FeatureGates
from devtools.embedded_service import bound_to, delete, find, pod, scheduling, settled, until
from scheduler.offline.judgement import Judgement
from scheduler.offline.replay import Replay
from scheduler.recording.reading import open_bundle
from scheduler.recording.streams import BundleStreams
from scheduler.recording.writing import BundleWriter
from scheduler.service.options import RunOptions
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster
from simulator.objects import priority_class
from tests.integration.recording.busy import busy, spread_pod, zone_node


def judged(path: Path) -> list[Judgement]:
    with Replay.of(path) as replay:
        return list(replay.run())


async def written(wiring: Wiring, path: Path) -> Path:
    with path.open("wb") as file:
        async for piece in BundleStreams(wiring, lambda: True).bundle({}):
            file.write(piece)
    return path


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_decisions_that_a_bundle_remembers_are_judged_or_say_why_not(
    tmp_path: Path, seed: int
) -> None:
    async with busy(seed) as (wiring, workload):
        for _ in range(80):
            await workload.step()
        workload.crowd()
        history = wiring.scheduling.decisions.history
        await until(lambda: history.of_pod("default", "giant"), "a rejection")
        await settled(wiring)
        path = await written(wiring, tmp_path / "busy.bundle")
    found = judged(path)
    assert [each.seq for each in found] == sorted({each.seq for each in found})
    assert [each.why for each in found if each.result == "different"] == []
    results = Counter((each.result, bool(each.recorded.node)) for each in found)
    assert results["reproduced", False] >= 1, results
    (giant,) = [each for each in found if each.pod == "default/giant" and not each.why]
    assert giant.recorded.message.startswith("0/")
    assert all(bool(each.why) is (each.result == "unjudged") for each in found)


async def test_placements_are_taken_back_as_far_as_the_file_shows_all_changes(
    tmp_path: Path,
) -> None:
    """Ties are broken by chance: another node of the same score is the same decision."""
    async with EmbeddedCluster(controllers=(), seed=1) as cluster:
        for number in range(4):
            cluster.create(zone_node(f"node-{number}", f"zone-{number % 2}"))
        async with scheduling(cluster) as wiring:

            async def place(name: str) -> None:
                cluster.create(spread_pod(name))
                await until(lambda: bound_to(cluster, name), name)

            for number in range(3):
                await place(f"early-{number}")
            delete(cluster, "early-1")
            for number in range(5):
                await place(f"late-{number}")
            await settled(wiring)
            path = await written(wiring, tmp_path / "b")
    found = {each.pod.partition("/")[2]: each for each in judged(path)}
    late = [found[f"late-{number}"].result for number in range(5)]
    assert late == ["reproduced"] * 5, {name: each.why for name, each in found.items()}
    early = [found[f"early-{number}"] for number in range(3)]
    assert {each.result for each in early} == {"unjudged"}
    # When it was placed, the one that is gone still filled its zone.
    assert all("since decision 3: nodes found to fit were 4, here 2" in each.why for each in early)


async def test_a_pod_that_ended_hides_what_was_before(tmp_path: Path) -> None:
    async with EmbeddedCluster(controllers=(), seed=1) as cluster:
        cluster.create(zone_node("node-0", "zone-0"))
        async with scheduling(cluster) as wiring:
            for name in ("first", "gone", "last"):
                cluster.create(pod(name))
                await until(partial(bound_to, cluster, name), name)
            delete(cluster, "gone")
            await until(lambda: wiring.state.cache.statistics().pods == 2, "two pods")
            path = await written(wiring, tmp_path / "b")
    first, gone, last = judged(path)
    assert last.result == "reproduced"
    assert first.why == gone.why == "the state changed since decision 2: the pod is gone"


async def test_a_rejected_pod_that_fits_without_an_event_is_different(tmp_path: Path) -> None:
    async with EmbeddedCluster(controllers=(), seed=1) as cluster:
        cluster.create(zone_node("node-0", "zone-0", "1"))
        async with scheduling(cluster) as wiring:
            for name in ("waits", "was-moved"):
                cluster.create(pod(name, "2"))
            await until(
                lambda: wiring.scheduling.queue.statistics().unschedulable == 2, "two rejections"
            )
            path = await written(wiring, tmp_path / "b")
    assert [each.result for each in judged(path)] == ["reproduced"] * 2
    changed = tmp_path / "changed"
    _rewrite(path, changed, _larger)
    found = {each.pod: each for each in judged(changed)}
    assert found["default/waits"].result == "different"
    assert "although no event has moved the pod" in found["default/waits"].why
    assert found["default/was-moved"].result == "unjudged"
    assert "an event has moved the pod since" in found["default/was-moved"].why


def _larger(section: str, data: Any) -> Any:
    """Let the node be large, and one of the pods be in backoff."""
    if section == "object" and data["kind"] == "Node":
        data["status"]["allocatable"]["cpu"] = "8"
    if section == "queue" and data["pod"] == "default/was-moved":
        data["place"] = "backoff"
    return data


def _rewrite(path: Path, changed: Path, change: Callable[[str, Any], Any]) -> None:
    bundle = open_bundle(path)
    writer = BundleWriter(bundle.header)
    pieces = [writer.begin()]
    pieces += [
        writer.add(line.section, change(line.section, json.loads(bytes(line.data))))
        for line in bundle.lines()
    ]
    changed.write_bytes(b"".join((*pieces, writer.end())))


async def test_a_pod_with_a_nomination_keeps_its_room_while_others_are_judged(
    tmp_path: Path,
) -> None:
    """It would be placed, which shows nothing: deciding about it must not end its nomination."""
    slow: dict[str, Any] = {"podInitialBackoffSeconds": 300, "podMaxBackoffSeconds": 300}
    options = RunOptions(feature_gates=FeatureGates({"SchedulerPopFromBackoffQ": False}))
    async with EmbeddedCluster(controllers=(), seed=1) as cluster:
        cluster.create(zone_node("node-0", "zone-0"))
        cluster.create(priority_class("high", 1000))
        async with scheduling(cluster, options=options, **slow) as wiring:
            history = wiring.scheduling.decisions.history
            cluster.create(pod("victim", "4"))
            await until(lambda: bound_to(cluster, "victim"), "the victim is bound")
            cluster.create(pod("urgent", "4", priorityClassName="high"))
            await until(wiring.scheduling.queue.nominator.nominated_nodes, "nominated")
            # A victim that is gone before its eviction would let the pod try again at once.
            await until(
                lambda: "deletionTimestamp" in (find(cluster, "victim") or {})["metadata"],
                "the victim is evicted",
            )
            await settled(wiring)
            delete(cluster, "victim")
            await until(lambda: not wiring.state.cache.statistics().pods, "the victim is gone")
            cluster.create(pod("late", "4"))
            await until(lambda: history.of_pod("default", "late"), "late is rejected")
            await settled(wiring)
            path = await written(wiring, tmp_path / "b")
    found = {each.pod.partition("/")[2]: each for each in judged(path)}
    assert (found["urgent"].result, found["late"].result) == ("unjudged", "reproduced")
