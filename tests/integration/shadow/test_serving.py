"""The endpoints of a shadow: metrics for all, pages for clients of the same machine."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from devtools.embedded_service import bind, node
from scheduler.cli.page.questions import QuestionError
from scheduler.cli.page.sources import ShadowSource
from scheduler.explain.records.shadow import ShadowSummary
from scheduler.shadow.serving import PAGE, ShadowEndpoints, served
from simulator import EmbeddedCluster
from tests.integration.shadow.stage import chosen, judged, listen, pod, reject, shadow


async def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://127.0.0.1:{port}{path}") as response,
    ):
        return response.status, await response.text()


async def test_metrics_health_and_the_page(cluster: EmbeddedCluster) -> None:
    for name in ("n1", "n2"):
        cluster.create(node(name))
    async with shadow(cluster) as wiring, served(("127.0.0.1", 0), wiring) as port:
        seen = listen(wiring)
        cluster.create(pod("a"))
        bind(cluster, "a", "n1")
        cluster.create(pod("b"))
        await chosen(wiring, cluster, "b")
        cluster.create(pod("c", cpu="99"))
        reject(cluster, "c", "token=abcdefgh12345678 \x1b[31m")
        await judged(wiring, seen, 1)
        assert await get(port, "/healthz") == (200, "ok")
        assert await get(port, "/readyz") == (200, "ok")
        status, text = await get(port, "/metrics")
        assert status == 200
        assert f'kubestow_shadow_judged_pods_total{{verdict="{seen[0].verdict}"}} 1.0' in text
        assert 'kubestow_shadow_pods{state="held"} 1.0' in text
        status, text = await get(port, PAGE)
        assert status == 200
        assert "\x1b" not in text
        assert '"kind": "ShadowSummary"' in text
        assert '"sentence": "1 decision of default-scheduler in ' in text
        assert (await get(port, "/nothing"))[0] == 404
        assert (await get(port, "/metrics", "POST"))[0] == 405


@pytest.mark.parametrize(
    ("remote", "status"),
    [("127.0.0.1", 200), ("127.9.9.9", 200), ("::1", 200), ("10.0.0.7", 403), (None, 403)],
)
async def test_pages_are_for_clients_of_this_machine(remote: str | None, status: int) -> None:
    class Request:
        method, path = "GET", PAGE

    class Wiring:
        def summary(self, rows: int) -> ShadowSummary:
            return ShadowSummary(began=0.0, now=1.0, names=("p",), judged=0, verdicts={})

    request: Any = Request()
    request.remote = remote
    wiring: Any = Wiring()
    assert (await ShadowEndpoints(wiring)(request)).status == status


async def test_the_page_of_kubestow_ui_asks_it(cluster: EmbeddedCluster) -> None:
    cluster.create(node("n1"))
    async with shadow(cluster) as wiring, served(("127.0.0.1", 0), wiring) as port:
        source = ShadowSource(f"http://127.0.0.1:{port}")
        assert source.describe().kind == "shadow"
        answer = json.loads(await asyncio.to_thread(source.ask, PAGE, {}, None))
        assert answer["nodes"] == 1
        with pytest.raises(QuestionError, match="only what it has compared"):
            source.ask("/debug/summary", {}, None)
        with pytest.raises(QuestionError, match="only what it has compared"):
            source.ask(PAGE, {}, 1.0)
    with pytest.raises(QuestionError, match="no answer of"):
        await asyncio.to_thread(source.ask, PAGE, {}, None)


@pytest.mark.parametrize("url", ["https://127.0.0.1:1", "127.0.0.1:1", "http://127.0.0.1/x", ""])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ValueError, match="write http://127"):
        ShadowSource(url)
