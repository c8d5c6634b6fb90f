"""`kubestow whatif` and remedies, asked of a running scheduler over HTTPS."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools.embedded_service import condition, node, pod, until
from scheduler.cli.endpoint import Endpoint
from scheduler.cli.exit_codes import BAD_INPUT, DOES_NOT_FIT, NO_SUCH_POD
from tests.integration.explain.conftest import READER, CommandResult, Open, Site


async def a_pod_that_is_too_large(site: Site) -> None:
    site.cluster.create(node("n1", cpu="2"))
    site.cluster.create(pod("small", cpu="1"))
    site.cluster.create(pod("big", cpu="8"))
    await until(lambda: condition(site.cluster, "big").get("status") == "False", "big rejected")


async def test_a_node_to_add_would_make_the_pod_fit_and_nothing_happens(scheduling: Open) -> None:
    async with scheduling() as site:
        await a_pod_that_is_too_large(site)
        no = await site.query("whatif", "big")
        yes = await site.query("whatif", "big", "--add-node", "name=n9,cpu=16,memory=64Gi")
        zone = "spec.nodeSelector.topology.kubernetes.io/zone=b"
        there = ("--add-node", "cpu=16,label.topology.kubernetes.io/zone=b")
        elsewhere = await site.query("whatif", "big", "--set", zone, *there)
        smaller = await site.query("whatif", "big", "--set", "cpu=500m", "-o", "json")
        after = json.loads((await site.get("/debug/cache")).out)
        waiting = condition(site.cluster, "big").get("status")
    assert no.code == DOES_NOT_FIT
    assert "default/big would fit on none of 1 node" in no.out
    assert no.out.splitlines()[1] == "  1 lacks CPU (wants 8 cpu, the largest node has 2)"
    assert yes.code == elsewhere.code == 0
    assert elsewhere.out.startswith("default/big would go to new-node, the only one of 2 nodes")
    assert yes.out.startswith("default/big would go to n9, the only one of 2 nodes that fits\n")
    assert "nothing is reserved" in yes.out
    page = json.loads(smaller.out)
    assert (page["kind"], page["node"], page["fits"]) == ("WhatIfResult", "n1", True)
    assert page["resource_version"].isdecimal()
    assert (after["nodes"], waiting) == (1, "False")


NAMED = "spec.schedulerName"


async def test_copies_are_counted_by_node(scheduling: Open, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template: dict[str, Any] = {"spec": {"containers": [container]}}
    spec = {"replicas": 6, "template": template}
    deployment = {"kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    file.write_text(yaml.safe_dump(deployment))
    async with scheduling() as site:
        site.cluster.create(node("a", cpu="2"))
        site.cluster.create(node("b", cpu="3"))
        await seen(site, nodes=2)
        shown = await site.query("whatif", "-f", str(file), "--copies", "9")
        dropped = await site.query("whatif", "-f", str(file), "--copies", "2", "--drop-node", "b")
        replicas = await site.query("whatif", "-f", str(file))
        set_too = await site.query("whatif", "-f", str(file), "--set", f"{NAMED}=kubestow")
        template["spec"]["schedulerName"] = "kubestow"
        file.write_text(yaml.safe_dump(deployment))
        named = await site.query("whatif", "-f", str(file))
    # As it is, the cluster's own scheduler would place them.
    note = "note: the manifest names no schedulerName"
    assert [note in each.out for each in (replicas, set_too, named)] == [True, False, False]
    assert shown.code == DOES_NOT_FIT
    assert shown.out.splitlines()[:2] == [
        "5 of 9 copies of default/web would fit",
        "  on a 2, b 3",
    ]
    assert dropped.code == 0
    assert replicas.code == DOES_NOT_FIT
    assert replicas.out.startswith("5 of 6 replicas of default/web would fit\n")


async def seen(site: Site, *, nodes: int) -> None:
    """Wait until the scheduler knows so many nodes."""
    while json.loads((await site.get("/debug/cache")).out)["nodes"] < nodes:
        pass


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("nobody",), NO_SUCH_POD, 'no pod "default/nobody"'),
        (("big", "--drop-node", "n7"), BAD_INPUT, "there is no node 'n7'"),
        (("big", "--cordon", "zone=z"), BAD_INPUT, "no node has zone=z"),
        (("big", "--remove-pod", "default/x"), BAD_INPUT, "no Pod default/x"),
        (("big", "--set", "spec.containers[7].image=a"), BAD_INPUT, "no element '7'"),
        (("big", "--set", "spec.nodeSelectr="), BAD_INPUT, 'did you mean "nodeSelector"?'),
        (("big", "--set", "/spec/foo=1"), BAD_INPUT, "unknown field spec.foo"),
        (("big", "--set", "cpu"), BAD_INPUT, "write FIELD=VALUE"),
        (("big", "--set", "cpu=much"), BAD_INPUT, "much"),
        (("big", "--add-node", "cpu"), BAD_INPUT, "write KEY=VALUE"),
        (
            ("big", "--add-node", "cpu=1,count=900"),
            BAD_INPUT,
            "count of nodes to add=900: give a number",
        ),
        ((), BAD_INPUT, "give either a pod or -f FILE"),
    ],
)
async def test_bad_questions_say_what_is_wrong(
    scheduling: Open, arguments: tuple[str, ...], code: int, text: str
) -> None:
    async with scheduling() as site:
        await a_pod_that_is_too_large(site)
        result = await site.query("whatif", *arguments)
    assert (result.code, text in result.err) == (code, True), result.err


async def post(site: Site, body: bytes) -> CommandResult:
    endpoint = Endpoint(
        server=site.server, token=READER, kubeconfig="", context="", ca_file=site.ca_file,
        tls_server_name="", insecure_skip_tls_verify=False,
    )  # fmt: skip
    try:
        text = await asyncio.to_thread(endpoint.post, "/debug/whatif", body)
    except Exception as error:  # noqa: BLE001 - the message is what the test reads
        return CommandResult(1, "", str(error))
    return CommandResult(0, text.decode(), "")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "cannot be read"),
        (b'{"pods": 1}', "unknown field"),
        (b'{"pod": "a/b", "copies": 1000000}', "from 1 to 100"),
        (b'{"pod": "' + b"x" * 80_000 + b'"}', "65536 bytes"),
        (b"[" * 60_000, "cannot be read"),
    ],
)
async def test_a_hostile_body_is_refused(scheduling: Open, body: bytes, text: str) -> None:
    async with scheduling() as site:
        result = await post(site, body)
    assert text in result.err


async def test_explain_lists_remedies_on_request(scheduling: Open) -> None:
    async with scheduling() as site:
        await a_pod_that_is_too_large(site)
        page: dict[str, Any] = json.loads(
            (await site.get("/debug/explain?pod=default/big&remedies=all&limit=3")).out
        )
        without = json.loads((await site.get("/debug/explain?pod=default/big")).out)
    found = page["remedies"]["remedies"]
    assert 1 <= len(found) <= 3
    assert "LowerRequest" in [code for each in found for code in each["codes"]]
    assert without["remedies"] is None


async def test_the_command_lists_remedies_unless_told_otherwise(scheduling: Open) -> None:
    heading = "It would be scheduled after one of these changes"
    async with scheduling() as site:
        await a_pod_that_is_too_large(site)
        for options, listed in (
            ((), True),
            (("--remedies", "all"), True),
            (("--remedies", "none"), False),
        ):
            found = await site.query("explain", "default/big", *options)
            assert (found.code, heading in found.out) == (0, listed)
        wrong = await site.query("explain", "default/big", "--remedies", "some")
    assert (wrong.code, "'quick', 'all', 'none'" in wrong.err) == (2, True)
