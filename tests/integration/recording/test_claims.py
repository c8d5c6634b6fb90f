"""Bundles and recordings of a scheduler that allocates devices to claims."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from devtools.embedded_service import bound_to, node, pod, until
from scheduler.cli.exit_codes import DOES_NOT_FIT
from scheduler.offline import World
from scheduler.recording.reading import open_bundle
from simulator import EmbeddedCluster
from tests.integration.explain.conftest import Open, Site
from tests.integration.explain.devices import (
    DRIVER,
    OF_DRIVER,
    claim,
    device_class,
    device_slice,
    status_of,
    uses,
)
from tests.integration.recording.command import record

NODES = ("node-a", "node-b")
DEVICES = 2
"""Of each node."""


def fill(cluster: EmbeddedCluster) -> None:
    """Create nodes with devices, a pod that gets one, and a pod that wants too many."""
    cluster.create(device_class())
    for name in NODES:
        cluster.create(node(name))
        cluster.create(device_slice(name, DEVICES))
    for name, count in (("small", 1), ("large", DEVICES + 1)):
        cluster.create(claim(name, count))
        cluster.create(pod(name, "10m", resourceClaims=uses(name)))


def objects(path: Path) -> dict[str, list[Any]]:
    """Return the objects of a bundle by kind."""
    found: dict[str, list[Any]] = {}
    for line in gzip.decompress(path.read_bytes()).splitlines():
        decoded = json.loads(line)
        if decoded["section"] == "object":
            found.setdefault(decoded["data"]["kind"], []).append(decoded["data"])
    return found


async def settled(site: Site) -> None:
    """Wait until both pods were decided about, and the claim is seen as allocated."""
    await until(lambda: bound_to(site.cluster, "small"), "the small pod")
    await until(lambda: "reservedFor" in status_of(site, "small"), "the claim")


async def test_a_bundle_has_the_devices_and_the_pod_is_explained_offline(
    scheduling: Open, tmp_path: Path
) -> None:
    path = tmp_path / "b"
    async with scheduling(before=fill) as site:
        await settled(site)
        online = await site.output("explain", "large")
        await site.output("bundle", "-o", str(path))
    assert {"DeviceClass", "ResourceClaim", "ResourceSlice"} <= objects(path).keys()
    with World.load(path) as world:
        answer = world.explain("default/large")
        assert "2 lack devices that it claims (claim large, " in str(answer)
        placed = world.placements()["default/small"]
        (waiting,) = world.waiting()
        # The device of the small pod is taken in the world, too.
        assert waiting.pod == "default/large"
        taken = claim("taken", DEVICES)
        world.add(taken)
        world.add_pods(pod("taken", "10m", resourceClaims=uses("taken")))
        world.schedule()
        assert world.placements()["default/taken"] != placed
    assert "2 of 2 devices" in online or "1 of 2 devices" in online, online


SELECTORS = {
    "equal": f'{OF_DRIVER} && device.attributes["{DRIVER}"].model == "large-a"',
    # A redacted text has no such part.
    "part": f'device.attributes["{DRIVER}"].model.split("-")[1] == "a"',
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "selector", "results"),
    [
        ((), "equal", {"reproduced"}),
        (("--redact",), "equal", {"reproduced"}),
        ((), "part", {"reproduced"}),
        (("--redact",), "part", {"different"}),
    ],
)
async def test_a_recording_with_claims_is_replayed(
    scheduling: Open, tmp_path: Path, options: tuple[str, ...], selector: str, results: set[str]
) -> None:
    path = tmp_path / "recordings" / "r"
    path.parent.mkdir()

    def many(cluster: EmbeddedCluster) -> None:
        cluster.create(device_class(expression=SELECTORS[selector]))
        for name in NODES:
            cluster.create(node(name))
            attributes = {"model": {"string": "large-a"}}
            cluster.create(device_slice(name, 100, attributes=attributes))

    async with scheduling(before=many) as site:

        def make(number: int) -> str:
            name = f"late-{number}"
            site.cluster.create(claim(name))
            site.cluster.create(pod(name, "10m", resourceClaims=uses(name)))
            return name

        await record(site, path, make, *options)
    # The scheduler has ended: it logs to the same output, when the machine is slow a warning.
    replayed = await site.run("replay", str(path), "-o", "json")
    assert replayed.err == ""
    judged = [json.loads(each) for each in replayed.out.splitlines()]
    assert any(each["recorded"]["node"] for each in judged)
    assert {each["result"] for each in judged} == results, replayed.out
    assert replayed.code == (DOES_NOT_FIT if results == {"different"} else 0)
    if results == {"different"}:
        assert all("the bundle is redacted" in each["why"] for each in judged)
    if options:
        assert open_bundle(path).header.redacted
        text = gzip.decompress(path.read_bytes()).decode()
        names = ("node-a", "late-", "large-a", "gpu.example.com")
        assert [each for each in names if each in text] == []
