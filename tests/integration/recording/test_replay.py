"""Every decision of a recorded busy run is reproduced; a recording ends in order."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devtools.embedded_service import settled, until
from scheduler.cli.bundle import redacted
from scheduler.explain.records import DecisionResult
from scheduler.framework import NominatingInfo, QueuedPodInfo
from scheduler.history.remembered import Reason
from scheduler.offline.judgement import Judgement
from scheduler.offline.replay import Replay
from scheduler.recording import journal
from scheduler.recording.reading import open_bundle
from scheduler.recording.streams import BundleStreams
from scheduler.service.observer import LEADER, RELIST, RELOAD
from scheduler.stages.wiring import Wiring
from tests.integration.recording.busy import Recording, busy
from tests.unit.history.test_history import remembered


def judged(path: Path) -> list[Judgement]:
    with Replay.of(path) as replay:
        return list(replay.run())


def fell_back(wiring: Wiring, since: float) -> bool:
    """Whether fallback from spreading was decided since a time."""
    history = wiring.scheduling.decisions.history
    return any(each.time > since and "fallback active" in each.message for each in history.every())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
async def test_a_busy_run_is_reproduced(tmp_path: Path, seed: int) -> None:
    """With preemption, pods held by a deferred quota, and fallback from spreading."""
    async with busy(seed) as (wiring, workload):
        for _ in range(40):
            await workload.step()
        enforcement = wiring.controllers.quota.enforcement
        assert enforcement is not None
        workload.hold()
        await until(lambda: enforcement.ledger.held("team"), "a pod held by the quota")
        recording = Recording(wiring, tmp_path / "busy.recording")
        await recording.begin()
        begin = wiring.connections.clock.now()
        for steps in range(2_000):
            await workload.step()
            if steps > 120 and fell_back(wiring, begin):
                break
        await settled(wiring)
        await recording.end()
    found = judged(recording.path)
    assert [each for each in found if each.result != "reproduced"] == []
    kinds = Counter(
        kind
        for each in found
        for kind, applies in {
            "placed": each.recorded.node,
            "nominated": each.recorded.nominated,
            "preemption failed": each.recorded.post_filter == "Failed",
            "fallback": "fallback active" in each.recorded.message,
            "quota": each.pod.startswith("team/"),
        }.items()
        if applies
    )
    assert min(kinds[each] for each in ("placed", "nominated", "fallback", "quota")) >= 1, kinds
    assert len(found) > 50


async def test_a_redacted_busy_run_has_no_name_and_is_replayed(tmp_path: Path) -> None:
    async with busy() as (wiring, workload):
        recording = Recording(wiring, tmp_path / "r")
        await recording.begin()
        for _ in range(60):
            await workload.step()
        await workload.settled(wiring)
        await recording.end()
    path, private = tmp_path / "redacted", tmp_path / "private"
    path.write_bytes(recording.path.read_bytes())
    private.write_text("untouched")
    (tmp_path / "redacted.redacted").symlink_to(private)
    with path.open("r+b") as file:
        redacted(open_bundle(path), file)
    assert private.read_text() == "untouched"
    text = gzip.decompress(path.read_bytes()).decode()
    assert re.findall(r"\bpod-\d|\bnode-\d|zone-\d|\blate-|\bteam\b|example\.com", text) == []
    results = Counter(each.result for each in judged(path))
    assert results["reproduced"] > 10
    assert results["different"] == 0


async def test_a_changed_input_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison compares: with another state of the random source decisions differ."""
    async with busy() as (wiring, workload):
        recording = Recording(wiring, tmp_path / "r")
        await recording.begin()
        for _ in range(40):
            await workload.step()
        await workload.settled(wiring)
        await recording.end()
    with Replay.of(recording.path) as replay:
        source = replay.world._assembly.random
        monkeypatch.setattr(source, "setstate", lambda _state: source.seed(5))
        found = list(replay.run())
    assert "different" in {each.result for each in found}
    assert all(each.why for each in found if each.result == "different")


async def test_nominations_that_the_replay_made_itself_decide_nothing(tmp_path: Path) -> None:
    async with busy(2) as (wiring, workload):
        recording = Recording(wiring, tmp_path / "r")
        await recording.begin()
        for _ in range(60):
            await workload.step()
        await workload.settled(wiring)
        await recording.end()
    with Replay.of(recording.path) as replay:
        world = replay.world._assembly
        nominator, pods = world.scheduling.queue.nominator, world.tables.stores["pods"]
        for each in replay.run():
            assert each.result == "reproduced", each.why
            for pod in tuple(pods.list()):
                nominator.add_nominated_pod(pod, NominatingInfo("node-0"))
        assert len(nominator)


@pytest.mark.parametrize("reason", [RELIST, LEADER, RELOAD])
async def test_a_recording_says_why_it_ended(tmp_path: Path, reason: str) -> None:
    async with busy() as (wiring, workload):
        recording = Recording(wiring, tmp_path / "r")
        await recording.begin()
        await workload.step()
        if reason == RELIST:
            wiring.scheduling.loop.pause(True)
            wiring.scheduling.loop.pause(False)
        elif reason == LEADER:
            wiring.scheduling.loop.stop()
        else:
            wiring.handlers.replace_profiles(wiring.profiles.frameworks, ())
        await recording.end("never: it has ended")
        assert wiring.state.reports.observer is None
    manifest = open_bundle(recording.path).manifest
    assert (manifest.end, manifest.detail) == (reason, journal.REASONS[reason])
    assert {each.result for each in judged(recording.path)} <= {"reproduced"}


