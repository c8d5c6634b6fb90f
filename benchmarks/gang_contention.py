"""`python -m benchmarks.gang_contention`: gangs and single pods that compete for too little room.

In virtual time; the scheduler is the service's own, and the figures depend on the seed alone. The
same workload also goes through two references without a scheduler, which place on the first node
with room:

- *singles*: every member is a pod of its own. In order of arrival each pod starts as soon as it
  fits, so this is the utilisation that gangs cost nothing of.
- *in order*: a gang starts as a whole, and nobody starts before all that arrived earlier. A gang's
  *fair share* of waiting is its wait there, and at least the mean time that pods run: that is the
  scale on which room becomes free at all.

Two bars; the exit code is 1 if one is missed: utilisation is at least that of singles minus 3
percentage points, and no gang waits more than 3 times its fair share. Utilisation is the CPU time
of running pods by that of all nodes, from a tenth of the time of arrivals to its end.
"""

from __future__ import annotations

import heapq
import json
import math
import tempfile
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Any, Final

import click

from scheduler import offline
from scheduler.api.pod_groups import POD_GROUP_LABEL
from simulator.demos.gang.objects import group as pod_group

POINTS: Final = 3.0
"""Percentage points of utilisation that gangs may cost."""
FAIR_FACTOR: Final = 3.0
"""The longest wait of a gang, in fair shares."""

SINGLE_SECONDS: Final = 120.0
GANG_SECONDS: Final = 300.0
SINGLE_CPUS: Final = (1, 1, 2, 4)
GANG_CPUS: Final = (2, 4)
GANG_SHARE: Final = 0.5
"""The part of the work that gangs bring."""
WARM_UP: Final = 0.1

STRATEGIES: Final = ("LeastAllocated", "MostAllocated")


def configuration(strategy: str) -> dict[str, Any]:
    """Return a configuration with gangs and this scoring strategy of NodeResourcesFit."""
    resources = [{"name": name, "weight": 1} for name in ("cpu", "memory")]
    scoring = {"scoringStrategy": {"type": strategy, "resources": resources}}
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}},
        "pluginConfig": [{"name": "NodeResourcesFit", "args": scoring}],
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


@dataclass(frozen=True, slots=True)
class Job:
    """A single pod, or a gang."""

    name: str
    time: float
    seconds: float
    cpu: int
    members: int

    @property
    def is_gang(self) -> bool:
        """Whether it has several members."""
        return self.members > 1


@dataclass(frozen=True, slots=True)
class Size:
    """A cluster and its workload."""

    nodes: int
    node_cpu: int
    #: Members of the largest gang.
    largest: int
    #: Work that arrives, by that which all nodes together can do.
    load: float
    #: Seconds during which jobs arrive.
    seconds: float

    @property
    def warm(self) -> float:
        """The time at which the measurement begins."""
        return self.seconds * WARM_UP


@dataclass(frozen=True, slots=True)
class Run:
    """One way to run the workload."""

    #: When each job started, which is when its last member that counts did.
    starts: Mapping[str, float]
    utilisation: float


def workload(size: Size, seed: int) -> list[Job]:
    """Draw jobs in order of arrival."""
    random = Random(seed)
    rate = size.load * size.nodes * size.node_cpu
    singles = _drawn(random, size, "single", rate * (1 - GANG_SHARE), SINGLE_SECONDS, SINGLE_CPUS)
    gangs = _drawn(random, size, "gang", rate * GANG_SHARE, GANG_SECONDS, GANG_CPUS)
    return sorted([*singles, *gangs], key=lambda each: (each.time, each.name))


def _drawn(
    random: Random, size: Size, kind: str, rate: float, seconds: float, cpus: Sequence[int]
) -> Iterable[Job]:
    """Draw Poisson arrivals that bring `rate` CPU seconds a second."""
    is_gang = kind == "gang"
    members = (2 + size.largest) / 2 if is_gang else 1.0
    mean = seconds * fmean(cpus) * members
    time, number = 0.0, 0
    while (time := time + random.expovariate(rate / mean)) < size.seconds:
        duration = max(random.expovariate(1 / seconds), 1.0)
        count = random.randint(2, size.largest) if is_gang else 1
        yield Job(f"{kind}-{number}", time, duration, random.choice(cpus), count)
        number += 1


