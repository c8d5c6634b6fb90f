"""One run: a fresh control plane, one scheduler, one workload."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.audit import audit
from benchmarks.operations import Observed, Operation, Plan
from benchmarks.schedulers import OURS, Scheduler
from benchmarks.throughput import Throughput, nearest_rank, sampled
from benchmarks.workloads import Workload
from devtools.control_plane.control_plane import ApiServerOptions, ControlPlane, ManagedProcess
from devtools.control_plane.inspecting import Inspector

CLIENT_FLAGS: Final = ("--kube-api-qps=5000", "--kube-api-burst=5000")
"""For kube-controller-manager: upstream's controllers in the test process have no limit."""
_POLL_SECONDS: Final = 0.1
_QUIET_SECONDS: Final = 1.0
"""How long no Event may come until all count as written."""
_PATIENCE_SECONDS: Final = 60.0
"""For Events of the pods before the window: churn never ends them."""
_PAGE: Final = 2000
_RESOLUTION_SECONDS: Final = 0.001
"""Bindings that the observer reads at once have one time; a few pods may all be among them."""
_ATTEMPTS: Final = "scheduler_schedule_attempts_total"
_EVENTS: Final = "kubestow_kubernetes_events_total"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Measurements of one run."""

    workload: str
    size: str
    contender: str
    backlog: bool
    pods: int
    #: Pods / (last binding - first creation); with a backlog, / (last binding - first binding).
    pods_per_second: float
    creations_per_second: float
    #: Upstream's statistics of one-second samples, where the window was long enough.
    sampled: Throughput | None
    #: Seconds from the creation of a pod to its binding.
    latency_p50: float
    latency_p99: float
    #: CPU seconds from the start of the window to the last binding.
    scheduler_cpu_per_pod: float
    #: The same until the scheduler has written its Events as well: kubestow sends binds first.
    drained_cpu_per_pod: float
    #: Kubernetes Events that existed when the window opened (the scheduler had written all it had),
    #: at the last binding, and when no more came.
    events_before: int
    events_in_window: int
    events: int
    #: As `pods_per_second`, until the last Event as well: kubestow sends binds first.
    pods_per_second_with_events: float
    #: Scheduling attempts by result, inside the window.
    attempts: dict[str, int]
    #: Seconds the window was open, and CPU seconds of the others inside it.
    window: float
    apiserver_cpu: float
    etcd_cpu: float
    generator_cpu: float
    #: CPU seconds of API server and etcd together from the start of the window to the last Event.
    drained_server_cpu: float
    peak_memory_mib: float
    #: What the generator created, by kind, churn left out.
    created: dict[str, int]
    #: Pods that existed in the end, those being deleted left out: shows victims beyond need.
    pods_left: int
    most_pods_on_a_node: int
    nodes_used: int
    #: Why the run must not be compared; empty when it may.
    problems: tuple[str, ...]


def run(
    workload: str,
    size: str,
    operations: Sequence[Operation],
    contender: Scheduler,
    definition: Workload,
    *,
    backlog: bool = False,
) -> Run:
    """Start everything fresh, carry the operations out, stop everything.

    `definition` says which controllers run beside the scheduler, which gates are on, and
    the arguments of plugins.
    """
    gates = dict.fromkeys(definition.feature_gates, True)
    contender = replace(contender, feature_gates=contender.feature_gates | gates)
    options = ApiServerOptions(
        disabled_admission_plugins=("ServiceAccount", "TaintNodesByCondition", "Priority"),
        feature_gates=gates,
        runtime_config=dict.fromkeys(definition.api_versions, True),
    )
    with ControlPlane(options=options) as control_plane:
        if definition.controllers:
            control_plane.start_controller_manager(CLIENT_FLAGS, controllers=definition.controllers)
        session = _Session(control_plane, contender, definition.arguments, backlog=backlog)
        return session.run(workload, size, operations)


@dataclass(frozen=True, slots=True)
class _Drained:
    """Events when no more came."""

    count: int
    #: When the last one was seen, monotonic seconds, and all CPU seconds then.
    grown: float
    cpu: dict[str, float]


@dataclass(frozen=True, slots=True)
class _Window:
    """Readings around the measured pods, from their first creation to their last binding."""

    observed: Observed
    #: Kubernetes Events when the window opened and when it closed.
    events_before: int
    events: int
    #: Scheduling attempts inside the window, by result.
    attempts: dict[str, int]
    #: CPU seconds by process: at the start of the window, and inside it.
    cpu_before: dict[str, float]
    cpu: dict[str, float]
    drained: _Drained


class _Session:
    """The harness's side of one run."""

    def __init__(
        self,
        control_plane: ControlPlane,
        contender: Scheduler,
        arguments: Mapping[str, Any] | None,
        *,
        backlog: bool,
    ) -> None:
        self._arguments = arguments
        self._control_plane = control_plane
        self._contender = contender
        self._backlog = backlog
        self._scheduler: ManagedProcess | None = None

    def run(self, workload: str, size: str, operations: Sequence[Operation]) -> Run:
        window = self._measure(operations)
        return self._evaluate(workload, size, window)

    def _measure(self, operations: Sequence[Operation]) -> _Window:
        """Carry the operations out in step with the load generator."""
        with _generator(
            self._control_plane, operations, self._contender, backlog=self._backlog
        ) as generator:
            generator.until("start")
            self._scheduler = self._contender.start(self._control_plane, self._arguments)
            generator.say("started")
            generator.until("open")
            events_before = self._drain_events().count
            attempts_before = self._attempts()
            if self._backlog:
                self._scheduler.stop(10)
            cpu_before = self._cpu()
            generator.say("measure")
            if self._backlog:
                generator.until("created")
                cpu_before = self._cpu()
                self._scheduler = self._contender.start(self._control_plane, self._arguments)
                attempts_before = {}
                generator.say("resume")
            generator.until("close")
            cpu_after, events = self._cpu(), self._count_events()
            attempts = self._attempts()
            generator.say("end")
            generator.until("result")
            return _Window(
                observed=generator.result(),
                events_before=events_before,
                events=events,
                attempts={
                    result: count - attempts_before.get(result, 0)
                    for result, count in attempts.items()
                },
                cpu_before=cpu_before,
                cpu=_difference(cpu_after, cpu_before),
                drained=self._drain_events(),
            )

    def _evaluate(self, workload: str, size: str, window: _Window) -> Run:
        observed, drained = window.observed, window.drained
        drained_cpu = _difference(drained.cpu, window.cpu_before)
        left = list(self._list("pods"))
        claims = self._list("resourceclaims", "/apis/resource.k8s.io/v1")
        problems = audit(observed, self._list("nodes"), left, claims)
        if dropped := self._dropped_events():
            problems.append(f"{dropped} Events were dropped")
        bound = sorted(observed.bound)
        pods = len(bound)
        latencies = sorted(b - c for b, c in zip(observed.bound, observed.created, strict=True))
        # With a backlog the clock starts at the first binding: a start-up is not scheduling.
        started = bound[0] if self._backlog else observed.created[0]
        scheduling = max(bound[-1] - started, _RESOLUTION_SECONDS)
        assert self._scheduler is not None
        return Run(
            workload=workload,
            size=size,
            contender=self._contender.label,
            backlog=self._backlog,
            pods=pods,
            pods_per_second=pods / scheduling,
            creations_per_second=pods / (observed.created_all - observed.created[0]),
            sampled=sampled(bound, started),
            latency_p50=nearest_rank(latencies, 50),
            latency_p99=nearest_rank(latencies, 99),
            scheduler_cpu_per_pod=window.cpu["scheduler"] / pods,
            drained_cpu_per_pod=drained_cpu["scheduler"] / pods,
            events_before=window.events_before,
            events_in_window=window.events,
            events=drained.count,
            pods_per_second_with_events=pods / max(drained.grown - started, scheduling),
            attempts=window.attempts,
            window=observed.closed - observed.opened,
            apiserver_cpu=window.cpu["apiserver"],
            etcd_cpu=window.cpu["etcd"],
            generator_cpu=observed.generator_cpu,
            drained_server_cpu=drained_cpu["apiserver"] + drained_cpu["etcd"],
            peak_memory_mib=peak_memory(self._scheduler.pid),
            created=observed.objects,
            pods_left=sum("deletionTimestamp" not in pod["metadata"] for pod in left),
            most_pods_on_a_node=max(Counter(observed.nodes).values()),
            nodes_used=len(set(observed.nodes)),
            problems=tuple(problems),
        )

    def _attempts(self) -> dict[str, int]:
        assert self._scheduler is not None
        inspector = Inspector(self._scheduler, self._control_plane)
        found = {
            result: int(inspector.sample(_ATTEMPTS, result=result))
            for result in ("scheduled", "unschedulable", "error")
        }
        return {result: count for result, count in found.items() if count}

    def _dropped_events(self) -> int:
        if self._contender.program != OURS:
            return 0
        assert self._scheduler is not None
        inspector = Inspector(self._scheduler, self._control_plane)
        return int(inspector.sample(_EVENTS, outcome="dropped"))

    def _cpu(self) -> dict[str, float]:
        assert self._scheduler is not None
        running = self._scheduler.running
        return {
            "apiserver": cpu_seconds(self._control_plane.api_server.pid),
            "etcd": cpu_seconds(self._control_plane.etcd.pid),
            # A scheduler that is stopped for the backlog starts again from nothing.
            "scheduler": cpu_seconds(self._scheduler.pid) if running else 0.0,
        }

    def _count_events(self) -> int:
        path = "/apis/events.k8s.io/v1/events?limit=1"
        response: Any = self._control_plane.admin.request("GET", path)
        return len(response["items"]) + int(response["metadata"].get("remainingItemCount", 0))

    def _drain_events(self) -> _Drained:
        """Wait until no Event was added for a while; polls often, since windows are short.

        The generator's clock is this one's: both read the machine's monotonic clock.
        """
        began = time.monotonic()
        drained = _Drained(self._count_events(), began, self._cpu())
        while (now := time.monotonic()) < drained.grown + _QUIET_SECONDS:
            if now > began + _PATIENCE_SECONDS:
                break
            time.sleep(_POLL_SECONDS)
            if (count := self._count_events()) != drained.count:
                drained = _Drained(count, time.monotonic(), self._cpu())
        return drained

    def _list(self, plural: str, base: str = "/api/v1") -> Iterator[dict[str, Any]]:
        token = ""
        while True:
            query = f"?limit={_PAGE}" + (f"&continue={token}" if token else "")
            response: Any = self._control_plane.admin.request("GET", f"{base}/{plural}{query}")
            yield from response["items"]
            token = response["metadata"].get("continue", "")
            if not token:
                return


class _Generator:
    """The load generator's process, spoken to in words and JSON lines."""

    def __init__(self, process: subprocess.Popen[str], result: Path) -> None:
        self._process = process
        self._result = result

    def say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def result(self) -> Observed:
        return msgspec.json.decode(self._result.read_bytes(), type=Observed)

    def until(self, phase: str) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if json.loads(line)["phase"] == phase:
                return
        msg = f"the load generator ended before phase {phase!r}, status {self._process.wait()}"
        raise RuntimeError(msg)


@contextmanager
def _generator(
    control_plane: ControlPlane,
    operations: Sequence[Operation],
    contender: Scheduler,
    *,
    backlog: bool,
) -> Iterator[_Generator]:
    with tempfile.TemporaryDirectory() as directory:
        path, result = Path(directory) / "plan.json", Path(directory) / "result.json"
        plan = Plan(
            url=control_plane.url,
            ca=str(control_plane.files.authority),
            token=control_plane.admin_token,
            scheduler=contender.scheduler_name,
            operations=tuple(operations),
            result=str(result),
            backlog=backlog,
        )
        path.write_bytes(msgspec.json.encode(plan))
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


def _difference(after: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {name: seconds - before[name] for name, seconds in after.items()}


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
