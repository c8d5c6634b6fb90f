"""One watch stream with a sink in place of a connection."""

from __future__ import annotations

import asyncio

import pytest

from simulator import watching
from simulator.clock import SimClock
from simulator.faults import Faults
from simulator.objects import JsonObject, decode_json
from simulator.resources import ResourceTable
from simulator.routing import Target
from simulator.store import Store
from simulator.watching import WatchStream
from tests.unit.simulator.objects import pod

_TARGET = Target("watch", ResourceTable().of_kind("v1", "Pod"), "", "", "")


class _Sink:
    def __init__(self) -> None:
        self.data = b""

    async def write(self, data: bytes) -> None:
        self.data += data

    def abort(self) -> None:
        raise AssertionError("nothing aborts this stream")

    def events(self) -> list[tuple[str, JsonObject]]:
        lines = [decode_json(line) for line in self.data.splitlines()]
        return [(line["type"], line["object"]) for line in lines]


def _stream(store: Store, clock: SimClock, **query: str) -> WatchStream:
    return WatchStream(
        store, Faults(), clock, _TARGET, query, None, as_table=False, bookmark_seconds=60.0
    )


async def test_a_stream_whose_time_is_up_ends_after_what_was_waiting(clock: SimClock) -> None:
    store, sink = Store(), _Sink()
    stream = _stream(store, clock, resourceVersion="1")
    for name in ("a", "b"):
        store.create("pods", "default", name, pod(name))
    await stream.run(sink, 0.0)
    stream.close()
    assert [(kind, obj["metadata"]["name"]) for kind, obj in sink.events()] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
    ]
    assert store.statistics().subscribers == 0


async def test_a_bookmark_never_overtakes_events(clock: SimClock) -> None:
    store, sink = Store(), _Sink()
    stream = _stream(store, clock, allowWatchBookmarks="true", resourceVersion="1")
    stream.bookmark()
    made = store.create("pods", "default", "a", pod("a"))
    await stream.run(sink, 0.0)
    stream.close()
    kinds = [kind for kind, _ in sink.events()]
    assert kinds == ["ADDED", "BOOKMARK"]
    assert sink.events()[1][1]["metadata"]["resourceVersion"] == str(made.rv)


async def test_a_client_that_reads_too_slowly_is_dropped(
    clock: SimClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "QUEUE_LIMIT", 3)
    store, sink = Store(), _Sink()
    stream = _stream(store, clock, resourceVersion="1")
    for number in range(5):
        store.create("pods", "default", f"p{number}", pod(f"p{number}"))
    await stream.run(sink, 3600.0)
    stream.close()
    assert sink.events() == []


async def test_what_was_there_before_does_not_count_against_a_slow_client(
    clock: SimClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "QUEUE_LIMIT", 1)
    store, sink = Store(), _Sink()
    for number in range(5):
        store.create("pods", "default", f"p{number}", pod(f"p{number}"))
    stream = _stream(store, clock)
    store.create("pods", "default", "late", pod("late"))
    await stream.run(sink, 0.0)
    stream.close()
    assert [obj["metadata"]["name"] for _, obj in sink.events()][-1] == "late"
    assert len(sink.events()) == 6


async def test_many_changes_are_written_in_batches_and_in_order(clock: SimClock) -> None:
    store, sink = Store(), _Sink()
    stream = _stream(store, clock, resourceVersion="1")
    for number in range(1200):
        store.create("pods", "default", f"p{number}", pod(f"p{number}"))
    running = asyncio.create_task(stream.run(sink, 3600.0))
    async with asyncio.timeout(60):
        while sink.data.count(b"\n") < 1200:  # noqa: ASYNC110 - the sink is no event
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    stream.close()
    versions = [int(obj["metadata"]["resourceVersion"]) for _, obj in sink.events()]
    assert versions == list(range(2, 1202))


async def test_events_are_watched_without_bookmarks(clock: SimClock) -> None:
    """The API server keeps no watch cache of Events; a client must not wait for a bookmark."""
    sink = _Sink()
    events = Target("watch", ResourceTable().of_kind("v1", "Event"), "", "", "")
    stream = WatchStream(
        Store(), Faults(), clock, events, {"allowWatchBookmarks": "true"}, None,
        as_table=False, bookmark_seconds=60.0,
    )  # fmt: skip
    stream.bookmark()
    await stream.run(sink, 0.0)
    stream.close()
    assert sink.data == b""
