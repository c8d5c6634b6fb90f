"""Claims of devices in the embedded cluster: made, released, and refused where the rules say so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from simulator.admission import WriteOptions
from simulator.api import MERGE_PATCH, Api
from simulator.controllers.kubelet import Kubelet
from simulator.controllers.resource_claims import FINALIZER, POD_CLAIM_NAME, ResourceClaimController
from simulator.controllers.runner import Controller, KubeletController, Runner
from simulator.devices import DEVICES, SLICE_DEVICES, DevicesError, slices_of
from simulator.errors import ApiError
from simulator.objects import JsonObject
from simulator.subresources import bind
from tests.unit.simulator.objects import binding, node, pod

RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "device-0"}
ALLOCATION = {"devices": {"results": [RESULT]}}
OTHER = {"devices": {"results": [{**RESULT, "device": "device-1"}]}}
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
FROM_TEMPLATE = [{"name": "gpu", "resourceClaimTemplateName": "one"}]


class Cluster:
    """An API with the controllers of pods and claims."""

    def __init__(self, api: Api) -> None:
        self.api = api
        kubelet = Kubelet(nodes=lambda name: api.store.get("nodes", "", name) is not None)
        controllers: dict[str, Controller] = {
            "kubelet": KubeletController(api, kubelet),
            "claims": ResourceClaimController(api),
        }
        self.runner = Runner(api, controllers, frozenset())
        self.runner.attach()

    def settle(self) -> None:
        for _ in range(100):
            if not self.runner.work_once():
                return
        raise AssertionError("the controllers do not come to rest")

    def create(self, kind: str, name: str, body: JsonObject, group: str = "") -> JsonObject:
        row = self.api.resources.of_kind(group or "resource.k8s.io/v1", kind)
        namespace = "default" if row.namespaced else ""
        made = {**body, "metadata": {"name": name, **(body.get("metadata") or {})}}
        return self.api.create(row, namespace, made).obj

    def pod(self, name: str, claims: Any) -> JsonObject:
        body = pod(name)
        body["spec"]["resourceClaims"] = claims
        return self.create("Pod", name, body, "v1")

    def claims(self) -> list[JsonObject]:
        return [each.obj for each in self.api.store.items("resourceclaims.resource.k8s.io")]

    def patch(self, name: str, patch: JsonObject, subresource: str = "") -> None:
        row = self.api.resources.of_kind("resource.k8s.io/v1", "ResourceClaim")
        self.api.patch(row, "default", name, patch, MERGE_PATCH, subresource=subresource)

    def allocate(self, claim: JsonObject, *pods: JsonObject) -> None:
        """Do what the scheduler does: finalizer first, then devices and consumers."""
        name = claim["metadata"]["name"]
        self.patch(name, {"metadata": {"finalizers": [FINALIZER]}})
        reserved = [
            {
                "resource": "pods",
                "name": each["metadata"]["name"],
                "uid": each["metadata"]["uid"],
            }
            for each in pods
        ]
        self.patch(name, {"status": {"allocation": ALLOCATION, "reservedFor": reserved}}, "status")

    def finish(self, name: str) -> None:
        row = self.api.resources.of_kind("v1", "Pod")
        patch = {"status": {"phase": "Succeeded"}}
        self.api.patch(row, "default", name, patch, MERGE_PATCH, subresource="status")


@pytest.fixture
def cluster(api: Api) -> Iterator[Cluster]:
    made = Cluster(api)
    yield made
    made.runner.detach()


def template(cluster: Cluster) -> None:
    labels = {"metadata": {"labels": {"team": "a"}}, "spec": SPEC}
    cluster.create("ResourceClaimTemplate", "one", {"spec": labels})


def test_a_pod_gets_a_claim_of_its_template(cluster: Cluster) -> None:
    template(cluster)
    made = cluster.pod("p", FROM_TEMPLATE)
    cluster.settle()
    (claim,) = cluster.claims()
    meta = claim["metadata"]
    assert meta["name"].startswith("p-gpu-")
    assert meta["annotations"][POD_CLAIM_NAME] == "gpu"
    assert meta["labels"] == {"team": "a"}
    assert meta["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    status = cluster.api.store.get("pods", "default", "p").obj["status"]  # type: ignore[union-attr]
    assert status["resourceClaimStatuses"] == [{"name": "gpu", "resourceClaimName": meta["name"]}]


def test_a_pod_waits_for_its_template_and_gets_one_claim_only(cluster: Cluster) -> None:
    cluster.pod("p", FROM_TEMPLATE)
    cluster.settle()
    assert cluster.claims() == []
    template(cluster)
    cluster.settle()
    cluster.settle()
    assert len(cluster.claims()) == 1


def test_a_claim_goes_with_its_pod_and_its_devices_are_free(cluster: Cluster) -> None:
    template(cluster)
    made = cluster.pod("p", FROM_TEMPLATE)
    cluster.settle()
    cluster.allocate(cluster.claims()[0], made)
    cluster.settle()
    assert len(cluster.claims()) == 1, "in use"
    cluster.finish("p")
    cluster.settle()
    assert cluster.claims() == []


def test_a_shared_claim_keeps_its_devices_until_the_last_pod_ends(cluster: Cluster) -> None:
    claim = cluster.create("ResourceClaim", "shared", {"spec": SPEC})
    pods = [cluster.pod(each, [{"name": "gpu", "resourceClaimName": "shared"}]) for each in "ab"]
    cluster.allocate(claim, *pods)
    cluster.finish("a")
    cluster.settle()
    (claim,) = cluster.claims()
    assert [each["name"] for each in claim["status"]["reservedFor"]] == ["b"]
    assert claim["status"]["allocation"] == ALLOCATION
    cluster.finish("b")
    cluster.settle()
    (claim,) = cluster.claims()
    assert claim["status"] == {}
    assert not claim["metadata"].get("finalizers")


def test_a_deleted_claim_is_held_until_its_pod_ends(cluster: Cluster) -> None:
    claim = cluster.create("ResourceClaim", "c", {"spec": SPEC})
    made = cluster.pod("p", [{"name": "gpu", "resourceClaimName": "c"}])
    cluster.allocate(claim, made)
    row = cluster.api.resources.of_kind("resource.k8s.io/v1", "ResourceClaim")
    cluster.api.delete(row, "default", "c")
    cluster.settle()
    assert len(cluster.claims()) == 1
    cluster.finish("p")
    cluster.settle()
    assert cluster.claims() == []


def test_a_pod_bound_by_others_gets_its_reservation(cluster: Cluster) -> None:
    cluster.create("Node", "n1", node("n1"), "v1")
    claim = cluster.create("ResourceClaim", "c", {"spec": SPEC})
    cluster.allocate(claim)
    cluster.pod("p", [{"name": "gpu", "resourceClaimName": "c"}])
    row = cluster.api.resources.of_kind("v1", "Pod")
    bind(cluster.api, row, "default", "p", binding("p", "n1"), WriteOptions())
    cluster.settle()
    assert [each["name"] for each in cluster.claims()[0]["status"]["reservedFor"]] == ["p"]


@pytest.mark.parametrize(
    ("patch", "subresource", "text"),
    [
        (
            {"spec": {"devices": {"requests": []}}},
            "",
            "spec: Invalid value: {}: field is immutable",
        ),
        ({"status": {"allocation": OTHER}}, "status", "status.allocation: Invalid value"),
        (
            {"status": {"allocation": None}},
            "status",
            "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
        ),
    ],
)
def test_the_rules_of_claims(
    cluster: Cluster, patch: JsonObject, subresource: str, text: str
) -> None:
    claim = cluster.create("ResourceClaim", "c", {"spec": SPEC})
    cluster.allocate(claim, cluster.pod("p", [{"name": "gpu", "resourceClaimName": "c"}]))
    with pytest.raises(ApiError) as refused:
        cluster.patch("c", patch, subresource)
    assert text in refused.value.status["message"]


def test_a_request_needs_a_class_and_one_form(cluster: Cluster) -> None:
    for request in (
        {"name": "r"},
        {"name": "r", "exactly": {}},
        {"name": "r", "exactly": {"count": 1}},
    ):
        with pytest.raises(ApiError):
            cluster.create("ResourceClaim", "c", {"spec": {"devices": {"requests": [request]}}})


def test_a_node_publishes_the_devices_that_it_asks_for(cluster: Cluster) -> None:
    asked = {"gpu.example.com": {"count": 70, "attributes": {"model": {"string": "a100"}}}}
    body = {**node("n1"), "metadata": {"annotations": {DEVICES: json.dumps(asked)}}}
    cluster.create("Node", "n1", body, "v1")
    cluster.settle()
    first, second = (each.obj for each in cluster.api.store.items("resourceslices.resource.k8s.io"))
    assert len(first["spec"]["devices"]) == SLICE_DEVICES
    assert len(second["spec"]["devices"]) == 70 - SLICE_DEVICES
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    assert (first["spec"]["nodeName"], first["spec"]["pool"]) == ("n1", pool)
    assert first["spec"]["devices"][0]["attributes"] == {"model": {"string": "a100"}}
    row = cluster.api.resources.of_kind("v1", "Node")
    cluster.api.delete(row, "", "n1")
    cluster.settle()
    assert cluster.api.store.items("resourceslices.resource.k8s.io") == []


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"d": 3}', '{"d": {"count": -1}}', '{"d": {"count": 1e9}}', "[" * 100_000]
)
def test_an_annotation_that_cannot_be_read_is_an_error(text: str) -> None:
    body = node("n1")
    body["metadata"]["annotations"] = {DEVICES: text}
    with pytest.raises(DevicesError, match=DEVICES):
        slices_of(body)
