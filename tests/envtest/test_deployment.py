"""The manifests on a real API server: accepted, enough for the scheduler, and no more than that.

It runs with the very ServiceAccount and permissions they create. The API server's audit log
has every request it made, so a retry cannot hide a rejected request.
"""

from __future__ import annotations

import http
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from devtools.control_plane.control_plane import (
    ApiServerOptions,
    Binaries,
    ControlPlane,
    KubectlError,
    ManagedProcess,
)
from devtools.control_plane.inspecting import get_endpoint
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
NAMESPACE: Final = "kubestow-system"
ACCOUNT: Final = "kubestow"
USER: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/kubestow"
AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
# As by default, for a process that gets no CPU for a few seconds; but retries are more frequent.
QUICKLY: Final = {
    "leaderElect": True,
    "leaseDuration": "15s",
    "renewDeadline": "10s",
    "retryPeriod": "500ms",
    "resourceNamespace": NAMESPACE,
}


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def deployed(
    envtest_binaries: Binaries, audit_log: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Run a control plane with the manifests applied and an audit log of every request."""
    policy = audit_log.with_name("policy.yaml")
    policy.write_text(json.dumps(AUDIT_POLICY))
    audit = (f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}")
    options = ApiServerOptions(extra_arguments=audit)
    directory = tmp_path_factory.mktemp("deployed")
    with ControlPlane(envtest_binaries, options, directory) as control_plane:
        control_plane.kubectl("apply", "-k", str(MANIFESTS))
        yield control_plane


def get(deployed: ControlPlane, path: str) -> Any:
    return deployed.admin.request("GET", path)


def own_configuration(deployed: ControlPlane) -> dict[str, Any]:
    """Return the profile of the ConfigMap, as the Deployment mounts it."""
    stored = get(deployed, f"/api/v1/namespaces/{NAMESPACE}/configmaps/kubestow")
    document: dict[str, Any] = yaml.safe_load(stored["data"]["config.yaml"])
    return document


Start = Callable[..., ManagedProcess]


@pytest.fixture
def start(deployed: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Start]:
    """Starts the scheduler as its ServiceAccount; all processes end with the test.

    The configuration is the ConfigMap's, with the entries given over it.
    """
    started: list[ManagedProcess] = []

    def start(**config: object) -> ManagedProcess:
        process = start_kubestow(
            deployed,
            {**own_configuration(deployed), **config},
            kubeconfig=deployed.service_account_kubeconfig(NAMESPACE, ACCOUNT),
            name=f"{request.node.name}-{len(started)}",
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.stop()


def scraper_token(deployed: ControlPlane) -> str:
    """Return a token of an account that may read only /metrics."""
    role = {
        "metadata": {"name": "scraper"},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }
    binding = {
        "metadata": {"name": "scraper"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "scraper",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": "default"}],
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    deployed.admin.ensure(f"{rbac}/clusterroles", role)
    deployed.admin.ensure(f"{rbac}/clusterrolebindings", binding)
    return deployed.service_account_token("default", "scraper")


def requests_of_kubestow(audit_log: Path) -> list[dict[str, Any]]:
    lines = audit_log.read_text().splitlines()
    entries = (json.loads(line) for line in lines)
    return [entry for entry in entries if entry["user"].get("username") == USER]


def what(entry: Mapping[str, Any]) -> str:
    """Return verb and resource of an audited request."""
    reference = entry.get("objectRef", {})
    parts = (reference.get("resource"), reference.get("subresource"))
    return f"{entry['verb']} {'/'.join(part for part in parts if part)}"


def attempts(process: ManagedProcess, token: str) -> float:
    """Return the number of scheduling attempts of a process."""
    status, body = get_endpoint(process.port, "/metrics", token)
    assert status == http.HTTPStatus.OK, body
    return sum(
        float(line.rpartition(" ")[2])
        for line in body.splitlines()
        if line.startswith("scheduler_schedule_attempts_total{")
    )


def test_applying_again_changes_nothing(deployed: ControlPlane) -> None:
    again = deployed.kubectl("apply", "-k", str(MANIFESTS)).splitlines()
    assert len(again) >= 9
    # kubectl reports every PodDisruptionBudget as configured: it always sends the selector.
    allowed = ["poddisruptionbudget.policy/kubestow configured"]
    assert [line for line in again if not line.endswith(" unchanged")] in ([], allowed)


def test_the_pods_meet_the_restricted_standard(deployed: ControlPlane) -> None:
    deployment = get(deployed, f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/kubestow")
    pod = {"apiVersion": "v1", "kind": "Pod", **deployment["spec"]["template"]}
    pod["metadata"] = {**pod["metadata"], "name": "kubestow-0", "namespace": NAMESPACE}
    dry = ("create", "--dry-run=server", "-f", "-")
    assert "pod/kubestow-0 created" in deployed.kubectl(*dry, stdin=json.dumps(pod))
    # The namespace enforces the standard: it rejects the same pod with a privilege.
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(KubectlError, match="violates PodSecurity"):
        deployed.kubectl(*dry, stdin=json.dumps(pod))


def test_the_service_account_may_do_what_the_scheduler_does(
    deployed: ControlPlane, start: Start, audit_log: Path
) -> None:
    process = start()
    token = scraper_token(deployed)
    with Workload(deployed, "as-deployed") as work:
        work.node("permitted", cpu="1")
        work.pod("fits")
        work.pod("too-large", cpu="2")
        work.until_bound("fits")
        first = work.until_rejected("too-large")["message"]
        # Large enough for a retry, yet tainted: the message of the condition changes, and the
        # count of the event increases.
        work.node("tainted", cpu="4", taints=[{"key": "k", "effect": "NoSchedule"}])
        until(lambda: work.condition("too-large")["message"] != first, "another refusal")
        until(lambda: any(each.get("series") for each in work.events("FailedScheduling")), "series")
        assert get_endpoint(process.port, "/metrics", token)[0] == http.HTTPStatus.OK
        holder = get(deployed, LEASE)["spec"]["holderIdentity"]
        assert holder
        process.stop_cleanly()
        assert get(deployed, LEASE)["spec"]["holderIdentity"] == ""
    made = requests_of_kubestow(audit_log)
    rejected = [what(each) for each in made if each["responseStatus"]["code"] in (401, 403)]
    assert rejected == []
    assert {
        "list pods",
        "watch pods",
        "list nodes",
        "watch nodes",
        "create pods/binding",
        "patch pods/status",
        "create events",
        "patch events",
        "get leases",
        "create leases",
        "update leases",
        "create tokenreviews",
        "create subjectaccessreviews",
    } <= {what(each) for each in made}
    assert "forbidden" not in process.log.read_text().lower()


def may(deployed: ControlPlane, verb: str, resource: str, **attributes: str) -> bool:
    """Whether the authorizer lets the account do something in the cluster."""
    group, _, plural = resource.rpartition("/")
    attributes |= {"verb": verb, "group": group, "resource": plural}
    review = {"spec": {"user": USER, "resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    response: Any = deployed.admin.request("POST", path, review)
    return bool(response["status"]["allowed"])


def test_the_account_may_not_do_more(deployed: ControlPlane) -> None:
    assert may(deployed, "create", "pods", subresource="binding", namespace="default")
    for verb, resource, attributes in (
        ("get", "secrets", {"namespace": NAMESPACE}),
        ("list", "configmaps", {"namespace": NAMESPACE}),
        ("create", "pods", {"namespace": "default"}),
        ("update", "pods", {"namespace": "default"}),
        ("create", "pods", {"namespace": "default", "subresource": "exec"}),
        ("patch", "nodes", {}),
        ("delete", "nodes", {}),
        ("update", "coordination.k8s.io/leases", {"namespace": "kube-system"}),
        ("update", "coordination.k8s.io/leases", {"namespace": NAMESPACE, "name": "other"}),
    ):
        assert not may(deployed, verb, resource, **attributes), (verb, resource, attributes)


def test_endpoints_are_open_to_users_that_the_cluster_authorizes(
    deployed: ControlPlane, start: Start
) -> None:
    process = start(leaderElection={"leaderElect": False})
    allowed = scraper_token(deployed)
    other = deployed.service_account_token("default", "unprivileged")
    codes = {
        (path, who): get_endpoint(process.port, path, token)[0]
        for path in ("/metrics", "/configz", "/healthz", "/livez", "/readyz")
        for who, token in (
            ("scraper", allowed),
            ("unprivileged", other),
            ("nonsense", "x.y.z"),
            ("anonymous", ""),
        )
    }
    status, body = get_endpoint(process.port, "/metrics", allowed)
    by_admin = get_endpoint(process.port, "/configz", deployed.admin_token)
    for path in ("/healthz", "/livez", "/readyz"):
        assert codes[path, "anonymous"] == codes[path, "scraper"] == http.HTTPStatus.OK
    assert codes["/metrics", "scraper"] == status == http.HTTPStatus.OK
    assert "scheduler_pending_pods" in body
    assert codes["/metrics", "unprivileged"] == http.HTTPStatus.FORBIDDEN
    assert codes["/metrics", "anonymous"] == http.HTTPStatus.FORBIDDEN
    assert codes["/metrics", "nonsense"] == http.HTTPStatus.UNAUTHORIZED
    assert codes["/configz", "scraper"] == http.HTTPStatus.FORBIDDEN
    assert by_admin[0] == http.HTTPStatus.OK
    assert "KubeSchedulerConfiguration" in by_admin[1]


def test_one_replica_binds_and_the_other_takes_over(deployed: ControlPlane, start: Start) -> None:
    token = scraper_token(deployed)
    with Workload(deployed, "replicas") as work:
        work.follow()
        work.node("replicas", cpu="8")
        first = start(leaderElection=QUICKLY)
        until(lambda: get(deployed, LEASE)["spec"]["holderIdentity"], "a leader")
        holder = get(deployed, LEASE)["spec"]["holderIdentity"]
        second = start(leaderElection=QUICKLY)
        for number in range(20):
            work.pod(f"early-{number}")
        work.until_bound()
        assert attempts(first, token) == 20
        assert attempts(second, token) == 0
        assert get_endpoint(second.port, "/readyz")[0] == http.HTTPStatus.OK, "a standby is ready"
        first.kill()
        for number in range(20):
            work.pod(f"late-{number}")
        work.until_bound()
        assert attempts(second, token) == 20
        spec = get(deployed, LEASE)["spec"]
        assert spec["holderIdentity"] not in ("", holder)
        assert set(work.bindings().values()) == {1}
        second.stop_cleanly()


def test_a_leader_that_cannot_renew_ends_and_its_pods_wait_for_the_next(
    deployed: ControlPlane, start: Start
) -> None:
    """Permission to update the Lease is revoked, as by a faulty upgrade."""
    process = start(leaderElection=QUICKLY)
    until(lambda: get(deployed, LEASE)["spec"]["holderIdentity"], "leading")
    rolebinding = (
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings"
        "/kubestow-leader-election"
    )
    deployed.admin.request("DELETE", rolebinding)
    until(lambda: not process.running, "the process ends")
    assert process.returncode == 1
    assert "leadership" in process.log_tail()
