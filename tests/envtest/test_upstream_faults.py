"""Faults of kube-scheduler v1.36 that were reported in public, and what a user expects instead.

The scheduler never flushes unschedulable pods, so a pod that an event should have brought back is
never bound. The issues are those of kubernetes/kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Json, Workload, until

pytestmark = pytest.mark.envtest

HOST = "kubernetes.io/hostname"
CLASS = "upstream-faults-high"
TEAM: Json = {"namespaceSelector": {"matchLabels": {"team": "t"}}}
VOLUMES = "/api/v1/persistentvolumes"


@pytest.fixture(scope="module")
def kubestow(control_plane: ControlPlane) -> Iterator[ManagedProcess]:
    control_plane.admin.ensure(
        "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": CLASS}, "value": 1000}
    )
    process = start_kubestow(
        control_plane,
        {
            "clientConnection": {"qps": 1000, "burst": 1000},
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
        },
        ["--pod-max-in-unschedulable-pods-duration=0s"],
        name="kubestow-upstream-faults",
    )
    yield process
    process.stop_cleanly()


class Cluster:
    """One node, and namespaces of one test."""

    def __init__(self, control_plane: ControlPlane, name: str, running: ExitStack) -> None:
        self._control_plane = control_plane
        self._running = running
        self.name = name
        self.request = control_plane.admin.request
        self.work = self.namespace("")
        self.work.node(name, labels={HOST: name})

    def namespace(self, suffix: str, **labels: str) -> Workload:
        """Return another namespace of this test."""
        name = f"{self.name}{suffix}"
        work = self._running.enter_context(Workload(self._control_plane, name))
        self.label_namespace(work, **labels)
        return work

    def label_namespace(self, work: Workload, **labels: str) -> None:
        patch = {"metadata": {"labels": labels}}
        self.request("PATCH", f"/api/v1/namespaces/{work.namespace}", patch)

    def running(self, work: Workload, name: str, app: str = "a", **parts: Any) -> None:
        """Create a pod that is on the node already."""
        work.pod(name, labels={"app": app}, nodeName=self.name, **parts)

    def patch_pod(self, name: str, patch: Json) -> None:
        self.request("PATCH", f"/api/v1/namespaces/{self.work.namespace}/pods/{name}", patch)

    def pod(self, name: str) -> Json:
        return self.work.pods()[name]


@pytest.fixture
def cluster(
    control_plane: ControlPlane, kubestow: ManagedProcess, request: pytest.FixtureRequest
) -> Iterator[Cluster]:
    name = request.node.originalname.removeprefix("test_").replace("_", "-")[:50].strip("-")
    with ExitStack() as running:
        yield Cluster(control_plane, name, running)
        assert kubestow.running, kubestow.describe("ended")


def term(app: str = "a", **more: Any) -> Json:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST, **more}


def near(*terms: Json) -> Json:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def far(*terms: Json) -> Json:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def but_not(work: Workload) -> Json:
    """Every namespace except this one."""
    name = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [work.namespace]}
    return {"namespaceSelector": {"matchExpressions": [name]}}


# -- #141526: negative namespace selectors ---------------------------------------------------------


def test_a_negative_selector_leaves_out_the_namespace(cluster: Cluster) -> None:
    other = cluster.namespace("-other")
    cluster.running(cluster.work, "neighbour")
    # In both directions: terms of the incoming pod, and of one that is there.
    cluster.running(other, "guard", "g", affinity=far(term("free", **but_not(cluster.work))))
    cluster.work.pod("free", labels={"app": "free"}, affinity=far(term(**but_not(cluster.work))))
    cluster.work.until_bound("free")
    other.pod("kept-away", affinity=far(term(**but_not(other))))
    assert "anti-affinity" in other.until_rejected("kept-away")["message"]
    cluster.work.delete_pod("neighbour")
    other.until_bound("kept-away")


# -- #139161, #141953, #141954: pods that no event brought back ------------------------------------


def test_of_two_terms_the_one_that_was_violated_no_longer_is(cluster: Cluster) -> None:
    cluster.running(cluster.work, "blocker")
    cluster.work.pod("waits", affinity=far(term(), term("other")))
    cluster.work.until_rejected("waits")
    cluster.work.delete_pod("blocker")
    cluster.work.until_bound("waits")


def test_a_deleted_pod_kept_others_away_by_one_of_two_terms(cluster: Cluster) -> None:
    cluster.running(cluster.work, "blocker", affinity=far(term("w"), term("other")))
    cluster.work.pod("waits", labels={"app": "w"})
    cluster.work.until_rejected("waits")
    cluster.work.delete_pod("blocker")
    cluster.work.until_bound("waits")


def test_a_matching_pod_appears_in_a_selected_namespace(cluster: Cluster) -> None:
    team = cluster.namespace("-team", team="t")
    cluster.work.pod("waits", affinity=near(term(**TEAM)))
    cluster.work.until_rejected("waits")
    cluster.running(team, "friend")
    cluster.work.until_bound("waits")


def test_a_blocking_pod_leaves_a_selected_namespace(cluster: Cluster) -> None:
    team = cluster.namespace("-team", team="t")
    cluster.running(team, "blocker")
    cluster.work.pod("waits", affinity=far(term(**TEAM)))
    cluster.work.until_rejected("waits")
    team.delete_pod("blocker")
    cluster.work.until_bound("waits")


def test_a_namespace_gains_the_label_that_is_selected(cluster: Cluster) -> None:
    team = cluster.namespace("-team", team="u")
    cluster.running(team, "friend")
    cluster.work.pod("waits", affinity=near(term(**TEAM)))
    cluster.work.until_rejected("waits")
    cluster.label_namespace(team, team="t")
    cluster.work.until_bound("waits")


# -- #139162: a preemptor that stays pending -------------------------------------------------------


def test_a_preemptor_that_changes_while_its_victim_ends_is_bound(cluster: Cluster) -> None:
    cluster.running(cluster.work, "victim", terminationGracePeriodSeconds=3600)
    path = f"/api/v1/namespaces/{cluster.work.namespace}/pods/victim/status"
    cluster.request("PATCH", path, {"status": {"phase": "Running"}})
    cluster.work.pod("waits", priorityClassName=CLASS, affinity=far(term(), term("other")))
    until(lambda: cluster.pod("victim")["metadata"].get("deletionTimestamp"), "victim is ending")
    until(lambda: cluster.pod("waits")["status"].get("nominatedNodeName"), "a nomination")
    cluster.patch_pod("waits", {"metadata": {"labels": {"touched": "yes"}}})
    cluster.work.delete_pod("victim")
    cluster.work.until_bound("waits")


# -- what v1.36 does right -------------------------------------------------------------------------


def test_a_pod_gains_the_toleration_of_a_cordoned_node(cluster: Cluster) -> None:
    """Issue 127427."""
    cluster.request("PATCH", f"/api/v1/nodes/{cluster.name}", {"spec": {"unschedulable": True}})
    cluster.work.pod("waits")
    cluster.work.until_rejected("waits")
    known = cluster.pod("waits")["spec"]["tolerations"]
    added = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    cluster.patch_pod("waits", {"spec": {"tolerations": [*known, added]}})
    cluster.work.until_bound("waits")


@pytest.fixture
def exclusive_claim(cluster: Cluster) -> Iterator[list[Json]]:
    """A bound ReadWriteOncePod claim, as the volumes of a pod."""
    namespace = cluster.work.namespace
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    modes, size = ["ReadWriteOncePod"], {"storage": "1Gi"}
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    claim: Any = cluster.request(
        "POST",
        claims,
        {
            "metadata": {"name": "claim", "annotations": bound},
            "spec": {
                "accessModes": modes, "resources": {"requests": size},
                "storageClassName": "", "volumeName": cluster.name,
            },
        },
    )  # fmt: skip
    owner = {"namespace": namespace, "name": "claim", "uid": claim["metadata"]["uid"]}
    cluster.request(
        "POST",
        VOLUMES,
        {
            "metadata": {"name": cluster.name},
            "spec": {
                "accessModes": modes, "capacity": size, "claimRef": owner,
                "csi": {"driver": "csi.example.com", "volumeHandle": cluster.name},
            },
        },
    )  # fmt: skip
    yield [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]
    for path in (f"{claims}/claim", f"{VOLUMES}/{cluster.name}"):
        cluster.request("DELETE", path)
        cluster.request("PATCH", path, {"metadata": {"finalizers": None}})


def test_the_pod_that_uses_an_exclusive_claim_leaves(
    cluster: Cluster, exclusive_claim: list[Json]
) -> None:
    """Issue 126263."""
    cluster.running(cluster.work, "user", volumes=exclusive_claim)
    cluster.work.pod("waits", volumes=exclusive_claim)
    assert "ReadWriteOncePod" in cluster.work.until_rejected("waits")["message"]
    cluster.work.delete_pod("user")
    cluster.work.until_bound("waits")


def test_status_and_events_name_no_taint(cluster: Cluster) -> None:
    """Issue 134740: users who may see a pod need not see the nodes."""
    taint = {"key": "secret-team", "value": "merger", "effect": "NoSchedule"}
    cluster.request("PATCH", f"/api/v1/nodes/{cluster.name}", {"spec": {"taints": [taint]}})
    cluster.work.pod("waits")
    message = cluster.work.until_rejected("waits")["message"]
    (event,) = until(lambda: cluster.work.events("FailedScheduling"), "an Event")
    for text in (message, event["note"]):
        assert "untolerated taint" in text
        assert "secret" not in text
        assert "merger" not in text
