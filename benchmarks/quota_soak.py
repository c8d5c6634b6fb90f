"""Kueue-like churn under deferred quota, for as long as you like, with everything going wrong.

    python -m benchmarks.quota_soak --seconds 900

An embedded API server (this process) and an ordinary `kubestow run` (another). Pods are created
gated, let go in batches, bound within four quotas, finished and deleted, as many at a time as the
machine carries. Binds are delayed, refused, cut off, or carried out without a response, at random.

At every change that the server stores, what bound pods of a namespace ask for together must be
within its quota. At the end nothing may be left: no pod, no reservation, no drift of the ledger,
and `status.used` must be 0 again. Otherwise it prints what was wrong and exits with status 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import ssl
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks.bound_sum import BoundSum
from devtools.control_plane.ports import free_port
from simulator import EmbeddedCluster, FaultRule
from simulator.admission import WriteOptions
from simulator.api import MERGE_PATCH
from simulator.objects import JsonObject
from simulator.store import StoreChange

GATE: Final = "ResourceQuotaDeferredEnforcement"
KEY: Final = "deferred.kubestow.io/requests.cpu-millis"
TEAMS: Final = ("team-a", "team-b", "team-c", "team-d")
LIMIT: Final = 40_000
"""Milli-CPU per team."""
SIZES: Final = ("100m", "250m", "500m", "1", "2", "4")
OUTSTANDING: Final = 120
"""Pods of a team that exist at a time: a few times what fits."""
LIFE_SECONDS: Final = 0.3
"""A bound pod ends after at most so long."""
START_TIMEOUT_SECONDS: Final = 60.0
STUCK_SECONDS: Final = 90.0
"""Without any progress while pods are left."""
TICK_SECONDS: Final = 0.02
PORT: Final = "--secure-port"


@dataclass(slots=True)
class Report:
    """Result of a run."""

    seconds: float = 0.0
    binds: int = 0
    finished: int = 0
    most_used: dict[str, int] = field(default_factory=dict)
    bind_faults: int = 0
    settled: int = 0
    usage_writes: int = 0
    scheduler_memory_mb: float = 0.0
    problems: list[str] = field(default_factory=list)


class Team:
    """One namespace: a quota, and pods that come and go."""

    def __init__(self, cluster: EmbeddedCluster, name: str, source: random.Random) -> None:
        self.cluster = cluster
        self.name = name
        self.finished = 0
        self._random = source
        self._pods = cluster.resources.of_kind("v1", "Pod")
        self._number = 0
        self._gated: deque[str] = deque()
        self._ends: list[tuple[float, str]] = []
        self._alive: set[str] = set()
        self._bound: set[str] = set()
        self.total = BoundSum(cluster, name)
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        meta = {"name": "quota", "namespace": name}
        spec = {"hard": {KEY: str(LIMIT)}}
        cluster.create(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": spec}
        )
        cluster.store.subscribe("pods", self._changed)

    @property
    def alive(self) -> int:
        """Pods that exist."""
        return len(self._alive)

    def tick(self, now: float, *, more: bool) -> None:
        """Create, let go, finish."""
        if more:
            while len(self._alive) < OUTSTANDING:
                self._create()
        batch = self._random.randint(0, 8) if more else len(self._gated)
        for _ in range(min(batch, len(self._gated))):
            self._patch(self._gated.popleft(), {"spec": {"schedulingGates": None}})
        due = [name for end, name in self._ends if end <= now]
        self._ends = [each for each in self._ends if each[0] > now]
        for name in due:
            self._patch(name, {"status": {"phase": "Succeeded"}}, "status")
            self._delete(name)
            self.finished += 1

    def used(self) -> int:
        """Milli-CPU that the quota shows."""
        quota = self.cluster.get("v1", "ResourceQuota", "quota", self.name)
        raw = str(quota.get("status", {}).get("used", {}).get(KEY, "-1"))
        return int(raw.removesuffix("k")) * (1000 if raw.endswith("k") else 1)

    def _create(self) -> None:
        self._number += 1
        name = f"p{self._number}"
        requests = {"cpu": self._random.choice(SIZES)}
        container = {"name": "c", "image": "i", "resources": {"requests": requests}}
        spec: JsonObject = {"schedulerName": "kubestow", "containers": [container]}
        # One in ten was never gated.
        if self._random.random() < 0.9:
            spec["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
            self._gated.append(name)
        self._alive.add(name)
        meta = {"name": name, "namespace": self.name}
        self.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def _patch(self, name: str, patch: JsonObject, subresource: str = "") -> None:
        self.cluster.api.patch(
            self._pods, self.name, name, patch, MERGE_PATCH, subresource=subresource
        )

    def _delete(self, name: str) -> None:
        self.cluster.api.delete(
            self._pods, self.name, name, {"gracePeriodSeconds": 0}, WriteOptions()
        )

    def _changed(self, _table: str, change: StoreChange) -> None:
        meta = change.version.obj["metadata"]
        if meta["namespace"] != self.name:
            return
        name = meta["name"]
        if change.type == "DELETED":
            self._alive.discard(name)
            self._bound.discard(name)
        elif change.version.obj["spec"].get("nodeName") and name not in self._bound:
            self._bound.add(name)
            end = time.monotonic() + self._random.uniform(0.0, LIFE_SECONDS)
            self._ends.append((end, name))


class Trouble:
    """Random faults of binds, a few of them in force at a time."""

    def __init__(self, cluster: EmbeddedCluster, source: random.Random) -> None:
        self._cluster = cluster
        self._random = source
        self._rules: deque[str] = deque()
        self.made = 0

    def stir(self) -> None:
        """Replace the oldest fault."""
        while len(self._rules) >= 3:
            self._cluster.faults.remove(self._rules.popleft())
        action = self._random.choice(("error", "drop-answer", "cut", "delay", "delay"))
        rule = FaultRule(
            action=action,  # type: ignore[arg-type]
            verb="create",
            resource="pods/binding",
            name=f"*{self._random.randint(0, 9)}",
            code=self._random.choice((409, 429, 500, 503)),
            seconds=self._random.uniform(0.01, 0.3),
            times=10,
        )
        self._rules.append(self._cluster.faults.add(rule))
        self.made += 1

    def end(self) -> None:
        """All is well from here on."""
        while self._rules:
            self._cluster.faults.remove(self._rules.popleft())


class Scheduler:
    """The process under test, and its own statistics."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, log: Path) -> None:
        self._process = process
        self._base = f"https://127.0.0.1:{port}"
        self.log = log
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self._tls = context

    @property
    def running(self) -> bool:
        """Whether it is still there."""
        return self._process.returncode is None

    async def ready(self) -> None:
        """Wait until it schedules: a loaded machine needs seconds to start a process.

        Raises:
            TimeoutError: it is not ready after START_TIMEOUT_SECONDS.
        """
        async with asyncio.timeout(START_TIMEOUT_SECONDS):
            while self.running:
                try:
                    await self._get("/readyz")
                except aiohttp.ClientError:
                    await asyncio.sleep(TICK_SECONDS)
                else:
                    return

    async def statistics(self) -> dict[str, Any]:
        """`/debug/statistics`."""
        found: dict[str, Any] = json.loads(await self._get("/debug/statistics"))
        return found

    async def samples(self, name: str) -> list[float]:
        """All samples of one metric."""
        lines = (await self._get("/metrics")).splitlines()
        rows = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return [float(value) for series, _, value in rows if series.partition("{")[0] == name]

    async def _get(self, path: str) -> str:
        timeout = aiohttp.ClientTimeout(total=30)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(self._base + path, ssl=self._tls) as response,
        ):
            response.raise_for_status()
            return await response.text()


