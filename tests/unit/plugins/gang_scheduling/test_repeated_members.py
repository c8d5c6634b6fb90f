"""Members that are alike are placed as by attempts of their own, but PreFilter runs once."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from scheduler.api.pod import Pod
from scheduler.engine.repetition import Repetition
from scheduler.framework import SKIP, CycleState, Handle, NoArgs, NodeTableView, Status
from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster

ZONE = "topology.kubernetes.io/zone"


def term(kind: str, labels: dict[str, str], key: str) -> dict[str, Any]:
    required = [{"labelSelector": {"matchLabels": labels}, "topologyKey": key}]
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def preferred(labels: dict[str, str]) -> dict[str, Any]:
    one = {"labelSelector": {"matchLabels": labels}, "topologyKey": ZONE}
    weighted = [{"weight": 50, "podAffinityTerm": one}]
    return {
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
    }


def spread(when: str) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    return {"topologySpreadConstraints": [constraint]}


KINDS: list[dict[str, Any]] = [
    {},
    {"nodeSelector": {"disk": "ssd"}},
    {"tolerations": [{"key": "a", "operator": "Exists"}]},
    term("podAntiAffinity", {"app": "x"}, "kubernetes.io/hostname"),
    term("podAntiAffinity", {"app": "old"}, ZONE),
    term("podAffinity", {"app": "x"}, ZONE),
    preferred({"app": "x"}),
    spread("DoNotSchedule"),
    spread("ScheduleAnyway"),
    {"volumes": [{"name": "v", "emptyDir": {}}]},
]


def placements(seed: int) -> dict[str, str]:
    """Schedule random gangs in a random cluster; return where their members are."""
    draw = random.Random(seed)
    with GangCluster(0, seed=seed) as cluster:
        for number in range(draw.choice((5, 40))):
            cluster.add_node(
                node(
                    f"n{number}",
                    cpu=draw.choice((2, 4, 8)),
                    labels={ZONE: f"z{number % 3}", "disk": draw.choice(("ssd", "hdd"))},
                    taints=("a=b:PreferNoSchedule",) if draw.random() < 0.3 else (),
                )
            )
        for number in range(5):
            spec = draw.choice(([term("podAntiAffinity", {"app": "x"}, ZONE)], [{}]))[0]
            cluster.add(
                pod(f"o{number}", cpu=1, node=f"n{number}", labels={"app": "old"}, spec=spec)
            )
        if seed % 2:
            # While a gang waits, the members of the others go to the nodes with the least room.
            cluster.add_group(2, "waiting")
            cluster.add_members(2, "waiting", cpu=100)
            cluster.tick(1)
        for group in "abc":
            count = draw.randrange(2, 12)
            cluster.add_group(draw.randrange(1, count + 1), group)
            for number in range(draw.choice((1, 1, 2))):
                cluster.add_members(
                    count,
                    group,
                    name=f"{group}-{number}",
                    cpu=draw.choice((1, 2)),
                    labels={"app": "x"},
                    spec=draw.choice(KINDS),
                )
        cluster.tick(20)
        cluster.validate()
        return cluster.bound()


@pytest.mark.parametrize("seed", range(40))
def test_g18_a_run_gives_the_nodes_of_single_attempts(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeated = placements(seed)
    monkeypatch.setattr(Repetition, "of", lambda *_: None)
    assert placements(seed) == repeated


def test_g18_a_run_that_is_packed_gives_the_nodes_of_single_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nodes() -> dict[str, str]:
        with GangCluster(0, CountsAlike) as cluster:
            for number, cpu in enumerate((3, 8, 2, 5, 4)):
                cluster.add_node(node(f"n{number}", cpu=cpu))
            cluster.add_group(2, "waiting")
            cluster.add_members(2, "waiting", cpu=100)
            cluster.tick(1)
            before = cluster.plugin(CountsAlike.name).calls
            cluster.add_group(9)
            cluster.add_members(9, cpu=1)
            bound = cluster.bound()
            calls.append(cluster.plugin(CountsAlike.name).calls - before)
            return bound

    calls: list[int] = []
    repeated = nodes()
    assert Counter(repeated.values()) == {"n2": 2, "n0": 3, "n4": 4}
    monkeypatch.setattr(Repetition, "of", lambda *_: None)
    assert nodes() == repeated
    # One for the room of the nodes, and one for the first member.
    assert calls == [2, 10]


class Counts:
    """Skips every pod, and counts how often it is called."""

    name = "example.com/Counts"

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self.calls = 0

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        self.calls += 1
        return SKIP


class CountsAlike(Counts):
    """Promises that it skips pods that are alike."""

    name = "example.com/CountsAlike"

    def skips_alike(self, pod: Pod) -> bool:
        return True


@pytest.mark.parametrize(("plugin", "calls"), [(Counts, 4), (CountsAlike, 1)])
def test_g18_pre_filter_runs_once_for_a_run_if_the_plugin_permits(
    plugin: type[Counts], calls: int
) -> None:
    with GangCluster(2, plugin) as cluster:
        cluster.add_group(4)
        cluster.add_members(4)
        assert len(cluster.bound()) == 4
        assert cluster.plugin(plugin.name).calls == calls


def test_g18_a_member_with_other_annotations_has_an_attempt_of_its_own() -> None:
    with GangCluster(2, CountsAlike) as cluster:
        cluster.add_group(4)
        cluster.add_members(3)
        cluster.add_members(1, annotations={"example.com/a": "b"})
        assert len(cluster.bound()) == 4
        assert cluster.plugin(CountsAlike.name).calls == 2
