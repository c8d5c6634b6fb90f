"""References to resources that no table lists."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.api import CustomObject, Named
from scheduler.client.custom_resources import (
    CustomResource,
    event_resource,
    is_reference,
    reference_of,
    resource_of,
)
from scheduler.client.resources import RESOURCES
from scheduler.client.store import Store

RACKS = "example.com/v1/racks"


@pytest.mark.parametrize(
    ("namespace", "name", "path"),
    [
        ("", "", "/apis/example.com/v1/racks"),
        ("a", "", "/apis/example.com/v1/namespaces/a/racks"),
        ("", "r1", "/apis/example.com/v1/racks/r1"),
        ("a", "r1", "/apis/example.com/v1/namespaces/a/racks/r1"),
        ("a/../b", "r 1", "/apis/example.com/v1/namespaces/a%2F..%2Fb/racks/r%201"),
    ],
)
def test_paths(namespace: str, name: str, path: str) -> None:
    resource = CustomResource(RACKS)
    found = resource.path(name, namespace) if name else resource.collection_path(namespace)
    assert found == path


def test_a_path_needs_a_name() -> None:
    with pytest.raises(ValueError, match="name is missing"):
        CustomResource(RACKS).path("")


@pytest.mark.parametrize(
    "reference",
    [
        "racks",
        "v1/racks",
        "example/v1/racks",
        "example.com/racks",
        "example.com/1/racks",
        "example.com/v1/racks/status",
        "example.com/v1/../pods",
        "Example.com/v1/racks",
        "example.com/v1/racks?watch=1",
        "",
    ],
)
def test_what_is_no_reference_is_refused_with_the_form(reference: str) -> None:
    with pytest.raises(ValueError, match="group/version/plural"):
        CustomResource(reference)
    if reference:
        with pytest.raises(ValueError, match="group/version/plural"):
            resource_of(reference)


def test_built_in_plurals_are_those_of_the_table() -> None:
    assert all(resource_of(plural) is resource for plural, resource in RESOURCES.items())
    assert not any(is_reference(plural) for plural in RESOURCES)


def test_names_in_cluster_events_lead_back_to_the_reference() -> None:
    assert event_resource(RACKS) == "racks.v1.example.com"
    assert reference_of(event_resource(RACKS)) == RACKS
    for name in ("Node", "storage.k8s.io/CSINode", "*", "Time", "racks.v1", "a.b.c"):
        assert reference_of(name) is None


def test_objects_with_and_without_namespace_are_found_by_name() -> None:
    store = Store(CustomResource(RACKS))
    resource = CustomResource(RACKS)
    for namespace in ("", "a"):
        metadata = {"name": "r1", "namespace": namespace}
        item = resource.decode(msgspec.json.encode({"metadata": metadata, "spec": {"size": 4}}))
        store.put(resource.key(item), item)
    found = store.get("r1", "a")
    assert isinstance(found, CustomObject)
    assert (found.metadata.namespace, found.spec) == ("a", {"size": 4})
    assert store.get("r1") is not found


def test_objects_of_one_name_in_two_namespaces_have_keys_of_their_own() -> None:
    racks = CustomResource(RACKS)
    items = [
        racks.decode(b'{"metadata": {"name": "r", "namespace": "%s"}}' % namespace.encode())
        for namespace in ("a", "b", "")
    ]
    assert [racks.key(each) for each in items] == ["a/r", "b/r", "r"]


def test_objects_decode_to_the_declared_type() -> None:
    class Usage(Named):
        usage: dict[str, str] = {}

    item = CustomResource(RACKS, Usage).decode(b'{"metadata":{"name":"n1"},"usage":{"cpu":"1"}}')
    assert isinstance(item, Usage)
    assert item.usage == {"cpu": "1"}


@pytest.mark.parametrize(
    "body",
    [b"[]", b"{", b'{"metadata":{"name":4}}', b'{"metadata":{"name":"r"},"spec":[]}'],
)
def test_malformed_objects_are_value_errors(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        CustomResource(RACKS).decode(body)


def test_nesting_without_end_is_bounded() -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    try:
        item = CustomResource(RACKS).decode(b'{"metadata":{"name":"r"},"spec":' + deep + b"}")
    except ValueError:
        return
    assert item.metadata.name == "r"
