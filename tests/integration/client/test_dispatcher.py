"""Priorities, limits, replacing and draining of writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from scheduler.api.meta import Condition, ObjectMeta
from scheduler.api.pod import Pod
from scheduler.client.binding import BindOutcome
from scheduler.client.dispatcher import (
    RIVAL,
    Dispatcher,
    DispatcherClosedError,
    DispatcherOptions,
    Lane,
)
from scheduler.client.errors import ConnectionFailed, NotLeader
from scheduler.client.rest import ApiClient
from scheduler.client.status_patch import PodStatusPatch
from tests.integration.client.faulty_server import FaultyServer, Handler, pod, until


def a_pod(name: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"))


def a_patch(name: str, message: str = "m", nominated: str | None = None) -> PodStatusPatch:
    condition = Condition(type="PodScheduled", status="False", message=message)
    return PodStatusPatch("default", name, f"uid-{name}", (condition,), nominated)


def status_path(name: str) -> str:
    return f"/api/v1/namespaces/default/pods/{name}/status"


def binding_path(name: str) -> str:
    return f"/api/v1/namespaces/default/pods/{name}/binding"


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Gate:
    """Calls that wait until the test lets them go, in the order in which they got a slot."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self._open: dict[str, asyncio.Event] = {}

    def call(self, name: str) -> Callable[[], asyncio.Future[str]]:
        async def send() -> str:
            self.started.append(name)
            await self._open.setdefault(name, asyncio.Event()).wait()
            return name

        return lambda: asyncio.ensure_future(send())

    def let_go(self, name: str) -> None:
        self._open.setdefault(name, asyncio.Event()).set()


@asynccontextmanager
async def running(dispatcher: Dispatcher) -> AsyncIterator[None]:
    task = asyncio.create_task(dispatcher.run(), name="dispatcher under test")
    try:
        yield
    finally:
        await dispatcher.close(0.0)
        async with asyncio.timeout(60):
            await task


async def test_binds_overtake_events_and_keep_to_their_limit(client: ApiClient) -> None:
    options = DispatcherOptions(binds=2, events=3, events_when_busy=1)
    dispatcher = Dispatcher(client, options=options)
    gate = Gate()
    async with asyncio.TaskGroup() as group:
        for name in ("b1", "b2", "b3"):
            group.create_task(dispatcher.call(Lane.BIND, gate.call(name)))
        for name in ("e1", "e2", "e3"):
            group.create_task(dispatcher.call(Lane.EVENT, gate.call(name)))
        await settle()
        assert gate.started == ["b1", "b2", "e1"]
        assert dispatcher.statistics().bind.waiting == 1
        gate.let_go("b1")
        await settle()
        assert gate.started == ["b1", "b2", "e1", "b3"]
        gate.let_go("b2")
        gate.let_go("b3")
        await settle()
        # No bind left: events get all their slots.
        assert gate.started[4:] == ["e2", "e3"]
        for name in ("e1", "e2", "e3"):
            gate.let_go(name)
    statistics = dispatcher.statistics()
    assert (statistics.bind.sent, statistics.event.sent) == (3, 3)
    assert statistics.bind.in_flight == statistics.event.in_flight == 0


@pytest.mark.parametrize("moment", ["waiting", "handed over"])
async def test_a_cancelled_waiter_gives_its_slot_back(client: ApiClient, moment: str) -> None:
    dispatcher = Dispatcher(client, options=DispatcherOptions(binds=1))
    gate = Gate()
    first = asyncio.create_task(dispatcher.call(Lane.BIND, gate.call("a")))
    second = asyncio.create_task(dispatcher.call(Lane.BIND, gate.call("b")))
    await settle()
    if moment == "waiting":
        second.cancel()
        gate.let_go("a")
    else:
        gate.let_go("a")
        await until(lambda: not dispatcher.statistics().bind.waiting, pause=0)
        second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert second.cancelled()
    gate.let_go("c")
    assert await dispatcher.call(Lane.BIND, gate.call("c")) == "c"
    assert dispatcher.statistics().bind.in_flight == 0


