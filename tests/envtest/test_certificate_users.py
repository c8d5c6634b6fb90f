"""Questions of people whose kubeconfig has nothing but a client certificate, as kubeadm writes it.

The API server publishes the authority in the ConfigMap extension-apiserver-authentication; nobody
tells the scheduler. It runs with the roles of the manifests.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import yaml

from devtools.control_plane.api_server import ApiServerOptions
from devtools.control_plane.binaries import Binaries
from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.fake_kubelet import FakeKubelet
from devtools.control_plane.kubestow import start_kubestow
from devtools.control_plane.ports import LOOPBACK
from scheduler.client.leader_record import LeaderRecord, leader_of
from scheduler.service.options import ServingOptions
from scheduler.service.serving.certificates import ServingTls
from tests.envtest.workload import until
from tests.integration.serving.client_certificates import CLIENT, issue
from tests.unit.repository.tree import ROOT

pytestmark = pytest.mark.envtest

NAMESPACE: Final = "kubestow-system"
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/kubestow"
ELECTION: Final = {
    "leaderElect": True,
    "resourceName": "kubestow",
    "resourceNamespace": NAMESPACE,
}
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
NODE, POD = "node-of-the-scheduler", "kubestow-0"


@dataclass
class Site:
    """A cluster that knows users by certificates, and one scheduler."""

    control_plane: ControlPlane
    kubelet: FakeKubelet
    folder: Path
    scheduler: ManagedProcess

    def record(self) -> LeaderRecord | None:
        """Return what the leader published."""
        return leader_of(self.control_plane.admin.request("GET", LEASE))

    def kubeconfig(self, user: str) -> Path:
        """Issue a certificate to a user and write a kubeconfig with nothing else."""
        certificate = issue(self.folder, user, "authority", ("people",), usages=(CLIENT,))
        pair = {
            "client-certificate-data": certificate.read_bytes(),
            "client-key-data": certificate.with_suffix(".key").read_bytes(),
        }
        document = json.loads(self.control_plane.kubeconfig.read_text())
        document["users"][0]["user"] = {
            key: base64.b64encode(content).decode() for key, content in pair.items()
        }
        path = self.folder / f"{user}.kubeconfig"
        path.write_text(json.dumps(document))
        return path

    def queue(self, user: str) -> subprocess.CompletedProcess[str]:
        """Ask for the queue, with a kubeconfig and nothing else."""
        kubeconfig = self.folder / f"{user}.kubeconfig"
        line = ["queue", "-o", "json", f"--kubeconfig={kubeconfig}"]
        return subprocess.run(
            [sys.executable, "-m", "scheduler", *line],
            capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip


def _apply(control_plane: ControlPlane) -> None:
    """Apply the roles and bindings of the manifests."""
    admin = control_plane.admin
    admin.ensure("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for name in ("rbac.yaml", "explainer.yaml"):
        for each in yaml.safe_load_all((ROOT / "manifests" / name).read_text()):
            namespace = each["metadata"].get("namespace")
            where = f"namespaces/{namespace}/" if namespace else ""
            group = "/api/v1" if each["kind"] == "ServiceAccount" else RBAC
            admin.ensure(f"{group}/{where}{each['kind'].lower()}s", each)


def _bind(control_plane: ControlPlane, kind: str, user: str) -> None:
    """Bind a role of people who ask."""
    where = "rolebindings" if kind == "Role" else "clusterrolebindings"
    body = {
        "metadata": {"name": f"explainer-{user}"},
        "roleRef": {"apiGroup": RBAC.split("/")[2], "kind": kind, "name": "kubestow-explainer"},
        "subjects": [{"apiGroup": RBAC.split("/")[2], "kind": "User", "name": user}],
    }
    namespace = f"namespaces/{NAMESPACE}/" if kind == "Role" else ""
    control_plane.admin.ensure(f"{RBAC}/{namespace}{where}", body)


@pytest.fixture(scope="module")
def site(envtest_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("certificates")
    authority = issue(folder, "authority")
    options = ApiServerOptions(extra_arguments=(f"--client-ca-file={authority}",))
    with (
        ControlPlane(envtest_binaries, options, folder / "plane") as control_plane,
        FakeKubelet() as kubelet,
    ):
        _apply(control_plane)
        control_plane.admin.ensure("/api/v1/nodes", kubelet.node(NODE))
        spec = {"containers": [{"name": "main", "image": "image"}], "nodeName": NODE}
        pod = {"metadata": {"name": POD}, "spec": spec}
        control_plane.admin.ensure(f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
        scheduler = start_kubestow(
            control_plane,
            {"leaderElection": ELECTION},
            kubeconfig=control_plane.service_account_kubeconfig(NAMESPACE, "kubestow"),
            environment={"POD_NAME": POD, "POD_NAMESPACE": NAMESPACE},
        )
        found = Site(control_plane, kubelet, folder, scheduler)
        until(lambda: (found.record() or LeaderRecord("")).reachable, "a leader with its address")
        yield found
        scheduler.stop()


def test_a_certificate_is_all_that_a_question_needs(site: Site) -> None:
    site.kubeconfig("jane")
    for kind in ("Role", "ClusterRole"):
        _bind(site.control_plane, kind, "jane")
    found = until(lambda: _answered(site.queue("jane")), "an answer to a known user")
    assert json.loads(found.stdout)["leading"] is True
    assert set(site.kubelet.asked) == {f"{NAMESPACE}/{POD}"}


def test_a_user_without_permission_is_refused_by_name(site: Site) -> None:
    site.kubeconfig("joe")
    _bind(site.control_plane, "Role", "joe")
    refused = until(lambda: _unless(site.queue("joe"), '"leases"'), "the way there")
    assert (refused.returncode, refused.stdout) == (6, "")
    assert 'User "joe" cannot get path "/debug/queue"' in refused.stderr


@contextmanager
def impostor(folder: Path) -> Iterator[tuple[int, list[object]]]:
    """Serve TLS that asks for client certificates, and keep those and what is sent."""
    tls, seen = ServingTls(ServingOptions()), list[object]()
    tls.trust_clients((folder / "authority.crt").read_text())
    listener = socket.create_server((LOOPBACK, 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    with tls.context.wrap_socket(connection, server_side=True) as stream:
                        seen.append((stream.getpeercert(), stream.recv(4096)))
                except (ssl.SSLError, OSError):
                    seen.append((None, b""))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1], seen
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_an_impostor_sees_neither_certificate_nor_question(site: Site) -> None:
    record = site.record()
    assert record is not None
    site.kubeconfig("jill")
    for kind in ("Role", "ClusterRole"):
        _bind(site.control_plane, kind, "jill")
    until(lambda: _answered(site.queue("jill")), "an answer of the right one")
    with impostor(site.folder) as (port, seen), site.kubelet.redirect(record.port, port):
        refused = site.queue("jill")
    assert (refused.returncode, refused.stdout) == (5, "")
    assert "is not the one that it published on its Lease" in refused.stderr
    assert seen
    assert set(map(repr, seen)) <= {"({}, b'')", "(None, b'')"}


def _answered(
    ended: subprocess.CompletedProcess[str],
) -> subprocess.CompletedProcess[str] | None:
    return None if ended.returncode else ended


def _unless(
    ended: subprocess.CompletedProcess[str], text: str
) -> subprocess.CompletedProcess[str] | None:
    return None if text in ended.stderr.partition("\n")[0] else ended
