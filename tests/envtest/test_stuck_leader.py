"""Two replicas on a real API server while the leader's event loop is blocked: always one writer.

A Filter plugin blocks the first process that calls it for the pod `slow`, until a file exists. The
API server's audit log has every write with its user and time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from devtools.control_plane.control_plane import (
    ApiServerOptions,
    Binaries,
    ControlPlane,
    ManagedProcess,
)
from devtools.control_plane.kubestow import start_kubestow
from tests.envtest.workload import Workload, until

pytestmark = pytest.mark.envtest

NAMESPACE: Final = "stuck"
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/kubestow"
LEASE_SECONDS: Final = 15.0
"""As by default. A replica that loses the Lease ends, and here nothing starts it again: one did on
a busy machine that had been suspended for a minute, with a renew deadline of 6 s."""
QUICKLY: Final = {
    "leaderElect": True,
    "leaseDuration": f"{LEASE_SECONDS:g}s",
    "renewDeadline": "10s",
    "retryPeriod": "500ms",
    "resourceNamespace": NAMESPACE,
}
RENEWALS_WHILE_BLOCKED: Final = 40
"""Longer than a lease lasts: were the Lease not renewed, it would have changed hands."""

PODS: Final = 60

AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        # Reviews of one's own permissions are created, but write nothing.
        {"level": "None", "resources": [{"group": "authorization.k8s.io"}]},
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete"]},
        {"level": "None"},
    ],
}
PLUGIN: Final = '''
import os
import time
from pathlib import Path

HERE = Path(__file__).parent
# Whatever the test does: some day this process may be stopped.
LIMIT_SECONDS = 90.0


class Blocking:
    """Blocks the first process that filters the pod `slow`."""

    name = "Blocking"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        if pod.metadata.name == "slow" and self.first():
            self.block()

    def first(self):
        try:
            os.close(os.open(HERE / "blocked", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def block(self):
        end = time.monotonic() + LIMIT_SECONDS
        while not (HERE / "go-on").exists() and time.monotonic() < end:
            BLOCK
'''


@dataclass(frozen=True)
class Write:
    """A write in the audit log, with the status of the response."""

    replica: str
    what: str
    at: datetime
    status: int


class Replicas:
    """Two replicas, each with a service account of its own, and their writes."""

    def __init__(self, control_plane: ControlPlane, audit_log: Path, plugins: Path) -> None:
        self.control_plane = control_plane
        self._audit_log = audit_log
        self._plugins = plugins
        self.processes: list[ManagedProcess] = []

    def start(self, name: str, *, watchdog: str = "60s", qps: int = 50) -> ManagedProcess:
        kubeconfig = self.control_plane.service_account_kubeconfig(NAMESPACE, name)
        profile = {
            "schedulerName": "kubestow",
            "plugins": {"multiPoint": {"enabled": [{"name": "kubestow_blocking:Blocking"}]}},
        }
        process = start_kubestow(
            self.control_plane,
            {
                "leaderElection": QUICKLY,
                "clientConnection": {"qps": qps, "burst": 10},
                "kubestow": {
                    "bindTimeout": "500ms",
                    "watchdogTimeout": watchdog,
                    "cycleTimeBudget": "250ms",
                },
                "profiles": [profile],
            },
            [f"--plugin-dir={self._plugins}"],
            kubeconfig=kubeconfig,
            name=name,
        )
        self.processes.append(process)
        return process

    @property
    def lease(self) -> dict[str, Any]:
        code, text = self.control_plane.admin.exchange("GET", LEASE, None)
        return dict(json.loads(text)["spec"]) if code == 200 else {}

    def until_blocked(self) -> None:
        until((self._plugins / "blocked").exists, "the leader is blocked")

    def until_leading(self) -> str:
        """Wait until a replica leads; return its identity."""
        until(lambda: self.lease.get("holderIdentity"), "a leader")
        return str(self.lease["holderIdentity"])

    def until_taken_over(self, holder: str) -> None:
        until(lambda: self.lease["holderIdentity"] not in ("", holder), "taken over")

    def check_one_writer(self) -> None:
        """Assert that the first wrote nothing, except failed renewals, once the second wrote."""
        writes = self.writes()
        began = min(each.at for each in writes if each.replica == "second" and each.status < 300)
        last = max(each.at for each in writes if each.replica == "first" and each.what != "leases")
        assert last < began

    def go_on(self) -> None:
        (self._plugins / "go-on").touch()

    def writes(self) -> list[Write]:
        """Return all writes of the replicas in order; renewals of the Lease as `leases`."""
        found = []
        for line in self._audit_log.read_text().splitlines():
            event = json.loads(line)
            user = event["user"]["username"]
            if not user.startswith(f"system:serviceaccount:{NAMESPACE}:") or not is_write(event):
                continue
            target = event["objectRef"]
            what = "/".join(filter(None, (target["resource"], target.get("subresource"))))
            at = datetime.fromisoformat(event["requestReceivedTimestamp"])
            code = event["responseStatus"]["code"]
            found.append(Write(user.rpartition(":")[2], what, at, code))
        return sorted(found, key=lambda write: write.at)


def is_write(event: dict[str, Any]) -> bool:
    """Whether a request is a write; access reviews are not."""
    return event.get("stage") == "ResponseComplete" and event["objectRef"]["resource"] not in (
        "tokenreviews",
        "subjectaccessreviews",
    )


@pytest.fixture
def replicas(
    request: pytest.FixtureRequest, envtest_binaries: Binaries, tmp_path: Path
) -> Iterator[Replicas]:
    policy, audit_log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(json.dumps(AUDIT_POLICY))
    audit = (f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}")
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "kubestow_blocking.py").write_text(PLUGIN.replace("BLOCK", request.param))
    options = ApiServerOptions(extra_arguments=audit)
    with ControlPlane(envtest_binaries, options, tmp_path / "control-plane") as control_plane:
        accounts = [
            {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": name}
            for name in ("first", "second")
        ]
        admin = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
        control_plane.admin.ensure("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        control_plane.admin.ensure(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            {
                "metadata": {"name": "replicas"},
                "roleRef": {**admin, "name": "cluster-admin"},
                "subjects": accounts,
            },
        )
        yield Replicas(control_plane, audit_log, plugins)


def blocking(how: str) -> pytest.MarkDecorator:
    """Parametrize with the statement that is repeated while the loop is blocked."""
    return pytest.mark.parametrize("replicas", [how], indirect=True, ids=["blocked"])


@blocking("pass")
def test_a_cycle_longer_than_the_lease_keeps_it(replicas: Replicas) -> None:
    """The loop is blocked by Python code that uses all of its time, for longer than a lease."""
    with Workload(replicas.control_plane, NAMESPACE) as work:
        work.node("stuck-1", cpu="4")
        first = replicas.start("first")
        holder = replicas.until_leading()
        second = replicas.start("second")
        work.pod("slow")
        replicas.until_blocked()
        renewals = set()

        def renewed() -> bool:
            assert first.running, first.describe("ended")
            assert replicas.lease["holderIdentity"] == holder
            renewals.add(replicas.lease["renewTime"])
            return len(renewals) > RENEWALS_WHILE_BLOCKED

        until(renewed, "renewed all the while")
        assert work.bound() == {}, "it is still blocked"
        replicas.go_on()
        work.pod("next")
        work.until_bound("slow", "next")
        assert replicas.lease["holderIdentity"] == holder
        assert replicas.lease["leaseTransitions"] == 0
        assert {write.replica for write in replicas.writes()} == {"first"}
        for each in (second, first):
            each.stop_cleanly()


@blocking("time.sleep(0.01)")
def test_a_loop_that_does_not_come_back_loses_it(replicas: Replicas) -> None:
    """The process writes nothing and ends once the loop runs again."""
    with Workload(replicas.control_plane, NAMESPACE) as work:
        work.follow()
        work.node("stuck-1", cpu="4")
        first = replicas.start("first", watchdog="2s")
        holder = replicas.until_leading()
        second = replicas.start("second")
        work.pod("early")
        work.until_bound("early")
        work.pod("slow")
        replicas.until_blocked()
        replicas.until_taken_over(holder)
        work.pod("late")
        work.until_bound("slow", "late")
        assert first.running
        replicas.go_on()
        until(lambda: not first.running, "the one that was stuck ends")
        assert first.returncode == 1, first.describe("ended otherwise")
        log = first.log.read_text()
        # The stack is taken wherever the loop is then: in `block`, or in what `block` calls.
        assert re.search(r"it executes plugin \S+ at Filter \([^)]+\): [^\"]*\bblock \(", log), log
        assert "another replica may schedule now" in log
        # None of its decisions was written.
        replicas.check_one_writer()
        assert set(work.bindings().values()) == {1}
        assert len(work.events("Scheduled")) == 3
        second.stop_cleanly()


@blocking("pass")
def test_a_successor_begins_a_lease_duration_after_the_last_renewal(replicas: Replicas) -> None:
    with Workload(replicas.control_plane, NAMESPACE) as work:
        first = replicas.start("first")
        replicas.until_leading()
        second = replicas.start("second")
        first.kill()
        last = replicas.lease
        until(lambda: replicas.lease["holderIdentity"] != last["holderIdentity"], "taken over")
        took = datetime.fromisoformat(replicas.lease["acquireTime"])
        # Both times come from this machine's clock, so they are comparable.
        assert (took - datetime.fromisoformat(last["renewTime"])).total_seconds() >= LEASE_SECONDS
        work.node("stuck-1", cpu="4")
        work.pod("a")
        work.until_bound("a")
        second.stop_cleanly()


@blocking("pass")
def test_a_process_that_was_stopped_for_a_while_writes_nothing_more(replicas: Replicas) -> None:
    """SIGSTOP stops all threads; a suspended machine differs only in its clock."""
    with Workload(replicas.control_plane, NAMESPACE) as work:
        work.follow()
        work.node("stuck-1", cpu="40", pods=PODS)
        # Half a minute for all pods, so that a slow machine is stopped in the middle, too.
        first = replicas.start("first", qps=2)
        holder = replicas.until_leading()
        second = replicas.start("second")
        for number in range(PODS):
            work.pod(f"pod-{number:02}")
        until(lambda: len(work.bound()) > 5, "some bound")
        assert replicas.lease["holderIdentity"] == holder, first.describe("lost the Lease")
        first.pause()
        assert len(work.bound()) < PODS, "this is the middle"
        replicas.until_taken_over(holder)
        work.until_bound()
        first.resume()
        until(lambda: not first.running, "the one that was stopped ends")
        assert first.returncode == 1, first.describe("ended otherwise")
        replicas.check_one_writer()
        assert set(work.bindings().values()) == {1}
        second.stop_cleanly()
