"""The bridge on a stock API server, as its ServiceAccount: A50 to A60, and its effects.

Events are written by hand as cluster-autoscaler 1.36 and Karpenter write them. Includes the stories
A2, A3, A35 and A43 end to end.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, Self

import pytest

from devtools.control_plane.admin import ApiError
from devtools.control_plane.control_plane import Binaries, ControlPlane, ManagedProcess
from devtools.control_plane.inspecting import get_endpoint
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.test_deployment import ACCOUNT, MANIFESTS, NAMESPACE
from tests.envtest.workload import Json, Workload, until

pytestmark = pytest.mark.envtest

ZONE: Final = "topology.kubernetes.io/zone"
FALLBACK: Final = {"kubestow.io/topology-spread-fallback": f"{ZONE}=NodeProvisioningFailed"}
CONDITION: Final = "NodeProvisioningInProgress"
GATE: Final = {"PodTopologySpreadFallbackMode": True}
MANAGER: Final = "kubestow-node-provisioning-bridge"
COMPONENT: Final = "node-provisioning-bridge"
CA, KARPENTER = "cluster-autoscaler", "karpenter"

NO: Final = "pod didn't trigger scale-up: 1 in backoff after failed scale-up"
YES: Final = "pod triggered scale-up: [{group-z2 1->2 (max: 5)}]"
FAILED: Final = ("False", "ScaleUpBackoff")
TRIGGERED: Final = ("True", "TriggeredScaleUp")

_numbers: Final = itertools.count()


@pytest.fixture(scope="module")
def plane(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Run a control plane with the base applied, but not the component."""
    with ControlPlane(envtest_binaries, directory=tmp_path_factory.mktemp("bridge")) as running:
        running.kubectl("apply", "-k", str(MANIFESTS))
        yield running


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write an overlay of the base and the component, as documented."""
    folder = tmp_path_factory.mktemp("overlay").resolve()
    base = os.path.relpath(MANIFESTS, folder)
    (folder / "kustomization.yaml").write_text(
        f"resources: [{base}]\ncomponents: [{base}/components/{COMPONENT}]\n"
    )
    return folder


Start = Callable[..., ManagedProcess]


@pytest.fixture
def start(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Start]:
    """Starts the scheduler as its ServiceAccount, with settings of the bridge."""
    started: list[ManagedProcess] = []

    def start(profile: Json | None = None, **bridge: object) -> ManagedProcess:
        process = start_kubestow(
            plane,
            {
                "kubestow": {"nodeProvisioningBridge": bridge, "timeBasedHintPeriod": "200ms"},
                "profiles": [{"schedulerName": "kubestow", **(profile or {})}],
            },
            feature_gates=GATE,
            kubeconfig=plane.service_account_kubeconfig(NAMESPACE, ACCOUNT),
            name=f"{request.node.name}-{len(started)}",
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.stop()


class Story(Workload):
    """Zone z1 with room, zone z2 without; pods that must spread over both."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.node(f"{self.namespace}-z1", cpu="4", labels={ZONE: "z1", "story": self.namespace})
        self.node(f"{self.namespace}-z2", cpu="1m", labels={ZONE: "z2", "story": self.namespace})
        return self

    def spec(self) -> Json:
        main = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
        return {
            "schedulerName": "kubestow",
            "containers": [main],
            "nodeSelector": {"story": self.namespace},
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": ZONE,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "a"}},
                }
            ],
        }

    def replica(self, name: str) -> Json:
        metadata = {"name": name, "labels": {"app": "a"}, "annotations": FALLBACK}
        body = {"metadata": metadata, "spec": self.spec()}
        return self.control_plane.admin.request("POST", f"{self._base}/pods", body)

    def stuck(self, *names: str) -> list[Json]:
        """One replica in z1, and then pods that only z2 may take."""
        self.replica("first")
        self.until_bound("first")
        made = [self.replica(name) for name in names]
        for name in names:
            self.until_rejected(name)
        return made

    def provisioning(self, name: str) -> tuple[str, str]:
        """Return status and reason of the condition NodeProvisioningInProgress."""
        for each in self.pods()[name]["status"].get("conditions") or ():
            if each["type"] == CONDITION:
                return each["status"], each["reason"]
        return "", ""

    def until_provisioning(self, name: str, expected: tuple[str, str]) -> None:
        until(lambda: self.provisioning(name) == expected, f"{name}: {expected}")

    def event(
        self, about: Json, reason: str, message: str, source: str = CA, *, seconds: float = 0.0
    ) -> str:
        """Write an event as client-go's legacy recorder does; return its path."""
        meta = about["metadata"]
        namespace = meta.get("namespace") or "default"
        time = at(seconds)
        collection = f"/api/v1/namespaces/{namespace}/events"
        name = f"{meta['name']}.{next(_numbers)}"
        body = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "kind": about.get("kind") or "Pod",
                "namespace": meta.get("namespace", ""),
                "name": meta["name"],
                "uid": meta.get("uid", ""),
            },
            "reason": reason,
            "message": message,
            "source": {"component": source},
            "type": "Normal",
            "count": 1,
            "firstTimestamp": time,
            "lastTimestamp": time,
        }
        self.control_plane.admin.request("POST", collection, body)
        return f"{collection}/{name}"

    def write_condition(self, name: str, status: str, reason: str, manager: str) -> None:
        body = {"status": {"conditions": [{"type": CONDITION, "status": status, "reason": reason}]}}
        path = f"{self._base}/pods/{name}/status?fieldManager={manager}"
        code, response = self.control_plane.admin.exchange(
            "PATCH", path, body, "application/strategic-merge-patch+json"
        )
        assert code == 200, response


