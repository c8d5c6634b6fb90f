"""`python -m benchmarks.gangs`: what gangs cost the scheduler, in CPU time of this process.

Decisions are measured on the engine alone, as the service wires it: a gang that fits, also in one
rack and while another one waits, one that the bound refuses, and one that fails at a late member.
Events are measured in a cluster in virtual time, while gangs wait for room that no event gives
them: the difference to the same cluster without gangs. `--templates` is the number of distinct pod
templates among the waiting gangs.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import click

from benchmarks.engine_world import RACK, EngineWorld
from benchmarks.growth_measures import Figure, settle
from plugins import GangScheduling
from scheduler.api.pod import Pod
from scheduler.api.pod_groups import POD_GROUP_LABEL
from scheduler.engine.group_result import GroupResult
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.framework import QueuedPodInfo
from scheduler.framework.grouping import GroupTopology, GroupToSchedule
from scheduler.groups.cycles.cycle import GroupCycle
from scheduler.testing import Cluster, node, pod
from simulator.demos.gang.objects import group as pod_group

ROUNDS: Final = 7
EVENTS: Final = 400
WAITING_MEMBERS: Final = 8


def decide(
    world: EngineWorld,
    members: list[Pod],
    need: int,
    topology: GroupTopology | None = None,
    *,
    packs: bool = False,
) -> tuple[GroupResult, float]:
    """Decide about a gang; return the result and the seconds of CPU time."""
    infos = [QueuedPodInfo(each, 0.0) for each in members]
    name = "pod group default/g"
    group = GroupToSchedule("GangScheduling", name, need, need, (), topology=topology, packs=packs)
    known = world.listers.pods.known
    known.update((each.metadata.name, each) for each in members)
    gc.collect()
    started = time.process_time()
    cycle = GroupCycle(
        world.engine,
        group,
        infos,
        monotonic=time.monotonic,
        take=lambda _info: None,
        on_placed=lambda _attempt: None,
    )
    result = run_synchronously(cycle.run())
    seconds = time.process_time() - started
    known.clear()
    return result, seconds


def forget(world: EngineWorld, result: GroupResult) -> None:
    """Take placed members away again."""
    for attempt in reversed(result.placed):
        world.forget(attempt)


def decisions(nodes: int, members: int, rounds: int) -> list[Figure]:
    """Measure decisions about a gang of equal members."""
    world = EngineWorld(nodes)
    settle()
    cases: dict[str, Callable[[], tuple[list[Pod], int, bool]]] = {
        "all fit": lambda: ([world.pod() for _ in range(members)], members, True),
        "all fit in one rack": lambda: ([world.pod() for _ in range(members)], members, True),
        "all fit, packed": lambda: ([world.pod() for _ in range(members)], members, True),
        "refused by the bound": lambda: (
            [world.pod({"nodeSelector": {RACK: "rack-0"}}, cpu="40") for _ in range(members)],
            members,
            False,
        ),
        "refused at the last member": lambda: (
            [*(world.pod() for _ in range(members - 1)), world.pod(cpu="100")],
            members,
            False,
        ),
    }
    figures = []
    for case, make in cases.items():
        times = []
        for _ in range(rounds):
            pods, need, fits = make()
            topology = GroupTopology(RACK) if "rack" in case else None
            result, seconds = decide(world, pods, need, topology, packs="packed" in case)
            assert result.outcome.scheduled is fits, result.outcome.message
            forget(world, result)
            times.append(seconds)
        found = min(times[1:] or times) * 1e3
        figures.append(Figure("decision", case, nodes, members, found, "ms"))
        figures.append(Figure("decision", f"{case}, cold", nodes, members, times[0] * 1e3, "ms"))
    return figures


def event_seconds(nodes: int, gangs: int, templates: int, events: int) -> float:
    """Return the CPU time of one event: a small pod comes to a node, or goes."""
    with Cluster() as cluster:
        cluster.enable(GangScheduling)
        cluster.world.add_nodes(node("n", cpu=4), nodes)
        for number in range(gangs):
            name = f"g{number}"
            cluster.add(pod_group(name, WAITING_MEMBERS))
            # Each fits on no node, so that the bound is 0; a template has an amount of its own.
            cpu = 5 + (number % templates) / 1000
            cluster.add_pods(pod(name, cpu=cpu, labels={POD_GROUP_LABEL: name}), WAITING_MEMBERS)
        cluster.tick(60)
        settle()
        world = cluster.world
        for number in range(events):
            where = f"n-{number // 2 * 7 % nodes}"
            single = pod("single", cpu=1, node=where)
            change = partial(world.remove, "Pod", "single", "default")
            world.at(
                world.now + 0.05 * number, partial(world.add, single) if not number % 2 else change
            )
        gc.collect()
        started = time.process_time()
        cluster.tick(0.05 * events)
        return (time.process_time() - started) / events


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--nodes", default=5000, help="Nodes of the cluster.")
@click.option("--members", default=1000, help="Members of the gang that is decided.")
@click.option("--gangs", default=200, help="Gangs that wait while events come.")
@click.option("--templates", default=200, help="Distinct pod templates among them.")
@click.option("--rounds", default=ROUNDS, help="Decisions of each kind.")
@click.option("--events", default=EVENTS, help="Events.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures here.")
def main(
    nodes: int,
    members: int,
    gangs: int,
    templates: int,
    rounds: int,
    events: int,
    output: Path | None,
) -> None:
    """Measure decisions about gangs, and events while gangs wait."""
    figures = decisions(nodes, members, rounds)
    alone = event_seconds(nodes, 0, 1, events)
    for count in dict.fromkeys((1, templates)):
        found = event_seconds(nodes, gangs, count, events) - alone
        case = f"{gangs} waiting gangs"
        figures.append(Figure("event", case, nodes, gangs, found * 1e3, "ms more", templates=count))
    for each in figures:
        note = f", {each.templates} templates" if each.section == "event" else ""
        click.echo(f"{each.section}: {each.case}{note}: {each.value:.2f} {each.unit}")
    if output is not None:
        output.write_text(json.dumps([each.as_json() for each in figures], indent=2))


if __name__ == "__main__":
    main()
