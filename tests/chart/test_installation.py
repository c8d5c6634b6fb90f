"""The chart on a real API server: installed, upgraded, and a pod bound; removed without remains."""

from __future__ import annotations

import http
import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from devtools.control_plane.admin import ApiError
from devtools.control_plane.control_plane import ApiServerOptions, Binaries, ControlPlane
from devtools.control_plane.ports import free_port
from tests.chart.build import BUILD_DIRECTORY
from tests.chart.conftest import CHART, NAMESPACE, Helm
from tests.envtest.quickstart import ROOT, bind_hello, documented, execute, replica
from tests.envtest.workload import until

pytestmark = [pytest.mark.chart, pytest.mark.envtest]

EVERYTHING: Final = {
    "nodeProvisioningBridge": {"enabled": True},
    "deferredQuota": {"policies": {"enabled": True}, "mark": {"enabled": True}},
    "topologySpreadFallback": {"policies": {"enabled": True}, "immutable": {"enabled": True}},
    "networkPolicy": {"egress": {"enabled": True}},
    "monitoring": {
        part: {"enabled": True} for part in ("serviceMonitor", "prometheusRule", "dashboard")
    },
}
OPERATOR_KINDS: Final = {"servicemonitors": "ServiceMonitor", "prometheusrules": "PrometheusRule"}


