"""The page of `kubestow ui` asks a running scheduler as the other commands do."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from devtools.embedded_service import bound_to, node, pod, until
from scheduler.cli.endpoint import Endpoint
from scheduler.cli.page.questions import QuestionError
from scheduler.cli.page.sources import LiveSource
from tests.integration.explain.conftest import READER, STRANGER, Open, Site


def source(site: Site, token: str = READER) -> LiveSource:
    return LiveSource(
        Endpoint(
            server=site.server,
            token=token,
            kubeconfig="",
            context="",
            ca_file=site.ca_file,
            tls_server_name="",
            insecure_skip_tls_verify=False,
        )
    )


async def ask(site: Site, page: str, token: str = READER, **query: str) -> Any:
    body = await asyncio.to_thread(source(site, token).ask, f"/debug/{page}", query, None)
    return msgspec.json.decode(body)


async def test_every_question_has_its_answer(scheduling: Open) -> None:
    async with scheduling() as running:
        running.cluster.create(node("n1", labels={"topology.kubernetes.io/zone": "a"}))
        running.cluster.create(pod("fits"))
        running.cluster.create(pod("large", "64"))
        await until(lambda: bound_to(running.cluster, "fits") == "n1")
        summary = await ask(running, "summary", rows="20")
        nodes = await ask(running, "nodes", limit="500")
        one = await ask(running, "node", name="n1")
        queue = await ask(running, "queue", limit="10")
        waiting = await ask(running, "waiting", limit="10")
        story = await ask(running, "explain", pod="default/large", remedies="quick")
        decisions = await ask(running, "decisions", limit="200")
    assert (summary["kind"], summary["nodes"]) == ("Summary", 1)
    assert [(each["name"], each["zone"]) for each in nodes["nodes"]] == [("n1", "a")]
    assert [(each["name"], each["requests"]["cpu"]) for each in one["pods"]] == [("fits", 1)]
    assert [each["name"] for each in queue["pods"]] == ["large"]
    assert waiting["headline"] == "1 pod waits: it lacks CPU"
    assert [each["pod"]["name"] for each in waiting["pods"]] == ["large"]
    # The same sentence, without the name of the node, which decisions do not keep.
    assert waiting["groups"][0]["text"] == story["story"][0].replace(" (n1)", "")
    assert story["pod"]["nodes"]["feasible"] == 0
    assert {"text", "node"} <= story["remedies"]["remedies"][0].keys()
    by_pod = {each["pod"]: each for each in decisions["decisions"]}
    assert by_pod["default/fits"]["node"] == "n1"
    assert by_pod["default/large"]["result"] == "unschedulable"


async def test_refusals_keep_their_meaning(scheduling: Open) -> None:
    async with scheduling() as running:
        for page, token, query, status in (
            ("explain", READER, {"pod": "default/gone"}, 404),
            ("queue", READER, {"limit": "0"}, 400),
            ("queue", STRANGER, {}, 403),
        ):
            with pytest.raises(QuestionError) as raised:
                await ask(running, page, token, **query)
            assert raised.value.status == status
        with pytest.raises(QuestionError, match="only a recorded run has a past"):
            source(running).ask("/debug/queue", {}, 1.0)
    with pytest.raises(QuestionError, match="cannot reach the scheduler") as raised:
        await ask(running, "queue")
    assert raised.value.status == 502