@asynccontextmanager
async def _scheduler(url: str, directory: Path) -> AsyncIterator[Scheduler]:
    port = free_port()
    log = directory / "kubestow.log"
    config = directory / "config.json"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "clientConnection": {"qps": 10_000, "burst": 10_000},
                "podInitialBackoffSeconds": 1,
                "podMaxBackoffSeconds": 2,
            }
        )
    )
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "scheduler", "run", f"--config={config}", f"--master={url}",
            f"--feature-gates={GATE}=true", f"{PORT}={port}", "--bind-address=127.0.0.1",
            f"--cert-dir={directory}", "--authorization-always-allow-paths=/metrics,/debug/*",
            stdout=output, stderr=output,
        )  # fmt: skip
    scheduler = Scheduler(process, port, log)
    try:
        yield scheduler
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def soak(seconds: float, seed: int, say: Callable[[str], None]) -> Report:
    """One run."""
    report = Report()
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quota-soak-")))
        cluster = EmbeddedCluster(controllers=("quota",), seed=seed, history=50_000)
        await stack.enter_async_context(cluster)
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "250"}
        for number in range(10):
            status = {"capacity": amounts, "allocatable": dict(amounts)}
            meta = {"name": f"n{number}"}
            cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status})
        source = random.Random(seed)
        teams = [Team(cluster, name, source) for name in TEAMS]
        scheduler = await stack.enter_async_context(_scheduler(cluster.url, directory))
        await scheduler.ready()
        trouble = Trouble(cluster, source)
        began = time.monotonic()
        await _churn(teams, trouble, scheduler, began + seconds, say)
        trouble.end()
        report.seconds = round(time.monotonic() - began, 1)
        report.binds = sum(team.total.binds for team in teams)
        await _drain(teams, scheduler, report)
        report.finished = sum(team.finished for team in teams)
        report.bind_faults = trouble.made
        await _judge(teams, scheduler, report)
        if report.problems:
            tail = scheduler.log.read_text(errors="replace").splitlines()[-40:]
            print("\n".join(tail), file=sys.stderr)
    return report


