"""Remedies for volumes: what is missing is to be created."""

from __future__ import annotations

from scheduler import offline
from tests.unit.explain.what_if.busy_world import JsonObject, claim, manifest, mounting

LATE = manifest(
    "StorageClass", "late", "storage.k8s.io/v1", provisioner="disk",
    volumeBindingMode="WaitForFirstConsumer",
)  # fmt: skip
THEN = " (the volume must then be provisioned)"
NEW = "create a storage class that binds with WaitForFirstConsumer, and "


def remedies(pod: JsonObject, *others: JsonObject) -> list[str]:
    """Return the remedies of a pod on one node."""
    with offline.World() as world:
        world.add_all([offline.node("n"), *others, pod])
        world.schedule()
        return [each.text for each in world.remedies("default/p-0").remedies]


def test_a_missing_storage_class_is_to_be_created() -> None:
    assert remedies(mounting("p-0", "d"), claim("d", "latee")) == [
        f"create storage class latee{THEN}",
        "do without volume d",
        f"{NEW}replace claim d with it{THEN}",
    ]
    # That with a similar name is likely to be meant.
    assert remedies(mounting("p-0", "d"), claim("d", "latee"), LATE)[:2] == [
        f"replace claim d, of storage class late{THEN}",
        f"create storage class latee{THEN}",
    ]


def test_a_missing_claim_is_to_be_created_or_named_otherwise() -> None:
    assert remedies(mounting("p-0", "d"), LATE)[:2] == [
        f"create claim d, of storage class late{THEN}, or correct the name in the pod",
        f"{NEW}create claim d with it{THEN}, or correct the name in the pod",
    ]


def test_a_claim_with_a_similar_name_is_to_be_named_first() -> None:
    elsewhere = claim("data-wbe2", "late")
    elsewhere["metadata"]["namespace"] = "other"
    found = remedies(mounting("p-0", "data-wbe"), claim("data-web", "late"), elsewhere, LATE)
    assert found[0] == "name claim data-web instead of data-wbe in volume data-wbe"
    created = f"create claim data-wbe, of storage class late{THEN}"
    assert found[1] == created
    assert not [text for text in found if "replace claim" in text]
    # One with which the pod would wait all the same is no remedy of its own.
    found = remedies(mounting("p-0", "data-wbe"), claim("data-web", "none"), LATE)
    assert found[0] == created
    named = [text for text in found if "data-web" in text]
    assert all("create storage class none" in text for text in named)
    # The closer of two that differ in separators alone.
    both = claim("data-web", "late"), claim("dataweb", "late")
    found = remedies(mounting("p-0", "datweb"), *both, LATE)
    assert found[0] == "name claim dataweb instead of datweb in volume datweb"
    # That of another replica is not meant.
    for name in ("data-2", "data-11"):
        found = remedies(mounting("p-0", "data-1"), claim(name, "late"), LATE)
        assert found[0].endswith(", or correct the name in the pod")


def test_the_claims_of_a_stateful_set_come_from_its_template() -> None:
    pod = mounting("p-0", "data-p-0")
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "p", "uid": "u"}
    pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    anew = ", and create StatefulSet/p anew with that class in its volumeClaimTemplates"
    found = remedies(pod, claim("data-p-0", "latee"), LATE)
    assert found[0] == f"replace claim data-p-0, of storage class late{THEN}{anew}"
