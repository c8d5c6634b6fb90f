"""Decisions that hang on custom objects are replayed, from bundles without secrets."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from devtools.embedded_service import bound_to, condition, node, pod, scheduling, settled, until
from scheduler.offline.replay import Replay
from scheduler.recording.streams import BundleStreams
from scheduler.stages.wiring import Wiring
from simulator import EmbeddedCluster, offline
from simulator.api import MERGE_PATCH
from simulator.resources import Resource
from tests.integration.recording.busy import Recording

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "licence_tokens"
NAME: Final = "example.com/LicenceTokens"
ROW: Final = Resource("example.com", "v1", "licencepools", "LicencePool", namespaced=False)


def licensed(name: str, tokens: int) -> dict[str, Any]:
    made = pod(name)
    made["metadata"]["annotations"] = {"example.com/licences": f"matlab={tokens}"}
    return made


def resize(cluster: EmbeddedCluster, tokens: int) -> None:
    cluster.api.patch(ROW, "", "matlab", {"spec": {"tokens": tokens}}, MERGE_PATCH)


@asynccontextmanager
async def licences(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Wiring]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    cluster.resources.add(ROW)
    cluster.create(node("n1", "16"))
    cluster.create(
        {
            "apiVersion": "example.com/v1",
            "kind": "LicencePool",
            "metadata": {"name": "matlab"},
            "spec": {"tokens": 2, "server": "licences.internal", "serverToken": "hunter2"},
        }
    )
    points = {"multiPoint": {"enabled": [{"name": "licence_tokens:LicenceTokens"}]}}
    async with scheduling(cluster, points=points) as wiring:
        yield wiring


async def rejected(cluster: EmbeddedCluster, name: str) -> None:
    await until(lambda: "licence pool matlab" in str(condition(cluster, name).get("message")))


async def test_a_recording_of_pods_that_wait_for_custom_objects_is_reproduced(
    cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "licences.recording"
    async with licences(cluster, monkeypatch) as wiring:
        cluster.create(licensed("before", 1))
        await until(lambda: bound_to(cluster, "before"))
        await settled(wiring)
        recording = Recording(wiring, path)
        streams = BundleStreams.record

        def with_annotation(self: BundleStreams, query: Any) -> Any:
            return streams(self, {**query, "annotation": "example.com/licences"})

        monkeypatch.setattr(BundleStreams, "record", with_annotation)
        await recording.begin()
        cluster.create(licensed("waits", 3))
        await rejected(cluster, "waits")
        resize(cluster, 4)
        await until(lambda: bound_to(cluster, "waits"))
        cluster.create(licensed("late", 1))
        await rejected(cluster, "late")
        await settled(wiring)
        await recording.end()
    with Replay.of(path, [str(EXAMPLE)]) as replay:
        found = list(replay.run())
        assert not replay.unknown
    assert {each.result for each in found} == {"reproduced"}
    outcomes = [(each.pod, each.recorded.node, each.recorded.rejected_by) for each in found]
    assert ("default/waits", "", (NAME,)) in outcomes
    assert ("default/waits", "n1", ()) in outcomes
    assert outcomes[-1] == ("default/late", "", (NAME,))
    content = gzip.decompress(path.read_bytes())
    assert b"hunter2" not in content
    assert b"licences.internal" not in content


async def test_a_world_of_a_bundle_has_the_custom_objects(
    cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "licences.bundle"
    async with licences(cluster, monkeypatch) as wiring:
        cluster.create(licensed("waits", 3))
        await rejected(cluster, "waits")
        await settled(wiring)
        streams = BundleStreams(wiring, lambda: True)
        with path.open("wb") as file:
            async for piece in streams.bundle({"annotation": "example.com/licences"}):
                file.write(piece)
    with offline.World.load(path, plugin_dirs=[EXAMPLE]) as world:
        assert any("example.com/v1/licencepools" in each for each in world.notes)
        with world.trial() as trial:
            assert not trial.place("default/waits")
            trial.add(
                {
                    "apiVersion": "example.com/v1",
                    "kind": "LicencePool",
                    "metadata": {"name": "matlab"},
                    "spec": {"tokens": 3},
                }
            )
            assert trial.place("default/waits").node == "n1"
    plain = tmp_path / "config.yaml"
    plain.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )
    with offline.World.load(path, config=plain) as world:
        assert any("licencepools" in each and "1 skipped" in each for each in world.notes)
