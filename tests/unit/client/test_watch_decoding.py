"""Lines and events from bytes, however they are cut."""

from __future__ import annotations

import json
from contextlib import suppress
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
    DecodingFailure,
    LineSplitter,
    Malformed,
    WatchDecodeError,
    WatchDecoder,
)
from tests.unit.client.deep_objects import DEPTH, deep_fields, deep_json, deep_line


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


def test_an_endless_line_is_a_decode_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_decoding, "MAX_LINE_BYTES", 10)
    splitter = LineSplitter()
    splitter.feed(b"x" * 10)
    with pytest.raises(WatchDecodeError, match="more than 10 bytes"):
        splitter.feed(b"x")


def decode(kind: str, item: Any) -> Any:
    return WatchDecoder(PODS).decode(json.dumps({"type": kind, "object": item}).encode())


def test_a_change() -> None:
    event = decode("ADDED", {"metadata": {"name": "p"}, "spec": {"unknown": [1]}})
    assert isinstance(event, Changed)
    assert event.object.metadata.name == "p"


def test_bookmarks_of_pods_have_null_containers() -> None:
    item = {"metadata": {"resourceVersion": "5"}, "spec": {"containers": None}}
    assert decode("BOOKMARK", item) == Bookmark("5")


def test_an_error_carries_its_status() -> None:
    event = decode("ERROR", {"kind": "Status", "code": 410, "metadata": {}, "status": "Failure"})
    assert isinstance(event, DecodingFailure)
    assert event.status.code == 410


def test_an_error_of_a_kind_without_conflicting_fields_is_recognised() -> None:
    decoder = WatchDecoder(RESOURCES["namespaces"])
    event = decoder.decode(b'{"type":"ERROR","object":{"kind":"Status","code":410}}')
    assert isinstance(event, DecodingFailure)


@pytest.mark.parametrize(
    ("metadata", "name", "version"),
    [
        ({"name": "p", "resourceVersion": "5"}, "p", "5"),
        ({"name": "p", "resourceVersion": "5", "labels": 7}, "p", "5"),
        ({"name": "p", "resourceVersion": "5", "finalizers": "f", "generation": "g"}, "p", "5"),
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
def test_lines_that_are_no_watch_events(line: bytes) -> None:
    with pytest.raises(WatchDecodeError):
        WatchDecoder(PODS).decode(line)


class TestDeepNesting:
    """Unread fields may nest deeper than a decoder can follow."""

    @pytest.mark.parametrize("plural", sorted(RESOURCES))
    def test_every_kind_is_decoded_as_if_they_were_not_there(self, plural: str) -> None:
        decoder = WatchDecoder(RESOURCES[plural])
        metadata = {"name": "x", "namespace": "y", "resourceVersion": "5", "labels": {"a": "b"}}
        plain = decoder.decode(deep_line("MODIFIED", {"metadata": metadata}))
        deep = {"metadata": {"managedFields": deep_fields(), **metadata}}
        assert isinstance(plain, Changed)
        assert decoder.decode(deep_line("MODIFIED", deep)) == plain

    @pytest.mark.parametrize("levels", [900, 1_000, DEPTH, 100_000])
    def test_any_depth(self, levels: int) -> None:
        item = {"metadata": {"managedFields": deep_fields(), "name": "p"}}
        event = WatchDecoder(PODS).decode(deep_line("DELETED", item, levels))
        assert isinstance(event, Changed)
        assert event.object.metadata.name == "p"

    def test_nulls_beside_them_count_as_absent(self) -> None:
        item = {"metadata": {"managedFields": deep_fields()}, "spec": {"drivers": None}}
        event = WatchDecoder(RESOURCES["csinodes"]).decode(deep_line("ADDED", item))
        assert isinstance(event, Changed)

    def test_a_malformed_object_is_named(self) -> None:
        metadata = {"managedFields": deep_fields(), "name": "p", "labels": 7}
        event = WatchDecoder(PODS).decode(deep_line("ADDED", {"metadata": metadata, "spec": 7}))
        assert isinstance(event, Malformed)
        assert event.named.metadata.name == "p"

    def test_bookmarks_and_errors(self) -> None:
        decoder = WatchDecoder(PODS)
        item = {"metadata": {"managedFields": deep_fields(), "resourceVersion": "5"}, "code": 410}
        assert decoder.decode(deep_line("BOOKMARK", item)) == Bookmark("5")
        failure = decoder.decode(deep_line("ERROR", item))
        assert isinstance(failure, DecodingFailure)
        assert failure.status.code == 410

    def test_the_bytes_of_the_object_stay_as_they_are(self) -> None:
        item = {"metadata": {"managedFields": deep_fields(), "name": "p"}, "extra": 1}
        line = deep_line("ADDED", item)
        assert WatchDecoder(PODS).object_bytes(line) == deep_json(item)


PIECES = (
    b'{"type":"ADDED","object":', b'{"type":"BOOKMARK","object":', b'{"type":"ERROR","object":',
    b'{"metadata":', b'"name":"p"', b'"labels":', b'"spec":', b'"containers":', b"null", b"1e999",
    b"9" * 5_000, b'"', b"\\", b"[", b"]", b"{", b"}", b",", b":", b"}}", b"}}}",
    b"[" * 1_500, b'{"a":' * 1_500, b"]" * 1_500, b"}" * 1_500, b"\xff", b'"\\ud800"',
)  # fmt: skip
LINE = json.dumps({
    "type": "ADDED",
    "object": {
        "metadata": {"name": "p", "resourceVersion": "5", "labels": {"a": "b"}},
        "spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": "1"}}}]},
        "extra": [{"more": "x"}],
    },
}).encode()  # fmt: skip


@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=12).map(b"".join))
def test_random_lines_raise_nothing_but_decode_errors(line: bytes) -> None:
    with suppress(WatchDecodeError):
        WatchDecoder(PODS).decode(line)


@given(
    st.integers(0, len(LINE)),
    st.integers(0, 12),
    st.lists(st.sampled_from(PIECES), max_size=3).map(b"".join),
)
def test_broken_lines_raise_nothing_but_decode_errors(
    start: int, length: int, replacement: bytes
) -> None:
    with suppress(WatchDecodeError):
        WatchDecoder(PODS).decode(LINE[:start] + replacement + LINE[start + length :])


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