def at(seconds: float) -> str:
    time = datetime.now(UTC) + timedelta(seconds=seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def claim(name: str) -> Json:
    return {"kind": "NodeClaim", "metadata": {"name": name}}


def metric(plane: ControlPlane, process: ManagedProcess, name: str) -> float:
    _, text = get_endpoint(process.port, "/metrics", plane.admin_token)
    values = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name)]
    return sum(map(float, values))


DEGRADED: Final = "kubestow_node_provisioning_bridge_degraded"


def test_a59_without_permission_the_scheduler_is_ready_and_logs_what_is_missing(
    plane: ControlPlane, start: Start, overlay: Path
) -> None:
    """Must run first: the others need the component, which this test applies at its end."""
    process = start()
    with Story(plane, "a59") as work:
        (stuck,) = work.stuck("stuck")
        until(lambda: metric(plane, process, DEGRADED) == 1, "degraded")
        assert get_endpoint(process.port, "/readyz") == (200, "ok")
        _, verbose = get_endpoint(process.port, "/readyz?verbose", plane.admin_token)
        assert "[!]node-provisioning-bridge degraded" in verbose
        code, reason = get_endpoint(
            process.port, "/readyz/node-provisioning-bridge", plane.admin_token
        )
        assert code == 500
        assert "resources [events], verbs [get, list, watch]" in reason
        assert "manifests/components/node-provisioning-bridge" in process.log.read_text()
        work.event(stuck, "NotTriggerScaleUp", NO)
        plane.kubectl("apply", "-k", str(overlay))
        work.until_provisioning("stuck", FAILED)
        until(lambda: metric(plane, process, DEGRADED) == 0, "well again")


@pytest.fixture
def allowed(plane: ControlPlane, overlay: Path) -> ControlPlane:
    """Return the control plane with the component applied."""
    plane.kubectl("apply", "-k", str(overlay))
    return plane


def test_a50_a51_a57_events_of_cluster_autoscaler_about_a_pod(
    allowed: ControlPlane, start: Start
) -> None:
    start(suspectWindow="1h")
    with Story(allowed, "a50") as work:
        # A pod that fits no node group stays Pending, whatever the condition is.
        work.delete_node("a50-z1")
        pod, other = (work.replica(name) for name in ("pod", "other"))
        before = work.until_rejected("pod")
        work.event(pod, "NotTriggerScaleUp", NO, seconds=-20)
        until(lambda: work.provisioning("pod") == FAILED, "False")
        assert work.condition("pod") == before, "PodScheduled is as it was"
        fields = work.pods()["pod"]["metadata"]["managedFields"]
        assert MANAGER in {each["manager"] for each in fields}

        again = work.event(pod, "NotTriggerScaleUp", NO, seconds=-15)
        work.event(pod, "TriggeredScaleUp", YES, seconds=-5)
        work.until_provisioning("pod", TRIGGERED)
        work.event(pod, "NotTriggerScaleUp", NO, seconds=-10)
        work.event(other, "NotTriggerScaleUp", f"(combined from similar events): {NO}")
        work.until_provisioning("other", FAILED)
        assert work.provisioning("pod") == TRIGGERED, "an older event came later"
        allowed.admin.request("PATCH", again, {"count": 2, "lastTimestamp": at(1)})
        work.until_provisioning("pod", FAILED)


