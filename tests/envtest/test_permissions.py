"""A ServiceAccount with too few permissions on a real API server: what works, and what is told.

Two processes run at most, one after the other; permissions come while they run.
"""

from __future__ import annotations

import http
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest
import yaml

from devtools.control_plane.control_plane import ControlPlane, ManagedProcess
from devtools.control_plane.inspecting import get_endpoint
from devtools.control_plane.kubestow import start_kubestow
from devtools.control_plane.ports import free_port
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

NAMESPACE: Final = "default"
ACCOUNT: Final = "restricted"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
OPTIONAL: Final = (
    "resourcequotas", "volumeattachments", "tokenreviews", "subjectaccessreviews", "events",
)  # fmt: skip


def kubestow(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of kubestow."""
    return subprocess.run(
        [sys.executable, "-m", "scheduler", *arguments],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


@pytest.fixture(scope="module")
def printed() -> list[dict[str, Any]]:
    """Return the rules that `config rbac` prints for the cluster."""
    found = kubestow("config", "rbac", "--name", ACCOUNT)
    assert found.returncode == 0, found.stderr
    role, election = yaml.safe_load_all(found.stdout)
    assert election["metadata"]["namespace"] == "kubestow-system"
    return list(role["rules"])


def without(rules: Sequence[dict[str, Any]], *resources: str) -> list[dict[str, Any]]:
    """Return the rules without these resources."""
    kept = []
    for rule in rules:
        left = [each for each in rule.get("resources", ()) if each not in resources]
        if left:
            kept.append({**rule, "resources": left})
    return kept


def grant(control_plane: ControlPlane, rules: Sequence[dict[str, Any]]) -> None:
    """Let the account do exactly what the rules say, and read the authorities of certificates."""
    role = {"metadata": {"name": ACCOUNT}, "rules": list(rules)}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    reference = {
        "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT,
    }  # fmt: skip
    binding = {"metadata": {"name": ACCOUNT}, "roleRef": reference, "subjects": [subject]}
    control_plane.admin.ensure(f"{RBAC}/clusterroles", role)
    control_plane.admin.request("PUT", f"{RBAC}/clusterroles/{ACCOUNT}", role)
    control_plane.admin.ensure(f"{RBAC}/clusterrolebindings", binding)
    reader = {**reference, "kind": "Role", "name": "extension-apiserver-authentication-reader"}
    path = f"{RBAC}/namespaces/kube-system/rolebindings"
    control_plane.admin.ensure(path, {**binding, "roleRef": reader})


@pytest.fixture
def process(control_plane: ControlPlane, printed: list[dict[str, Any]]) -> Iterator[ManagedProcess]:
    """Run a scheduler whose account lacks all that is in `OPTIONAL`."""
    grant(control_plane, without(printed, *OPTIONAL))
    started = start_kubestow(
        control_plane,
        kubeconfig=control_plane.service_account_kubeconfig(NAMESPACE, ACCOUNT),
        name="restricted",
    )
    yield started
    started.stop()


def ready(process: ManagedProcess) -> tuple[int, str]:
    return readiness(process.port)


def readiness(port: int) -> tuple[int, str]:
    """GET /readyz; status 0 while nothing listens."""
    try:
        return get_endpoint(port, "/readyz?verbose")
    except (OSError, http.client.HTTPException):
        return 0, ""


def test_optional_permissions_may_come_later(
    control_plane: ControlPlane, printed: list[dict[str, Any]], process: ManagedProcess
) -> None:
    with Workload(control_plane, "permissions") as work:
        work.node("permissions", cpu="4")
        work.pod("first")
        work.until_bound("first")
        until(lambda: "[!]optional-permissions degraded" in ready(process)[1], "it is told")
        assert ready(process)[0] == http.HTTPStatus.OK
        until(lambda: "optional permissions missing" in process.log.read_text(), "the line")
        found = [json.loads(line) for line in process.log.read_text().splitlines()]
        (line,) = [each for each in found if each["msg"] == "optional permissions missing"]
        assert len(line["missing"]) >= len(OPTIONAL)
        assert [each for each in found if "list or watch failed" in each["msg"]] == []
        asked = kubestow(
            "explain", "permissions/first", f"--server=https://127.0.0.1:{process.port}",
            f"--kubeconfig={control_plane.service_account_kubeconfig(NAMESPACE, ACCOUNT)}",
            "--insecure-skip-tls-verify",
        )  # fmt: skip
        assert asked.returncode == 6
        assert "this scheduler itself may not create tokenreviews" in asked.stderr
        assert "kubestow check --service-account NAMESPACE/NAME" in asked.stderr
        status, body = get_endpoint(process.port, "/metrics")
        assert status == http.HTTPStatus.INTERNAL_SERVER_ERROR
        assert body.endswith(": this scheduler itself may not create subjectaccessreviews\n")

        grant(control_plane, printed)
        until(lambda: "[+]optional-permissions ok" in ready(process)[1], "they have come")


def test_without_a_required_permission_it_is_not_ready_and_tells_why(
    control_plane: ControlPlane, printed: list[dict[str, Any]]
) -> None:
    grant(control_plane, without(printed, "namespaces", "pods/binding"))
    kubeconfig = control_plane.service_account_kubeconfig(NAMESPACE, ACCOUNT)
    port = free_port()
    command = [
        sys.executable, "-m", "scheduler", "run", "--leader-elect=false",
        f"--kubeconfig={kubeconfig}", f"--secure-port={port}", "--bind-address=127.0.0.1",
    ]  # fmt: skip
    # Its own process, because the control plane's wait until theirs is ready.
    log = control_plane.files.directory / "denied.log"
    with log.open("w") as out, subprocess.Popen(command, stderr=out, stdout=out) as denied:
        try:
            until(lambda: "pods/binding" in readiness(port)[1], "the reason")
            status, body = readiness(port)
            assert status == http.HTTPStatus.INTERNAL_SERVER_ERROR
            assert '- {apiGroups: [""], resources: [namespaces], verbs: [list, watch]}' in body
            grant(control_plane, printed)
            until(lambda: readiness(port)[0] == http.HTTPStatus.OK, "ready")
        finally:
            denied.terminate()
    (line,) = [
        each
        for each in map(json.loads, log.read_text().splitlines())
        if each["msg"] == "nothing can be scheduled: required permissions missing"
    ]
    assert line["missing"] == ["create pods/binding", "list/watch namespaces"]
    assert '- {apiGroups: [""], resources: [pods/binding], verbs: [create]}' in line["rules"]
    assert f"--service-account {NAMESPACE}/{ACCOUNT} | kubectl apply -f -" in line["grant"]


def test_check_compares_a_cluster_with_a_configuration(
    control_plane: ControlPlane, printed: list[dict[str, Any]]
) -> None:
    account = f"--service-account={NAMESPACE}/{ACCOUNT}"
    kubeconfig = f"--kubeconfig={control_plane.kubeconfig}"

    def check(*more: str) -> tuple[int, dict[str, str]]:
        found = kubestow("check", account, kubeconfig, "-o", "json", *more)
        findings = [each for each in json.loads(found.stdout) if each["state"] != "ok"]
        return found.returncode, {each["resource"]: each["state"] for each in findings}

    lease = {"leases.coordination.k8s.io": "missing"}
    grant(control_plane, printed)
    code, states = check()
    assert (code, states) == (1, {**lease, "nodeclaims.karpenter.sh": "absent"})
    renewal = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    grant(control_plane, [*printed, {**renewal, "verbs": ["get", "update"]}])
    assert check()[1] == states
    leases = "/apis/coordination.k8s.io/v1/namespaces/kubestow-system/leases"
    control_plane.admin.ensure("/api/v1/namespaces", {"metadata": {"name": "kubestow-system"}})
    control_plane.admin.ensure(leases, {"metadata": {"name": "kubestow"}})
    # It exists, so it need not be created.
    assert check() == (0, {"nodeclaims.karpenter.sh": "absent"})
    control_plane.admin.request("DELETE", f"{leases}/kubestow")
    grant(control_plane, without(printed, "nodes", "resourcequotas"))
    code, states = check()
    assert code == 1
    assert states["nodes"] == "missing"
    assert states["resourcequotas"] == "off"
    control_plane.service_account_kubeconfig(NAMESPACE, ACCOUNT)
    table = kubestow("check", account, kubeconfig)
    assert table.returncode == 1
    first, passed, *_ = table.stdout.splitlines()
    assert first.startswith("Something required is missing at https://")
    assert passed.endswith(" checks passed; -v lists them.")
    assert '- {apiGroups: [""], resources: [nodes], verbs: [list, watch]}' in table.stdout
    # The account has no Role there at all, so there is none to add rules to.
    assert (
        f"No RoleBinding in kubestow-system gives a Role to {NAMESPACE}/{ACCOUNT}" in table.stdout
    )
    assert "Add to the rules of the Role in kubestow-system:" not in table.stdout


def test_check_names_the_account_or_the_binding_that_is_absent(
    control_plane: ControlPlane, printed: list[dict[str, Any]]
) -> None:
    grant(control_plane, printed)
    own = control_plane.service_account_kubeconfig(NAMESPACE, ACCOUNT)

    def check(account: str, kubeconfig: object = control_plane.kubeconfig) -> str:
        option = f"--service-account={NAMESPACE}/{account}"
        return kubestow("check", option, f"--kubeconfig={kubeconfig}").stdout

    misspelt = f"There is no ServiceAccount {NAMESPACE}/restrictd; did you mean {ACCOUNT}?"
    assert misspelt in (told := check("restrictd"))
    assert "Add to the rules" not in told
    # The account itself may review others, and may read none of this.
    assert "bindings were not read: your user may not." in (told := check("restrictd", own))
    assert "Add to the rules" not in told

    control_plane.admin.request("DELETE", f"{RBAC}/clusterrolebindings/{ACCOUNT}")
    unbound = f"No ClusterRoleBinding gives a ClusterRole to {NAMESPACE}/{ACCOUNT}.\n"
    granting = f"  kubestow config rbac --service-account {NAMESPACE}/{ACCOUNT} | kubectl"
    assert unbound in (told := check(ACCOUNT))
    assert f"{granting} --kubeconfig={control_plane.kubeconfig} apply -f -" in told
    assert "Add to the rules of the ClusterRole:" not in told
    # The account itself finds out who it is, and that it may read none of this.
    told = kubestow("check", f"--kubeconfig={own}").stdout
    # Not with its kubeconfig, which may not grant it.
    assert f"{granting} apply -f -" in told
    assert "Add to the rules of the ClusterRole:" not in told
    grant(control_plane, printed)
    assert "ClusterRoleBinding" not in check(ACCOUNT)
