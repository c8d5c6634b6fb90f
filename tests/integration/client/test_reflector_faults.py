"""Faults of server and network that a reflector survives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from devtools.loop_time import pass_time
from scheduler.api.node import Node
from scheduler.client.deltas import Delta, ReflectorOptions
from scheduler.client.errors import ApiError, RequestError
from scheduler.client.looks import LOOK_SECONDS
from scheduler.client.reflector import Reflector
from scheduler.client.resources import NODES
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from scheduler.client.watch_end import EndCause
from tests.integration.client.faulty_server import (
    FaultyServer,
    bookmark,
    line,
    node,
)
from tests.integration.client.reflecting import (
    NODES_PATH,
    Recorder,
    names,
    reflect,
    running,
)
from tests.unit.client.virtual_clock import InstantClock, ManualClock


class TestConnectionFaults:
    async def test_an_idle_watch_is_closed_and_resumed(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        server.on("GET", NODES_PATH, server.page([], version="5"))
        server.on(
            "WATCH",
            NODES_PATH,
            server.watch([bookmark("8")]),
            server.watch([line("ADDED", node("a", "9"))]),
        )
        reflector = reflect(client, recorder, ReflectorOptions(idle_timeout=5.0))
        async with running(reflector):
            await recorder.until(lambda: reflector.statistics().resource_version == "8")
            pass_time(5.0)
            await recorder.until(lambda: recorder.deltas == [("ADDED", "a")])
        assert server.requests("WATCH")[1].query["resourceVersion"] == "8"
        assert reflector.statistics().ends[EndCause.IDLE_TIMEOUT] >= 1

    async def test_a_watch_without_headers_is_closed_too(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        server.on("GET", NODES_PATH, server.page([]))
        late = server.hang(seconds=5.0)
        server.on("WATCH", NODES_PATH, late, server.watch([line("ADDED", node("a", "9"))]))
        reflector = reflect(client, recorder, ReflectorOptions(idle_timeout=5.0))
        async with running(reflector):
            await recorder.until(lambda: recorder.deltas == [("ADDED", "a")])

    async def test_a_watch_that_is_silent_from_the_start_lists_again(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        """After a restored backup the server waits for a resourceVersion that it never had."""
        server.on("GET", NODES_PATH, server.page([], version="900"), server.page([], version="5"))
        server.on(
            "WATCH",
            NODES_PATH,
            server.watch(),
            server.watch([line("ADDED", node("a", "6"))]),
        )
        reflector = reflect(client, recorder, ReflectorOptions(idle_timeout=1.0))
        async with running(reflector):
            await recorder.until(lambda: server.requests("WATCH") != [])
            pass_time(1.0)
            await recorder.until(lambda: recorder.deltas == [("ADDED", "a")])
        assert server.requests("WATCH")[1].query["resourceVersion"] == "5"

    async def test_undecodable_data_resumes_once_then_lists(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        server.on(
            "GET",
            NODES_PATH,
            server.page([], version="5"),
            server.page([node("b", "7")], version="7"),
        )
        server.on(
            "WATCH",
            NODES_PATH,
            server.watch([line("ADDED", node("a", "6")), b"<html>\n"]),
            server.watch([b"\xff\xfe\x00\n"]),
            server.watch(),
        )
        reflector = reflect(client, recorder)
        async with running(reflector):
            await recorder.until(lambda: len(server.requests("WATCH")) == 3)
        # What came before the garbage was delivered, and resuming started behind it.
        versions = [seen.query["resourceVersion"] for seen in server.requests("WATCH")]
        assert versions == ["5", "6", "7"]
        assert recorder.deltas == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]
        assert reflector.statistics().ends == {EndCause.DECODE_ERROR: 2}

    async def test_a_refused_list_is_retried_with_growing_delays(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder, clock: InstantClock
    ) -> None:
        forbidden = server.status(403, "Forbidden", "no list for you")
        failed = server.status(500, "InternalError")
        server.on("GET", NODES_PATH, forbidden, failed, server.cut(), server.page([node("a")]))
        server.on("WATCH", NODES_PATH, server.watch())
        reflector = reflect(client, recorder)
        async with running(reflector):
            await recorder.until(reflector.synced.is_set)
        assert len(clock.sleeps) == 3 or len(server.requests("GET")) == 4
        assert all(0.2 * 2**n <= delay < 0.3 * 2**n for n, delay in enumerate(clock.sleeps))
        assert reflector.statistics().ends[EndCause.FORBIDDEN] == 1

    async def test_an_outage_and_its_end_are_reported(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        forbidden = server.status(403, "Forbidden", "no list for you")
        server.on("GET", NODES_PATH, forbidden, server.page([], version="5"))
        server.on("WATCH", NODES_PATH, server.watch([line("ADDED", node("a", "9"))]))
        reported: list[bool] = []
        reflector = reflect(
            client, recorder, on_contact=lambda error: reported.append(error is None)
        )
        async with running(reflector):
            await recorder.until(lambda: recorder.deltas == [("ADDED", "a")])
        assert reported[:2] == [False, True]

    async def test_a_rejected_list_is_repeated_for_callers(
        self, server: FaultyServer, transport: Transport, recorder: Recorder
    ) -> None:
        clock = ManualClock()
        client = ApiClient(transport, clock=clock, timeout=30.0, bind_timeout=30.0)
        denied, away = server.status(403, "Forbidden"), server.status(503, "ServiceUnavailable")
        found = server.page([node("a")], version="5")
        server.on("GET", NODES_PATH, denied, denied, denied, away, found)
        server.on("WATCH", NODES_PATH, server.watch())
        reflector = reflect(client, recorder, ReflectorOptions(backoff_initial=20.0))

        async def look(callers: int = 1) -> list[RequestError | None]:
            return await asyncio.gather(*(reflector.look_again() for _ in range(callers)))

        async def rests() -> None:
            await recorder.until(lambda: clock.waiting > 0)

        async with running(reflector):
            await rests()
            await clock.advance(5.0)
            assert len(server.requests("GET")) == 1, "the next one is further away"
            first = await look(callers=3)
            assert [getattr(each, "status", None) for each in first] == [403] * 3
            assert len(server.requests("GET")) == 2, "one request for all of them"
            await rests()
            second = asyncio.create_task(look())
            await clock.settle()
            assert len(server.requests("GET")) == 2, "less than a second has passed"
            await clock.advance(LOOK_SECONDS)
            (error,) = await second
            assert isinstance(error, ApiError)
            await rests()
            await clock.advance(LOOK_SECONDS)
            (error,) = await look()
            assert getattr(error, "status", None) == 503
            last = asyncio.create_task(look())
            await rests()
            await clock.advance(300.0)
            assert await last == [None]
            assert names(reflector) == ["a"], "before the callers go on"
            assert await look() == [None], "it is being watched"
        assert len(server.requests("GET")) == 5

    async def test_429_waits_at_least_as_long_as_demanded(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder, clock: InstantClock
    ) -> None:
        server.on("GET", NODES_PATH, server.page([], version="5"))
        server.on(
            "WATCH",
            NODES_PATH,
            server.status(429, headers={"Retry-After": "17"}),
            server.watch([line("ADDED", node("a", "9"))]),
        )
        reflector = reflect(client, recorder)
        async with running(reflector):
            await recorder.until(lambda: recorder.deltas == [("ADDED", "a")])
        assert 17.0 in clock.sleeps
        assert len(server.requests("GET")) == 1

    async def test_a_server_that_is_away_is_resumed_not_listed(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        server.on("GET", NODES_PATH, server.page([], version="5"))
        server.on(
            "WATCH",
            NODES_PATH,
            server.cut(),
            server.status(503),
            server.watch([line("ADDED", node("a", "9"))]),
        )
        reflector = reflect(client, recorder)
        async with running(reflector):
            await recorder.until(lambda: recorder.deltas == [("ADDED", "a")])
        assert len(server.requests("GET")) == 1

    async def test_a_watch_that_ends_at_once_backs_off(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder, clock: InstantClock
    ) -> None:
        closed = server.watch(end="close")
        server.on("GET", NODES_PATH, server.page([]))
        server.on("WATCH", NODES_PATH, closed, closed, closed, server.watch())
        reflector = reflect(client, recorder)
        async with running(reflector):
            await recorder.until(lambda: len(server.requests("WATCH")) == 4)
        assert len(clock.sleeps) == 3
        assert clock.sleeps == sorted(clock.sleeps)

    async def test_a_handler_that_raises_ends_the_reflector(
        self, server: FaultyServer, client: ApiClient
    ) -> None:
        def broken(batch: Sequence[Delta[Node]]) -> None:
            msg = "bug"
            raise LookupError(msg)

        server.on("GET", NODES_PATH, server.page([node("a")]))
        with pytest.raises(LookupError, match="bug"):
            await Reflector(client, NODES, broken).run()
