"""One run: a control plane, a scheduler in force, a shadow beside it, and pods at a steady rate."""

from __future__ import annotations

import http
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from benchmarks.hostile.measuring import resident
from benchmarks.measure import cpu_seconds
from benchmarks.shadow.pods import NAMESPACE, node, pod, storage
from benchmarks.templates import Object
from benchmarks.volume_templates import CSI_DRIVER, csi_node
from devtools.control_plane.control_plane import ApiServerOptions, ControlPlane, ManagedProcess
from devtools.control_plane.kubestow import start_kubestow

ACCOUNT: Final = "shadow"
USER_AGENT: Final = "kubestow/shadow"
READING: Final = frozenset({"get", "list", "watch"})
AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
VOLUMES_PER_NODE: Final = 39
BOUND: Final = {"status": {"phase": "Bound"}}
SETTLE_SECONDS: Final = 2.0
PATIENCE_SECONDS: Final = 300.0
QUIET_SECONDS: Final = 15.0
"""A shadow that judges nothing for this long has judged everything that it can, on a busy machine
too."""
RESTART_SECONDS: Final = 60.0
WRITERS: Final = 8
"""Pods that are created at a time; one after the other would be too slow for a high rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The size of a run."""

    nodes: int
    pods: int
    rate: float
    seed: int
    #: The configuration of the scheduler in force, without its head.
    force: Mapping[str, Any] = field(default_factory=dict)
    #: That of the shadow.
    shadow: Mapping[str, Any] = field(default_factory=dict)
    #: Whether a shadow runs.
    beside: bool = True
    #: Whether kubestow is the scheduler in force.
    ours: bool = False
    #: Whether the shadow has the administrator's token, which may write.
    may_write: bool = False
    #: How often the API server starts anew meanwhile.
    restarts: int = 0
    #: Seconds for which the API server is profiled from the first pod on; 0: it is not.
    profile: int = 0


@dataclass(slots=True)
class Outcome:
    """The findings of a run."""

    summary: dict[str, Any] = field(default_factory=dict)
    judged: list[dict[str, Any]] = field(default_factory=list)
    #: Requests of the shadow by verb, and those that were refused by what they were about.
    requests: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    #: CPU seconds during the load, and MiB at its end, by process.
    cpu: dict[str, float] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    #: Seconds until the last pod was created.
    created: float = 0.0
    unbound: int = 0

    @property
    def writes(self) -> int:
        """Requests of the shadow that are not reads."""
        return sum(count for verb, count in self.requests.items() if verb not in READING)


def run(plan: Plan, directory: Path) -> Outcome:
    """Carry out a plan; files stay in `directory`."""
    outcome = Outcome()
    with audited(directory) as (plane, log):
        pods = fill(plane, plan)
        force = start_force(plane, plan)
        with _beside(plane, plan, directory) as shadow, _profiled(plane, plan, directory):
            pids = {
                "API server": plane.api_server.pid,
                "etcd": plane.etcd.pid,
                "scheduler": force.pid,
                "generator": os.getpid(),
            }
            if shadow is not None:
                pids["shadow"] = shadow.pid
            before, began = _cpu(pids), time.monotonic()
            part = -(-len(pods) // (plan.restarts + 1))
            for first in range(0, len(pods), part):
                if first:
                    plane.restart_apiserver()
                    if shadow is not None:
                        until_followed(plane, plan, directory)
                create(plane, pods[first : first + part], plan.rate)
            outcome.created = time.monotonic() - began
            outcome.unbound = until_bound(plane, len(pods))
            time.sleep(SETTLE_SECONDS)
            pids["API server"] = plane.api_server.pid
            after = _cpu(pids)
            outcome.seconds = time.monotonic() - began
            outcome.cpu = {name: after[name] - before[name] for name in pids}
            outcome.memory = {name: resident(pid) for name, pid in pids.items()}
            if shadow is not None:
                until_judged(directory, pods[first:])
                outcome.summary, outcome.judged = _end(shadow, directory)
        force.stop()
    requests = requests_of(log)
    outcome.requests = dict(Counter(each["verb"] for each in requests))
    outcome.refused = dict(
        Counter(each["requestURI"].partition("?")[0] for each in requests if _is_refused(each))
    )
    return outcome


@contextmanager
def _profiled(plane: ControlPlane, plan: Plan, directory: Path) -> Iterator[None]:
    """Profile CPU and allocations of the API server, for `go tool pprof`."""
    if not plan.profile:
        yield
        return
    with ExitStack() as stack:
        for kind in ("profile", "allocs"):
            path = f"/debug/pprof/{kind}?seconds={plan.profile}"
            output = stack.enter_context((directory / f"api-server.{kind}").open("wb"))
            user = f"--kubeconfig={plane.kubeconfig}"
            process = subprocess.Popen(
                [str(plane.binaries.kubectl), user, "get", "--raw", path], stdout=output
            )
            stack.callback(process.wait)
        yield


@contextmanager
def audited(directory: Path) -> Iterator[tuple[ControlPlane, Path]]:
    """Run a control plane with an audit log of all requests; yield both."""
    log = directory / "audit.log"
    policy = directory / "policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    audit = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    with ControlPlane(
        options=ApiServerOptions(extra_arguments=audit), directory=directory / "plane"
    ) as plane:
        yield plane, log


