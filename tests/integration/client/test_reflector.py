"""Reflectors over a real socket, with every fault a server or network can show.

The invariant behind most tests: whatever happened, the store equals what the server last said, and
replaying the delivered deltas gives the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from scheduler.api.node import Node
from scheduler.client.deltas import Delta, DeltaType, ReflectorOptions
from scheduler.client.reflector import Reflector
from scheduler.client.resources import CSI_NODES, NODES, PODS
from scheduler.client.rest import ApiClient
from scheduler.client.watch_end import EndCause
from tests.integration.client.faulty_server import (
    FaultyServer,
    bookmark,
    expired,
    line,
    node,
    pod,
)
from tests.loop_time import pass_time
from tests.unit.client.deep_objects import deep_fields, deep_json, deep_line
from tests.unit.client.virtual_clock import InstantClock

NODES_PATH = "/api/v1/nodes"


class Recorder:
    """Keeps batches, and a copy of the store built from deltas alone."""

    def __init__(self) -> None:
        self.batches: list[list[Delta[Any]]] = []
        self.replayed: dict[str, Any] = {}
        self._changed = asyncio.Event()

    def __call__(self, batch: Sequence[Delta[Any]]) -> None:
        self.batches.append(list(batch))
        for delta in batch:
            metadata = delta.object.metadata
            key = f"{metadata.namespace}/{metadata.name}"
            if delta.type is DeltaType.ADDED:
                assert key not in self.replayed, f"{key} added twice"
                self.replayed[key] = delta.object
            elif delta.type is DeltaType.MODIFIED:
                assert self.replayed[key] is delta.old
                self.replayed[key] = delta.object
            else:
                assert self.replayed.pop(key) is delta.old
        self._changed.set()

    @property
    def deltas(self) -> list[tuple[str, str]]:
        return [
            (delta.type.value, delta.object.metadata.name)
            for batch in self.batches
            for delta in batch
        ]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds; it is looked at after each batch and now and then."""
        async with asyncio.timeout(60):
            while not condition():
                self._changed.clear()
                try:
                    async with asyncio.timeout(0.01):
                        await self._changed.wait()
                except TimeoutError:
                    pass


