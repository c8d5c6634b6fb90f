"""Quota of resource claims under the extended resources of their classes."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.errors import ApiError
from simulator.objects import JsonObject
from tests.unit.simulator.quotas import Bench

GROUP = "resource.k8s.io/v1"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
EXPLICIT = "example.com/gpu"
HARD = {f"requests.{IMPLICIT}": "8", f"requests.{EXPLICIT}": "4"}


class Devices(Bench):
    """A bench with a class that has an extended resource, and a quota for it."""

    def __init__(self) -> None:
        super().__init__()
        self.claims = self.api.resources.of_kind(GROUP, "ResourceClaim")
        self.classes = self.api.resources.of_kind(GROUP, "DeviceClass")
        self.device_class({"extendedResourceName": EXPLICIT})
        self.quota(HARD)

    def device_class(self, spec: JsonObject) -> None:
        self.api.create(self.classes, "", {"metadata": {"name": "gpu"}, "spec": spec})

    def claim(self, name: str, count: int, **metadata: Any) -> str:
        """Create a claim; return the message if it is refused."""
        exactly = {"deviceClassName": "gpu", "count": count}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        try:
            body = {"metadata": {"name": name, **metadata}, "spec": spec}
            self.api.create(self.claims, "default", body)
        except ApiError as error:
            return str(error)
        return ""

    def asking(self, name: str, resource: str) -> JsonObject:
        """Create a pod that asks for two of an extended resource."""
        amounts = {"requests": {resource: "2"}, "limits": {resource: "2"}}
        container = {"name": "c", "image": "i", "resources": amounts}
        body = {"metadata": {"name": name}, "spec": {"containers": [container]}}
        return self.api.create(self.pods, "default", body).obj


def used(implicit: int, explicit: int) -> dict[str, str]:
    return {f"requests.{IMPLICIT}": str(implicit), f"requests.{EXPLICIT}": str(explicit)}


def test_claims_are_charged_as_pods_that_ask_for_the_same() -> None:
    bench = Devices()
    assert bench.claim("a", 3) == ""
    assert bench.used() == used(3, 3)
    key = f"requests.{EXPLICIT}"
    assert bench.claim("b", 2).endswith(
        f"exceeded quota: q, requested: {key}=2, used: {key}=3, limited: {key}=4"
    )
    bench.asking("p", IMPLICIT)
    assert bench.used() == used(5, 3)
    bench.api.delete(bench.claims, "default", "a", {})
    bench.settle()
    assert bench.used() == used(2, 0)


@pytest.mark.parametrize("asked", [EXPLICIT, IMPLICIT])
def test_a_claim_for_extended_resources_counts_where_its_pod_does_not(asked: str) -> None:
    bench = Devices()
    pod = bench.asking("p", asked)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": True}
    made = {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{**owner, "uid": pod["metadata"]["uid"]}],
    }
    assert bench.claim("c", 2, **made) == ""
    assert bench.used() == used(2, 2)
    bench.patch_quota({"spec": {"hard": {"pods": "9"}}})
    bench.settle()
    assert bench.used() == {"pods": "1", **used(2, 2)}
    bench.delete("p", gracePeriodSeconds=0)
    bench.settle()
    assert bench.used() == {"pods": "0", **used(2, 2)}, "the claim is still there"


def test_a_recount_sees_the_classes_of_the_moment() -> None:
    bench = Devices()
    bench.claim("a", 3)
    bench.api.delete(bench.classes, "", "gpu", {})
    bench.settle()
    assert bench.used() == used(3, 3), "a class is no reason to recount"
    bench.patch_quota({"spec": {"hard": {"pods": "9"}}})
    bench.settle()
    assert bench.used() == {"pods": "0", **used(3, 0)}