def requests_of(log: Path) -> list[dict[str, Any]]:
    """Return the shadow's requests in an audit log."""
    entries = (json.loads(line) for line in log.read_text().splitlines())
    return [each for each in entries if each.get("userAgent", "").startswith(USER_AGENT)]


def _is_refused(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("responseStatus", {}).get("code") == http.HTTPStatus.FORBIDDEN)


def fill(plane: ControlPlane, plan: Plan) -> list[Object]:
    """Create nodes and volumes; return the pods to create."""
    source = random.Random(plan.seed)
    request = plane.admin.request
    request("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", _named("default"))
    for index in range(plan.nodes):
        made = node(source, index)
        request("POST", "/api/v1/nodes", made)
        limits = csi_node(made["metadata"]["name"], {CSI_DRIVER: VOLUMES_PER_NODE})
        request("POST", "/apis/storage.k8s.io/v1/csinodes", limits)
    scheduler = "kubestow" if plan.ours else "default-scheduler"
    pods = []
    for index in range(plan.pods):
        kind, made = pod(source, index, scheduler)
        pods.append(made)
        if kind == "volume":
            claim, persistent = storage(index)
            claims = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
            for path, each in (("/api/v1/persistentvolumes", persistent), (claims, claim)):
                request("POST", path, each)
                request("PATCH", f"{path}/{each['metadata']['name']}/status", BOUND)
    return pods


def _named(name: str) -> Object:
    return {"metadata": {"name": name}}


def start_force(plane: ControlPlane, plan: Plan) -> ManagedProcess:
    """Start the scheduler in force."""
    limits = {"clientConnection": {"qps": 5000, "burst": 5000}}
    if plan.ours:
        return start_kubestow(plane, {**limits, **plan.force})
    return plane.start_scheduler(plan.force)


@contextmanager
def _beside(
    plane: ControlPlane, plan: Plan, directory: Path
) -> Iterator[subprocess.Popen[bytes] | None]:
    if not plan.beside:
        yield None
        return
    kubeconfig = plane.kubeconfig if plan.may_write else reading_user(plane)
    with shadow_process(plan, directory, kubeconfig) as process:
        yield process


