"""Claims that wait for their first consumer, bound by the real volume controller.

The test acts as the provisioner: it creates the volume on the node that was chosen for a claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest("kube-controller-manager")

PROVISIONER = "volumes.example.com/test"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"

Json = dict[str, Any]


class Storage:
    """Creates classes, claims and volumes of one test."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self._request = control_plane.admin.request
        self._ensure = control_plane.admin.ensure
        self._claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        self._namespace = namespace

    def waiting_class(self, name: str, provisioner: str) -> None:
        body = {
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        self._ensure(CLASSES, body)

    def claim(self, name: str, class_name: str, size: str = "1Gi") -> None:
        body = {
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": class_name,
                "resources": {"requests": {"storage": size}},
            },
        }
        self._request("POST", self._claims, body)

    def volume(
        self, name: str, class_name: str, node: str, size: str = "1Gi", claim: str = ""
    ) -> None:
        """Create a volume on one node, bound to `claim` if one is named."""
        host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        spec: Json = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/nowhere"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
        }
        if claim:
            found = self.claim_now(claim)["metadata"]
            spec["claimRef"] = {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": self._namespace,
                "name": claim,
                "uid": found["uid"],
            }
        self._request("POST", VOLUMES, {"metadata": {"name": name}, "spec": spec})

    def volume_now(self, name: str) -> Json:
        return dict(self._request("GET", f"{VOLUMES}/{name}"))

    def available(self, name: str) -> None:
        """Wait until the volume controller has seen a volume."""
        until(lambda: self.volume_now(name).get("status", {}).get("phase") == "Available", name)

    def claim_now(self, name: str) -> Any:
        return self._request("GET", f"{self._claims}/{name}")

    def selected_node(self, name: str) -> str:
        annotations = self.claim_now(name)["metadata"].get("annotations") or {}
        return str(annotations.get(SELECTED_NODE, ""))

    def give_up_provisioning(self, name: str) -> None:
        patch = {"metadata": {"annotations": {SELECTED_NODE: None}}}
        self._request("PATCH", f"{self._claims}/{name}", patch)


def uses(claim: str) -> list[Json]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]


def host(name: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": name}


@pytest.fixture(scope="module")
def kubestow(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    """Run a scheduler, and a controller manager that only binds volumes."""
    controllers = control_plane.start_controller_manager(
        controllers=("persistentvolume-binder-controller",), name="volume-controller"
    )
    process = start_kubestow(
        control_plane,
        {"clientConnection": {"qps": 1000, "burst": 1000}},
        name="kubestow-volumes",
    )
    yield process
    process.stop()
    controllers.stop()
    assert process.returncode == 0, process.describe("did not end cleanly")


@pytest.fixture
def storage(control_plane: ControlPlane, work: Workload) -> Storage:
    return Storage(control_plane, work.namespace)


def test_the_claim_gets_the_selected_node_and_the_pod_waits(
    work: Workload, storage: Storage
) -> None:
    for name in ("dynamic-a", "dynamic-b"):
        work.node(name, labels=host(name))
    storage.waiting_class("dynamic", PROVISIONER)
    storage.claim("data", "dynamic")
    work.pod("waiting", volumes=uses("data"))
    node = until(lambda: storage.selected_node("data"), "a chosen node")

    # The waiting pod does not delay pods without volumes.
    work.pod("other")
    work.until_bound("other")
    assert "waiting" not in work.bound()

    storage.volume("made-for-data", "dynamic", node, claim="data")
    assert work.until_bound("waiting")["waiting"] == node
    assert storage.claim_now("data")["spec"]["volumeName"] == "made-for-data"
    # The controller writes the phase after all that a scheduler waits for.
    until(lambda: storage.claim_now("data")["status"]["phase"] == "Bound", "the phase of the claim")


def test_a_pod_whose_volume_could_not_be_provisioned_is_rescheduled(
    work: Workload, storage: Storage
) -> None:
    work.node("retry-a", labels=host("retry-a"))
    storage.waiting_class("dynamic", PROVISIONER)
    storage.claim("data", "dynamic")
    work.pod("retried", volumes=uses("data"))
    until(lambda: storage.selected_node("data"), "a chosen node")
    storage.give_up_provisioning("data")
    until(lambda: work.events("FailedScheduling"), "an event about the failure")
    (note, *_) = [event["note"] for event in work.events("FailedScheduling")]
    assert "binding volumes: " in note
    node = until(lambda: storage.selected_node("data"), "a chosen node again")
    storage.volume("made-at-last", "dynamic", node, claim="data")
    assert work.until_bound("retried") == {"retried": "retry-a"}


def test_the_smallest_volume_that_fits_is_bound_where_it_is(
    work: Workload, storage: Storage
) -> None:
    for name in ("static-a", "static-b", "static-c"):
        work.node(name, labels=host(name))
    storage.waiting_class("local", "kubernetes.io/no-provisioner")
    storage.volume("local-small", "local", "static-a", "1Gi")
    storage.volume("local-large", "local", "static-b", "9Gi")
    storage.volume("local-right", "local", "static-b", "5Gi")
    for name in ("local-small", "local-large", "local-right"):
        storage.available(name)
    storage.claim("data", "local", "4Gi")
    work.pod("static", volumes=uses("data"))
    assert work.until_bound("static") == {"static": "static-b"}
    assert storage.claim_now("data")["spec"]["volumeName"] == "local-right"
    # Annotated as bound by the controller, so that it may unbind it when the claim is deleted.
    annotations = storage.volume_now("local-right")["metadata"]["annotations"]
    assert annotations["pv.kubernetes.io/bound-by-controller"] == "yes"


def test_pods_that_compete_for_local_volumes_get_one_each(work: Workload, storage: Storage) -> None:
    names = [f"local-{number}" for number in range(6)]
    storage.waiting_class("contested", "kubernetes.io/no-provisioner")
    for name in names:
        work.node(name, labels=host(name))
        storage.volume(f"contested-{name}", "contested", name)
    for name in names:
        storage.available(f"contested-{name}")
    for number in range(6):
        storage.claim(f"data-{number}", "contested")
        work.pod(f"pod-{number}", volumes=uses(f"data-{number}"))
    assert sorted(work.until_bound().values()) == names