async def test_a_slow_reader_ends_the_recording_and_delays_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MAX_PENDING", 20)
    async with busy() as (wiring, workload):
        pieces = BundleStreams(wiring, lambda: True).record({})
        data = [await anext(pieces)]
        # It reads nothing while the scheduler works.
        for _ in range(60):
            await workload.step()
        await until(lambda: wiring.state.reports.observer is None, "the journal ends")
        data += [each async for each in pieces]
    path = tmp_path / "r"
    path.write_bytes(b"".join(data))
    assert open_bundle(path).manifest.end == journal.SLOW_READER
    assert {each.result for each in judged(path)} <= {"reproduced"}


async def test_a_reader_that_goes_away_ends_the_recording() -> None:
    async with busy() as (wiring, _):
        streams = BundleStreams(wiring, lambda: True)
        pieces = streams.record({})
        await anext(pieces)
        with pytest.raises(Exception, match="another bundle or recording"):
            await anext(streams.bundle({}))
        await pieces.aclose()
        assert wiring.state.reports.observer is None
        assert [each async for each in streams.bundle({})]


async def test_a_standby_records_nothing() -> None:
    async with busy() as (wiring, _):
        with pytest.raises(ValueError, match="does not lead"):
            await anext(BundleStreams(wiring, lambda: False).record({}))


@dataclass
class Uncopyable:
    """Memory of a plugin about a pod that cannot be encoded."""

    itself: Any = None


def unencodable(kind: str) -> Any:
    memory = Uncopyable()
    if kind == "recursive":
        memory.itself = memory
    else:
        memory.itself = "half a pair: \ud800"
    return memory


@pytest.mark.parametrize("kind", ["recursive", "no Unicode"])
async def test_memory_that_cannot_be_copied_ends_the_recording_and_nothing_else(
    tmp_path: Path, kind: str
) -> None:
    async with busy() as (wiring, workload):
        recording = Recording(wiring, tmp_path / "r")
        await recording.begin()
        original = wiring.scheduling.loop.schedule

        def schedule(info: QueuedPodInfo) -> Any:
            info.plugin_memory = {**(info.plugin_memory or {}), "Third": unencodable(kind)}
            return original(info)

        wiring.scheduling.loop.schedule = schedule  # type: ignore[method-assign]
        for _ in range(10):
            await workload.step()
        await until(lambda: wiring.state.reports.observer is None, "the recording ends")
        await settled(wiring)
        await recording.end()
        assert wiring.state.reports.observer is None
        assert failures(wiring, "bundles") == 1
        placed = wiring.scheduling.decisions.history.latest(100)
        assert any(each.node for each in placed)
    manifest = open_bundle(recording.path).manifest
    assert (manifest.end, manifest.detail) == (journal.FAILED, journal.REASONS[journal.FAILED])


@pytest.mark.parametrize("method", ["deltas", "attempt_begins", "attempt_ended", "binding"])
async def test_a_fault_in_any_report_ends_the_recording_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async with busy() as (wiring, workload):
        recording = Recording(wiring, tmp_path / "r")
        await recording.begin()
        broken = {
            "deltas": (journal.Journal, "_times"),
            "attempt_begins": (journal, "kept_fields"),
            "attempt_ended": (journal, "outcome_of"),
            "binding": (journal.Journal, "_append"),
        }

        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("bug")

        with monkeypatch.context() as patched:
            patched.setattr(*broken[method], fail)
            for _ in range(20):
                await workload.step()
            await until(lambda: wiring.state.reports.observer is None, "the recording ends")
        await workload.step()
        await settled(wiring)
        await recording.end()
        assert failures(wiring, "bundles") == 1
    assert open_bundle(recording.path).manifest.end == journal.FAILED


def failures(wiring: Wiring, kind: str) -> float:
    """Return the counter of failures."""
    body, _ = wiring.connections.metrics.exposition("")
    name = f'kubestow_recording_failures_total{{kind="{kind}"}} '
    lines = [line for line in body.decode().splitlines() if line.startswith(name)]
    return float(lines[0].removeprefix(name)) if lines else 0.0


async def test_a_bundle_has_a_gap_where_a_plugin_cannot_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> Iterator[Any]:
        yield {"first": 1}
        raise RuntimeError("bug")

    monkeypatch.setattr("plugins.resource_quota.plugin.ResourceQuota.bundle_state", broken)
    async with busy() as (wiring, workload):
        for _ in range(20):
            await workload.step()
        await workload.settled(wiring)
        for info, _ in list(wiring.scheduling.queue.records()):
            info.plugin_memory = {"Third": unencodable("recursive")}
        pieces = [each async for each in BundleStreams(wiring, lambda: True).bundle({})]
    path = tmp_path / "b"
    path.write_bytes(b"".join(pieces))
    bundle = open_bundle(path)
    assert bundle.manifest.end == "complete"
    assert "plugin" not in bundle.manifest.sections
    gaps = [each for each in bundle.header.left_out if "could not be encoded" in each]
    assert len(gaps) == 2


async def test_words_that_are_not_unicode_are_replaced(tmp_path: Path) -> None:
    async with busy() as (wiring, _):
        history = wiring.scheduling.decisions.history
        reason = Reason(DecisionResult.ERROR, "half a pair: \ud800")
        odd = remembered(history, "u", 1)
        history.record("default/odd", odd)
        history.explain(odd, reason)
        pieces = [each async for each in BundleStreams(wiring, lambda: True).bundle({})]
    path = tmp_path / "b"
    path.write_bytes(b"".join(pieces))
    decisions = [line.data for line in open_bundle(path).lines() if line.section == "decision"]
    assert any(b"half a pair: ?" in bytes(each) for each in decisions)
