"""One run: a fresh control plane, one scheduler, one workload."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.throughput import Throughput, nearest_rank, sampled
from benchmarks.workloads import MEASURED_NAMESPACE, Workload
from tests.envtest.control_plane import ApiServerOptions, ControlPlane, ManagedProcess
from tests.envtest.kubestow import start_kubestow

_DRAIN_SECONDS: Final = 0.5
_DRAIN_POLLS: Final = 6
CLIENT_LIMITS: Final = {"qps": 5000, "burst": 5000}


@dataclass(frozen=True, slots=True)
class Contender:
    """A scheduler under test and its settings."""

    label: str
    #: `kubestow` or `kube-scheduler`.
    program: str
    scheduler_name: str
    feature_gates: dict[str, bool] = field(default_factory=dict)
    percentage_of_nodes_to_score: int | None = None


CONTENDERS: Final = {
    contender.label: contender
    for contender in (
        Contender("kubestow", "kubestow", "kubestow"),
        Contender("kube-scheduler", "kube-scheduler", "default-scheduler"),
        Contender(
            "kube-scheduler, batching off",
            "kube-scheduler",
            "default-scheduler",
            {"OpportunisticBatching": False},
        ),
        Contender(
            "kube-scheduler, all nodes",
            "kube-scheduler",
            "default-scheduler",
            percentage_of_nodes_to_score=100,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Run:
    """What one run measured."""

    workload: str
    contender: str
    nodes: int
    pods: int
    backlog: bool
    #: Pods / (last binding - first creation); with a backlog, / (last binding - start of the
    #: scheduler).
    pods_per_second: float
    creations_per_second: float
    sampled: Throughput | None
    latency_p50: float
    latency_p99: float
    #: CPU seconds from the start of the window to the last binding.
    scheduler_cpu_per_pod: float
    #: The same until the scheduler has written its events as well: binds go first here, events
    #: wait.
    drained_cpu_per_pod: float
    #: Kubernetes Events of measured pods that existed at the last binding, and when no more came.
    events_in_window: int
    events: int
    apiserver_cpu: float
    etcd_cpu: float
    generator_cpu: float
    peak_memory_mib: float
    most_pods_on_a_node: int

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def run(workload: Workload, contender: Contender, *, backlog: bool = False) -> Run:
    """Start everything fresh, run the workload, stop everything."""
    options = ApiServerOptions(
        disabled_admission_plugins=("ServiceAccount", "TaintNodesByCondition", "Priority")
    )
    with ControlPlane(options=options) as control_plane:
        return _run(control_plane, workload, contender, backlog=backlog)


def _run(
    control_plane: ControlPlane, workload: Workload, contender: Contender, *, backlog: bool
) -> Run:
    with _generator(control_plane, workload, contender, backlog=backlog) as generator:
        generator.until("nodes")
        scheduler = None if backlog else _start(control_plane, contender)
        generator.say("start")
        generator.until("init")
        before = {} if scheduler is None else _cpu(control_plane, scheduler)
        generator.say("measure")
        if scheduler is None:
            generator.until("created")
            before = _cpu(control_plane, None)
            scheduler = _start(control_plane, contender)
        generator.until("result")
        result = generator.result()
        after = _cpu(control_plane, scheduler)
        events = count_events(control_plane)
        drained_events = drain_events(control_plane, workload.measured_pods)
        drained = _cpu(control_plane, scheduler)
        memory = peak_memory(scheduler.pid)
    bound = sorted(result["bound"])
    pods = len(bound)
    latencies = sorted(b - c for b, c in zip(result["bound"], result["created"], strict=True))
    # With a backlog the clock starts at the first binding: process start-up is not scheduling.
    started = bound[0] if backlog else result["started"]
    return Run(
        workload=workload.name,
        contender=contender.label,
        nodes=workload.nodes,
        pods=pods,
        backlog=backlog,
        pods_per_second=pods / (bound[-1] - started),
        creations_per_second=pods / (result["created_all"] - result["started"]),
        sampled=sampled(bound, started),
        latency_p50=nearest_rank(latencies, 50),
        latency_p99=nearest_rank(latencies, 99),
        scheduler_cpu_per_pod=(after["scheduler"] - before.get("scheduler", 0.0)) / pods,
        drained_cpu_per_pod=(drained["scheduler"] - before.get("scheduler", 0.0)) / pods,
        events_in_window=events,
        events=drained_events,
        apiserver_cpu=after["apiserver"] - before["apiserver"],
        etcd_cpu=after["etcd"] - before["etcd"],
        generator_cpu=result["generator_cpu"],
        peak_memory_mib=memory,
        most_pods_on_a_node=max(Counter(result["nodes"]).values()),
    )


def _start(control_plane: ControlPlane, contender: Contender) -> ManagedProcess:
    config: dict[str, Any] = {"clientConnection": CLIENT_LIMITS}
    if contender.percentage_of_nodes_to_score is not None:
        config["percentageOfNodesToScore"] = contender.percentage_of_nodes_to_score
    if contender.program == "kubestow":
        return start_kubestow(control_plane, config, feature_gates=contender.feature_gates)
    return control_plane.start_scheduler(config, feature_gates=contender.feature_gates)


class _Generator:
    """The load generator's process, spoken to in words and JSON lines."""

    def __init__(self, process: subprocess.Popen[str], result: Path) -> None:
        self._process = process
        self._result = result

    def say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def result(self) -> dict[str, Any]:
        times: dict[str, Any] = json.loads(self._result.read_text())
        return times

    def until(self, phase: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message: dict[str, Any] = json.loads(line)
            if message["phase"] == phase:
                return message
        msg = f"the load generator ended before phase {phase!r}, status {self._process.wait()}"
        raise RuntimeError(msg)


@contextmanager
def _generator(
    control_plane: ControlPlane, workload: Workload, contender: Contender, *, backlog: bool
) -> Iterator[_Generator]:
    plan = {
        "url": control_plane.url,
        "ca": str(control_plane.files.authority),
        "token": control_plane.admin_token,
        "scheduler": contender.scheduler_name,
        "nodes": workload.nodes,
        "init_pods": 0 if backlog else workload.init_pods,
        "measured_pods": workload.measured_pods,
    }
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "plan.json"
        result = Path(directory) / "result.json"
        plan["result"] = str(result)
        path.write_text(json.dumps(plan))
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.load", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield _Generator(process, result)
        finally:
            process.kill()
            process.communicate()


def count_events(control_plane: ControlPlane) -> int:
    """Events that regard measured pods."""
    path = f"/apis/events.k8s.io/v1/namespaces/{MEASURED_NAMESPACE}/events?limit=1"
    answer: Any = control_plane.admin.request("GET", path)
    return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount", 0))


def drain_events(control_plane: ControlPlane, expected: int) -> int:
    """Wait until every measured pod has an event, or none was added for a while; their number."""
    count, unchanged = count_events(control_plane), 0
    while count < expected and unchanged < _DRAIN_POLLS:
        time.sleep(_DRAIN_SECONDS)
        before, count = count, count_events(control_plane)
        unchanged = unchanged + 1 if count == before else 0
    return count


def _cpu(control_plane: ControlPlane, scheduler: ManagedProcess | None) -> dict[str, float]:
    figures = {
        "apiserver": cpu_seconds(control_plane.api_server.pid),
        "etcd": cpu_seconds(control_plane.etcd.pid),
    }
    if scheduler is not None:
        figures["scheduler"] = cpu_seconds(scheduler.pid)
    return figures


def cpu_seconds(pid: int) -> float:
    """User and system CPU seconds of a process so far, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory(pid: int) -> float:
    """Largest resident set of a process so far, MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0
