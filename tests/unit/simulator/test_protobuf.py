"""Protobuf of kubectl: what is listed is read, and everything else refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.protobuf import ProtobufError, decode


def _varint(value: int) -> bytes:
    made = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _body(api_version: str, kind: str, *fields: bytes) -> bytes:
    head = _field(1, api_version) + _field(2, kind)
    return b"k8s\0" + _field(1, head) + _field(2, b"".join(fields)) + _field(3, b"")


_LABELS = _field(11, _field(1, "a") + _field(2, "b"))
META = _field(1, _field(1, "x") + _field(3, "") + _field(8, b"") + _LABELS)
HEAD = {"metadata": {"name": "x", "labels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("body", "read"),
    [
        (_body("v1", "Namespace", META), HEAD),
        (
            _body("scheduling.k8s.io/v1", "PriorityClass", META, _field(2, -7), _field(3, 1)),
            {**HEAD, "value": -7, "globalDefault": True},
        ),
        # What is not read may be empty: Go writes such fields.
        (_body("v1", "ServiceAccount", META, _field(9, b""), _field(7, _field(1, 0))), HEAD),
        (
            _body("policy/v1", "PodDisruptionBudget", META, _field(2, _field(1, _field(2, 3)))),
            {**HEAD, "spec": {"minAvailable": 3}},
        ),
        (
            _body("apps/v1", "Deployment", META, _field(2, _field(1, 0) + _field(2, b""))),
            {**HEAD, "spec": {"replicas": 0, "selector": {}}},
        ),
    ],
)
def test_what_is_listed_is_read(body: bytes, read: dict[str, object]) -> None:
    found = decode(body)
    assert {key: each for key, each in found.items() if key not in ("apiVersion", "kind")} == read


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{}", "does not begin as the protobuf of Kubernetes"),
        (_body("v1", "Pod", META), "of v1 Pod this server reads no protobuf: give kubectl a file"),
        (_body("v1", "ConfigMap", META, _field(9, "x")), "ConfigMap has field 9, which"),
        (_body("v1", "ConfigMap", _field(1, 5)), "ConfigMap.metadata is a number"),
        (_body("v1", "ConfigMap", _field(4, "x")), "ConfigMap.immutable is no flag"),
        (_body("v1", "Namespace", META)[:-30], "the body is cut"),
        (b"k8s\0" + b"\xff" * 11, "a number of more than 64 bits"),
        (b"k8s\0" + b"\x0d1234", "wire type 5"),
        (_body("v1", "Namespace", _field(1, _field(1, b"\xff"))), "metadata.name is not UTF-8"),
    ],
)
def test_everything_else_is_refused(body: bytes, text: str) -> None:
    with pytest.raises(ProtobufError, match=text):
        decode(body)


@given(st.binary(max_size=200))
def test_no_bytes_crash_it(data: bytes) -> None:
    for body in (data, b"k8s\0" + data, _body("apps/v1", "Deployment", data)):
        try:
            decode(body)
        except ProtobufError:
            continue


def test_what_nests_without_end_is_refused() -> None:
    nested = b""
    for _ in range(2000):
        nested = _field(1, nested)
    with pytest.raises(ProtobufError, match="has field 9"):
        decode(_body("v1", "Namespace", META, _field(9, nested)))
