"""Watches of Events: the API server keeps no watch cache of them and sends no bookmarks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any

import pytest
from aiohttp import web

from scheduler.client.deltas import ReflectorOptions
from scheduler.client.http.stream import ResponseStream
from scheduler.client.reflector import Reflector
from scheduler.client.resources import CORE_EVENTS, Resource
from scheduler.client.rest import ApiClient
from scheduler.client.watch_end import EndCause
from tests.integration.client.faulty_server import FaultyServer, expired, line
from tests.integration.client.reflecting import Recorder, running
from tests.unit.client.virtual_clock import InstantClock

PATH = "/api/v1/events"
OPTIONS = ReflectorOptions(bookmarks=False, watch_seconds=(60.0, 120.0))


def event(name: str, version: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "resourceVersion": version}}


def follow(client: ApiClient, recorder: Recorder) -> Reflector[Any]:
    return Reflector(client, CORE_EVENTS, recorder, options=OPTIONS, random=Random(1))


def quiet(clock: InstantClock) -> Callable[[web.Request], Any]:
    """A watch that brings nothing until its time is up."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await clock.sleep(float(request.query["timeoutSeconds"]))
        return response

    return handler


async def test_an_idle_watch_is_no_fault_before_it_should_have_ended(
    server: FaultyServer, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, float]] = []
    opened = ApiClient.open_watch

    def open_watch(
        self: ApiClient, resource: Resource[Any], namespace: str, query: Any, *, idle_timeout: float
    ) -> AbstractAsyncContextManager[ResponseStream]:
        seen.append((int(query["timeoutSeconds"]), idle_timeout))
        return opened(self, resource, namespace, query, idle_timeout=idle_timeout)

    monkeypatch.setattr(ApiClient, "open_watch", open_watch)
    server.on("GET", PATH, server.page([], version="5"))
    server.on("WATCH", PATH, server.watch([line("ADDED", event("a", "6"))]))
    recorder = Recorder()
    async with running(follow(client, recorder)):
        await recorder.until(lambda: recorder.deltas == [("ADDED", "a")])
    (requested, idle_timeout), = seen  # fmt: skip
    assert 60 <= requested <= 120
    assert idle_timeout == requested + OPTIONS.idle_timeout


async def test_quiet_watches_are_resumed_at_once_and_are_no_failures(
    server: FaultyServer, client: ApiClient, clock: InstantClock
) -> None:
    server.on("GET", PATH, server.page([], version="5"))
    server.on(
        "WATCH",
        PATH,
        quiet(clock),
        quiet(clock),
        server.watch([line("ADDED", event("a", "6"))]),
    )
    recorder = Recorder()
    reflector = follow(client, recorder)
    async with running(reflector):
        await recorder.until(lambda: recorder.deltas == [("ADDED", "a")])
    assert len(server.requests("GET")) == 1
    assert [each.query["resourceVersion"] for each in server.requests("WATCH")] == ["5"] * 3
    ends = reflector.statistics().ends
    assert ends == {EndCause.CLOSED: 2}
    lengths = [int(each.query["timeoutSeconds"]) for each in server.requests("WATCH")[:2]]
    assert clock.monotonic() == sum(lengths), "no other wait than that of the watches"


async def test_after_several_quiet_watches_it_lists_anew(
    server: FaultyServer, client: ApiClient, clock: InstantClock
) -> None:
    """A version that the server never had, as after a restored backup, is given up."""
    server.on("GET", PATH, server.page([], version="900"), server.page([], version="5"))
    server.on(
        "WATCH", PATH, quiet(clock), quiet(clock), quiet(clock),
        server.watch([line("ADDED", event("a", "6"))]),
    )  # fmt: skip
    recorder = Recorder()
    async with running(follow(client, recorder)):
        await recorder.until(lambda: recorder.deltas == [("ADDED", "a")])
    versions = [each.query["resourceVersion"] for each in server.requests("WATCH")]
    assert versions == ["900", "900", "900", "5"]


async def test_a_version_that_was_compacted_while_it_was_quiet_is_listed_anew(
    server: FaultyServer, client: ApiClient, clock: InstantClock
) -> None:
    server.on("GET", PATH, server.page([], version="5"), server.page([event("a", "9")], "9"))
    server.on("WATCH", PATH, quiet(clock), server.watch([expired()]), server.watch())
    recorder = Recorder()
    reflector = follow(client, recorder)
    async with running(reflector), asyncio.timeout(60):
        await recorder.until(lambda: recorder.deltas == [("ADDED", "a")])
    assert reflector.statistics().ends == {EndCause.CLOSED: 1, EndCause.EXPIRED: 1}