async def test_failures_are_counted_and_raised(client: ApiClient) -> None:
    async def fails() -> None:
        raise ConnectionFailed("POST", "/x", "reset", sent=True)

    dispatcher = Dispatcher(client)
    with pytest.raises(ConnectionFailed):
        await dispatcher.call(Lane.EVENT, fails)
    assert dispatcher.statistics().event.failed == 1


class TestStatusPatches:
    async def test_a_newer_patch_replaces_one_that_was_not_sent(
        self, server: FaultyServer, client: ApiClient
    ) -> None:
        server.on("PATCH", status_path("p"), server.json(pod("p")))
        dispatcher = Dispatcher(client)
        dispatcher.patch_status(a_patch("p", "old", nominated="node-1"))
        dispatcher.patch_status(a_patch("p", "new"))
        async with running(dispatcher):
            await until(lambda: dispatcher.statistics().status.sent)
            await dispatcher.close(60.0)
        (seen,) = server.seen
        assert seen.json == {
            "metadata": {"uid": "uid-p"},
            "status": {
                "conditions": [{"type": "PodScheduled", "status": "False", "message": "new"}],
                "nominatedNodeName": "node-1",
            },
        }
        assert dispatcher.statistics().replaced == 1

    async def test_two_patches_of_one_pod_are_sent_one_after_the_other(
        self, server: FaultyServer, client: ApiClient
    ) -> None:
        release = asyncio.Event()

        async def slow(_: web.Request) -> web.StreamResponse:
            await release.wait()
            return web.json_response({})

        server.on("PATCH", status_path("p"), slow, server.json({}))
        server.on("PATCH", status_path("q"), server.json({}))
        dispatcher = Dispatcher(client)
        async with running(dispatcher):
            dispatcher.patch_status(a_patch("p", "1"))
            await until(lambda: len(server.seen) == 1)
            waiting = asyncio.create_task(dispatcher.status_written("uid-p"))
            dispatcher.patch_status(a_patch("p", "2"))
            dispatcher.patch_status(a_patch("q"))
            await until(lambda: len(server.seen) == 2)
            assert server.seen[1].path == status_path("q")
            assert not waiting.done()
            release.set()
            # Who waits for the status of a pod waits for both.
            await waiting
            assert len(server.seen) == 3
            await until(lambda: len(server.seen) == 3)
            assert server.seen[2].json["status"]["conditions"][0]["message"] == "2"
            assert await dispatcher.close(60.0) == 0

    @pytest.mark.parametrize("end", ["a bind drops it", "closed"])
    async def test_nothing_waits_for_a_status_that_is_not_written(
        self, client: ApiClient, end: str
    ) -> None:
        dispatcher = Dispatcher(client)
        async with asyncio.timeout(60):
            await dispatcher.status_written("uid-p")
            dispatcher.patch_status(a_patch("p"))
            waiting = asyncio.create_task(dispatcher.status_written("uid-p"))
            await settle()
            assert not waiting.done()
            if end == "closed":
                await dispatcher.close(0.0)
            else:
                await dispatcher._end_patches("uid-p")
            await waiting

    async def test_a_newer_patch_takes_over_what_failed_for_good(
        self, server: FaultyServer, client: ApiClient
    ) -> None:
        release = asyncio.Event()

        async def slow(_: web.Request) -> web.StreamResponse:
            await release.wait()
            return web.json_response({}, status=500)

        server.on("PATCH", status_path("p"), slow, *[server.status(500)] * 3, server.json({}))
        dispatcher = Dispatcher(client, random=Random(1))
        async with running(dispatcher):
            dispatcher.patch_status(a_patch("p", "old", nominated="node-1"))
            await until(lambda: len(server.seen) == 1)
            dispatcher.patch_status(a_patch("p", "new"))
            release.set()
            await until(lambda: len(server.seen) == 5)
            assert await dispatcher.close(60.0) == 0
        status = server.seen[4].json["status"]
        assert status["conditions"][0]["message"] == "new"
        assert status["nominatedNodeName"] == "node-1"

    async def test_nominations_are_in_progress_until_the_response(
        self, server: FaultyServer, client: ApiClient
    ) -> None:
        release = asyncio.Semaphore(0)

        def slow(version: str) -> Handler:
            async def send(_: web.Request) -> web.StreamResponse:
                await release.acquire()
                return web.json_response({"metadata": {"resourceVersion": version}})

            return send

        server.on("PATCH", status_path("p"), *map(slow, ("6", "7", "")))
        dispatcher = Dispatcher(client)
        reported: list[tuple[str, str]] = []
        dispatcher.on_nomination_written.subscribe(
            lambda uid, version: reported.append((uid, version))
        )

        def under_way() -> bool:
            return dispatcher.nomination_under_way("uid-p")

        async with running(dispatcher):
            dispatcher.patch_status(a_patch("p"))
            await until(lambda: len(server.seen) == 1)
            assert not under_way()
            dispatcher.patch_status(a_patch("p", nominated="node-1"))
            assert under_way(), "blocked"
            release.release()
            await until(lambda: len(server.seen) == 2)
            assert under_way(), "in flight"
            dispatcher.patch_status(a_patch("p", nominated=""))
            release.release()
            await until(lambda: reported)
            assert under_way(), "the next one"
            release.release()
            assert await dispatcher.close(60.0) == 0
        assert reported == [("uid-p", "7"), ("uid-p", "")]
        assert not under_way()

    def test_a_nomination_not_yet_sent_is_under_way(self, client: ApiClient) -> None:
        dispatcher = Dispatcher(client)
        dispatcher.patch_status(a_patch("p"))
        assert not dispatcher.nomination_under_way("uid-p")
        dispatcher.patch_status(a_patch("p", nominated=""))
        assert dispatcher.nomination_under_way("uid-p")

    @pytest.mark.parametrize(("status", "reported"), [(403, [("uid-p", "")]), (404, [])])
    async def test_a_nomination_that_failed_is_reported_unless_its_pod_is_deleted(
        self, server: FaultyServer, client: ApiClient, status: int, reported: list[tuple[str, str]]
    ) -> None:
        server.on("PATCH", status_path("p"), server.status(status))
        dispatcher = Dispatcher(client)
        calls: list[tuple[str, str]] = []
        dispatcher.on_nomination_written.subscribe(
            lambda uid, version: calls.append((uid, version))
        )
        async with running(dispatcher):
            dispatcher.patch_status(a_patch("p", nominated="node-1"))
            assert await dispatcher.close(60.0) == 0
        assert calls == reported
        assert not dispatcher.nomination_under_way("uid-p")

    @pytest.mark.parametrize(
        ("statuses", "requests"),
        [([500, 503, 409], 4), ([500, 500, 500, 500], 4), ([404], 1), ([422], 1)],
    )
    async def test_retries_where_that_may_help(
        self, server: FaultyServer, client: ApiClient, statuses: list[int], requests: int
    ) -> None:
        handlers: list[Handler] = [server.status(status) for status in statuses]
        server.on("PATCH", status_path("p"), *handlers, server.json({}))
        dispatcher = Dispatcher(client, random=Random(1))
        async with running(dispatcher):
            dispatcher.patch_status(a_patch("p"))
            assert await dispatcher.close(60.0) == 0
        assert len(server.seen) == requests
        assert dispatcher.statistics().status.failed == (len(statuses) in (1, 4))