async def _churn(
    teams: Sequence[Team],
    trouble: Trouble,
    scheduler: Scheduler,
    end: float,
    say: Callable[[str], None],
) -> None:
    stir = tell = 0.0
    binds, since = 0, time.monotonic()
    while (now := time.monotonic()) < end and scheduler.running:
        for team in teams:
            team.tick(now, more=True)
        if now >= stir:
            trouble.stir()
            stir = now + 0.2
        if now >= tell:
            total = sum(team.total.binds for team in teams)
            if tell:
                say(f"{total} binds, {(total - binds) / (now - since):.0f} a second")
            binds, since, tell = total, now, now + 10.0
        await asyncio.sleep(TICK_SECONDS)


async def _drain(teams: Sequence[Team], scheduler: Scheduler, report: Report) -> None:
    """Let everything end; what does not is stuck."""
    progress, at = -1, time.monotonic()
    while any(team.alive for team in teams):
        now = time.monotonic()
        for team in teams:
            team.tick(now, more=False)
        done = sum(team.finished for team in teams)
        if done != progress:
            progress, at = done, now
        if now - at > STUCK_SECONDS or not scheduler.running:
            left = {team.name: team.alive for team in teams if team.alive}
            report.problems.append(f"pods that never ended: {left}")
            return
        await asyncio.sleep(TICK_SECONDS)


async def _judge(teams: Sequence[Team], scheduler: Scheduler, report: Report) -> None:
    problems = report.problems
    for team in teams:
        report.most_used[team.name] = team.total.most
        if team.total.most > LIMIT:
            problems.append(f"{team.name}: {team.total.most} of {LIMIT} were bound at a time")
    if not scheduler.running:
        problems.append("the scheduler has ended")
        return
    if not report.problems:
        await _until(lambda: all(team.used() == 0 for team in teams))
    for team in teams:
        if team.used():
            problems.append(f"{team.name}: status.used is {team.used()} with no pod left")
    statistics = await scheduler.statistics()
    ledger = statistics["quota ledger"]
    report.settled = statistics["dispatcher"]["settled"]
    report.usage_writes = statistics["quota usage"]["written"]
    for name in ("pods", "held", "reserved", "drift"):
        if ledger[name]:
            problems.append(f"the ledger is left with {name}: {ledger[name]}")
    in_flight = sum(await scheduler.samples("scheduler_resource_quota_inflight"))
    if in_flight:
        problems.append(f"the metric says that {in_flight} are in flight")
    if any(await scheduler.samples("scheduler_resource_quota_ledger_drift")):
        problems.append("the ledger drifted during the run")
    memory = await scheduler.samples("process_resident_memory_bytes")
    report.scheduler_memory_mb = round(sum(memory) / 1e6, 1)


async def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30.0
    while not condition() and time.monotonic() < end:  # noqa: ASYNC110 - the state is not an event
        await asyncio.sleep(0.1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print the report as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    report = asyncio.run(soak(options.seconds, options.seed, lambda line: print(line, flush=True)))
    print(json.dumps(asdict(report), indent=2))
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
