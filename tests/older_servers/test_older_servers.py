"""kubestow on older API servers: it places pods, and what they lack counts as an empty list."""

from __future__ import annotations

import http
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from devtools.control_plane.binaries import Binaries
from devtools.control_plane.control_plane import ApiServerOptions, ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.test_permissions import grant, ready
from tests.envtest.workload import Workload, until
from tests.older_servers.build import version_of

pytestmark = pytest.mark.older_servers

NAMESPACE: Final = "default"
ACCOUNT: Final = "restricted"
ELECTION: Final = {
    "leaderElect": True, "resourceName": "kubestow", "resourceNamespace": NAMESPACE,
}  # fmt: skip
ABSENT: Final = ("apps/v1", "policy/v1")
"""APIs that a test disables, because the oldest server here has all that kubestow reads. Without
storage.k8s.io the API server itself would not become ready."""


def kubestow(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of kubestow."""
    return subprocess.run(
        [sys.executable, "-m", "scheduler", *arguments],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


@pytest.fixture(scope="session")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a configuration with leader election."""
    path = tmp_path_factory.mktemp("configuration") / "config.yaml"
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path.write_text(yaml.safe_dump({**head, "leaderElection": ELECTION}))
    return path


@pytest.fixture(scope="session")
def rules(configuration: Path) -> list[dict[str, Any]]:
    """Return the rules that `config rbac` prints for it, the Role's as well."""
    found = kubestow("config", "rbac", str(configuration))
    assert found.returncode == 0, found.stderr
    return [rule for role in yaml.safe_load_all(found.stdout) for rule in role["rules"]]


@pytest.fixture(scope="session")
def process(older: ControlPlane, rules: list[dict[str, Any]]) -> Iterator[ManagedProcess]:
    """Run kubestow with exactly these permissions."""
    grant(older, rules)
    for name, value in (("low", 1), ("high", 1000)):
        older.admin.ensure(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": name}, "value": value},
        )
    started = start_kubestow(
        older,
        {"leaderElection": ELECTION, "podInitialBackoffSeconds": 1},
        kubeconfig=older.service_account_kubeconfig(NAMESPACE, ACCOUNT),
    )
    yield started
    started.stop_cleanly()


def test_the_server_is_of_the_release(older: ControlPlane, release: str) -> None:
    assert older.admin.request("GET", "/version")["gitVersion"] == version_of(release)


def test_pods_are_placed_spread_and_reported(older: ControlPlane, process: ManagedProcess) -> None:
    with Workload(older, "placed") as work:
        for zone in ("a", "b"):
            work.node(f"placed-{zone}", cpu="4", labels={"topology.kubernetes.io/zone": zone})
        constraint = {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {},
        }
        for name in ("first", "second"):
            work.pod(name, topologySpreadConstraints=[constraint])
        assert set(work.until_bound().values()) == {"placed-a", "placed-b"}
        until(lambda: len(work.events("Scheduled")) == 2, "both Events")
    assert process.running, process.describe("ended")


def test_a_pod_that_does_not_fit_is_rejected_and_tried_again(
    older: ControlPlane, process: ManagedProcess
) -> None:
    with Workload(older, "rejected") as work:
        work.node("rejected-small", cpu="1")
        work.pod("large", cpu="2")
        condition = work.until_rejected("large")
        assert condition["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        work.node("rejected-large", cpu="4")
        assert work.until_bound("large") == {"large": "rejected-large"}
    assert process.running, process.describe("ended")


def test_an_important_pod_preempts_another(older: ControlPlane, process: ManagedProcess) -> None:
    with Workload(older, "preempting") as work:
        work.node("preempting", cpu="1")
        work.pod("victim", cpu="800m", priorityClassName="low", terminationGracePeriodSeconds=0)
        work.until_bound("victim")
        work.pod("important", cpu="800m", priorityClassName="high")
        work.until_bound("important")
        assert set(work.pods()) == {"important"}
    assert process.running, process.describe("ended")


def test_nothing_is_missing(
    older: ControlPlane, process: ManagedProcess, configuration: Path, release: str
) -> None:
    status, body = ready(process)
    assert status == http.HTTPStatus.OK, body
    assert "[+]optional-permissions ok" in body
    found = kubestow(
        "check", str(configuration), f"--service-account={NAMESPACE}/{ACCOUNT}",
        f"--kubeconfig={older.kubeconfig}", "-o", "json",
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    states = {each["resource"]: each["state"] for each in json.loads(found.stdout)}
    absent = {each for each, state in states.items() if state != "ok"}
    later = {each for each in states if "resource.k8s.io" in each}
    if release != "v1.33":
        later = {"devicetaintrules.resource.k8s.io"}
    assert absent == {"nodeclaims.karpenter.sh", *later}


def test_absent_apis_are_empty_lists(
    older_binaries: Binaries, tmp_path: Path, rules: list[dict[str, Any]]
) -> None:
    options = ApiServerOptions(runtime_config=dict.fromkeys(ABSENT, False))
    with ControlPlane(older_binaries, options, tmp_path / "absent") as older:
        grant(older, rules)
        served: Any = older.admin.request("GET", "/apis")["groups"]
        versions = {each["groupVersion"] for group in served for each in group["versions"]}
        assert versions.isdisjoint(ABSENT)
        account = older.service_account_kubeconfig(NAMESPACE, ACCOUNT)
        process = start_kubestow(older, kubeconfig=account)
        with Workload(older, "absent") as work:
            work.node("absent", cpu="4")
            work.pod("first")
            work.until_bound("first")
        until(lambda: "[+]optional-permissions ok" in ready(process)[1], "nothing is missing")
        assert ready(process)[0] == http.HTTPStatus.OK
        process.stop()