def test_a53_a_promise_that_is_not_kept(allowed: ControlPlane, start: Start) -> None:
    start(provisioningDeadline="3s")
    with Story(allowed, "a53") as work:
        work.delete_node("a53-z1")
        pod = work.replica("pod")
        work.until_rejected("pod")
        work.event(pod, "TriggeredScaleUp", YES)
        work.until_provisioning("pod", TRIGGERED)
        work.until_provisioning("pod", ("False", "ProvisioningTimedOut"))


def test_a54_a55_a60_karpenter_and_both_together(allowed: ControlPlane, start: Start) -> None:
    start(suspectWindow="1s")
    with Story(allowed, "a54") as work:
        work.delete_node("a54-z1")
        names = ("k8s", "ours", "karpenter", "claimed", "both")
        pods = {name: work.replica(name) for name in names}
        text = "Failed to schedule pod, incompatible requirements"
        work.event(pods["k8s"], "FailedScheduling", text, "default-scheduler")
        work.event(pods["ours"], "FailedScheduling", text, "kubestow")
        work.event(pods["karpenter"], "FailedScheduling", text, KARPENTER)
        work.until_provisioning("karpenter", ("False", "KarpenterFailedScheduling"))

        work.event(pods["claimed"], "Nominated", "Pod should schedule on: nodeclaim/x", KARPENTER)
        work.until_provisioning("claimed", ("True", "Nominated"))
        text = "NodeClaim x event: no capacity"
        work.event(claim("x"), "InsufficientCapacityError", text, KARPENTER)
        work.until_provisioning("claimed", ("False", "ProvisioningFailed"))

        work.event(pods["both"], "NotTriggerScaleUp", NO)
        work.until_provisioning("both", FAILED)
        work.event(pods["both"], "Nominated", "Pod should schedule on: nodeclaim/y", KARPENTER)
        work.until_provisioning("both", ("True", "Nominated"))
        assert work.provisioning("k8s") == work.provisioning("ours") == ("", "")