# -- references ----------------------------------------------------------------------------------


class Nodes:
    """Free CPUs, and the ends of the pods that run."""

    def __init__(self, size: Size) -> None:
        self._size = size
        self.free = [size.node_cpu] * size.nodes
        self._ends: list[tuple[float, int, int]] = []
        #: CPU seconds within the measurement.
        self.used = 0.0

    @property
    def next_end(self) -> float:
        """The time at which the next pod ends."""
        return self._ends[0][0] if self._ends else math.inf

    def end(self, now: float) -> None:
        """Let pods end."""
        while self.next_end <= now:
            _, node, cpu = heapq.heappop(self._ends)
            self.free[node] += cpu

    def start(self, now: float, job: Job, members: int) -> bool:
        """Start some members on the first nodes with room; all of them or none."""
        chosen: list[int] = []
        left = members
        for node, free in enumerate(self.free):
            take = min(free // job.cpu, left)
            chosen += [node] * take
            left -= take
            if not left:
                break
        if left:
            return False
        for node in chosen:
            self.free[node] -= job.cpu
            heapq.heappush(self._ends, (now + job.seconds, node, job.cpu))
        self.used += members * job.cpu * overlap(self._size, now, now + job.seconds)
        return True


def overlap(size: Size, start: float, end: float) -> float:
    """Return how many seconds of a time are within the measurement."""
    return max(min(end, size.seconds) - max(start, size.warm), 0.0)


def reference(size: Size, jobs: Sequence[Job], *, in_order: bool) -> Run:
    """Run the jobs `in_order`, gangs as a whole, or else all members as single pods."""
    nodes, starts = Nodes(size), dict[str, float]()
    coming = deque(jobs)
    waiting: list[tuple[Job, int]] = []
    while coming or waiting:
        now = min(coming[0].time if coming else math.inf, nodes.next_end)
        nodes.end(now)
        while coming and coming[0].time <= now:
            job = coming.popleft()
            waiting += [(job, job.members)] if in_order else [(job, 1)] * job.members
        left: list[tuple[Job, int]] = []
        too_large = math.inf
        for place, (job, members) in enumerate(waiting):
            if job.cpu < too_large and nodes.start(now, job, members):
                starts[job.name] = now
            elif in_order:
                left = waiting[place:]
                break
            else:
                # Nothing ends before the next turn, so no pod of this size fits either.
                too_large = min(too_large, job.cpu)
                left.append((job, members))
        waiting = left
    return Run(starts, nodes.used / _capacity(size))


def _capacity(size: Size) -> float:
    return size.nodes * size.node_cpu * (size.seconds - size.warm)


# -- the scheduler -------------------------------------------------------------------------------


def scheduled(size: Size, jobs: Sequence[Job], seed: int, strategy: str = STRATEGIES[0]) -> Run:
    """Run the jobs through the scheduler."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(configuration(strategy), file)
        file.flush()
        world = offline.World(config=file.name, seed=seed)
    with world:
        world.add_nodes(offline.node(cpu=size.node_cpu, pods=1000), count=size.nodes)
        for job in jobs:
            if job.is_gang:
                world.add(pod_group(job.name, job.members))
        result = world.run(workload=[_arrival(job) for job in jobs])
    by_name = {job.name: job for job in jobs}
    starts: dict[str, float] = {}
    used = 0.0
    for each in result.placed:
        name = each.pod.partition("/")[2]
        job = by_name.get(name) or by_name[name.rpartition("-")[0]]
        starts[job.name] = max(each.time, starts.get(job.name, 0.0))
        used += job.cpu * overlap(size, each.time, each.time + job.seconds)
    return Run(starts, used / _capacity(size))


def _arrival(job: Job) -> offline.Arrival:
    labels = {POD_GROUP_LABEL: job.name} if job.is_gang else {}
    template = offline.pod(job.name, cpu=job.cpu, labels=labels)
    return offline.Arrival(job.time, template, job.seconds, job.members)


# -- the table -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of one seed."""

    jobs: Sequence[Job]
    singles: Run
    in_order: Run
    own: Run

    @property
    def points(self) -> float:
        """Percentage points of utilisation above singles."""
        return (self.own.utilisation - self.singles.utilisation) * 100

    def wait(self, job: Job, run: Run) -> float:
        """Return how long a job waited; for ever, if it never started."""
        return run.starts.get(job.name, math.inf) - job.time

    @property
    def pods(self) -> list[Job]:
        """The job of each pod."""
        return [job for job in self.jobs for _ in range(job.members)]

    @property
    def worst(self) -> float:
        """The longest wait of a gang, in fair shares."""
        least = fmean(each.seconds for each in self.pods)
        shares = (
            self.wait(job, self.own) / max(self.wait(job, self.in_order), least)
            for job in self.jobs
            if job.is_gang
        )
        return max(shares, default=0.0)

    @property
    def passed(self) -> bool:
        """Whether both bars are met."""
        return self.points >= -POINTS and self.worst <= FAIR_FACTOR


def measure(size: Size, seed: int, strategy: str = STRATEGIES[0]) -> Outcome:
    """Run one workload in all three ways."""
    jobs = workload(size, seed)
    return Outcome(
        jobs,
        reference(size, jobs, in_order=False),
        reference(size, jobs, in_order=True),
        scheduled(size, jobs, seed, strategy),
    )


HEADER: Final = (
    "SEED  GANGS  SINGLES  UTILISATION  SINGLES ONLY  IN ORDER  POINTS  MEAN WAIT  LONGEST  "
    "IN ORDER  SINGLE PODS  SHARES"
)


def row(seed: int, outcome: Outcome) -> str:
    """Return a line of the table."""
    gangs = [job for job in outcome.jobs if job.is_gang]
    singles = [job for job in outcome.jobs if not job.is_gang]
    waits = [outcome.wait(job, outcome.own) for job in gangs]
    fifo = [outcome.wait(job, outcome.in_order) for job in gangs]
    alone = fmean(outcome.wait(job, outcome.own) for job in singles)
    return (
        f"{seed:>4}  {len(gangs):>5}  {len(singles):>7}  {outcome.own.utilisation:>11.1%}  "
        f"{outcome.singles.utilisation:>12.1%}  {outcome.in_order.utilisation:>8.1%}  "
        f"{outcome.points:>+6.1f}  {fmean(waits):>7.0f} s  {max(waits):>5.0f} s  "
        f"{fmean(fifo):>6.0f} s  {alone:>9.0f} s  {outcome.worst:>6.2f}"
        f"{'' if outcome.passed else '  MISSED'}"
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--nodes", default=40, help="Nodes of the cluster.")
@click.option("--node-cpu", default=16, help="CPUs of each.")
@click.option("--largest", default=16, help="Members of the largest gang.")
@click.option("--load", default=1.0, help="Work that arrives, by what the nodes can do.")
@click.option("--minutes", default=60.0, help="Time during which pods arrive.")
@click.option("--seeds", default=3, help="Workloads.")
@click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    default=STRATEGIES[0],
    help="Scoring strategy of NodeResourcesFit, by which single pods choose their nodes.",
)
def main(
    nodes: int,
    node_cpu: int,
    largest: int,
    load: float,
    minutes: float,
    seeds: int,
    strategy: str,
) -> None:
    """Compare utilisation and waits under contention with two references."""
    size = Size(nodes, node_cpu, largest, load, minutes * 60)
    click.echo(HEADER)
    missed = 0
    for seed in range(seeds):
        outcome = measure(size, seed, strategy)
        missed += not outcome.passed
        click.echo(row(seed, outcome))
    if missed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
