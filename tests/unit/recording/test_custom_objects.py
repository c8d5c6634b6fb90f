"""Custom objects in bundles: what plugins declare, and of other objects what cannot be a secret."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.api import Named, ObjectMeta
from scheduler.client.custom_resources import CustomResource
from scheduler.recording.custom_objects import (
    MAX_BYTES,
    encode_custom,
    encode_identity,
    left_out,
)
from scheduler.recording.format import CONFIGURATION, OBJECT
from scheduler.recording.redaction import Redactor
from scheduler.recording.redaction_words import struct_fields


class Shelf(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """A part of a rack."""

    row_name: str = ""
    api_token: str = ""


class Rack(Named):
    """The part of a rack that is read."""

    spec: dict[str, Any] = {}
    top_shelf: Shelf = Shelf()


RACKS = "example.com/v1/racks"
PLAIN, TYPED = CustomResource(RACKS), CustomResource(RACKS, Rack)
OBJECT_OF_RACK: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Rack",
    "metadata": {
        "name": "r1",
        "labels": {"a": "b"},
        "annotations": {"example.com/x": "secret", "k8s.io/y": "z"},
    },
    "spec": {
        "closed": True,
        "units": 42,
        "power": "1500m",
        "since": "2026-01-01T00:00:00Z",
        "owner": "somebody",
        "password": 1234,
        "weights": [1, "2Gi", "three", {"token": "x", "n": 4}],
    },
    "topShelf": {"rowName": "upper", "apiToken": "hunter2"},
    "data": {"key": "hunter2"},
}


def bundled(resource: CustomResource, obj: dict[str, Any] | None = None) -> Any:
    item = resource.decode(msgspec.json.encode(obj or OBJECT_OF_RACK))
    encoded = encode_custom(resource, item)
    return None if encoded is None else msgspec.json.decode(encoded)


METADATA = {"name": "r1", "labels": {"a": "b"}, "annotations": {"k8s.io/y": "z"}}
HEAD = {"apiVersion": "example.com/v1", "kind": "racks.v1.example.com", "metadata": METADATA}


def test_an_object_without_a_declared_type_keeps_numbers_amounts_and_times() -> None:
    assert bundled(PLAIN) == HEAD | {
        "spec": {
            "closed": True,
            "units": 42,
            "power": "1500m",
            "since": "2026-01-01T00:00:00Z",
            "weights": [1, "2Gi", {"n": 4}],
        }
    }


def test_an_object_of_a_declared_type_keeps_its_fields_but_for_credentials() -> None:
    found = bundled(TYPED)
    assert found["topShelf"] == {"rowName": "upper"}
    assert found["spec"]["owner"] == "somebody"
    assert found["spec"]["weights"] == [1, "2Gi", "three", {"n": 4}]
    assert "password" not in found["spec"]
    assert "data" not in found
    assert found["metadata"] == METADATA


def test_a_text_that_looks_like_a_credential_is_blanked() -> None:
    spec = {"source": "https://joe:hunter2@example.com/"}
    found = bundled(TYPED, {"metadata": {"name": "r"}, "spec": spec})
    assert found["spec"] == {"source": "https://[redacted]@example.com/"}


@pytest.mark.parametrize("spec", [{"n": "x" * MAX_BYTES}, {str(n): n for n in range(20_000)}])
def test_a_large_object_is_left_out(spec: dict[str, Any]) -> None:
    assert bundled(TYPED, {"metadata": {"name": "r"}, "spec": spec}) is None


def test_an_object_that_cannot_be_encoded_is_left_out() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (deep, object()):
        item = Rack(metadata=ObjectMeta(name="r"), spec={"x": value})
        assert encode_custom(TYPED, item) is None
        identity = msgspec.json.decode(encode_identity(TYPED, item))
        assert identity["metadata"] == {"name": "r", "namespace": "", "uid": ""}


def test_the_file_says_what_it_lacks() -> None:
    assert left_out([]) == []
    plain, large = left_out([PLAIN])
    assert RACKS in plain
    assert left_out([TYPED]) == [large]


def test_redaction_keeps_the_fields_that_plugins_declare() -> None:
    redactor = Redactor(b"salt")
    fields = {RACKS: sorted(struct_fields(Rack))}
    configuration = {"configuration": {"profiles": []}, "customFields": fields}
    redactor.learn(CONFIGURATION, configuration)
    found = redactor.redact(OBJECT, bundled(TYPED))
    assert (found["apiVersion"], found["kind"]) == ("example.com/v1", "racks.v1.example.com")
    assert found["topShelf"]["rowName"] not in ("", "upper")
    assert "somebody" not in str(found)
    assert 42 in found["spec"].values()
    assert redactor.redact(CONFIGURATION, configuration)["customFields"] == fields
