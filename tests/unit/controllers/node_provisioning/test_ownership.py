"""The writer of the condition, as the API server records it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from scheduler.controllers.node_provisioning.ownership import (
    CONDITION,
    FIELD_MANAGER,
    other_writer,
    read_owned_pod,
)
from tests.unit.client.deep_objects import deep_fields, deep_json

KEY = f'k:{{"type":"{CONDITION}"}}'
ALL: dict[str, Any] = {".": {}, "f:type": {}, "f:status": {}, "f:reason": {}, "f:message": {}}


def entry(manager: str, fields: dict[str, Any], kind: str = KEY) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "fieldsType": "FieldsV1",
        "subresource": "status",
        "fieldsV1": {"f:status": {"f:conditions": {".": {}, kind: fields}}},
    }


def pod(*managed: dict[str, Any], reason: str = "Native", kind: str = CONDITION) -> bytes:
    condition = {"type": kind, "status": "True", "reason": reason}
    metadata = {"name": "a", "uid": "u", **({"managedFields": list(managed)} if managed else {})}
    return json.dumps({"metadata": metadata, "status": {"conditions": [condition]}}).encode()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (pod(entry(FIELD_MANAGER, ALL)), None),
        (pod(entry("cluster-autoscaler", ALL)), "cluster-autoscaler"),
        (pod(entry(FIELD_MANAGER, {"f:type": {}}), entry("karpenter", ALL)), "karpenter"),
        # Another manager made the entry once; every value in it is ours by now.
        (pod(entry("kubectl", {".": {}, "f:type": {}}), entry(FIELD_MANAGER, ALL)), None),
        (pod(entry("kubelet", ALL, 'k:{"type":"Ready"}'), entry(FIELD_MANAGER, ALL)), None),
        (pod(entry("x", ALL), kind="Ready"), None),
        # A server without managedFields: the reason tells.
        (pod(reason="Native"), "unknown"),
        (pod(reason="ScaleUpBackoff"), None),
        (b'{"metadata": {"uid": "u"}}', None),
        (b'{"metadata": {"uid": "u", "managedFields": [{"manager": "x", "fieldsV1": {}}]}}', None),
    ],
)
def test_the_other_writer_of_the_condition(data: bytes, expected: str | None) -> None:
    assert other_writer(read_owned_pod(data)) == expected


def test_without_managed_fields_a_condition_that_appeared_while_watched_is_not_ours() -> None:
    unrecorded = read_owned_pod(pod(reason="ScaleUpBackoff"))
    assert other_writer(unrecorded, seen_without=True) == "unknown"
    recorded = read_owned_pod(pod(entry(FIELD_MANAGER, ALL)))
    assert other_writer(recorded, seen_without=True) is None


@pytest.mark.parametrize("data", [b"", b"[]", b'{"metadata": 1}'])
def test_a_malformed_pod_is_an_error(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_owned_pod(data)


def test_deeply_nested_managed_fields_are_accepted() -> None:
    known = json.loads(pod(entry("karpenter", ALL)))
    known["metadata"]["managedFields"] += deep_fields()
    assert other_writer(read_owned_pod(deep_json(known))) == "karpenter"
