"""The chart on a real API server: installed, upgraded, and a pod bound; removed without remains."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from testing.control_plane.control_plane import ApiServerOptions, Binaries, ControlPlane
from testing.control_plane.kubestow import start_kubestow
from tests.chart.conftest import CHART, NAMESPACE, Helm
from tests.envtest.workload import Workload

pytestmark = [pytest.mark.chart, pytest.mark.envtest]

EVERYTHING: Final = {
    "nodeProvisioningBridge": {"enabled": True},
    "deferredQuota": {"policies": {"enabled": True}, "mark": {"enabled": True}},
    "topologySpreadFallback": {"policies": {"enabled": True}, "immutable": {"enabled": True}},
    "networkPolicy": {"egress": {"enabled": True}},
}


@pytest.fixture(scope="module")
def server(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane of these tests alone."""
    directory = tmp_path_factory.mktemp("server")
    with ControlPlane(envtest_binaries, ApiServerOptions(), directory) as control_plane:
        yield control_plane


def test_every_object_is_admitted_and_applying_again_changes_nothing(
    helm: Helm, server: ControlPlane
) -> None:
    namespace = "admitted"
    server.kubectl("create", "namespace", namespace)
    rendered = helm.template(EVERYTHING, namespace=namespace)
    server.kubectl("apply", "--server-side", "-f", "-", stdin=rendered)
    first = generations(server, rendered)
    server.kubectl("apply", "--server-side", "-f", "-", stdin=rendered)
    assert generations(server, rendered) == first
    server.kubectl("delete", "-f", "-", stdin=rendered)


def generations(server: ControlPlane, rendered: str) -> list[str]:
    """Return the resourceVersion of every rendered object."""
    listing = json.loads(server.kubectl("get", "-f", "-", "-o", "json", stdin=rendered))
    return [each["metadata"]["resourceVersion"] for each in listing["items"]]


def install(helm: Helm, server: ControlPlane, *options: str) -> None:
    """Install or upgrade the release, as the README says."""
    done = helm.run(
        *("upgrade", "--install", "kubestow", str(CHART), "--namespace", NAMESPACE),
        *("--create-namespace", "--kubeconfig", str(server.kubeconfig), *options),
    )
    assert done.returncode == 0, done.stderr
    assert f"kubectl -n {NAMESPACE} rollout status deployment kubestow" in done.stdout


def stored(server: ControlPlane, kind: str, name: str) -> Any:
    """Return an object of the release."""
    return json.loads(server.kubectl("-n", NAMESPACE, "get", kind, name, "-o", "json"))


def test_an_installed_chart_schedules_is_upgraded_and_leaves_nothing(
    helm: Helm, server: ControlPlane
) -> None:
    install(helm, server)
    config = yaml.safe_load(stored(server, "configmap", "kubestow")["data"]["config.yaml"])
    account = server.service_account_kubeconfig(NAMESPACE, "kubestow")
    process = start_kubestow(server, config, kubeconfig=account, name="chart")
    try:
        with Workload(server, "chart-pods") as workload:
            workload.node("chart-node")
            workload.pod("chart-pod")
            workload.until_bound("chart-pod")
    finally:
        process.stop()
    install(helm, server, "--set", "replicas=3")
    assert stored(server, "deployment", "kubestow")["spec"]["replicas"] == 3
    done = helm.run(
        "uninstall", "kubestow", "-n", NAMESPACE, "--kubeconfig", str(server.kubeconfig)
    )
    assert done.returncode == 0, done.stderr
    kinds = "clusterroles,clusterrolebindings,deployments,configmaps,networkpolicies"
    left = server.kubectl("get", kinds, "-A", "-l", "app.kubernetes.io/name=kubestow", "-o", "name")
    assert left == ""
    assert stored(server, "namespace", NAMESPACE)["metadata"]["name"] == NAMESPACE
