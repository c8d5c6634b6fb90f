"""Lines and events from bytes, however they are cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.meta import ObjectMeta
from scheduler.client import watch_decoding
from scheduler.client.resources import NODES, PODS, RESOURCES
from scheduler.client.store import Store
from scheduler.client.watch_decoding import (
    Bookmark,
    Changed,
    Failure,
    GarbageError,
    LineSplitter,
    Malformed,
    WatchDecoder,
)


@given(
    st.lists(st.binary(min_size=1, max_size=20).map(lambda line: line.replace(b"\n", b"."))),
    st.data(),
)
def test_lines_survive_any_cutting(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = data.draw(st.lists(st.integers(0, len(stream))).map(sorted))
    splitter = LineSplitter()
    out: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        out += splitter.feed(stream[start:end])
    assert out == lines


def test_empty_lines_and_the_unfinished_rest_are_left_out() -> None:
    assert LineSplitter().feed(b"\na\n\nrest") == [b"a"]


def test_an_endless_line_is_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_decoding, "MAX_LINE_BYTES", 10)
    splitter = LineSplitter()
    splitter.feed(b"x" * 10)
    with pytest.raises(GarbageError, match="more than 10 bytes"):
        splitter.feed(b"x")


def decode(kind: str, item: Any) -> Any:
    return WatchDecoder(PODS).decode(json.dumps({"type": kind, "object": item}).encode())


def test_a_change() -> None:
    event = decode("ADDED", {"metadata": {"name": "p"}, "spec": {"unknown": [1]}})
    assert isinstance(event, Changed)
    assert event.object.metadata.name == "p"


def test_bookmarks_of_pods_have_null_containers() -> None:
    item = {"metadata": {"resourceVersion": "5"}, "spec": {"containers": None}}
    assert decode("BOOKMARK", item) == Bookmark("5", initial_events_end=False)


def test_an_error_carries_its_status() -> None:
    event = decode("ERROR", {"kind": "Status", "code": 410, "metadata": {}, "status": "Failure"})
    assert isinstance(event, Failure)
    assert event.status.code == 410


def test_an_error_of_a_kind_without_conflicting_fields_is_recognised() -> None:
    decoder = WatchDecoder(RESOURCES["namespaces"])
    event = decoder.decode(b'{"type":"ERROR","object":{"kind":"Status","code":410}}')
    assert isinstance(event, Failure)


@pytest.mark.parametrize(
    ("metadata", "name", "version"),
    [
        ({"name": "p", "resourceVersion": "5"}, "p", "5"),
        ({"name": "p", "resourceVersion": "5", "labels": 7}, "p", "5"),
        ({"name": 7}, "", ""),
        (None, "", ""),
        ("x", "", ""),
    ],
)
def test_a_malformed_object_keeps_what_names_it(metadata: Any, name: str, version: str) -> None:
    event = decode("MODIFIED", {"metadata": metadata, "spec": 7})
    assert isinstance(event, Malformed)
    assert event.named.metadata.name == name
    assert event.named.metadata.resource_version == version
    assert event.error


@pytest.mark.parametrize(
    "line", [b"<html>", b"{}", b"[]", b'{"type":"NEW","object":{}}', b'{"type":"ADDED"}', b"\xff"]
)
def test_garbage(line: bytes) -> None:
    with pytest.raises(GarbageError):
        WatchDecoder(PODS).decode(line)


class TestResources:
    def test_paths(self) -> None:
        assert NODES.path("n") == "/api/v1/nodes/n"
        assert PODS.path("p", "ns", "status") == "/api/v1/namespaces/ns/pods/p/status"
        leases = RESOURCES["leases"]
        assert leases.collection_path() == "/apis/coordination.k8s.io/v1/leases"
        with pytest.raises(ValueError, match="pods ''/'p'"):
            PODS.path("p")

    @pytest.mark.parametrize("plural", sorted(RESOURCES))
    def test_every_kind_survives_encoding(self, plural: str) -> None:
        resource = RESOURCES[plural]
        item = resource.type(metadata=ObjectMeta(name="x", namespace="y"))
        data = resource.encode(item)
        assert json.loads(data)["kind"] == resource.kind
        assert resource.decode(data) == item

    @pytest.mark.parametrize("plural", sorted(RESOURCES))
    def test_an_empty_struct_is_still_json(self, plural: str) -> None:
        resource = RESOURCES[plural]
        assert json.loads(resource.encode(resource.type()))["kind"] == resource.kind


class TestStore:
    def test_the_namespace_index_follows_changes(self) -> None:
        store = Store(PODS)
        for namespace, name in (("a", "1"), ("a", "2"), ("b", "3")):
            item = PODS.type(metadata=ObjectMeta(name=name, namespace=namespace))
            store.put(PODS.key(item), item)
        assert len(list(store.list("a"))) == 2
        store.remove("a/1")
        late = PODS.type(metadata=ObjectMeta(name="4", namespace="b"))
        store.put("b/4", late)
        assert [item.metadata.name for item in store.list("a")] == ["2"]
        assert len(list(store.list("b"))) == 2
        store.remove("a/2")
        assert list(store.list("a")) == []
        assert len(store) == 2
        assert store.get("4", "b") is late
        assert store.get("4", "a") is None
        assert store.remove("a/2") is None
