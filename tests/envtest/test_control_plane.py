"""The real control plane starts, keeps its data over restarts, and runs upstream's scheduler.

Out of scope: anything about kubestow. These tests check the foundation of the other
envtest tests.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from devtools.control_plane.control_plane import (
    ApiServerOptions,
    ControlPlane,
    KubectlError,
    ProcessError,
)
from tests.envtest.fixtures import ControlPlaneFactory

pytestmark = pytest.mark.envtest

READY_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-a"},
    "status": {
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def pod(name: str, scheduler: str = "default-scheduler") -> dict[str, object]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "schedulerName": scheduler},
    }


def create(control_plane: ControlPlane, manifest: Mapping[str, object]) -> None:
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(manifest))


def test_the_server_and_kubectl_report_a_1_36_release(control_plane: ControlPlane) -> None:
    versions = json.loads(control_plane.kubectl("version", "--output=json"))
    assert versions["serverVersion"]["gitVersion"].startswith("v1.37.")
    assert versions["clientVersion"]["gitVersion"] == versions["serverVersion"]["gitVersion"]


def test_kubectl_creates_a_pod_that_stays_pending(control_plane: ControlPlane) -> None:
    create(control_plane, pod("lonely", scheduler="nobody"))
    assert (
        control_plane.kubectl("get", "pod", "lonely", "--output=jsonpath={.status.phase}")
        == "Pending"
    )


def test_a_new_node_gets_no_taint(fresh_control_plane: ControlPlane) -> None:
    create(fresh_control_plane, READY_NODE)
    assert (
        fresh_control_plane.kubectl("get", "node", "node-a", "--output=jsonpath={.spec.taints}")
        == ""
    )


def test_a_service_account_may_do_only_what_a_role_allows(control_plane: ControlPlane) -> None:
    kubeconfig = control_plane.service_account_kubeconfig("default", "reader")
    with pytest.raises(KubectlError, match=r"system:serviceaccount:default:reader.*cannot list"):
        control_plane.kubectl("get", "nodes", kubeconfig=kubeconfig)
    control_plane.kubectl("create", "clusterrole", "node-reader", "--verb=list", "--resource=nodes")
    binding = ("node-reader", "--clusterrole=node-reader", "--serviceaccount=default:reader")
    control_plane.kubectl("create", "clusterrolebinding", *binding)
    control_plane.kubectl("get", "nodes", kubeconfig=kubeconfig)


@pytest.mark.parametrize("orderly", [True, False], ids=["stopped", "killed"])
def test_a_restart_keeps_data_and_address(fresh_control_plane: ControlPlane, orderly: bool) -> None:
    control_plane = fresh_control_plane
    create(control_plane, pod("kept"))
    before = control_plane.api_server
    if orderly:
        control_plane.stop_apiserver()
    else:
        control_plane.kill_apiserver()
    assert not before.running
    with pytest.raises(KubectlError, match="refused"):
        control_plane.kubectl("get", "pods")
    after = control_plane.start_apiserver()
    assert (after.port, after.pid != before.pid) == (before.port, True)
    assert control_plane.kubectl("get", "pods", "--output=name") == "pod/kept\n"


def test_the_administrators_connection_serves_until_the_server_ends(
    fresh_control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    connect = http.client.HTTPSConnection.connect

    def counted(connection: http.client.HTTPSConnection) -> None:
        opened.append(connection)
        connect(connection)

    monkeypatch.setattr(http.client.HTTPSConnection, "connect", counted)
    admin = fresh_control_plane.admin
    admin.close()
    for _ in range(3):
        admin.request("GET", "/api/v1/nodes")
    assert len(opened) == 1
    fresh_control_plane.kill_apiserver()
    with pytest.raises(ConnectionRefusedError):
        admin.request("GET", "/api/v1/nodes")
    fresh_control_plane.start_apiserver()
    admin.request("GET", "/api/v1/nodes")


@pytest.mark.envtest("kube-scheduler")
def test_kube_scheduler_binds_a_pod(fresh_control_plane: ControlPlane) -> None:
    control_plane = fresh_control_plane
    scheduler = control_plane.start_scheduler({"profiles": [{"schedulerName": "upstream"}]})
    create(control_plane, READY_NODE)
    create(control_plane, pod("placed", scheduler="upstream"))
    control_plane.kubectl("wait", "pod/placed", "--for=condition=PodScheduled", "--timeout=300s")
    assert (
        control_plane.kubectl("get", "pod", "placed", "--output=jsonpath={.spec.nodeName}")
        == "node-a"
    )
    assert scheduler.running


@pytest.mark.envtest("kube-controller-manager")
def test_kube_controller_manager_makes_the_pods_of_a_job(fresh_control_plane: ControlPlane) -> None:
    control_plane = fresh_control_plane
    control_plane.start_controller_manager(controllers=["job-controller"])
    control_plane.kubectl("create", "job", "work", "--image=none")
    control_plane.kubectl("wait", "job/work", "--for=jsonpath={.status.active}=1", "--timeout=300s")


def test_a_server_that_does_not_start_reports_why_and_leaves_nothing_running(
    tmp_path: Path,
) -> None:
    options = ApiServerOptions(extra_arguments=("--no-such-flag",))
    control_plane = ControlPlane(options=options, directory=tmp_path / "broken")
    with pytest.raises(
        ProcessError,
        match=r"kube-apiserver ended with status 1 before it was ready[\s\S]*no-such-flag",
    ):
        control_plane.start()
    assert not control_plane.etcd.running


def test_options_reach_the_server(make_control_plane: ControlPlaneFactory) -> None:
    group = "admissionregistration.k8s.io/v1alpha1"
    control_plane = make_control_plane(
        ApiServerOptions(runtime_config={group: True}, throttled=True)
    )
    assert group in control_plane.kubectl("api-versions").splitlines()