@pytest.fixture(scope="module")
def server(
    envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane of these tests alone."""
    directory = tmp_path_factory.mktemp("server")
    with ControlPlane(envtest_binaries, ApiServerOptions(), directory) as control_plane:
        yield control_plane


def definition(plural: str, kind: str) -> dict[str, Any]:
    """Return a CRD of the Prometheus operator that admits every spec."""
    group = "monitoring.coreos.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [version],
        },
    }


def test_monitoring_without_the_operator_installs_nothing(helm: Helm, server: ControlPlane) -> None:
    options = (
        "--namespace",
        "without",
        "--create-namespace",
        "--kubeconfig",
        str(server.kubeconfig),
    )
    done = helm.run(
        *("install", "without", str(CHART), *options, "--set", "name=without"),
        values={"monitoring": EVERYTHING["monitoring"]},
    )
    assert done.returncode != 0
    for kind in OPERATOR_KINDS.values():
        assert f'no matches for kind "{kind}" in version "monitoring.coreos.com/v1"' in done.stderr
    assert "ensure CRDs are installed first" in done.stderr
    listed = server.kubectl("-n", "without", "get", "deployments,configmaps,services", "-o", "name")
    assert "without" not in listed


def test_every_object_is_admitted_and_applying_again_changes_nothing(
    helm: Helm, server: ControlPlane
) -> None:
    namespace = "admitted"
    server.kubectl("create", "namespace", namespace)
    for plural, kind in OPERATOR_KINDS.items():
        server.kubectl("apply", "-f", "-", stdin=json.dumps(definition(plural, kind)))
        server.kubectl("wait", "--for=condition=Established", f"crd/{plural}.monitoring.coreos.com")
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


def test_three_commands_bind_a_pod_and_nothing_is_left_after_uninstalling(
    helm: Helm, server: ControlPlane, tmp_path: Path
) -> None:
    commands = documented(ROOT / "README.md", first="helm install ")
    assert commands == documented(CHART / "README.md", first="helm install ")
    bind_hello(server, tmp_path, commands, BUILD_DIRECTORY)
    install(helm, server, "--reset-then-reuse-values", "--set", "replicas=3")
    assert stored(server, "deployment", "kubestow")["spec"]["replicas"] == 3
    helm_test_passes(helm, server, tmp_path / "tested")
    connection = ("-n", NAMESPACE, "--kubeconfig", str(server.kubeconfig))
    done = helm.run("uninstall", "kubestow", *connection)
    assert done.returncode == 0, done.stderr
    kinds = "clusterroles,clusterrolebindings,deployments,configmaps,networkpolicies,pods"
    left = server.kubectl("get", kinds, "-A", "-l", "app.kubernetes.io/name=kubestow", "-o", "name")
    assert left == ""
    assert stored(server, "namespace", NAMESPACE)["metadata"]["name"] == NAMESPACE


def test_a_second_release_for_the_same_pods_is_warned_of(helm: Helm, server: ControlPlane) -> None:
    install(helm, server)
    connection = ("--namespace", "second", "--kubeconfig", str(server.kubeconfig))
    command = ("upgrade", "--install", "second", str(CHART), *connection, "--create-namespace")
    done = helm.run(*command, "--set", "name=second")
    warning = f"WARNING: another kubestow is installed in the namespace {NAMESPACE}."
    assert warning in done.stdout, done.stderr
    assert "kubectl run hello" in done.stdout
    done = helm.run(*command, "--set", "name=second,config.profiles[0].schedulerName=second")
    assert done.returncode == 0, done.stderr
    assert "WARNING: another kubestow" not in done.stdout
    assert helm.run("uninstall", "second", *connection).returncode == 0
    connection = ("-n", NAMESPACE, "--kubeconfig", str(server.kubeconfig))
    assert helm.run("uninstall", "kubestow", *connection).returncode == 0


def test_the_page_about_installing_upgrades_rolls_back_and_uninstalls(
    helm: Helm, server: ControlPlane
) -> None:
    del helm  # It says that Helm is there; the commands are those of the page.
    page = ROOT / "docs" / "install.md"
    lines = documented(page, first="helm install kubestow charts/kubestow \\\n")
    upgrade, _ = documented(page, first="helm -n kubestow-system upgrade ", count=2)
    (rollback,) = documented(page, first="helm -n kubestow-system rollback ", count=1)
    uninstall, delete = documented(page, first="helm -n kubestow-system uninstall ", count=2)
    notes = execute(server, " ".join(each.strip(" \\") for each in lines), BUILD_DIRECTORY)
    assert "The nodes pull the image registry.example/kubestow:" in notes
    pod = stored(server, "deployment", "kubestow")["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"].startswith("registry.example/kubestow:")
    execute(server, upgrade, BUILD_DIRECTORY)
    execute(server, rollback, BUILD_DIRECTORY)
    execute(server, uninstall, BUILD_DIRECTORY)
    execute(server, f"{delete} --wait=false", BUILD_DIRECTORY)
    left = server.kubectl("get", "deployments,clusterroles", "-A", "-o", "name")
    assert "kubestow" not in left


def helm_test_passes(helm: Helm, server: ControlPlane, directory: Path) -> None:
    """Run `helm test`; once its pod is placed, report its end as a kubelet would."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/kubestow-test"

    def placed() -> bool:
        try:
            pod: Any = server.admin.request("GET", path)
        except ApiError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise
            return False
        return "nodeName" in pod["spec"]

    def kubelet() -> None:
        until(placed, "the pod of helm test is placed")
        ended = {"op": "add", "path": "/status/phase", "value": "Succeeded"}
        command = ("-n", NAMESPACE, "patch", "pod", "kubestow-test", "--subresource=status")
        server.kubectl(*command, "--type=json", "-p", json.dumps([ended]))

    directory.mkdir()
    thread = threading.Thread(target=kubelet)
    with replica(server, directory):
        thread.start()
        connection = ("-n", NAMESPACE, "--kubeconfig", str(server.kubeconfig))
        done = helm.run("test", "kubestow", *connection)
        thread.join()
    assert done.returncode == 0, done.stderr
    assert "Phase:          Succeeded" in done.stdout


def test_a_shadow_of_the_chart_follows_with_its_own_rights(
    helm: Helm, server: ControlPlane, tmp_path: Path
) -> None:
    """The container's command as a process of its own, with the token of its ServiceAccount."""
    namespace = "shadow"
    done = helm.run(
        *("install", "shadow", str(CHART), "--namespace", namespace, "--create-namespace"),
        *("--kubeconfig", str(server.kubeconfig), "--set", "name=kubestow-shadow"),
        *("--set", "mode=shadow", "--set", "criticalPodsQuota.enabled=false"),
    )
    assert done.returncode == 0, done.stderr
    assert "It reads, and binds nothing." in done.stdout
    assert "is in no registry. It must be on every node under this name" in done.stdout
    read = ("-n", namespace, "get", "-o", "json")
    deployment = json.loads(server.kubectl(*read, "deployment", "kubestow-shadow"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    config = json.loads(server.kubectl(*read, "configmap", "kubestow-shadow"))
    (tmp_path / "config.yaml").write_text(config["data"]["config.yaml"])
    port = free_port()
    replaced = {
        "--config=/etc/kubestow/config.yaml": f"--config={tmp_path / 'config.yaml'}",
        "--listen=:10259": f"--listen=127.0.0.1:{port}",
    }
    arguments = [replaced.get(each, each) for each in container["args"]]
    account = server.service_account_kubeconfig(namespace, "kubestow-shadow")
    command = [sys.executable, "-m", "scheduler", *container["command"][1:], *arguments]
    command.append(f"--kubeconfig={account}")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            until(lambda: answer(port, "/readyz") == "ok", "the shadow is ready")
            assert "kubestow_shadow_pods" in answer(port, "/metrics")
            assert json.loads(answer(port, "/debug/shadow"))["names"] == ["default-scheduler"]
            place_a_pod(server, port)
        finally:
            process.terminate()
        printed, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    assert json.loads(printed)["judged"] == 1
    helm.run("uninstall", "shadow", "-n", namespace, "--kubeconfig", str(server.kubeconfig))


def place_a_pod(server: ControlPlane, port: int) -> None:
    """Bind a pod as the scheduler in force does, once a shadow has seen it waiting."""
    path, name = "/api/v1/namespaces/default/pods", "compared"
    server.admin.request("POST", "/api/v1/nodes", {"metadata": {"name": name}})
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10.1"}
    spec = {"containers": [container], "schedulerName": "default-scheduler"}
    server.admin.request("POST", path, {"metadata": {"name": name}, "spec": spec})

    def shown() -> Any:
        return json.loads(answer(port, "/debug/shadow"))

    until(lambda: shown()["pods"] == 1, "the shadow has seen the pod")
    target = {"apiVersion": "v1", "kind": "Node", "name": name}
    server.admin.request(
        "POST", f"{path}/{name}/binding", {"metadata": {"name": name}, "target": target}
    )
    until(lambda: shown()["judged"] == 1, "the shadow has compared the pod")
    for each in (f"{path}/{name}?gracePeriodSeconds=0", f"/api/v1/nodes/{name}"):
        server.admin.request("DELETE", each)


def answer(port: int, path: str) -> str:
    """Return the body of a path; empty while nothing listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    except OSError:
        return ""
    finally:
        connection.close()
