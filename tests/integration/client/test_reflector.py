"""Reflectors over a real socket: lists, watches, bookmarks, expiry.

The invariant behind most tests of reflectors: whatever happened, the store equals the server's
last state, and replaying the delivered deltas gives the store.
"""

from __future__ import annotations

from random import Random

import pytest

from scheduler.client.deltas import ReflectorOptions
from scheduler.client.reflector import Reflector
from scheduler.client.resources import PODS
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
from tests.integration.client.reflecting import (
    NODES_PATH,
    Recorder,
    consistent,
    names,
    reflect,
    running,
)


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
    reflector = reflect(client, recorder, ReflectorOptions(field_selector="x=y", page_size=2))
    async with running(reflector):
        await recorder.until(lambda: len(recorder.deltas) == 5)
    assert names(reflector) == ["a", "b", "c", "d"]
    watch = server.requests("WATCH")[0].query
    assert watch["resourceVersion"] == "7"
    assert watch["allowWatchBookmarks"] == "true"
    assert watch["fieldSelector"] == "x=y"
    assert 300 <= int(watch["timeoutSeconds"]) <= 600
    assert reflector.synced.is_set()
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
        assert not reflector.synced.is_set()


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
        await recorder.until(reflector.synced.is_set)
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
