"""Objects that a reflector cannot read cost themselves and nothing else."""

from __future__ import annotations

from scheduler.api.node import Node
from scheduler.client.reflector import Reflector
from scheduler.client.resources import CSI_NODES
from scheduler.client.rest import ApiClient
from tests.integration.client.faulty_server import (
    FaultyServer,
    expired,
    line,
    node,
)
from tests.integration.client.reflecting import (
    NODES_PATH,
    Recorder,
    consistent,
    names,
    reflect,
    running,
)
from tests.unit.client.deep_objects import deep_fields, deep_json, deep_line


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
            await recorder.until(reflector.synced.is_set)
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
            await recorder.until(reflector.synced.is_set)
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
            await recorder.until(reflector.synced.is_set)
        assert names(reflector) == ["a"]


class TestDeepNesting:
    """An unread field nests deeper than a decoder can follow: it costs nothing."""

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
            await recorder.until(reflector.synced.is_set)
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

    async def test_in_a_deletion(
        self, server: FaultyServer, client: ApiClient, recorder: Recorder
    ) -> None:
        server.on("GET", NODES_PATH, server.page([node("deep", "1")]))
        server.on("WATCH", NODES_PATH, server.watch([deep_line("DELETED", self.deep) + b"\n"]))
        reflector = reflect(client, recorder)
        async with running(reflector):
            await recorder.until(lambda: len(recorder.deltas) == 2)
        assert names(reflector) == []
