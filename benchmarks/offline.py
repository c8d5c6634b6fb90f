"""`python -m benchmarks.offline`: the cost of an arrival in an offline world, and of loading one.

Each pod arrives, is bound and ends, one after the other, on a cluster that stays half empty. Runs
with the direct loop alternate with runs by the tasks of the service, of which a world has one for
each binding; the ratio of the two is comparable between machines, the times are not.

`--direct-only` measures runs with the direct loop alone: `--direct-only --count 100000` is the long
run of docs/simulate.md.
"""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Iterator
from unittest.mock import patch

import click

from scheduler import offline

TEMPLATES = 20
SECONDS_BETWEEN = 0.1
MEAN_DURATION = 600.0


def arrivals(count: int, seed: int) -> Iterator[offline.Arrival]:
    """Yield pods of twenty templates at random times, each with a random duration."""
    source = random.Random(seed)
    templates = [
        offline.pod(
            f"t{number}",
            cpu=source.choice([0.5, 1, 2]),
            memory=source.choice(["1Gi", "2Gi"]),
            labels={"app": f"t{number}"},
        )
        for number in range(TEMPLATES)
    ]
    second = 0.0
    for number in range(count):
        second += source.expovariate(1 / SECONDS_BETWEEN)
        duration = source.expovariate(1 / MEAN_DURATION)
        template = source.choice(templates)
        yield offline.Arrival(second, template, duration, name=f"p{number}")


def seconds_of_run(nodes: int, count: int, *, direct: bool) -> tuple[float, bytes]:
    """Return the CPU seconds of a run, and its result."""
    workload = list(arrivals(count, seed=1))
    with (
        patch("scheduler.offline.assembly.suits", lambda _engine: direct),
        offline.World(seed=1) as world,
    ):
        world.add_nodes(offline.node(cpu=16, memory="64Gi"), count=nodes)
        world._settle()
        begun = time.process_time()
        result = world.run(workload=workload)
        return time.process_time() - begun, result.to_json()


def seconds_of_load(nodes: int, pods: int) -> float:
    """Return the CPU seconds in which a cluster with running pods is built of objects."""
    begun = time.process_time()
    with offline.World() as world:
        world.add_nodes(offline.node(cpu=16, memory="64Gi"), count=nodes)
        for number in range(pods):
            world.add_pods(offline.pod(f"p{number}", node=f"node-{number % nodes}"))
        world._settle()
    return time.process_time() - begun


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--nodes", default=5000, help="Nodes of the cluster.")
@click.option("--count", default=5000, help="Pods that arrive.")
@click.option("--rounds", default=3, help="Runs of each kind; the fastest counts.")
@click.option("--direct-only", is_flag=True, help="Measure the direct loop, and memory.")
def main(nodes: int, count: int, rounds: int, direct_only: bool) -> None:
    """Measure arrivals in both ways, and loading."""
    if direct_only:
        seconds, _ = min(seconds_of_run(nodes, count, direct=True) for _ in range(rounds))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        click.echo(
            f"direct loop: {count} arrivals on {nodes} nodes in {seconds:.1f} s of CPU time, "
            f"{1000 * seconds / count:.3f} ms for each; peak of the process {peak:.0f} MiB"
        )
        return
    best = {True: float("inf"), False: float("inf")}
    results = set()
    for _ in range(rounds):
        for direct in (True, False):
            seconds, result = seconds_of_run(nodes, count, direct=direct)
            best[direct] = min(best[direct], seconds)
            results.add(result)
    for direct, seconds in best.items():
        name = "direct loop" if direct else "tasks of the service"
        click.echo(f"{name}: {1000 * seconds / count:.3f} ms of CPU time for each arrival")
    click.echo(f"ratio: {best[True] / best[False]:.2f}, {len(results)} distinct result(s)")
    loaded = seconds_of_load(nodes, count)
    click.echo(f"load: {1000 * loaded / (nodes + count):.3f} ms for each object")


if __name__ == "__main__":
    main()
