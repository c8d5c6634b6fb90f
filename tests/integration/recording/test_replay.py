"""Every decision of a recorded busy run is reproduced; a recording ends in order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from scheduler.bundle.reading import open_bundle
from scheduler.service.recording import journal
from scheduler.service.recording.streams import BundleStreams
from simulator.offline.replay import Judgement, Replay
from testing.embedded_service import settled, until
from tests.integration.recording.busy import Recording, busy


def judged(path: Path) -> list[Judgement]:
    with Replay.of(path) as replay:
        return list(replay.run())


@pytest.mark.parametrize("seed", [1, 2])
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
        for _ in range(120):
            await workload.step()
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


async def test_a_changed_input_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison compares: with another state of the random source decisions differ."""
    async with busy() as (wiring, workload):
        recording = Recording(wiring, tmp_path / "r")
        await recording.begin()
        for _ in range(40):
            await workload.step()
        await settled(wiring)
        await recording.end()
    with Replay.of(recording.path) as replay:
        source = replay.world.scheduler.random
        monkeypatch.setattr(source, "setstate", lambda _state: source.seed(5))
        found = list(replay.run())
    assert "different" in {each.result for each in found}
    assert all(each.why for each in found if each.result == "different")


@pytest.mark.parametrize("reason", [journal.RELIST, journal.LEADER, journal.RELOAD])
async def test_a_recording_says_why_it_ended(tmp_path: Path, reason: str) -> None:
    async with busy() as (wiring, workload):
        recording = Recording(wiring, tmp_path / "r")
        await recording.begin()
        await workload.step()
        if reason == journal.RELIST:
            wiring.scheduling.loop.pause(True)
            wiring.scheduling.loop.pause(False)
        elif reason == journal.LEADER:
            wiring.scheduling.loop.stop()
        else:
            wiring.handlers.replace_profiles(wiring.profiles.frameworks, ())
        await recording.end("never: it has ended")
        assert wiring.scheduling.loop.journal is None
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
        await until(lambda: wiring.scheduling.loop.journal is None, "the journal ends")
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
        assert wiring.scheduling.loop.journal is None
        assert [each async for each in streams.bundle({})]


async def test_a_standby_records_nothing() -> None:
    async with busy() as (wiring, _):
        with pytest.raises(ValueError, match="does not lead"):
            await anext(BundleStreams(wiring, lambda: False).record({}))
