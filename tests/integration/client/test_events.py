"""Sending, aggregation, loss and retries of Events."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar

import pytest

from scheduler.api.meta import ObjectMeta
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.client.dispatcher import Lane
from scheduler.client.events import EventRecorder, EventRecorderOptions, truncated
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from tests.integration.client.faulty_server import FaultyServer, until
from tests.unit.client.virtual_clock import ManualClock

EVENTS_PATH = "/apis/events.k8s.io/v1/namespaces/default/events"
R = TypeVar("R")


class Direct:
    """A writer without a queue."""

    async def call(self, lane: Lane, send: Callable[[], Awaitable[R]]) -> R:
        assert lane is Lane.EVENT
        return await send()


def a_pod(name: str = "p") -> Pod:
    metadata = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", resource_version="7")
    return Pod(metadata=metadata)


@pytest.fixture
def manual() -> ManualClock:
    return ManualClock()


@pytest.fixture
def recorder(transport: Transport, manual: ManualClock) -> EventRecorder:
    return make(transport, manual)


def make(transport: Transport, clock: ManualClock, **options: Any) -> EventRecorder:
    client = ApiClient(transport, clock=clock)
    return EventRecorder(
        client,
        Direct(),
        options=EventRecorderOptions(**options),
        random=Random(1),
        hostname="host",
    )


def failed_scheduling(recorder: EventRecorder, note: str = "0/3 nodes", name: str = "p") -> None:
    recorder.event(a_pod(name), None, "Warning", "FailedScheduling", "Scheduling", note, "kubestow")


async def settle() -> None:
    """Let every task go on until it waits for something."""
    for _ in range(10):
        await asyncio.sleep(0)


@asynccontextmanager
async def running(recorder: EventRecorder) -> AsyncIterator[None]:
    task = asyncio.create_task(recorder.run(), name="recorder under test")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_event_that_was_sent_keeps_neither_pod_nor_long_note(
    server: FaultyServer, recorder: EventRecorder
) -> None:
    server.on("POST", EVENTS_PATH, server.json({}, 201))
    pod, note = a_pod(), "x" * 1_000_000
    before = sys.getrefcount(pod), sys.getrefcount(note)
    async with running(recorder):
        recorder.event(pod, None, "Warning", "FailedScheduling", "Scheduling", note, "kubestow")
        assert sys.getrefcount(note) == before[1], "cut when it was recorded"
        await until(lambda: recorder.statistics().sent)
        assert recorder.statistics().remembered == 1
    assert (sys.getrefcount(pod), sys.getrefcount(note)) == before
    assert server.seen[0].json["note"] == truncated(note)


async def test_the_event_as_sent(server: FaultyServer, recorder: EventRecorder) -> None:
    server.on("POST", EVENTS_PATH, server.json({}, 201))
    node = Node(metadata=ObjectMeta(name="n", uid="uid-n"))
    async with running(recorder):
        recorder.event(a_pod(), node, "Normal", "Scheduled", "Binding", "done", "kubestow")
        await until(lambda: recorder.statistics().sent)
    sent = server.seen[0].json
    assert sent.pop("metadata")["name"].startswith("p.")
    assert sent == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2023-11-14T22:13:20.000000Z",
        "reportingController": "kubestow",
        "reportingInstance": "kubestow-host",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "namespace": "default",
            "uid": "uid-p",
            "resourceVersion": "7",
        },
        "related": {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "uid-n"},
        "note": "done",
        "type": "Normal",
    }


async def test_sleeping_workers_miss_nothing(server: FaultyServer, recorder: EventRecorder) -> None:
    server.on("POST", EVENTS_PATH, server.json({}, 201))
    async with running(recorder):
        await settle()
        recorded = 0
        # One, fewer than workers, more than workers; each time all workers sleep before.
        for count in (1, 3, 20):
            for _ in range(count):
                failed_scheduling(recorder, name=f"p{recorded}")
                recorded += 1
            await until(lambda: recorder.statistics().sent == recorded)  # noqa: B023 - awaited here
            await settle()
    names = {request.json["regarding"]["name"] for request in server.seen}
    assert names == {f"p{number}" for number in range(recorded)}


async def test_cluster_scoped_objects_go_to_the_default_namespace(
    server: FaultyServer, recorder: EventRecorder
) -> None:
    server.on("POST", EVENTS_PATH, server.json({}, 201))
    async with running(recorder):
        node = Node(metadata=ObjectMeta(name="n"))
        recorder.event(node, None, "Normal", "R", "A", "", "kubestow")
        await until(lambda: recorder.statistics().sent)
    assert server.seen[0].json["metadata"]["namespace"] == "default"


async def test_a_series(server: FaultyServer, recorder: EventRecorder, manual: ManualClock) -> None:
    server.on("POST", EVENTS_PATH, server.json({}, 201))
    async with running(recorder):
        failed_scheduling(recorder, "first note")
        await until(lambda: recorder.statistics().sent == 1)
        patch_path = f"{EVENTS_PATH}/{server.seen[0].json['metadata']['name']}"
        server.on("PATCH", patch_path, server.json({}))
        # The second occurrence starts the series, whatever its note; more are only counted.
        await manual.advance(10)
        for _ in range(3):
            failed_scheduling(recorder, "another note")
        await until(lambda: recorder.statistics().sent == 2)
        first = server.seen[1].json["series"]
        assert first["count"] in (2, 4)
        assert first["lastObservedTime"] == "2023-11-14T22:13:30.000000Z"
        failed_scheduling(recorder)
        recorder.sweep()
        assert recorder.statistics().waiting == 0
        assert recorder.statistics().aggregated == 4
        # After six minutes of silence the series ends with its final count.
        await manual.advance(420)
        await until(lambda: recorder.statistics().sent == 3)
        assert server.seen[2].json["series"]["count"] == 5
        assert recorder.statistics().remembered == 0


async def test_a_lasting_series_is_refreshed(
    server: FaultyServer, recorder: EventRecorder, manual: ManualClock
) -> None:
    server.on("POST", EVENTS_PATH, server.json({}, 201))
    async with running(recorder):
        failed_scheduling(recorder)
        await until(lambda: recorder.statistics().sent == 1)
        patch_path = f"{EVENTS_PATH}/{server.seen[0].json['metadata']['name']}"
        server.on("PATCH", patch_path, server.json({}))
        for _ in range(16):
            failed_scheduling(recorder)
            await until(lambda: recorder.statistics().waiting == 0)
            await until(lambda: recorder._busy == 0)
            await manual.advance(120)
        await until(lambda: recorder.statistics().sent == 3)
        await until(lambda: recorder._busy == 0)
    assert [seen.json["series"]["count"] for seen in server.requests("PATCH")] == [2, 16]


async def test_a_series_whose_object_expired_goes_on_in_a_new_one(
    server: FaultyServer, recorder: EventRecorder
) -> None:
    server.on("POST", EVENTS_PATH, server.json({}, 201))
    async with running(recorder):
        failed_scheduling(recorder)
        await until(lambda: recorder.statistics().sent == 1)
        patch_path = f"{EVENTS_PATH}/{server.seen[0].json['metadata']['name']}"
        server.on("PATCH", patch_path, server.status(404, "NotFound"))
        failed_scheduling(recorder)
        await until(lambda: recorder.statistics().sent == 2)
    assert server.requests("POST")[1].json["series"]["count"] == 2


async def test_a_full_queue_drops_the_oldest(
    server: FaultyServer, transport: Transport, manual: ManualClock
) -> None:
    server.on("POST", EVENTS_PATH, server.json({}, 201))
    recorder = make(transport, manual, queue_size=2, workers=1)
    for name in ("a", "b", "c"):
        failed_scheduling(recorder, name=name)
    assert recorder.statistics().dropped == 1
    async with running(recorder):
        await until(lambda: recorder.statistics().sent == 2)
    assert [seen.json["regarding"]["name"] for seen in server.seen] == ["b", "c"]
    # What was dropped is not remembered as if it had been sent.
    assert recorder.statistics().remembered == 2


async def test_memory_for_aggregation_is_bounded(transport: Transport, manual: ManualClock) -> None:
    recorder = make(transport, manual, series_size=10, queue_size=5)
    for number in range(50):
        failed_scheduling(recorder, name=f"p{number}")
    assert recorder.statistics().remembered <= 10
    assert recorder.statistics().waiting == 5


async def test_retries_while_the_server_cannot(
    server: FaultyServer, recorder: EventRecorder, manual: ManualClock
) -> None:
    server.on(
        "POST",
        EVENTS_PATH,
        server.status(503),
        server.cut(),
        # The attempt whose response was lost had been stored.
        server.status(409, "AlreadyExists"),
    )
    async with running(recorder):
        failed_scheduling(recorder)
        for requests in (1, 2, 3):
            await until(lambda wanted=requests: len(server.seen) == wanted)  # type: ignore[misc]
            await until(lambda: manual.waiting >= 2 or recorder.statistics().sent)
            await manual.advance(15)
        await until(lambda: recorder.statistics().sent == 1)
    names = {seen.json["metadata"]["name"] for seen in server.seen}
    assert len(names) == 1


async def test_a_series_that_began_while_the_first_response_was_lost_is_written(
    server: FaultyServer, recorder: EventRecorder, manual: ManualClock
) -> None:
    server.on("POST", EVENTS_PATH, server.cut(), server.status(409, "AlreadyExists"))
    async with running(recorder):
        failed_scheduling(recorder)
        await until(lambda: len(server.seen) == 1)
        path = f"{EVENTS_PATH}/{server.seen[0].json['metadata']['name']}"
        server.on("PATCH", path, server.json({}))
        for _ in range(2):
            failed_scheduling(recorder)
        await until(lambda: manual.waiting >= 2)
        await manual.advance(15)
        await until(lambda: recorder.statistics().sent == 1)
    assert [seen.method for seen in server.seen] == ["POST", "POST", "PATCH"]
    assert server.seen[-1].json["series"]["count"] == 3


async def test_text_that_is_not_unicode_is_escaped(
    server: FaultyServer, recorder: EventRecorder
) -> None:
    server.on("POST", EVENTS_PATH, server.json({}, 201))
    async with running(recorder):
        failed_scheduling(recorder, "team \udcff", "odd")
        recorder.event(a_pod("odd"), None, "Warning", "Odd\udcff", "Scheduling", "why", "kubestow")
        failed_scheduling(recorder)
        await until(lambda: recorder.statistics().sent == 2 and recorder.statistics().failed == 1)
    # Several are sent at once, so that either may arrive first.
    assert {seen.json["note"] for seen in server.seen} == {"team \\udcff", "0/3 nodes"}


async def test_a_refused_event_is_not_retried(
    server: FaultyServer, recorder: EventRecorder
) -> None:
    server.on("POST", EVENTS_PATH, server.status(403, "Forbidden"))
    async with running(recorder):
        failed_scheduling(recorder)
        await until(lambda: recorder.statistics().failed == 1)
    assert len(server.seen) == 1
    assert recorder.statistics().remembered == 0


async def test_a_refused_series_is_not_retried_for_ever(
    server: FaultyServer, recorder: EventRecorder
) -> None:
    server.on("POST", EVENTS_PATH, server.json({}, 201))
    async with running(recorder):
        failed_scheduling(recorder)
        await until(lambda: recorder.statistics().sent == 1)
        path = f"{EVENTS_PATH}/{server.seen[0].json['metadata']['name']}"
        server.on("PATCH", path, server.status(403, "Forbidden"))
        failed_scheduling(recorder)
        await until(lambda: recorder.statistics().failed == 1)
        # Events noted after it are sent, so the workers are not busy with the refused one.
        failed_scheduling(recorder)
        await until(lambda: recorder.statistics().sent == 2)
    assert [seen.method for seen in server.seen] == ["POST", "PATCH", "POST"]
    assert recorder.statistics().failed == 1


async def test_the_rate_is_limited(
    server: FaultyServer, transport: Transport, manual: ManualClock
) -> None:
    server.on("POST", EVENTS_PATH, server.json({}, 201))
    recorder = make(transport, manual, qps=1.0, burst=2)
    for name in ("a", "b", "c"):
        failed_scheduling(recorder, name=name)
    async with running(recorder):
        await until(lambda: recorder.statistics().sent == 2)
        assert len(server.seen) == 2
        await manual.advance(1)
        await until(lambda: recorder.statistics().sent == 3)


async def test_flush_waits_for_recorded_events(server: FaultyServer, transport: Transport) -> None:
    server.on("POST", EVENTS_PATH, server.json({}, 201))
    recorder = EventRecorder(ApiClient(transport), Direct())
    failed_scheduling(recorder)
    assert await recorder.flush(0.01) == 1
    async with running(recorder):
        assert await recorder.flush(60.0) == 0
    assert recorder.statistics().sent == 1


@pytest.mark.parametrize(
    ("note", "length"),
    [("x" * 1024, 1024), ("x" * 1025, 1024), ("é" * 600, 1024), ("x" + "é" * 600, 1023)],
)
def test_notes_are_truncated_to_the_limit_of_the_api(note: str, length: int) -> None:
    cut = truncated(note)
    assert len(cut.encode()) == length
    assert cut == note or (cut.endswith(" ...") and note.startswith(cut[:-4]))
