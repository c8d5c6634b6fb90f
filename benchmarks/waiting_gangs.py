"""`python -m benchmarks.waiting_gangs`: what waiting gangs cost the pods that come and go.

Small pods start and end in a cluster in virtual time, 50 per second, while nodes change. The
figures are CPU times of this process, without gangs and while gangs wait for room that none of
these events gives them; they are measured alternately, and the ratios are of the medians. On a busy
machine `--instructions` counts instead, by Valgrind: a longer run minus a shorter one, which leaves
out the start and the first attempts at the gangs.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from functools import partial
from statistics import median
from typing import Final

import click

from benchmarks.remembering import VALGRIND, environment, instructions
from plugins import GangScheduling
from scheduler.api.pod_groups import POD_GROUP_LABEL
from scheduler.testing import Cluster, node, pod

NODES: Final = 100
PODS_PER_SECOND: Final = 50
MEMBERS: Final = 50
ROUNDS: Final = 5


def _gangs(cluster: Cluster, gangs: int, templates: int) -> None:
    """Add gangs whose members fit on no node."""
    for number in range(gangs):
        name = f"gang-{number}"
        group = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"minMember": MEMBERS},
        }
        cpu = 2 + number % templates / 1000
        labels = {POD_GROUP_LABEL: name}
        members = (pod(f"{name}-{each}", cpu=cpu, labels=labels) for each in range(MEMBERS))
        for each in (group, *members):
            cluster.add(each)


def churn_seconds(gangs: int, templates: int, seconds: int) -> float:
    """Return the CPU seconds of small pods that come and go while gangs wait."""
    with Cluster() as cluster:
        cluster.enable(GangScheduling)
        for number in range(NODES):
            cluster.add_node(node(f"n{number}", cpu=16))
            cluster.add(pod(f"full-{number}", cpu=14.5, node=f"n{number}"))
        _gangs(cluster, gangs, templates)
        cluster.tick(2)
        world, times = cluster.world, list[float]()
        began = world.now
        gc.collect()
        gc.disable()
        # Without the list of waiting pods, which the world makes at the end.
        for moment in (began, began + seconds):
            world.at(moment, lambda: times.append(time.process_time()))
        for number in range(seconds * PODS_PER_SECOND):
            world.at(began + number / PODS_PER_SECOND, partial(_start, cluster, number))
        for number in range(seconds):
            world.at(began + number, partial(_change_nodes, cluster, number))
        cluster.tick(seconds + 2)
        gc.enable()
    return times[1] - times[0]


def _start(cluster: Cluster, number: int) -> None:
    """Start one small pod, and end the one that was started a second ago."""
    cluster.world.add(pod(f"small-{number}", cpu=0.1))
    if number >= PODS_PER_SECOND:
        cluster.world.remove("Pod", f"small-{number - PODS_PER_SECOND}", "default")


def _change_nodes(cluster: Cluster, number: int) -> None:
    for each in range(0, NODES, 10):
        cluster.world.add(node(f"n{each}", cpu=16, labels={"changed": str(number)}))


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


@click.command()
@click.option("--gangs", default=200, show_default=True, type=click.IntRange(min=0))
@click.option("--seconds", default=20, show_default=True, help="virtual time of each measurement")
@click.option("--rounds", default=ROUNDS, show_default=True)
@click.option("--instructions", "counts", is_flag=True, help="Count instead, once; needs Valgrind.")
@click.option("--run", is_flag=True, hidden=True)
@click.option("--templates", default=1, hidden=True)
def main(gangs: int, seconds: int, rounds: int, counts: bool, run: bool, templates: int) -> None:
    """Print the cost of small pods with waiting gangs, relative to that without."""
    if run:
        churn_seconds(gangs, templates, seconds)
        return
    cases = {"none": (0, 1), "one template": (gangs, 1), f"{gangs} templates": (gangs, gangs)}
    found: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(1 if counts else rounds):
        for name, (count, each) in cases.items():
            measure = churn_instructions if counts else churn_seconds
            found[name].append(measure(count, each, seconds))
    base = median(found["none"])
    for name, measured in found.items():
        cost = median(measured)
        shown = f"{cost / 1e9:6.3f} G" if counts else f"{cost:6.3f} s"
        click.echo(f"{name:>14}  {shown}  {cost / base:5.2f}")


if __name__ == "__main__":
    main()
