"""Attempts that were suspended are recorded: whole, and as such that no replay can decide again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from devtools.embedded_service import bound_to, node, pod, scheduling, until
from scheduler.offline.judgement import UNJUDGED
from scheduler.offline.replay import Replay
from scheduler.recording.format import ATTEMPT
from simulator import EmbeddedCluster
from tests.integration.extenders.extender import ExtenderServer
from tests.integration.extenders.setup import BY_NAME, entry
from tests.integration.recording.busy import Recording


async def test_the_inputs_of_a_suspended_attempt_are_in_the_recording(tmp_path: Path) -> None:
    """They are noted when it begins, and again when what was deferred has been applied."""
    async with EmbeddedCluster(controllers=(), seed=1) as cluster, ExtenderServer() as extender:
        cluster.create(node("n1"))
        asked = entry(extender, "filter", **BY_NAME)
        async with scheduling(cluster, extenders=[asked]) as wiring:
            recording = Recording(wiring, tmp_path / "suspended.recording")
            await recording.begin()
            for name in ("a", "b"):
                cluster.create(pod(name))
                await until(lambda name=name: bound_to(cluster, name), "bound")  # type: ignore[misc]
            await recording.end()
    with Replay.of(recording.path) as replay:
        lines = [line for line in replay.content.stream() if line.section == ATTEMPT]
    first, second = (msgspec.json.decode(line.data) for line in lines)
    assert "words" in first["random"]
    assert "nominations" in first
    assert "words" not in second["random"]
    with Replay.of(recording.path) as replay:
        assert [each.result for each in replay.run()] == [UNJUDGED, UNJUDGED]
