"""Objects besides pods as an API server would store them."""

from __future__ import annotations

import pytest

from scheduler.api.stored import Nothing, as_stored
from tests.unit.api.stored.existing import JsonObject, existing, storage_class


@pytest.mark.parametrize(
    ("status", "allocatable"),
    [
        ({"capacity": {"cpu": "4"}}, {"cpu": "4"}),
        ({"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}, {"cpu": "3"}),
        ({"capacity": {"cpu": "4"}, "allocatable": {}}, {"cpu": "4"}),
        ({}, None),
    ],
)
def test_all_of_a_node_is_allocatable(status: JsonObject, allocatable: JsonObject | None) -> None:
    given = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}
    assert as_stored(given, Nothing()).obj["status"].get("allocatable") == allocatable


def _claim(spec: JsonObject, annotations: JsonObject | None = None) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "annotations": annotations},
        "spec": spec,
    }


_OLD = {"volume.beta.kubernetes.io/storage-class": "slow"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (_claim({}), "newer"),
        (_claim({"storageClassName": None}), "newer"),
        (_claim({"storageClassName": ""}), ""),
        (_claim({"storageClassName": "fast"}), "fast"),
        (_claim({}, _OLD), None),
    ],
)
def test_a_claim_without_class_gets_the_newest_default(
    given: JsonObject, expected: str | None
) -> None:
    classes = [
        storage_class("older", "2026-01-01T00:00:00Z"),
        storage_class("other", "2026-01-02T00:00:00Z"),
        storage_class("newer", "2026-01-02T00:00:00Z", "storageclass.beta"),
    ]
    made = as_stored(given, existing(*classes)).obj["spec"]
    assert made.get("storageClassName") == expected
    assert made["volumeMode"] == "Filesystem"


def test_a_claim_says_that_no_class_is_known() -> None:
    assert as_stored(_claim({}), Nothing()).unknown == ("StorageClasses (no class)",)
    assert as_stored(_claim({}), existing()).unknown == ()
