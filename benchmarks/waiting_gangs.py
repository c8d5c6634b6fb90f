"""`python -m benchmarks.waiting_gangs`: what waiting gangs cost the pods that come and go.

Small pods start and end in a cluster in virtual time, 50 per second, while nodes change. The
figures are CPU times of this process for a virtual second, without gangs and while gangs wait for
room that none of these events gives them. The cases alternate every few virtual seconds, and the
fastest seconds of each are compared, because other work on the machine only adds to them: a tenth
are faster than the figure. `--instructions` counts instead, by Valgrind: a longer run minus a
shorter one, which leaves out the start and the first attempts at the gangs.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Final

import click

from benchmarks.remembering import VALGRIND, environment, instructions
from plugins import GangScheduling
from scheduler.api.pod_groups import POD_GROUP_LABEL
from scheduler.testing import Cluster, node, pod
from simulator.demos.gang.objects import group as pod_group

NODES: Final = 100
PODS_PER_SECOND: Final = 50
MEMBERS: Final = 50
SLICE: Final = 5
"""Virtual seconds between two cases."""


def _gangs(cluster: Cluster, gangs: int, templates: int) -> None:
    """Add gangs whose members fit on no node."""
    for number in range(gangs):
        name = f"gang-{number}"
        group = pod_group(name, MEMBERS)
        cpu = 2 + number % templates / 1000
        labels = {POD_GROUP_LABEL: name}
        members = (pod(f"{name}-{each}", cpu=cpu, labels=labels) for each in range(MEMBERS))
        for each in (group, *members):
            cluster.add(each)


class Churn:
    """A cluster in which small pods come and go while gangs wait."""

    def __init__(self, gangs: int, templates: int) -> None:
        self._cluster = cluster = Cluster()
        cluster.enable(GangScheduling)
        for number in range(NODES):
            cluster.add_node(node(f"n{number}", cpu=16))
            cluster.add(pod(f"full-{number}", cpu=14.5, node=f"n{number}"))
        _gangs(cluster, gangs, templates)
        cluster.tick(2)
        self._started = 0

    def run(self, seconds: int) -> list[float]:
        """Let virtual seconds pass; return the CPU seconds that each of them took."""
        world, times = self._cluster.world, list[float]()
        began = world.now
        # Without the list of waiting pods, which the world makes at the end.
        for number in range(seconds + 1):
            world.at(began + number, lambda: times.append(time.process_time()))
        for number in range(seconds):
            world.at(began + number, self._change_nodes)
        for number in range(seconds * PODS_PER_SECOND):
            world.at(began + number / PODS_PER_SECOND, self._start)
        self._cluster.tick(seconds)
        return [after - before for before, after in pairwise(times)]

    def close(self) -> None:
        """Close the cluster."""
        self._cluster.close()

    def _start(self) -> None:
        """Start one small pod, and end the one that was started a second ago."""
        number = self._started
        self._started += 1
        self._cluster.world.add(pod(f"small-{number}", cpu=0.1))
        if number >= PODS_PER_SECOND:
            self._cluster.world.remove("Pod", f"small-{number - PODS_PER_SECOND}", "default")

    def _change_nodes(self) -> None:
        changed = {"changed": str(self._started)}
        for number in range(0, NODES, 10):
            self._cluster.world.add(node(f"n{number}", cpu=16, labels=changed))


def churn_seconds(cases: Sequence[tuple[int, int]], seconds: int) -> list[list[float]]:
    """Return the CPU seconds of each virtual second, for each case of gangs and templates."""
    with ExitStack() as stack:
        churns = [Churn(gangs, templates) for gangs, templates in cases]
        for each in churns:
            stack.callback(each.close)
            each.run(1)
        gc.collect()
        gc.disable()
        stack.callback(gc.enable)
        found: list[list[float]] = [[] for _ in churns]
        for left in range(seconds, 0, -SLICE):
            for each, measured in zip(churns, found, strict=True):
                measured.extend(each.run(min(left, SLICE)))
    return found


def churn_instructions(gangs: int, templates: int, seconds: int) -> float:
    """Return the instructions of small pods that come and go while gangs wait."""
    more, few = (_counted(gangs, templates, length) for length in (2 * seconds, seconds))
    return more - few


def _counted(gangs: int, templates: int, seconds: int) -> int:
    command = [*VALGRIND, sys.executable, "-m", "benchmarks.waiting_gangs", "--run"]
    command += [f"--gangs={gangs}", f"--templates={templates}", f"--seconds={seconds}"]
    variables = environment()
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    return instructions(done.stderr)


def _fast(measured: Sequence[float]) -> float:
    return sorted(measured)[len(measured) // 10]


@click.command()
@click.option("--gangs", default=200, show_default=True, type=click.IntRange(min=0))
@click.option("--seconds", default=100, show_default=True, help="virtual time of a measurement")
@click.option("--instructions", "counts", is_flag=True, help="Count instead; needs Valgrind.")
@click.option("--run", is_flag=True, hidden=True)
@click.option("--templates", default=1, hidden=True)
def main(gangs: int, seconds: int, counts: bool, run: bool, templates: int) -> None:
    """Print the cost of small pods with waiting gangs, relative to that without."""
    if run:
        churn_seconds([(gangs, templates)], seconds)
        return
    cases = {"none": (0, 1), "one template": (gangs, 1), f"{gangs} templates": (gangs, gangs)}
    if counts:
        found = [[churn_instructions(*case, seconds)] for case in cases.values()]
    else:
        found = churn_seconds(list(cases.values()), seconds)
    base = _fast(found[0])
    for name, measured in zip(cases, found, strict=True):
        cost = _fast(measured)
        shown = f"{cost / 1e9:6.3f} G" if counts else f"{cost * 1e3:6.1f} ms"
        click.echo(f"{name:>14}  {shown}  {cost / base:5.2f}")


if __name__ == "__main__":
    main()
