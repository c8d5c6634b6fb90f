"""Questions about devices that a manifest adds, asked of a running scheduler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from devtools.embedded_service import condition, node, pod, until
from scheduler.cli.exit_codes import DOES_NOT_FIT
from simulator import EmbeddedCluster
from simulator.objects import JsonObject
from tests.integration.explain.conftest import Open, Site
from tests.integration.explain.devices import claim, device_class, device_slice, status_of, uses

NO_DEVICES = "cannot allocate all claims"
LACKS_DEVICES = "1 lacks devices that it claims"


def fill(*objects: JsonObject) -> Callable[[EmbeddedCluster], None]:
    """Return a function that creates a node, objects, and a pod that uses claim `c`."""

    def create(cluster: EmbeddedCluster) -> None:
        cluster.create(node("n1", cpu="8"))
        for each in (*objects, pod("p", resourceClaims=uses("c"))):
            cluster.create(each)

    return create


def manifest(folder: Path, *objects: JsonObject) -> str:
    file = folder / "objects.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)


async def rejected(site: Site, text: str) -> None:
    await until(lambda: text in condition(site.cluster, "p").get("message", ""), text)


@pytest.mark.slow
async def test_a_slice_to_add_would_make_the_pod_fit_and_stays_untried(
    scheduling: Open, tmp_path: Path
) -> None:
    before = fill(device_class(), claim("c", 3), device_slice("n1", 2))
    async with scheduling(before=before) as site:
        await rejected(site, NO_DEVICES)
        no = await site.query("whatif", "p")
        more = manifest(tmp_path, device_slice("n1", 3))
        yes = await site.query("whatif", "p", "--add", more)
        again = await site.query("whatif", "p")
        stored = status_of(site, "c")
    assert (no.code, LACKS_DEVICES in no.out) == (DOES_NOT_FIT, True)
    assert (yes.code, yes.err) == (0, "")
    assert yes.out.startswith("default/p would go to n1")
    assert again.out == no.out
    assert not stored


async def test_a_class_and_a_claim_to_add_would_make_the_pod_fit(
    scheduling: Open, tmp_path: Path
) -> None:
    async with scheduling(before=fill(device_slice("n1", 1))) as site:
        # PreEnqueue holds the pod: it has no condition of the scheduler.
        wanted = claim("c")
        del wanted["metadata"]["namespace"]
        without_class = await site.query("whatif", "p", "--add", manifest(tmp_path, wanted))
        both = manifest(tmp_path, device_class(), wanted)
        yes = await site.query("whatif", "p", "--add", both)
        copies = await site.query("whatif", "p", "--add", both, "--copies", "2")
    assert without_class.code == DOES_NOT_FIT
    assert (
        'the DeviceClass "gpu", which request r of a claim names, does not exist'
        in without_class.out
    )
    assert (yes.code, yes.err) == (0, "")
    assert yes.out.startswith("default/p would go to n1")
    # Copies of the pod would share the claim.
    assert copies.code == 0


@pytest.mark.parametrize("devices", [0, 1])
async def test_a_class_to_add_would_let_devices_stand_for_an_extended_resource(
    scheduling: Open, tmp_path: Path, devices: int
) -> None:
    """A class that is added with an extended resource concerns pods that were of no concern."""
    resource = "example.com/gpu"
    named = device_class()
    named["spec"]["extendedResourceName"] = resource
    requests = {"cpu": "1", resource: "1"}
    container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}

    def create(cluster: EmbeddedCluster) -> None:
        cluster.create(node("n1", cpu="8"))
        if devices:
            cluster.create(device_slice("n1", devices))
        cluster.create(pod("p", containers=[container]))

    async with scheduling(before=create) as site:
        await rejected(site, f"Insufficient {resource}")
        answer = await site.query("whatif", "p", "--add", manifest(tmp_path, named))
        again = await site.query("whatif", "p")
    assert (answer.code == 0) is bool(devices), answer.out
    assert f"1 lacks {resource} (wants 1 {resource}, the largest node has 0)" in again.out