@asynccontextmanager
async def running(reflector: Reflector[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(reflector.run(), name="reflector under test")
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def reflect(
    client: ApiClient, recorder: Recorder, options: ReflectorOptions | None = None, **more: Any
) -> Reflector[Node]:
    return Reflector(
        client, NODES, recorder, options=options or ReflectorOptions(), random=Random(1), **more
    )


def names(reflector: Reflector[Any]) -> list[str]:
    return sorted(item.metadata.name for item in reflector.store.list())


def consistent(reflector: Reflector[Any], recorder: Recorder) -> None:
    """The deltas alone give the store."""
    assert sorted(recorder.replayed.values(), key=id) == sorted(reflector.store.list(), key=id)


async def test_pages_then_watches_from_the_list_version(
    server: FaultyServer, client: ApiClient, recorder: Recorder
) -> None:
    server.on(
        "GET",
        NODES_PATH,
        server.page([node("a"), node("b")], continue_token="next"),
        server.page([node("c")], version="7"),
    )
    server.on(
        "WATCH",
        NODES_PATH,
        server.watch([line("ADDED", node("d", "8")) + line("MODIFIED", node("a", "9"))]),
    )
    reflector = reflect(client, recorder, ReflectorOptions(label_selector="x=y", page_size=2))
    async with running(reflector):
        await recorder.until(lambda: len(recorder.deltas) == 5)
    assert names(reflector) == ["a", "b", "c", "d"]
    watch = server.requests("WATCH")[0].query
    assert watch["resourceVersion"] == "7"
    assert watch["allowWatchBookmarks"] == "true"
    assert watch["labelSelector"] == "x=y"
    assert 300 <= int(watch["timeoutSeconds"]) <= 600
    assert reflector.has_synced
    assert reflector.statistics().resource_version == "9"
    # One chunk is one batch.
    assert [len(batch) for batch in recorder.batches] == [2, 1, 2]
    consistent(reflector, recorder)


async def test_not_synced_before_the_last_page(
    server: FaultyServer, client: ApiClient, recorder: Recorder
) -> None:
    server.on("GET", NODES_PATH, server.page([node("a")], continue_token="x"), server.hang())
    reflector = reflect(client, recorder)
    async with running(reflector):
        await recorder.until(lambda: recorder.deltas == [("ADDED", "a")])
        assert not reflector.has_synced


async def test_a_cut_in_the_middle_of_a_line_loses_nothing(
    server: FaultyServer, client: ApiClient, recorder: Recorder
) -> None:
    whole = line("ADDED", node("b", "6"))
    server.on("GET", NODES_PATH, server.page([node("a")], version="5"))
    server.on(
        "WATCH",
        NODES_PATH,
        server.watch([bookmark("5") + whole[:20]], end="cut"),
        server.watch([whole]),
    )
    reflector = reflect(client, recorder)
    async with running(reflector):
        await recorder.until(lambda: len(recorder.deltas) == 2)
    assert [seen.query["resourceVersion"] for seen in server.requests("WATCH")] == ["5", "5"]
    assert len(server.requests("GET")) == 1
    assert reflector.statistics().ends == {EndCause.DISCONNECTED: 1}


async def test_a_line_in_many_chunks_is_one_event(
    server: FaultyServer, client: ApiClient, recorder: Recorder
) -> None:
    whole = line("ADDED", node("b", "6"))
    server.on("GET", NODES_PATH, server.page([]))
    server.on(
        "WATCH", NODES_PATH, server.watch([whole[i : i + 7] for i in range(0, len(whole), 7)])
    )
    reflector = reflect(client, recorder)
    async with running(reflector):
        await recorder.until(lambda: recorder.deltas == [("ADDED", "b")])


async def test_bookmarks_move_the_version_and_deliver_nothing(
    server: FaultyServer, client: ApiClient, recorder: Recorder
) -> None:
    # Real bookmarks of pods carry `containers: null`.
    mark = {"metadata": {"resourceVersion": "50"}, "spec": {"containers": None}, "status": {}}
    server.on("GET", "/api/v1/pods", server.page([], version="1"))
    server.on(
        "WATCH",
        "/api/v1/pods",
        server.watch([line("BOOKMARK", mark)], end="close"),
        server.watch([line("ADDED", pod("p", "51"))]),
    )
    reflector = Reflector(client, PODS, recorder, random=Random(1))
    async with running(reflector):
        await recorder.until(lambda: recorder.deltas == [("ADDED", "p")])
    assert server.requests("WATCH")[1].query["resourceVersion"] == "50"
    assert reflector.statistics().bookmarks == 1
    assert reflector.statistics().malformed == 0


@pytest.mark.parametrize("how", ["error event", "status"])
async def test_410_relists_and_applies_the_difference(
    server: FaultyServer, client: ApiClient, recorder: Recorder, how: str
) -> None:
    server.on(
        "GET",
        NODES_PATH,
        server.page([node("stays"), node("changes"), node("vanishes")], version="1"),
        server.page([node("stays"), node("changes", "5"), node("appears", "6")], version="9"),
    )
    gone = server.watch([expired()]) if how == "error event" else server.status(410, "Expired")
    server.on("WATCH", NODES_PATH, gone, server.watch())
    relisting: list[bool] = []
    reflector = reflect(client, recorder, on_relist=relisting.append)
    async with running(reflector):
        await recorder.until(lambda: len(server.requests("WATCH")) == 2)
    assert recorder.deltas[3:] == [
        ("MODIFIED", "changes"),
        ("ADDED", "appears"),
        ("DELETED", "vanishes"),
    ]
    assert recorder.batches[-1][0].object.metadata.uid == "uid-vanishes"
    assert names(reflector) == ["appears", "changes", "stays"]
    assert server.requests("WATCH")[1].query["resourceVersion"] == "9"
    assert relisting == [True, False, True, False]
    consistent(reflector, recorder)


async def test_an_expired_continue_token_lists_again_without_pages(
    server: FaultyServer, client: ApiClient, recorder: Recorder
) -> None:
    server.on(
        "GET",
        NODES_PATH,
        server.page([node("a"), node("early")], continue_token="t"),
        server.status(410, "Expired"),
        server.page([node("a"), node("b")], version="3"),
    )
    server.on("WATCH", NODES_PATH, server.watch())
    reflector = reflect(client, recorder)
    async with running(reflector):
        await recorder.until(lambda: reflector.has_synced)
    assert "limit" not in server.requests("GET")[2].query
    assert names(reflector) == ["a", "b"]
    consistent(reflector, recorder)


async def test_a_name_with_another_uid_is_deleted_and_added(
    server: FaultyServer, client: ApiClient, recorder: Recorder
) -> None:
    server.on("GET", NODES_PATH, server.page([node("a", "1", uid="old")]))
    server.on("WATCH", NODES_PATH, server.watch([line("MODIFIED", node("a", "2", uid="new"))]))
    reflector = reflect(client, recorder)
    async with running(reflector):
        await recorder.until(lambda: len(recorder.deltas) == 3)
    assert recorder.deltas[1:] == [("DELETED", "a"), ("ADDED", "a")]
    assert [delta.object.metadata.uid for delta in recorder.batches[-1]] == ["old", "new"]


async def test_a_delete_carries_the_final_state_and_the_old_one(
    server: FaultyServer, client: ApiClient, recorder: Recorder
) -> None:
    server.on("GET", NODES_PATH, server.page([node("a", "1")]))
    final = node("a", "5", spec={"unschedulable": True})
    server.on(
        "WATCH",
        NODES_PATH,
        server.watch([line("DELETED", final) + line("DELETED", node("never-seen", "6"))]),
    )
    reflector = reflect(client, recorder)
    async with running(reflector):
        await recorder.until(lambda: len(recorder.deltas) == 2)
    (delta,) = recorder.batches[-1]
    assert delta.object.spec.unschedulable
    assert delta.old is not None
    assert delta.old.metadata.resource_version == "1"
    assert len(reflector.store) == 0


async def test_repeated_events_are_delivered_once(
    server: FaultyServer, client: ApiClient, recorder: Recorder
) -> None:
    server.on("GET", NODES_PATH, server.page([node("a", "1")], version="1"))
    again = line("ADDED", node("a", "1")) + line("ADDED", node("b", "2"))
    server.on("WATCH", NODES_PATH, server.watch([again], end="cut"), server.watch([again]))
    reflector = reflect(client, recorder)
    async with running(reflector):
        await recorder.until(lambda: len(server.requests("WATCH")) == 2)
    assert recorder.deltas == [("ADDED", "a"), ("ADDED", "b")]


class TestMalformedObjects:
    """One bad object costs that object, never the reflector."""

    async def test_in_a_list(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        bad = node("bad", spec={"unschedulable": "maybe"})
        server.on("GET", NODES_PATH, server.page([node("a"), bad, node("b")]))
        server.on("WATCH", NODES_PATH, server.watch())
        reflector = reflect(client, recorder)
        async with running(reflector):
            await recorder.until(lambda: reflector.has_synced)
        assert names(reflector) == ["a", "b"]
        assert reflector.statistics().malformed == 1

    async def test_in_a_watch_resumes_after_it(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        bad = node("bad", "6", spec=[])
        server.on("GET", NODES_PATH, server.page([], version="5"))
        server.on(
            "WATCH", NODES_PATH, server.watch([line("ADDED", bad)], end="close"), server.watch()
        )
        reflector = reflect(client, recorder)
        async with running(reflector):
            await recorder.until(lambda: len(server.requests("WATCH")) == 2)
        assert server.requests("WATCH")[1].query["resourceVersion"] == "6"
        assert reflector.statistics().malformed == 1

    async def test_that_was_good_before_keeps_its_last_good_state(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        bad = node("a", "6", spec=[])
        server.on("GET", NODES_PATH, server.page([node("a", "5")]), server.page([bad]))
        server.on(
            "WATCH", NODES_PATH, server.watch([line("MODIFIED", bad), expired()]), server.watch()
        )
        reflector = reflect(client, recorder)
        async with running(reflector):
            await recorder.until(lambda: len(server.requests("WATCH")) == 2)
        assert recorder.deltas == [("ADDED", "a")]
        assert reflector.statistics().malformed == 2

    async def test_is_still_deleted(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        server.on("GET", NODES_PATH, server.page([node("a", "5")]))
        server.on("WATCH", NODES_PATH, server.watch([line("DELETED", node("a", "6", spec=[]))]))
        reflector = reflect(client, recorder)
        async with running(reflector):
            await recorder.until(lambda: ("DELETED", "a") in recorder.deltas)

    async def test_when_the_transformation_raises(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        def intern(item: Node) -> Node:
            if item.name == "bad":
                msg = "quantity 1Zi"
                raise ValueError(msg)
            return item

        server.on("GET", NODES_PATH, server.page([node("bad"), node("good")]))
        server.on("WATCH", NODES_PATH, server.watch())
        reflector = reflect(client, recorder, on_decode=intern)
        async with running(reflector):
            await recorder.until(lambda: reflector.has_synced)
        assert names(reflector) == ["good"]
        assert reflector.statistics().malformed == 1

    async def test_null_is_not_malformed(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        item = node("a", spec={"drivers": None})
        path = CSI_NODES.collection_path()
        server.on("GET", path, server.page([item]))
        server.on("WATCH", path, server.watch())
        reflector = Reflector(client, CSI_NODES, recorder)
        async with running(reflector):
            await recorder.until(lambda: reflector.has_synced)
        assert names(reflector) == ["a"]


class TestDeepNesting:
    """A field that nobody reads nests deeper than a decoder can follow: it costs nothing."""

    deep = node("deep", "6", fields=deep_fields())
    malformed = node("malformed", "7", fields=deep_fields(), spec=[])
    listed = {
        "metadata": {"resourceVersion": "7"},
        "items": [node("a"), deep, malformed, node("b")],
    }
    lines = deep_line("ADDED", deep) + b"\n" + deep_line("ADDED", malformed) + b"\n"

    async def test_in_a_list(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        server.on("GET", NODES_PATH, server.text(deep_json(self.listed)))
        server.on("WATCH", NODES_PATH, server.watch())
        reflector = reflect(client, recorder, keep_raw=lambda item: item.name == "deep")
        async with running(reflector):
            await recorder.until(lambda: reflector.has_synced)
        assert names(reflector) == ["a", "b", "deep"]
        assert reflector.statistics().malformed == 1
        assert reflector.store.raw("deep") == deep_json(self.deep)
        consistent(reflector, recorder)

    async def test_in_a_watch(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        server.on("GET", NODES_PATH, server.page([]))
        more = line("ADDED", node("a", "8"))
        server.on("WATCH", NODES_PATH, server.watch([self.lines + more]))
        reflector = reflect(client, recorder, keep_raw=lambda item: item.name == "deep")
        async with running(reflector):
            await recorder.until(lambda: len(recorder.deltas) == 2)
        assert names(reflector) == ["a", "deep"]
        assert reflector.statistics().malformed == 1
        assert reflector.statistics().resource_version == "8"
        assert reflector.store.raw("deep") == deep_json(self.deep)

    async def test_in_a_streamed_list(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        annotations = {"k8s.io/initial-events-end": "true"}
        end = line("BOOKMARK", {"metadata": {"resourceVersion": "9", "annotations": annotations}})
        server.on("WATCH", NODES_PATH, server.watch([self.lines + end]))
        reflector = reflect(client, recorder, ReflectorOptions(streaming_list=True))
        async with running(reflector):
            await recorder.until(lambda: reflector.has_synced)
        assert names(reflector) == ["deep"]
        assert reflector.statistics().resource_version == "9"

    async def test_in_a_deletion(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        server.on("GET", NODES_PATH, server.page([node("deep", "1")]))
        server.on("WATCH", NODES_PATH, server.watch([deep_line("DELETED", self.deep) + b"\n"]))
        reflector = reflect(client, recorder)
        async with running(reflector):
            await recorder.until(lambda: len(recorder.deltas) == 2)
        assert names(reflector) == []


class TestConnectionFaults:
    async def test_silence_is_cut_and_resumed(
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

    async def test_silence_before_the_headers_is_cut_too(
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
        """As after a restored backup: the server waits for a version that it never had."""
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

    async def test_garbage_resumes_once_then_lists(
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
            await recorder.until(lambda: reflector.has_synced)
        assert len(clock.sleeps) == 3 or len(server.requests("GET")) == 4
        assert all(0.2 * 2**n <= delay < 0.3 * 2**n for n, delay in enumerate(clock.sleeps))
        assert reflector.statistics().ends[EndCause.FORBIDDEN] == 1

    async def test_who_can_do_without_is_told_of_trouble_and_its_end(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        forbidden = server.status(403, "Forbidden", "no list for you")
        server.on("GET", NODES_PATH, forbidden, server.page([], version="5"))
        server.on("WATCH", NODES_PATH, server.watch([line("ADDED", node("a", "9"))]))
        reflector = reflect(client, recorder)
        told: list[bool] = []
        reflector.on_contact = lambda error: told.append(error is None)
        async with running(reflector):
            await recorder.until(lambda: recorder.deltas == [("ADDED", "a")])
        assert told[:2] == [False, True]

    async def test_429_waits_at_least_as_told(
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


class TestStreamedList:
    options = ReflectorOptions(streaming_list=True)

    async def test_replaces_the_first_list(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        annotations = {"k8s.io/initial-events-end": "true"}
        end = line("BOOKMARK", {"metadata": {"resourceVersion": "9", "annotations": annotations}})
        start = line("ADDED", node("a", "2")) + line("ADDED", node("b", "3"))
        server.on(
            "WATCH",
            NODES_PATH,
            server.watch([start + end + expired()]),
            server.watch([line("ADDED", node("b", "3")) + end, line("ADDED", node("c", "10"))]),
        )
        reflector = reflect(client, recorder, self.options)
        async with running(reflector):
            await recorder.until(lambda: ("ADDED", "c") in recorder.deltas)
        query = server.requests("WATCH")[0].query
        assert query["sendInitialEvents"] == "true"
        assert "resourceVersion" not in query
        assert names(reflector) == ["b", "c"]
        assert reflector.has_synced
        assert reflector.statistics().lists == 2
        assert reflector.statistics().resource_version == "10"
        consistent(reflector, recorder)

    async def test_falls_back_to_pages(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        server.on("WATCH", NODES_PATH, server.status(422, "Invalid"), server.watch())
        server.on("GET", NODES_PATH, server.page([node("a")]))
        reflector = reflect(client, recorder, self.options)
        async with running(reflector):
            await recorder.until(lambda: len(server.requests("WATCH")) == 2)
        assert names(reflector) == ["a"]


async def test_raw_bytes_are_kept_where_asked(
    server: FaultyServer, client: ApiClient, recorder: Recorder
) -> None:
    server.on("GET", NODES_PATH, server.page([node("a", extra=1), node("b")]))
    server.on("WATCH", NODES_PATH, server.watch([line("MODIFIED", node("a", "2", extra=2))]))
    reflector = reflect(client, recorder, keep_raw=lambda item: item.name == "a")
    async with running(reflector):
        await recorder.until(lambda: len(recorder.deltas) == 3)
    assert b'"extra":2' in (reflector.store.raw("a") or b"")
    assert reflector.store.raw("b") is None
