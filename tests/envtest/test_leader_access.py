"""One command from a laptop: the Lease, a tunnel through the real API server, a pinned certificate.

Two replicas run as processes; a fake kubelet forwards ports to them, as a node would.
"""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.fake_kubelet import FakeKubelet
from devtools.control_plane.kubestow import start_kubestow
from devtools.control_plane.ports import LOOPBACK
from scheduler.client.leader_record import leader_of
from scheduler.service.options import ServingOptions
from scheduler.service.serving.certificates import ServingTls
from tests.envtest.page_process import page
from tests.envtest.workload import until
from tests.unit.repository.tree import ROOT

pytestmark = pytest.mark.envtest

NAMESPACE: Final = "kubestow-system"
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/reached"
ELECTION: Final = {
    "leaderElect": True,
    "resourceName": "reached",
    "resourceNamespace": NAMESPACE,
}
NODE, OTHER = "reached-node-1", "other-namespace"
REPLICAS: Final = ("reached-a", "reached-b")


@dataclass
class Site:
    """Two replicas behind a fake kubelet."""

    control_plane: ControlPlane
    kubelet: FakeKubelet
    replicas: dict[str, ManagedProcess] = field(default_factory=dict)

    def leader(self) -> str:
        """Return the pod of the leader; empty when there is none."""
        record = leader_of(self.control_plane.admin.request("GET", LEASE))
        return "" if record is None else record.pod.rpartition("/")[2]

    def start(self, pod: str) -> None:
        """Start a replica that stands for a pod."""
        self.replicas[pod] = start_kubestow(
            self.control_plane,
            {"leaderElection": ELECTION},
            name=pod,
            environment={"POD_NAME": pod, "POD_NAMESPACE": NAMESPACE},
        )

    def ask(
        self, *arguments: str, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as a user would, with nothing but a kubeconfig."""
        return subprocess.run(
            [
                sys.executable, "-m", "scheduler", *arguments, f"--lease={NAMESPACE}/reached",
                f"--kubeconfig={kubeconfig or self.control_plane.kubeconfig}",
            ],
            capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip


@pytest.fixture(scope="module")
def site(control_plane: ControlPlane) -> Iterator[Site]:
    admin = control_plane.admin
    for namespace in (NAMESPACE, OTHER):
        admin.ensure("/api/v1/namespaces", {"metadata": {"name": namespace}})
    with FakeKubelet() as kubelet:
        admin.ensure("/api/v1/nodes", kubelet.node(NODE))
        found = Site(control_plane, kubelet)
        for pod in REPLICAS:
            admin.ensure(f"/api/v1/namespaces/{NAMESPACE}/pods", _pod(pod, NODE))
            found.start(pod)
        until(lambda: bool(found.leader()), "a leader that publishes its address")
        yield found
        for process in found.replicas.values():
            process.stop()
        admin.request("DELETE", f"/api/v1/nodes/{NODE}")


def _pod(name: str, node: str = "") -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "image"}], "schedulerName": "kubestow"}
    return {"metadata": {"name": name}, "spec": {**spec, **({"nodeName": node} if node else {})}}


def test_a_kubeconfig_is_all_that_a_question_needs(site: Site) -> None:
    found = site.ask("queue", "-o", "json")
    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout)["leading"] is True
    assert site.kubelet.asked[-1] == f"{NAMESPACE}/{site.leader()}"


def test_so_does_the_page(site: Site) -> None:
    with page(site.control_plane.kubeconfig, f"--lease={NAMESPACE}/reached") as ask:
        assert ask("source")["title"] == f"the leader of {NAMESPACE}/reached"
        assert ask("queue")["leading"] is True


def test_a_question_about_what_would_be_is_answered_and_changes_nothing(site: Site) -> None:
    admin, path = site.control_plane.admin, f"/api/v1/namespaces/{NAMESPACE}/pods"
    large = _pod("large")
    large["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "999"}}
    admin.ensure(path, large)
    pod = f"{NAMESPACE}/large"
    until(lambda: site.ask("whatif", pod).returncode == 3, "a pod that is known, and does not fit")
    found = site.ask("whatif", pod, "--add-node", "name=huge,cpu=2000,memory=1Gi")
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.startswith(f"{pod} would go to huge, the only one of ")
    assert "nothing is reserved" in found.stdout
    stored: dict[str, Any] = admin.request("GET", f"{path}/large")
    assert stored["spec"].get("nodeName") is None
    admin.request("DELETE", f"{path}/large?gracePeriodSeconds=0")


def _deployment(name: str, scheduler: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": _pod(name)["spec"]}
    template["spec"]["schedulerName"] = scheduler
    selector = {"matchLabels": labels}
    return {"metadata": {"name": name}, "spec": {"selector": selector, "template": template}}


def test_an_owner_whose_pods_the_scheduler_does_not_place_is_looked_up(site: Site) -> None:
    admin, where = site.control_plane.admin, f"--namespace={OTHER}"
    path = f"/apis/apps/v1/namespaces/{OTHER}/deployments"
    admin.ensure(path, _deployment("misspelt", "kubestw"))
    absent = site.ask("explain", "deployment/misspel", where)
    assert absent.returncode == 4
    assert f"there is no Deployment misspel in namespace {OTHER}; did you mean misspelt?" in (
        absent.stderr
    )
    # No controller runs that would make pods.
    found = site.ask("explain", "deployment/misspelt", where)
    assert found.returncode == 0
    asks = 'Its pods ask for scheduler "kubestw" (spec.template.spec.schedulerName)'
    assert f"{asks}; did you mean kubestow?" in found.stdout
    reference = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "misspelt-abc", "uid": "1",
        "controller": True,
    }  # fmt: skip
    for number in range(4):
        pod = _pod(f"misspelt-{number}", NODE if number == 3 else "")
        pod["spec"]["schedulerName"] = "default-scheduler" if number == 3 else "kubestw"
        labels = {"pod-template-hash": "abc"}
        pod["metadata"] |= {"ownerReferences": [reference], "labels": labels}
        admin.ensure(f"/api/v1/namespaces/{OTHER}/pods", pod)
    printed = (
        f"{OTHER}/Deployment/misspelt: 4 pods, 1 has a node, 0 wait, 3 ask for another scheduler\n"
        '3 pods ask for scheduler "kubestw": did you mean kubestow? '
        "Change spec.template.spec.schedulerName.\n"
        '1 pod was placed by scheduler "default-scheduler", not by this one.\n'
    )
    until(
        lambda: site.ask("explain", "deployment/misspelt", where).stdout == printed,
        "all pods are known",
    )
    admin.request("DELETE", f"/api/v1/namespaces/{OTHER}/pods?gracePeriodSeconds=0")
    admin.request("DELETE", f"{path}/misspelt")


def test_what_a_pod_lacks_is_named_with_what_to_do(site: Site) -> None:
    path = f"/api/v1/namespaces/{OTHER}/pods"
    admin = site.control_plane.admin
    mount = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    fields: dict[str, dict[str, Any]] = {
        "volume": {"volumes": [mount]},
        "device": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}]},
        "template": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]},
        "foreign": {"schedulerName": "another", "nodeSelector": {"disk": "ssd"}},
    }
    for name, spec in fields.items():
        made = _pod(name)
        made["spec"] |= spec
        admin.ensure(path, made)
    told = {
        "volume": f'the PersistentVolumeClaim "data" does not exist in namespace {OTHER}. Create',
        "device": "1. create resource claim one (its devices were not tried), or correct the name",
        "template": "the ResourceClaimTemplate that the pod names (one-gpu). Check",
        "foreign": 'What if "kubestow" were to place it? None of ',
    }

    def shows(name: str) -> bool:
        return told[name] in site.ask("explain", f"{OTHER}/{name}").stdout

    for name in told:
        until(partial(shows, name), f"the explanation of {name}")
    admin.request("DELETE", f"{path}?gracePeriodSeconds=0")


@contextmanager
def eavesdropper() -> Iterator[tuple[int, list[bytes]]]:
    """Serve TLS with a certificate of its own, and keep what is sent."""
    context, heard = ServingTls(ServingOptions()).context, list[bytes]()
    listener = socket.create_server((LOOPBACK, 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    with context.wrap_socket(connection, server_side=True) as tls:
                        heard.append(tls.recv(4096))
                except (ssl.SSLError, OSError):
                    heard.append(b"")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1], heard
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_a_man_in_the_middle_is_refused_before_anything_is_sent(site: Site) -> None:
    port = site.replicas[site.leader()].port
    with eavesdropper() as (elsewhere, heard), site.kubelet.redirect(port, elsewhere):
        refused = site.ask("queue")
    assert (refused.returncode, refused.stdout) == (5, "")
    assert "is not the one that it published on its Lease" in refused.stderr
    assert heard
    assert b"".join(heard) == b""
    assert site.ask("queue").returncode == 0


def test_a_container_that_does_not_listen_is_reported(site: Site) -> None:
    with socket.socket() as closed:
        closed.bind((LOOPBACK, 0))
        port = site.replicas[site.leader()].port
        with site.kubelet.redirect(port, closed.getsockname()[1]):
            failed = site.ask("queue")
    assert (failed.returncode, failed.stdout) == (5, "")
    assert "Connect call failed" in failed.stderr or "error forwarding port" in failed.stderr


def test_when_the_leader_ends_the_next_one_is_asked(site: Site) -> None:
    former = site.leader()
    site.replicas[former].stop()
    until(lambda: site.leader() not in ("", former), "another leader")
    found = site.ask("queue", "-o", "json")
    assert (found.returncode, found.stderr) == (0, "")
    assert site.kubelet.asked[-1] == f"{NAMESPACE}/{site.leader()}"
    site.start(former)


RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
USER: Final = "asking"
MANIFEST: Final = ROOT / "manifests" / "explainer.yaml"


def test_each_missing_permission_is_named_until_all_are_there(site: Site) -> None:
    """With the roles of the manifests; to get pods of a namespace gives answers about it."""
    admin = site.control_plane.admin
    kubeconfig = site.control_plane.service_account_kubeconfig("default", USER)
    subject = {"kind": "ServiceAccount", "name": USER, "namespace": "default"}
    way, pages = yaml.safe_load_all(MANIFEST.read_text())
    way["rules"][0]["resourceNames"] = ["reached"]
    admin.ensure(f"{RBAC}/clusterroles", pages)

    def bind(namespace: str, kind: str, name: str) -> None:
        body = {
            "metadata": {"name": USER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [subject],
        }
        where = f"namespaces/{namespace}/rolebindings" if namespace else "clusterrolebindings"
        admin.ensure(f"{RBAC}/{where}", body)

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        return site.ask(*arguments, "-o", "json", kubeconfig=kubeconfig)

    admin.ensure(f"/api/v1/namespaces/{OTHER}/pods", _pod("asked"))
    without = ask("queue")
    assert (without.returncode, 'cannot get resource "leases"' in without.stderr) == (6, True)
    assert "create rolebinding" in without.stderr
    roles = f"{RBAC}/namespaces/{NAMESPACE}/roles"
    lease, tunnel = way["rules"]
    admin.ensure(roles, {**way, "rules": [lease]})
    bind(NAMESPACE, "Role", way["metadata"]["name"])
    untunnelled = until(lambda: _unless(ask("queue"), '"leases"'), "the Lease readable")
    assert (untunnelled.returncode, "pods/portforward" in untunnelled.stderr) == (6, True)
    name = way["metadata"]["name"]
    admin.request("PUT", f"{roles}/{name}", {**way, "rules": [lease, tunnel]})
    refused = until(lambda: _unless(ask("queue"), "portforward"), "the tunnel open")
    assert (refused.returncode, 'cannot get path "/debug/queue"' in refused.stderr) == (6, True)
    reading = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    admin.ensure(
        f"{RBAC}/namespaces/{OTHER}/roles", {"metadata": {"name": USER}, "rules": [reading]}
    )
    bind(OTHER, "Role", USER)
    explained = until(lambda: _answered(ask("explain", f"{OTHER}/asked")), "an answer")
    assert NODE not in explained.stdout
    assert ask("explain", f"{NAMESPACE}/{REPLICAS[0]}").returncode == 6
    bind("", "ClusterRole", pages["metadata"]["name"])
    until(lambda: _answered(ask("queue")), "an answer about all")


def _unless(
    ended: subprocess.CompletedProcess[str], text: str
) -> subprocess.CompletedProcess[str] | None:
    return None if text in ended.stderr.partition("\n")[0] else ended


def _answered(
    ended: subprocess.CompletedProcess[str],
) -> subprocess.CompletedProcess[str] | None:
    return None if ended.returncode else ended
