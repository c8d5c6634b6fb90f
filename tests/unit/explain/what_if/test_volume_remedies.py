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
    assert remedies(mounting("p-0", "d"), claim("d", "latee"), LATE)[:2] == [
        f"create storage class latee{THEN}",
        f"replace claim d, of storage class late{THEN}",
    ]


def test_a_missing_claim_is_to_be_created_or_named_otherwise() -> None:
    assert remedies(mounting("p-0", "d"), LATE)[:2] == [
        f"create claim d, of storage class late{THEN}, or correct the name in the pod",
        f"{NEW}create claim d with it{THEN}, or correct the name in the pod",
    ]


def test_the_claims_of_a_stateful_set_come_from_its_template() -> None:
    pod = mounting("p-0", "data-p-0")
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "p", "uid": "u"}
    pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    anew = ", and create StatefulSet/p anew with that class in its volumeClaimTemplates"
    found = remedies(pod, claim("data-p-0", "latee"), LATE)
    assert f"replace claim data-p-0, of storage class late{THEN}{anew}" in found
    assert found[0] == f"create storage class latee{THEN}"
