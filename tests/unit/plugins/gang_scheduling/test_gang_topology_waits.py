"""Gangs with topology that wait, and what their trials leave behind."""

from __future__ import annotations

import random

import numpy as np
import pytest

from scheduler.engine import domains
from scheduler.engine.repetition import Repetition
from scheduler.framework import Rows
from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster
from tests.unit.plugins.gang_scheduling.test_gang_faults import Slow
from tests.unit.plugins.gang_scheduling.test_gang_topology import (
    RACK,
    ZONE,
    add_gang,
    delete,
    racks,
    racks_of,
    required,
)
from tests.unit.plugins.gang_scheduling.test_repeated_members import KINDS, term


def test_g19_failed_trials_in_domains_leave_no_trace() -> None:
    with GangCluster(0) as cluster:
        racks(cluster, 6, 3)
        cluster.tick(1)
        table = cluster.world._assembly.state.cache.table
        before = table.requested.copy(), table.pod_count.copy(), table.non_zero_requested.copy()
        cluster.add_group(6, annotations=required(RACK, ZONE))
        apart = term("podAntiAffinity", {"app": "x"}, RACK)
        cluster.add_members(5, cpu=1, labels={"app": "x"})
        cluster.add_members(1, name="apart", cpu=1, spec=apart)
        cluster.tick(5)
        assert not cluster.bound()
        assert "in the best domain example.com/rack=r0: 0/3 nodes" in cluster.message(
            "default/g-pod-0"
        )
        after = table.requested, table.pod_count, table.non_zero_requested
        assert all((old == new).all() for old, new in zip(before, after, strict=True))
        cluster.validate()


@pytest.mark.parametrize("seed", range(30))
def test_g18_members_in_domains_get_the_nodes_of_single_attempts(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeated = placements(seed)
    monkeypatch.setattr(Repetition, "of", lambda *_: None)
    assert placements(seed) == repeated


def placements(seed: int) -> dict[str, str]:
    draw = random.Random(seed)
    with GangCluster(0, seed=seed) as cluster:
        racks(cluster, draw.randrange(2, 6), draw.randrange(2, 9))
        for name in "abc":
            key, preferred = draw.choice(
                ((RACK, ""), (ZONE, RACK), ("", RACK), ("", f"{RACK},{ZONE}"))
            )
            count = draw.randrange(2, 12)
            cluster.add_group(
                draw.randrange(1, count + 1), name, annotations=required(key, preferred)
            )
            spec = draw.choice(KINDS)
            cpu = draw.choice((1, 2))
            cluster.add_members(count, name, cpu=cpu, labels={"app": "x"}, spec=spec)
        cluster.tick(20)
        cluster.validate()
        return cluster.bound()


def test_g12_events_that_fill_no_rack_cause_no_cycle(
    cluster: GangCluster, cycles: list[bool]
) -> None:
    for number in range(2, 40):
        cluster.add_node(node(f"n{number}", cpu=4, labels={RACK: f"r{number}"}))
    add_gang(cluster, 3)
    cluster.tick(1)
    assert cycles == [False]
    for number in range(2, 20):
        cluster.add(pod("single", cpu=1, node=f"n{number}"))
        cluster.tick(1)
        delete(cluster, "default/single")
        cluster.tick(1)
    assert cycles == [False], "all nodes together have room, and no rack has"
    cluster.add_node(node("one-more", cpu=4, labels={RACK: "r7"}))
    cluster.tick(3)
    assert cycles == [False, True]
    assert len(cluster.bound()) == 3


def test_g12_a_label_that_comes_late_brings_the_gang_back(
    cluster: GangCluster, cycles: list[bool]
) -> None:
    add_gang(cluster, 3)
    cluster.tick(1)
    for number in range(2):
        cluster.add(node(f"n{number}", cpu=4, labels={RACK: "r"}))
    cluster.tick(3)
    assert cycles[-1]
    assert len(cluster.bound()) == 3


def test_g12_of_many_gangs_as_many_are_tried_as_a_rack_takes(
    cluster: GangCluster, cycles: list[bool]
) -> None:
    for number in range(20):
        add_gang(cluster, 4, f"g{number}")
    cluster.tick(5)
    before = len(cycles)
    racks(cluster, 1)
    cluster.tick(10)
    assert len(cluster.bound()) == 4
    assert cycles[before:].count(True) == 1
    assert len(cycles) - before <= 3


def test_g25_thousands_of_domains_take_linear_work(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    rows = domains.Domains.rows

    def counted(self: domains.Domains, domain: int) -> Rows:
        looks.append(domain)
        return rows(self, domain)

    monkeypatch.setattr(domains.Domains, "rows", counted)
    with GangCluster(0) as cluster:
        for number in range(5_000):
            cluster.add_node(node(f"n{number}", cpu=4, labels={RACK: f"{number:063d}"}))
        add_gang(cluster, 3)
        cluster.tick(2)
        assert not cluster.bound()
        add_gang(cluster, 40, "p", annotations=required("", RACK))
        cluster.tick(2)
        assert len(set(cluster.bound("p-").values())) == 20
        assert len(looks) <= 20


def test_g27_a_spread_constraint_counts_the_whole_cluster() -> None:
    spread = {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "x"}},
            }
        ]
    }
    with GangCluster(0) as cluster:
        racks(cluster, 2)
        add_gang(cluster, 3, labels={"app": "x"}, spec=spread)
        text = cluster.message("default/g-pod-0")
        assert "1 fit in the best domain example.com/rack=r0" in text
        message = cluster.message("default/g-pod-1")
        assert "0/2 nodes are available: 2 node(s) didn't match pod topology spread" in message
        assert not racks_of(cluster)


def test_rows_that_are_left_out_count_nowhere() -> None:
    with GangCluster(0) as cluster:
        racks(cluster, 4)
        cluster.tick(1)
        table = cluster.world._assembly.state.cache.table
        zones = domains.Domains(table, ZONE)
        inner = domains.Domains(table, RACK, zones)
        assert inner.count == 4
        amounts = np.arange(table.capacity, dtype=np.int64)
        assert inner.sums(amounts, inner.labelled).sum() == amounts[table.rows].sum()
        zones.only(0)
        half = domains.Domains(table, RACK, zones)
        assert half.sizes(half.labelled).tolist() == [2, 2]


def test_g26_members_beyond_the_minimum_whose_cycles_are_suspended() -> None:
    with GangCluster(0, Slow) as cluster:
        racks(cluster, 3)
        cluster.add_group(2, annotations=required())
        cluster.add_members(6)
        cluster.tick(20)
        assert len(cluster.bound()) == 4
        assert len(set(racks_of(cluster))) == 1
        (rack,) = set(racks_of(cluster))
        cluster.add_node(node("later", cpu=4, labels={RACK: rack}))
        cluster.tick(30)
        assert len(cluster.bound()) == 6
        cluster.validate()
