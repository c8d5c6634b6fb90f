"""The endpoints over real sockets: bodies, headers, methods. All paths are allowed."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pytest
from structlog.testing import capture_logs

from tests.integration.serving.conftest import Open, Site

TEXT = "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/healthz", 200, "ok"),
        ("/healthz?verbose", 200, "[+]ping ok\nhealthz check passed\n"),
        ("/livez?verbose=1", 200, "[+]ping ok\nlivez check passed\n"),
        ("/livez/ping", 200, "ok"),
        ("/readyz/shutdown", 200, "ok"),
        (
            "/readyz?verbose&exclude=shutdown&exclude=nope",
            200,
            (
                "[+]shutdown excluded: ok\n[+]sched-handler-sync ok\n"
                'warn: some health checks cannot be excluded: no matches for "nope"\n'
                "readyz check passed\n"
            ),
        ),
        ("/readyz/nope", 404, "404 page not found\n"),
        ("/healthz/", 404, "404 page not found\n"),
        ("/nope", 404, "404 page not found\n"),
        ("/", 404, "404 page not found\n"),
        ("/metrics/", 404, "404 page not found\n"),
        ("/metrics/resources", 200, ""),
    ],
)
async def test_get(opened: Open, site: Site, path: str, status: int, body: str) -> None:
    async with opened(site) as client:
        response = await client.request(path)
    assert (response.status, response.text) == (status, body)
    assert response.headers["Content-Type"].startswith("text/plain; ")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"] == "no-cache, private"
    assert response.headers["Connection"] == "close"
    assert "Server" not in response.headers


async def test_readiness_follows_the_checks(opened: Open, site: Site) -> None:
    site.synced = False
    async with opened(site) as client:
        early = await client.request("/readyz")
        reason = await client.request("/readyz/sched-handler-sync")
        alive = await client.request("/livez")
        site.synced = True
        late = await client.request("/readyz")
    assert (early.status, early.text) == (
        500,
        "[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n",
    )
    assert (reason.status, reason.text) == (500, "internal server error: pods are missing\n")
    assert (alive.status, late.status) == (200, 200)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT"])
async def test_health_accepts_any_method(opened: Open, site: Site, method: str) -> None:
    async with opened(site) as client:
        assert (await client.request("/healthz", method)).status == 200


async def test_metrics_are_scraped_in_both_formats_and_reset(opened: Open, site: Site) -> None:
    site.metrics.add_source(lambda each: each.cache_size(nodes=7, pods=0, assumed_pods=0))
    site.metrics.preemption()
    async with opened(site) as client:
        classic = await client.request("/metrics")
        accept = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
        modern = await client.request("/metrics", headers=accept)
        reset = await client.request("/metrics", "DELETE")
        after = await client.request("/metrics")
    assert classic.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert modern.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert modern.text.endswith("# EOF\n")
    for line in (
        "scheduler_preemption_attempts_total 1.0",
        'scheduler_cache_size{type="nodes"} 7.0',
    ):
        assert line in classic.text.splitlines()
    assert (reset.status, reset.text) == (200, "metrics reset\n")
    assert "scheduler_preemption_attempts_total 0.0" in after.text.splitlines()
    assert 'scheduler_cache_size{type="nodes"} 7.0' in after.text.splitlines()


async def test_health_results_are_indicators(opened: Open, site: Site) -> None:
    async with opened(site) as client:
        await client.request("/livez")
        response = await client.request("/metrics/slis")
    assert 'kubernetes_healthcheck{name="ping",type="livez"} 1.0' in response.text.splitlines()


async def test_json_documents(opened: Open, site: Site) -> None:
    async with opened(site) as client:
        configz = await client.request("/configz")
        version = await client.request("/version")
    assert configz.headers["Content-Type"] == "application/json"
    assert json.loads(configz.text) == {"componentconfig": {"parallelism": 16}}
    assert json.loads(version.text) == {"major": "1"}


async def test_debug_pages_get_the_query_and_may_reject_it(opened: Open, site: Site) -> None:
    def explain(query: Mapping[str, str]) -> object:
        if "pod" not in query:
            raise ValueError("say which pod: ?pod=namespace/name")
        if query["pod"] != "ns/a":
            raise LookupError(f"no pod {query['pod']} is waiting")
        return {"pod": query["pod"], "nodes": np.int64(3), "scores": np.array([1, 2])}

    site.debug |= {"explain": explain, "queue/active": lambda _: []}
    async with opened(site) as client:
        index = await client.request("/debug")
        good = await client.request("/debug/explain?pod=ns/a")
        absent = await client.request("/debug/explain?pod=ns/b")
        bad = await client.request("/debug/explain")
        nested = await client.request("/debug/queue/active")
        none = await client.request("/debug/nope")
    assert json.loads(index.text) == {
        "kind": "PageList",
        "apiVersion": "debug.kubestow.io/v1",
        "pages": ["/debug/explain", "/debug/queue/active"],
    }
    assert json.loads(good.text) == {"pod": "ns/a", "nodes": 3, "scores": [1, 2]}
    assert (absent.status, absent.text) == (404, "no pod ns/b is waiting\n")
    assert (bad.status, bad.text) == (400, "say which pod: ?pod=namespace/name\n")
    assert json.loads(nested.text) == []
    assert (none.status, none.text) == (404, "404 page not found\n")


@pytest.mark.parametrize(
    ("body", "status", "text", "set_to"),
    [
        ("4", 200, "successfully set klog.logging.verbosity to 4", [4]),
        (" 2\n", 200, "successfully set klog.logging.verbosity to 2", [2]),
        ("much", 400, 'failed to set verbosity: "much" is not a number\n', []),
        ("-1", 400, 'failed to set verbosity: "-1" is not a number\n', []),
        ("", 400, 'failed to set verbosity: "" is not a number\n', []),
    ],
)
async def test_the_log_level_is_set(
    opened: Open, site: Site, body: str, status: int, text: str, set_to: list[int]
) -> None:
    async with opened(site) as client:
        response = await client.request("/debug/flags/v", "PUT", data=body)
    assert (response.status, response.text) == (status, text)
    assert site.verbosity == set_to


async def test_without_profiling_the_log_level_cannot_be_set(opened: Open, site: Site) -> None:
    async with opened(site, set_verbosity=None) as client:
        response = await client.request("/debug/flags/v", "PUT", data="4")
    assert response.status in (404, 405)


@pytest.mark.parametrize(("path", "method"), [("/metrics", "POST"), ("/configz", "DELETE")])
async def test_other_methods_are_rejected(opened: Open, site: Site, path: str, method: str) -> None:
    async with opened(site) as client:
        assert (await client.request(path, method)).status == 405


async def test_a_page_that_fails_is_an_error_and_the_server_goes_on(
    opened: Open, site: Site
) -> None:
    def broken(_: Mapping[str, str]) -> object:
        raise RuntimeError("broken page")

    site.debug["broken"] = broken
    async with opened(site) as client:
        with capture_logs() as lines:
            responses = [await client.request("/debug/broken") for _ in range(3)]
        assert {(response.status, response.text) for response in responses} == {
            (500, "500 Internal Server Error\n")
        }
        assert (await client.request("/healthz")).status == 200
    # One line for all three, with the traceback.
    assert [line["event"] for line in lines] == ["cannot answer a request"]
    assert repr(lines[0]["exc_info"]) == "RuntimeError('broken page')"
