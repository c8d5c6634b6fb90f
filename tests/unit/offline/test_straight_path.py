"""Whole worlds are the same, byte for byte, with the direct loop and with the tasks of the service.

Beyond `test_direct_loop`: pods with shares of GPUs, ends and failures by the hundred, gangs; and
not only results, but Events, resourceVersions, conditions, annotations and curves.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from benchmarks.arrivals import drawn_trace
from benchmarks.paper import experiment, traces
from scheduler import offline
from scheduler.api.pod_groups import POD_GROUP_LABEL
from simulator.demos.gang.objects import group as pod_group

Told = list[str]
Play = Callable[[Path], Told]

GANGS = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins:
      multiPoint: {enabled: [{name: GangScheduling}]}
"""


def told(world: offline.World, *results: offline.Result) -> Told:
    """Return everything that can be seen of a world."""
    events = world._assembly.events.kept
    assert events
    found = [each.to_json().decode() for each in results] + [repr(each) for each in events]
    found += [
        f"{item.metadata} {getattr(item, 'status', '')} {getattr(item.spec, 'node_name', '')}"
        for plural in ("pods", "nodes")
        for item in world._tables.stores[plural].list()
    ]
    return [*found, repr(world._assembly.state.cache.statistics()), repr(world.waiting())]


def gpus(policy: str) -> Play:
    """Return how a policy of the paper places shares of GPUs, of which a quarter find no room."""

    def play(folder: Path) -> Told:
        trace = drawn_trace(40, 260)
        seed, order = min(trace.orders.items())
        given = experiment.configuration(policy, traces.typical_pods(trace.pods), trace.nodes)
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(given), encoding="utf-8")
        world = offline.World(config=config, plugin_dirs=[experiment.EXAMPLE], seed=seed)
        world._assembly.events.kept = []
        with world:
            log = experiment.play(world, trace, replace(order, arrivals=order.arrivals[:200]))
            return [repr(log), *told(world)]

    return play


def departures(_: Path) -> Told:
    """Pods of all kinds come and end, nodes go, pods of high priority evict others."""
    source = random.Random(5)
    arrivals = []
    for number in range(100):
        pod = offline.pod(
            f"p{number}",
            cpu=source.choice([0.5, 1, 2, 4, 9]),
            priority=source.choice([0, 0, 0, 10]),
            labels={"app": source.choice("ab")},
        )
        ends = None if number % 7 == 0 else source.uniform(5.0, 60.0)
        arrivals.append(offline.Arrival(source.uniform(0.0, 120.0), pod, ends))
    with offline.World(seed=3) as world:
        world._assembly.events.kept = []
        world.add_nodes(offline.node("n", cpu=8), count=6)
        world.at(50.25, lambda: world.drop_node("n-2"))
        world.at(70.75, lambda: world.cordon("n-4"))
        ran = world.run(workload=arrivals, until=300.0, samples=20)
        assert ran.evicted
        assert ran.waiting
        return told(world, ran, world.schedule(measure=True))


def gangs(folder: Path) -> Told:
    """Gangs come one after another, among single pods; the last ones find no room."""
    config = folder / "config.yaml"
    config.write_text(GANGS, encoding="utf-8")
    with offline.World(config=config, seed=4) as world:
        world._assembly.events.kept = []
        world.add_nodes(offline.node("n", cpu=4), count=10)

        def add(number: int) -> None:
            name = f"gang-{number}"
            group: dict[str, Any] = pod_group(name, 4)
            members = (
                offline.pod(f"{name}-{each}", cpu=1.5, labels={POD_GROUP_LABEL: name})
                for each in range(4)
            )
            world.add_all([group, *members, offline.pod(f"single-{number}", cpu=0.5)])

        for number in range(7):
            world.at(10.125 * number, partial(add, number))
        ran = world.run(until=200.0)
        assert len(ran.placed) == 5 * 4 + 7
        return told(world, ran)


PLAYS: dict[str, Play] = {
    "BestFit": gpus("BestFit"),
    "FGD": gpus("FGD"),
    "departures": departures,
    "gangs": gangs,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYS)
def test_a_world_is_the_same_on_the_straight_path_and_off_it(name: str, tmp_path: Path) -> None:
    found = []
    for direct in (True, False):
        with patch("scheduler.offline.assembly.suits", return_value=direct) as suits:
            found.append(PLAYS[name](tmp_path))
        assert suits.called
    assert found[0] == found[1]