class TestBinds:
    async def test_settling_holds_no_slot(self, server: FaultyServer, client: ApiClient) -> None:
        response = asyncio.Event()

        async def slow(_: web.Request) -> web.StreamResponse:
            await response.wait()
            return web.json_response(pod("a", node_name="n"))

        server.on("POST", binding_path("a"), server.status(500))
        server.on("GET", "/api/v1/namespaces/default/pods/a", slow)
        server.on("POST", binding_path("b"), server.json({}, 201))
        dispatcher = Dispatcher(client, options=DispatcherOptions(binds=1))
        unknown = asyncio.create_task(dispatcher.bind(a_pod("a"), "n"))
        await until(lambda: dispatcher.statistics().settling)
        assert (await dispatcher.bind(a_pod("b"), "n")).bound
        response.set()
        result = await unknown
        assert result.bound
        assert dispatcher.statistics().settled == 1

    async def test_pods_that_another_process_binds_are_a_warning_once(
        self, server: FaultyServer, client: ApiClient
    ) -> None:
        for name in "ab":
            server.on("POST", binding_path(name), server.status(409))
            bound = server.json(pod(name, node_name="other"))
            server.on("GET", f"/api/v1/namespaces/default/pods/{name}", bound)
        dispatcher = Dispatcher(client)
        with capture_logs() as logs:
            for name in "ab":
                result = await dispatcher.bind(a_pod(name), "n")
                assert result.outcome is BindOutcome.ELSEWHERE
        (said,) = [each for each in logs if each["event"] == RIVAL]
        assert (said["pod"], said["log_level"]) == ("default/a", "warning")

    async def test_a_bind_of_which_nothing_is_known_is_no_warning(
        self, server: FaultyServer, client: ApiClient
    ) -> None:
        server.on("POST", binding_path("a"), server.status(500))
        server.on("GET", "/api/v1/namespaces/default/pods/a", server.json(pod("a", node_name="n")))
        with capture_logs() as logs:
            assert (await Dispatcher(client).bind(a_pod("a"), "n")).bound
        assert RIVAL not in [each["event"] for each in logs]

    async def test_the_reads_that_settle_have_slots_of_their_own(
        self, server: FaultyServer, client: ApiClient
    ) -> None:
        response = asyncio.Event()

        async def slow(request: web.Request) -> web.StreamResponse:
            await response.wait()
            return web.json_response(pod(request.path[-1], node_name="n"))

        for name in "abc":
            server.on("POST", binding_path(name), server.status(500))
            server.on("GET", f"/api/v1/namespaces/default/pods/{name}", slow)
        dispatcher = Dispatcher(client, options=DispatcherOptions(settling_reads=1))
        binds = [asyncio.create_task(dispatcher.bind(a_pod(name), "n")) for name in "abc"]
        await until(lambda: dispatcher.statistics().settling == 3)
        await settle()
        assert len(server.requests("GET")) == 1
        response.set()
        assert all(result.bound for result in await asyncio.gather(*binds))

    async def test_nothing_is_sent_behind_a_shut_fence(
        self, server: FaultyServer, client: ApiClient
    ) -> None:
        class Shut:
            def allowed(self) -> bool:
                return False

        dispatcher = Dispatcher(client, fence=Shut())
        async with running(dispatcher):
            result = await dispatcher.bind(a_pod("a"), "n")
            assert result.outcome is BindOutcome.UNBOUND
            with pytest.raises(NotLeader):
                await dispatcher.call(Lane.EVENT, Gate().call("e"))
            dispatcher.patch_status(a_patch("a"))
            await until(lambda: dispatcher.statistics().status.fenced)
        assert server.seen == []


class TestClosing:
    async def test_waits_for_what_is_in_flight(
        self, server: FaultyServer, client: ApiClient
    ) -> None:
        server.on("PATCH", status_path("p"), server.json({}))
        dispatcher = Dispatcher(client)
        async with running(dispatcher):
            dispatcher.patch_status(a_patch("p"))
            assert await dispatcher.close(60.0) == 0
        assert len(server.seen) == 1

    async def test_gives_up_at_the_deadline(self, client: ApiClient) -> None:
        dispatcher = Dispatcher(client, options=DispatcherOptions(binds=1))
        gate = Gate()
        first = asyncio.create_task(dispatcher.call(Lane.BIND, gate.call("a")))
        second = asyncio.create_task(dispatcher.call(Lane.BIND, gate.call("b")))
        await settle()
        assert await dispatcher.close(0.01) == 1
        with pytest.raises(DispatcherClosedError):
            await second
        with pytest.raises(DispatcherClosedError):
            await dispatcher.bind(a_pod("p"), "n")
        gate.let_go("a")
        assert await first == "a"
        dispatcher.patch_status(a_patch("p"))
        assert dispatcher.statistics().status.waiting == 0