@contextmanager
def shadow_process(
    plan: Plan, directory: Path, kubeconfig: Path, *arguments: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a shadow that writes its judgements to `shadow.jsonl`; it has synced when this yields."""
    config = directory / "shadow.yaml"
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    limits = {"clientConnection": {"qps": 5000, "burst": 5000}}
    config.write_text(json.dumps({**head, **limits, **plan.shadow}))
    name = "kubestow" if plan.ours else "default-scheduler"
    command = [
        sys.executable, "-m", "scheduler", "shadow", "-o", "jsonl", f"--of={name}",
        f"--config={config}", f"--kubeconfig={kubeconfig}", *arguments,
    ]  # fmt: skip
    out, err = directory / "shadow.jsonl", directory / "shadow.err"
    with out.open("wb") as output, err.open("wb") as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors)
    try:
        while b"following" not in err.read_bytes():
            assert process.poll() is None, err.read_text()
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def reading_user(plane: ControlPlane) -> Path:
    """Create the account with the rights that `config rbac --shadow` prints."""
    role = subprocess.run(
        [sys.executable, "-m", "scheduler", "config", "rbac", "--shadow"],
        check=True,
        capture_output=True,
        text=True,
    )
    plane.kubectl("apply", "-f", "-", stdin=role.stdout)
    path = plane.service_account_kubeconfig(NAMESPACE, ACCOUNT)
    plane.kubectl(
        "create", "clusterrolebinding", "shadow", "--clusterrole=kubestow-shadow",
        f"--serviceaccount={NAMESPACE}:{ACCOUNT}",
    )  # fmt: skip
    return path


def create(plane: ControlPlane, pods: Sequence[Object], rate: float) -> None:
    """Create pods at a steady rate."""
    began = time.monotonic()
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    with ThreadPoolExecutor(WRITERS) as writers:
        requests = []
        for index, each in enumerate(pods):
            time.sleep(max(0.0, began + index / rate - time.monotonic()))
            requests.append(writers.submit(_post, plane, path, each))
        for request in requests:
            request.result()


def _post(plane: ControlPlane, path: str, body: Object) -> None:
    """Create an object; again while an API server that starts anew refuses connections."""
    end = time.monotonic() + RESTART_SECONDS
    while True:
        try:
            plane.admin.ensure(path, body)
            return
        except (OSError, HTTPException):
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def until_bound(plane: ControlPlane, count: int) -> int:
    """Wait until every pod has a node, or nothing changes any more; return how many have none."""
    end, before = time.monotonic() + PATIENCE_SECONDS, -1
    quiet = 0
    while time.monotonic() < end:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?fieldSelector=spec.nodeName%3D"
        left = len(plane.admin.request("GET", path)["items"])  # type: ignore[arg-type]
        quiet = quiet + 1 if left == before else 0
        if not left or quiet > 10:
            return left
        before = left
        time.sleep(1.0)
    return count


def until_followed(plane: ControlPlane, plan: Plan, directory: Path) -> None:
    """Create one pod after another until the shadow judges one, after a restart.

    What is bound before it watches again it finds bound, and never judges.
    """
    source, end = random.Random(plan.seed), time.monotonic() + PATIENCE_SECONDS
    for number in itertools.count():
        assert time.monotonic() < end, "the shadow does not follow after a restart"
        _, probe = pod(source, number, "kubestow" if plan.ours else "default-scheduler")
        name = f"probe-{number}"
        probe["metadata"] = {"name": name, "namespace": NAMESPACE}
        probe["spec"] = {key: probe["spec"][key] for key in ("schedulerName", "containers")}
        create(plane, [probe], plan.rate)
        time.sleep(1.0)
        if any("/probe-" in each for each in judged_pods(directory)):
            return


def until_judged(directory: Path, pods: Sequence[Object]) -> None:
    """Wait until the shadow has judged these pods, or judges no more of them."""
    expected = {f"{NAMESPACE}/{each['metadata']['name']}" for each in pods}
    before, end = -1, 0.0
    while True:
        left = len(expected - judged_pods(directory))
        now = time.monotonic()
        if left != before:
            before, end = left, now + QUIET_SECONDS
        if not left or now > end:
            return
        time.sleep(0.1)


def judged_pods(directory: Path) -> set[str]:
    """Return the keys of the pods that the shadow has judged so far."""
    whole = (directory / "shadow.jsonl").read_text().rpartition("\n")[0]
    return {json.loads(line)["pod"] for line in whole.splitlines()}


def _cpu(pids: Mapping[str, int]) -> dict[str, float]:
    return {name: cpu_seconds(pid) for name, pid in pids.items()}


def _end(
    shadow: subprocess.Popen[bytes], directory: Path
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    shadow.send_signal(signal.SIGINT)
    shadow.wait()
    lines = (directory / "shadow.jsonl").read_text().splitlines()
    *judged, summary = map(json.loads, lines)
    return summary, judged
