"""A scheduler that was asked decides as one that was not: random questions between changes."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest

from benchmarks.fuzz.drawing import Draw
from benchmarks.fuzz.pods import pod
from benchmarks.fuzz.worlds import drawn
from devtools.conformance.world import KINDS
from scheduler import offline
from scheduler.explain.examining.trial_decision import TrialDecisions
from scheduler.explain.records import Change
from scheduler.explain.what_if.changes import ChangeError
from scheduler.explain.what_if.trial import WhatIfTrial

JsonObject = dict[str, Any]
ROUNDS = 6


def settled(family: str, seed: int) -> offline.World:
    """A random world in which nothing is under way."""
    world = offline.World(seed=seed, adopt=True)
    for plural, listed in drawn(family, seed, 0).objects.items():
        version, kind = KINDS[plural]
        for each in listed:
            each["metadata"].pop("deletionTimestamp", None)
            add(world, {"apiVersion": version, "kind": kind, **each})
    world.schedule()
    return world


def add(world: offline.World, obj: JsonObject) -> None:
    with suppress(offline.WorldError):  # An API server refuses it as well.
        world.add(obj)


def live(world: offline.World, draw: Draw, turn: int) -> bytes:
    """Let something happen, the same in both worlds, and return what came of it."""
    for index in range(3):
        made = pod(draw, f"in-{turn}-{index}", 8, incoming=True)
        made["spec"].pop("schedulerName")
        add(world, made)
    nodes = sorted(each.name for each in world._assembly.tables.stores["nodes"].list())
    if nodes and draw.chance(0.4):
        world.cordon(draw.one(*nodes), unschedulable=draw.chance(0.5))
    placed = sorted(world.placements())
    if placed and draw.chance(0.6):
        world.delete_pod(draw.one(*placed))
    return world.schedule().to_json()


def ask(world: offline.World, chance: random.Random) -> bool:
    """Ask something in a trial; return whether something was changed or placed in it."""
    world._settle()
    parts = world._assembly.trial_parts()
    nodes = sorted(each.name for each in parts.stores["nodes"].list())
    pods = sorted(parts.stores["pods"].list(), key=lambda each: each.key)
    with WhatIfTrial(parts, TrialDecisions(parts.engine)) as trial:
        made = 0
        for _ in range(chance.randint(1, 6)):
            try:
                trial.apply([draw_change(chance, nodes, [each.key for each in pods])])
                made += 1
            except ChangeError:
                pass  # The object is gone in this trial, or being bound.
        for each in pods:
            now = trial.find("Pod", each.key)
            if now is not None and not now.spec.node_name and not parts.cache.is_assumed(now.uid):
                made += bool(trial.decide(now, keep=True, reserve=chance.random() < 0.5))
        return made > 0


def draw_change(chance: random.Random, nodes: list[str], pods: list[str]) -> Change:
    node = chance.choice(nodes or ["none"])
    some = chance.choice(pods or ["default/none"])
    fresh = offline.node(f"fresh-{chance.randint(0, 2)}", cpu=chance.choice([1, 64]))
    requests = {"resources": {"requests": {"cpu": chance.choice(["1m", "4"])}}, "name": "c"}
    return chance.choice(
        [
            Change("remove", "Node", node),
            Change("add", "Node", fresh["metadata"]["name"], value=fresh),
            Change("set", "Node", node, "/spec/unschedulable", chance.random() < 0.5),
            Change("set", "Node", node, "/metadata/labels/disk", chance.choice(["ssd", None])),
            Change("set", "Node", node, "/status/allocatable/cpu", chance.choice(["0", "99"])),
            Change("remove", "Pod", some),
            Change("set", "Pod", some, "/spec/containers", [requests]),
            Change("set", "Pod", some, "/metadata/labels/app", chance.choice(["web", "db"])),
        ]
    )


def state(world: offline.World) -> tuple[object, ...]:
    """Everything that decisions depend on, and everything that could be left behind."""
    parts = world._assembly
    table, queue = parts.state.cache.table, parts.scheduling.queue
    pods = parts.tables.stores["pods"].by_keys()
    table_of_pods = [list(table.pods[row]) for row in range(len(table.pods))]
    return (
        parts.random.getstate(),
        list(table.names), table_of_pods, table.allocatable.tolist(), table.requested.tolist(),
        queue.views(namespace="", limit=1000), queue.statistics(),
        sorted((key, queue.nominator.node_of(each.uid)) for key, each in pods.items()),
        parts.state.cache.external_changes,
        parts.state.signatures.statistics().references,
        len(parts.state.waiting_pods), len(parts.background),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("family", "seed"),
    [("preemption", 1), ("spread", 2), ("volumes", 3), ("interpod", 4), ("mixed", 5)],
)
def test_trials_between_changes_leave_no_trace(family: str, seed: int) -> None:
    chance = random.Random(seed)
    changed = 0
    with settled(family, seed) as asked, settled(family, seed) as unasked:
        draws = Draw(seed, family), Draw(seed, family)
        for turn in range(ROUNDS):
            before = state(asked)
            changed += sum(ask(asked, chance) for _ in range(3))
            asked._assembly.state.cache.validate()
            asked._assembly.scheduling.queue.validate()
            assert state(asked) == before
            assert live(asked, draws[0], turn) == live(unasked, draws[1], turn)
    assert changed > ROUNDS