NODE_CLAIMS: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "nodeclaims.karpenter.sh"},
    "spec": {
        "group": "karpenter.sh",
        "scope": "Cluster",
        "names": {"plural": "nodeclaims", "singular": "nodeclaim", "kind": "NodeClaim"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}
CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"


def test_a_claim_without_an_event_keeps_the_promise(allowed: ControlPlane, start: Start) -> None:
    """One claim has no capacity; Karpenter abandons the one that takes over without an event.

    Its names are unique: events of other tests about the same names would count here.
    """
    admin = allowed.admin
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    admin.request("POST", definitions, NODE_CLAIMS)

    def make(name: str) -> bool:
        try:
            body = {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "metadata": {"name": name},
            }
            admin.ensure(CLAIMS, body)
        except ApiError:
            return False
        return True

    until(lambda: make("silent"), "the API server serves node claims")
    start(suspectWindow="15s")
    try:
        with Story(allowed, "claims") as work:
            work.delete_node("claims-z1")
            pod, other = (work.replica(name) for name in ("pod", "other"))
            text = "Pod should schedule on: nodeclaim/broken"
            work.event(pod, "Nominated", text, KARPENTER, seconds=-60)
            work.event(other, "TriggeredScaleUp", YES.replace("group-z2", "broken"), seconds=-60)
            work.until_provisioning("pod", ("True", "Nominated"))
            work.until_provisioning("other", TRIGGERED)
            text = "NodeClaim broken event: no capacity"
            work.event(claim("broken"), "InsufficientCapacityError", text, KARPENTER)
            # The same failure by another autoscaler, whose nodes have no claims.
            status = {"name": "cluster-autoscaler-status", "namespace": "kube-system"}
            text = "Failed adding 1 nodes to group broken due to OutOfStock"
            work.event({"kind": "ConfigMap", "metadata": status}, "ScaleUpFailed", text)
            work.until_provisioning("other", ("False", "ProvisioningFailed"))
            assert work.provisioning("pod") == ("True", "Nominated")
            admin.request("DELETE", f"{CLAIMS}/silent")
            work.until_provisioning("pod", ("False", "ProvisioningFailed"))
    finally:
        admin.request("DELETE", f"{definitions}/nodeclaims.karpenter.sh")


def test_a58_another_manager_of_the_condition_is_left_alone(
    allowed: ControlPlane, start: Start
) -> None:
    process = start()
    yielded = "kubestow_node_provisioning_bridge_conflicting_managers"
    with Story(allowed, "a58") as work:
        work.delete_node("a58-z1")
        pods = {name: work.replica(name) for name in ("a", "b", "c", "ours")}
        work.event(pods["ours"], "NotTriggerScaleUp", NO, seconds=-10)
        work.until_provisioning("ours", FAILED)
        for count, name in enumerate(("a", "b", "c"), start=1):
            # A reason of kubestow: only managedFields show that another manager wrote it.
            work.write_condition(name, "True", "TriggeredScaleUp", CA)
            work.event(pods[name], "NotTriggerScaleUp", NO)
            until(partial(lambda n: metric(allowed, process, yielded) == n, count), "yielded")
            assert work.provisioning(name) == TRIGGERED
        until(lambda: "something else writes" in process.log.read_text(), "it ends")


def test_a_successor_recognizes_the_conditions_of_its_predecessor(
    allowed: ControlPlane, start: Start
) -> None:
    first = start()
    with Story(allowed, "successor") as work:
        work.delete_node("successor-z1")
        pod = work.replica("pod")
        work.event(pod, "NotTriggerScaleUp", NO, seconds=-10)
        work.until_provisioning("pod", FAILED)
        first.stop()
        second = start()
        work.event(pod, "TriggeredScaleUp", YES)
        work.until_provisioning("pod", TRIGGERED)
        patches = "kubestow_node_provisioning_condition_patches_total"
        until(lambda: metric(allowed, second, patches) == 1, "one patch")


# ---------------------------------------------------------------------------- what follows from it


def test_a2_a3_a_pod_waits_strictly_and_is_placed_when_nodes_will_not_come(
    allowed: ControlPlane, start: Start
) -> None:
    start()
    with Story(allowed, "a2") as work:
        stuck, by_hand = work.stuck("stuck", "by-hand")
        assert work.condition("stuck")["reason"] == "Unschedulable", "autoscalers must see it"
        assert set(work.bound()) == {"first"}
        work.event(stuck, "NotTriggerScaleUp", NO)
        assert work.until_bound("stuck")["stuck"] == "a2-z1"
        assert by_hand["metadata"]["name"] not in work.bound()
        work.write_condition("by-hand", "False", "ByHand", "somebody")
        assert work.until_bound("by-hand")["by-hand"] == "a2-z1"


def test_a35_no_signal_until_the_timeout(allowed: ControlPlane, start: Start) -> None:
    args = {"nodeProvisioningTimeout": "2s"}
    start({"pluginConfig": [{"name": "PodTopologySpread", "args": args}]})
    with Story(allowed, "a35") as work:
        work.stuck("stuck")
        assert work.until_bound("stuck")["stuck"] == "a35-z1"
        assert work.provisioning("stuck") == ("", "")


@pytest.mark.envtest("kube-controller-manager")
def test_a43_the_annotation_of_a_template_reaches_its_pods_and_works(
    allowed: ControlPlane, start: Start
) -> None:
    controllers = ("deployment-controller", "replicaset-controller")
    manager = allowed.start_controller_manager(controllers=controllers)
    start()
    try:
        with Story(allowed, "a43") as work:
            metadata = {"labels": {"app": "a"}, "annotations": FALLBACK}
            body = {
                "metadata": {"name": "web"},
                "spec": {
                    "replicas": 2,
                    "selector": {"matchLabels": {"app": "a"}},
                    "template": {"metadata": metadata, "spec": work.spec()},
                },
            }
            deployments = "/apis/apps/v1/namespaces/a43/deployments"
            allowed.admin.request("POST", deployments, body)
            until(lambda: len(work.pods()) == 2 and len(work.bound()) == 1, "one is stuck")
            for each in work.pods().values():
                assert FALLBACK.items() <= each["metadata"]["annotations"].items()
            (stuck,) = set(work.pods()) - set(work.bound())
            work.until_rejected(stuck)
            work.event(work.pods()[stuck], "NotTriggerScaleUp", NO)
            assert work.until_bound()[stuck] == "a43-z1"
            allowed.admin.request("DELETE", f"{deployments}/web?propagationPolicy=Background")
    finally:
        manager.stop()
