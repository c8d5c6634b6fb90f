"""A shadow beside kube-scheduler for an hour, with a token that may write and much that goes wrong.

    python -m benchmarks.shadow.soak --seconds 3600

Pods of nine kinds come and go at a light load. In turn the API server starts anew, is killed, hangs
for half a minute, and refuses the shadow all rights while it starts anew; and the scheduler in
force starts anew. At the end the audit log must have no request of the shadow that is not a read.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.hostile.measuring import resident
from benchmarks.measure import cpu_seconds
from benchmarks.shadow.__main__ import SCENARIOS
from benchmarks.shadow.beside import (
    ACCOUNT,
    READING,
    Plan,
    audited,
    fill,
    requests_of,
    shadow_process,
    start_force,
)
from benchmarks.shadow.pods import NAMESPACE, pod
from benchmarks.templates import Object
from devtools.control_plane.admin import ApiError
from devtools.control_plane.control_plane import ControlPlane, ManagedProcess

PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
BINDINGS: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
HANG_SECONDS: Final = 30.0
REFUSED_SECONDS: Final = 20.0
SAMPLE_SECONDS: Final = 60.0
TOO_LARGE: Final = 25
"""One pod in so many fits nowhere."""
TOKEN_SECONDS: Final = 6 * 3600

_UNREACHABLE: Final = (OSError, HTTPException, ApiError)


@dataclass(slots=True)
class Report:
    """The findings."""

    seconds: float = 0.0
    created: int = 0
    deleted: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    #: Elapsed seconds, CPU seconds and MiB of the shadow.
    samples: list[tuple[float, float, float]] = field(default_factory=list)
    exit_code: int | None = None
    summary: dict[str, Any] = field(default_factory=dict)
    #: Requests of the shadow in the audit log, by verb and by status.
    requests: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)

    @property
    def writes(self) -> int:
        """Requests of the shadow that are not reads."""
        return sum(count for verb, count in self.requests.items() if verb not in READING)


class Load:
    """Creates pods at a steady rate and deletes each after its life, in a thread of its own."""

    def __init__(self, plane: ControlPlane, rate: float, life: float, report: Report) -> None:
        self._plane = plane
        self._interval, self._life = 1 / rate, life
        self._report = report
        self._source = random.Random(1)
        self._alive: deque[tuple[float, str]] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Load the cluster while the context is open."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(self._interval):
            with suppress(*_UNREACHABLE):
                self._create(number)
                number += 1
            while self._alive and self._alive[0][0] < time.monotonic():
                _, name = self._alive.popleft()
                with suppress(*_UNREACHABLE):
                    path = f"{PODS_PATH}/{name}?gracePeriodSeconds=0"
                    self._plane.admin.request("DELETE", path)
                    self._report.deleted += 1

    def _create(self, number: int) -> None:
        kind, made = pod(self._source, number, "default-scheduler")
        if kind == "volume":
            # Each would need a volume of its own.
            made["spec"].pop("volumes")
        if number % TOO_LARGE == 0:
            made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100"
        self._plane.admin.ensure(PODS_PATH, made)
        self._report.created += 1
        self._alive.append((time.monotonic() + self._life, made["metadata"]["name"]))


class Faults:
    """Faults of the cluster, in turn."""

    def __init__(self, plane: ControlPlane, force: ManagedProcess, plan: Plan) -> None:
        self._plane = plane
        self._force = force
        self._plan = plan
        self._turns: list[Callable[[], None]] = [
            self.api_server_starts_anew,
            self.api_server_hangs,
            self.scheduler_starts_anew,
            self.rights_are_taken_away,
            self.api_server_is_killed,
        ]
        self._next = 0

    def one(self) -> str:
        """Cause the next fault, and wait until it is over; return its name."""
        turn = self._turns[self._next % len(self._turns)]
        self._next += 1
        turn()
        return turn.__name__.replace("_", " ")

    def api_server_starts_anew(self) -> None:
        """Let it end in order."""
        self._plane.restart_apiserver()

    def api_server_is_killed(self) -> None:
        """Let it crash."""
        self._plane.kill_apiserver()
        self._plane.start_apiserver()

    def api_server_hangs(self) -> None:
        """Let it say nothing, with open connections."""
        self._plane.api_server.pause()
        time.sleep(HANG_SECONDS)
        self._plane.api_server.resume()

    def scheduler_starts_anew(self) -> None:
        """Replace the scheduler in force."""
        self._force.stop()
        self._force = start_force(self._plane, self._plan)

    def rights_are_taken_away(self) -> None:
        """Refuse every list and watch for a while."""
        self._plane.admin.request("DELETE", f"{BINDINGS}/{ACCOUNT}")
        self._plane.restart_apiserver()
        time.sleep(REFUSED_SECONDS)
        self._plane.admin.ensure(BINDINGS, _administrator())


def _administrator() -> Object:
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    }


def soak(
    directory: Path, *, seconds: float, rate: float, nodes: int, life: float, every: float
) -> Report:
    """Run a soak; files stay in `directory`."""
    report = Report()
    plan = Plan(nodes=nodes, pods=0, rate=rate, seed=1, **SCENARIOS["same"])
    with audited(directory) as (plane, log):
        fill(plane, plan)
        force = start_force(plane, plan)
        plane.admin.ensure(BINDINGS, _administrator())
        kubeconfig = plane.service_account_kubeconfig(NAMESPACE, ACCOUNT, seconds=TOKEN_SECONDS)
        page = f"--report={directory / 'report.html'}"
        with shadow_process(plan, directory, kubeconfig, page) as shadow:
            faults = Faults(plane, force, plan)
            with Load(plane, rate, life, report).running():
                _pass(report, shadow, faults, seconds, every)
            shadow.send_signal(signal.SIGTERM)
            report.exit_code = shadow.wait(60)
        requests = requests_of(log)
    report.summary = json.loads((directory / "shadow.jsonl").read_text().splitlines()[-1])
    report.requests = dict(Counter(each["verb"] for each in requests))
    codes = (each.get("responseStatus", {}).get("code") for each in requests)
    report.statuses = dict(Counter(map(str, codes)))
    return report


def _pass(
    report: Report, shadow: subprocess.Popen[bytes], faults: Faults, seconds: float, every: float
) -> None:
    """Cause a fault every so often until the time is over."""
    began = time.monotonic()
    fault = began + every
    while (elapsed := time.monotonic() - began) < seconds and shadow.poll() is None:
        report.seconds = elapsed
        sample = (elapsed, cpu_seconds(shadow.pid), resident(shadow.pid))
        report.samples.append(sample)
        print("{:5.0f} s: {:.1f} s CPU, {:.0f} MiB".format(*sample), flush=True)
        if time.monotonic() >= fault:
            fault += every
            name = faults.one()
            report.faults[name] += 1
            print(f"  {name}", flush=True)
        wait = min(SAMPLE_SECONDS, every, began + seconds - time.monotonic())
        time.sleep(max(0.0, wait))


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--seconds", default=3600.0)
@click.option("--rate", default=1.0, help="Pods a second.")
@click.option("--nodes", default=200)
@click.option("--life", default=240.0, help="Seconds until a pod is deleted.")
@click.option("--every", default=170.0, help="Seconds between two faults.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep logs in this folder.")
def main(
    seconds: float, rate: float, nodes: int, life: float, every: float, keep: Path | None
) -> None:
    """Soak, print the findings; exit code 1 if the shadow has written, or has not survived."""
    directory = keep or Path(tempfile.mkdtemp())
    directory.mkdir(parents=True, exist_ok=True)
    report = soak(directory, seconds=seconds, rate=rate, nodes=nodes, life=life, every=every)
    if keep is None:
        shutil.rmtree(directory)
    print(f"{report.seconds:.0f} s, {report.created} pods created, {report.deleted} deleted")
    print(f"faults {dict(report.faults)}")
    print(f"exit code {report.exit_code}; judged {report.summary['judged']}: {report.summary}")
    print(f"requests {report.requests}, by status {report.statuses}; writes {report.writes}")
    sys.exit(int(report.writes > 0 or report.exit_code != 0 or not report.summary["judged"]))


if __name__ == "__main__":
    main()
