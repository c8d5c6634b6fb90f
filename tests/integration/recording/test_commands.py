"""`bundle`, `record` and `replay` against the real application over HTTPS."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from devtools.embedded_service import bound_to, node, pod, until
from scheduler.offline import World
from scheduler.recording.reading import open_bundle
from simulator import EmbeddedCluster
from tests.integration.explain.conftest import Open, Site
from tests.integration.recording import command
from tests.integration.recording.busy import zone_node


def sections(path: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for line in gzip.decompress(path.read_bytes()).splitlines():
        decoded = json.loads(line)
        found.setdefault(decoded["section"], []).append(decoded["data"])
    return found


def fill(cluster: EmbeddedCluster) -> None:
    cluster.create(zone_node("node-a", "east"))
    secret = [{"name": "PASSWORD", "value": "hunter2"}]
    made = pod("web-0")
    made["spec"]["containers"][0]["env"] = secret
    made["metadata"]["annotations"] = {"example.com/owner": "a-person"}
    cluster.create(made)
    cluster.create(pod("giant", "64"))


async def test_a_bundle_has_everything_but_secrets(scheduling: Open, tmp_path: Path) -> None:
    path = tmp_path / "b"
    async with scheduling(before=fill) as site:
        await until(lambda: bound_to(site.cluster, "web-0") == "node-a")
        out = await site.output("bundle", "-o", str(path))
    assert out.startswith(f"{path}: ")
    assert path.stat().st_mode & 0o777 == 0o600
    found = sections(path)
    expected = {"bundle", "configuration", "state", "row", "object", "queue", "metrics", "manifest"}
    assert expected <= found.keys()
    assert {each["kind"] for each in found["object"]} >= {"Node", "Pod"}
    assert [each["pod"] for each in found["queue"]] == ["default/giant"]
    assert "scheduler_schedule_attempts_total" in found["metrics"][0]["text"]
    text = gzip.decompress(path.read_bytes()).decode()
    assert [each for each in ("hunter2", "a-person", "reader-token") if each in text] == []


async def test_a_world_is_built_of_a_bundle(scheduling: Open, tmp_path: Path) -> None:
    path = tmp_path / "b"
    async with scheduling(before=fill) as site:
        await until(lambda: bound_to(site.cluster, "web-0") == "node-a")
        await site.output("bundle", "-o", str(path))
    with World.load(path) as world:
        assert world.placements() == {"default/web-0": "node-a"}
        (waiting,) = world.waiting()
        assert (waiting.pod, waiting.attempts) == ("default/giant", 1)
        world.add_nodes(node("large", "128"))
        assert world.schedule()["default/giant"].pod == "default/giant"
        assert world.placements()["default/giant"] == "large"


async def record(site: Site, path: Path, *options: str, prefix: str = "late") -> None:
    """Record small pods."""

    def make(number: int) -> str:
        name = f"{prefix}-{number}"
        site.cluster.create(pod(name, "10m"))
        return name

    output = await command.record(site, path, make, *options)
    assert "it ended because the time that was asked for is over" in output


@pytest.mark.slow
async def test_a_recording_is_replayed(scheduling: Open, tmp_path: Path) -> None:
    path, hidden = tmp_path / "r", tmp_path / "redacted"
    async with scheduling(before=fill) as site:
        await record(site, path)
        await record(site, hidden, "--redact", prefix="hidden")
        whole = await site.run("replay", str(path))
        first = await site.run("replay", str(path), "--until", "1", "-o", "json")
        name = json.loads(first.out)["pod"]
        one = await site.run("replay", str(path), "--pod", name)
        absent = await site.run("replay", str(path), "--pod", "default/nobody")
        redacted = await site.run("replay", str(hidden))
    assert (whole.code, whole.err) == (0, "")
    assert "0 different, 0 unjudged" in whole.out
    assert f"reproduced {name}" in one.out
    assert json.loads(first.out)["result"] == "reproduced"
    assert (absent.code, "no attempt at pod default/nobody" in absent.err) == (4, True)
    assert redacted.code == 0, redacted.out
    text = gzip.decompress(hidden.read_bytes()).decode()
    assert [each for each in ("web-0", "node-a", "giant", "hidden-") if each in text] == []
    assert open_bundle(hidden).header.redacted


@pytest.mark.slow
async def test_what_differs_is_said_with_exit_code_3(scheduling: Open, tmp_path: Path) -> None:
    path, changed = tmp_path / "r", tmp_path / "changed"
    async with scheduling(before=fill) as site:
        await record(site, path)
    rewrite(path, changed)
    async with scheduling() as site:
        result = await site.run("replay", str(changed))
    assert result.code == 3
    assert "different" in result.out
    assert "node was moon, here node-a" in result.out


def rewrite(path: Path, changed: Path) -> None:
    """Write a copy in which every pod was placed on another node."""
    from scheduler.recording.writing import BundleWriter

    bundle = open_bundle(path)
    writer = BundleWriter(bundle.header)
    pieces = [writer.begin()]
    for line in bundle.lines():
        data = json.loads(bytes(line.data))
        if line.section == "attempt" and "node" in data["outcome"]:
            data["outcome"]["node"] = "moon"
        pieces.append(writer.add(line.section, data))
    changed.write_bytes(b"".join((*pieces, writer.end())))


@pytest.mark.parametrize("command", ["bundle", "record"])
async def test_strangers_get_no_bundle(scheduling: Open, tmp_path: Path, command: str) -> None:
    async with scheduling() as site:
        result = await site.query(command, "-o", str(tmp_path / "b"), token="stranger-token")
    assert result.code == 6
    # The folder has the scheduler's certificate only: no half-written file.
    names = await asyncio.to_thread(os.listdir, tmp_path)
    assert [each for each in names if each.lstrip(".").startswith("b")] == []


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("/debug/record?seconds=0", "seconds=0: give a whole number from 1 to 3600"),
        ("/debug/record?bytes=x", "bytes=x: give a whole number"),
        (
            "/debug/bundle?annotation=" + ",".join("abcdefghijklmnopqrstuvwxyzABCDEFGH"),
            "at most 32",
        ),
    ],
)
async def test_a_bad_query_is_a_400(scheduling: Open, query: str, text: str) -> None:
    async with scheduling() as site:
        result = await site.get(query)
    assert (result.code, text in result.out) == (400, True)


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"no bundle", "not compressed by gzip"), (gzip.compress(b"{}", mtime=0), "cut")],
)
async def test_an_unusable_file_has_an_exit_code_of_its_own(
    scheduling: Open, tmp_path: Path, content: bytes, text: str
) -> None:
    path = tmp_path / "b"
    path.write_bytes(content)
    async with scheduling() as site:
        result = await site.run("replay", str(path))
    assert (result.code, text in result.err) == (8, True)
