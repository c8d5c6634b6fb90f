"""Results that are looked up ahead are those of an ordinary refresh, and lead to the same nodes."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scheduler.api.pod import Pod
from scheduler.engine import lookahead, repetition
from scheduler.engine.lookahead import Lookahead
from scheduler.engine.row_columns import INFEASIBLE
from scheduler.framework import (
    Columns,
    CycleState,
    Handle,
    Int64Column,
    NoArgs,
    NodeTableView,
    ReuseRule,
    Rows,
    Status,
)
from scheduler.testing import Cluster, node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster

GPU = "example.com/gpu"
RACK = "rack"
REQUIRED = {"kubestow.io/topology-required": RACK}
PREFERRED = {"kubestow.io/topology-preferred": RACK}
STRATEGIES: dict[str, dict[str, Any]] = {
    "least": {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 3}]},
    "most": {
        "type": "MostAllocated",
        "resources": [{"name": "memory", "weight": 5}, {"name": "cpu", "weight": 1}],
    },
    "ratio": {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "memory", "weight": 1}, {"name": "cpu", "weight": 1}],
        "requestedToCapacityRatio": {
            "shape": [{"utilization": 0, "score": 2}, {"utilization": 100, "score": 9}]
        },
    },
}


class ConfiguredGangs(GangCluster):
    """A cluster whose nodes are scored by one of the strategies."""

    def __init__(self, strategy: str, seed: int, folder: Path) -> None:
        arguments: dict[str, Any] = {"scoringStrategy": STRATEGIES[strategy]}
        if strategy == "ratio":
            arguments["ignoredResources"] = [GPU]
        profile = {
            "schedulerName": "kubestow",
            "plugins": {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}},
            "pluginConfig": [
                {"name": "NodeResourcesFit", "args": arguments},
                {"name": "GangScheduling", "args": {"assembleFor": "0s"}},
            ],
        }
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
        file = folder / "scheduler.yaml"
        file.write_text(json.dumps(configuration))
        Cluster.__init__(self, config=file, seed=seed)
        self._numbers = Counter()


def placements(strategy: str, seed: int, folder: Path) -> dict[str, str]:
    """Schedule random gangs in a random cluster; return where their members are."""
    draw = random.Random(seed)
    alike = draw.random() < 0.4
    with ConfiguredGangs(strategy, seed, folder) as cluster:
        for number in range(draw.choice((2, 6, 25))):
            taint = "a=b:PreferNoSchedule"
            tainted = not alike and draw.random() < 0.3
            cluster.add_node(
                node(
                    f"n{number}",
                    cpu=16 if alike else draw.choice((4, 8, 32)),
                    memory=f"{8 if alike else draw.choice((4, 16))}Gi",
                    pods=draw.choice((7, 110)),
                    labels={RACK: f"r{number % 3}"},
                    taints=(taint,) if tainted else (),
                    resources={GPU: draw.choice((0, 4, 8))},
                )
            )
            if not alike and draw.random() < 0.5:
                cluster.add(pod(f"o{number}", cpu=draw.choice((0.3, 1.7)), node=f"n{number}"))
        for group in "abc":
            count = draw.randrange(4, 40)
            minimum = draw.choice((1, count // 2, count))
            cluster.add_group(
                minimum, group, annotations=draw.choice(({}, {}, REQUIRED, PREFERRED))
            )
            for number in range(draw.choice((1, 1, 1, 2))):
                template: dict[str, Any] = {
                    "name": f"{group}-{number}",
                    "cpu": draw.choice((0.05, 0.3, 1, 4)),
                    "resources": draw.choice(({}, {GPU: 1})),
                    "memory": draw.choice(("0", "64Mi", "1Gi")),
                    "spec": draw.choice(({}, {"tolerations": [{"operator": "Exists"}]})),
                }
                cluster.add_members(count - 2, group, **template)
                # These two have attempts of their own, between those of the others.
                other = draw.choice(({}, {"example.com/a": "b"}))
                cluster.add_members(2, group, **template, annotations=other)
                cluster.add_members(draw.randrange(6), group, **template)
        cluster.tick(20)
        cluster.validate()
        return cluster.bound()


def assert_refreshed(ahead: Lookahead) -> None:
    """Compare what is kept with a fresh evaluation of all nodes."""
    entry, state, member = ahead._entry, ahead._state, ahead._pod
    filtering, scoring, table = ahead._filtering, ahead._scoring, ahead._table
    rows = table.rows
    rejected_by = filtering.evaluate(state, member, rows).rejected_by
    assert (entry.rejected_by[rows] == rejected_by[rows]).all()
    for slot in filtering.slots:
        if slot.name not in state.skip_filter:
            codes = filtering.codes_of(slot, state, member, rows)
            kept = entry.codes[slot.index]
            assert (codes == (0 if kept is None else kept[rows])).all(), slot.name
    for each in scoring.slots:
        if each.name not in state.skip_score:
            raw, column = scoring.raw_of(each, state, member, rows), entry.raw[each.index]
            assert (raw == (0 if column is None else column[rows])).all(), each.name
    within = rows if ahead.within is None else ahead.within
    feasible = within[rejected_by[within] == 0]
    assert entry.normalized_rows is not None
    assert feasible.tolist() == entry.normalized_rows.tolist()
    fresh = scoring.fresh
    expected = np.full(table.capacity, INFEASIBLE)
    expected[feasible] = scoring.totals_of(state, member, feasible)
    scoring.fresh = fresh
    assert entry.total is not None
    assert entry.total.tolist() == expected.tolist()
    assert entry.ties is not None
    assert list(entry.ties.rows) == np.flatnonzero(expected == expected.max()).tolist()
    if entry.leaders is not None and (best := entry.leaders.best(5)) is not None:
        order = sorted(feasible.tolist(), key=lambda row: (-expected[row], row))
        assert best == order[:5]


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """Compare all results that are looked up, and count how often they are, and are not."""
    found, follow = Counter[bool](), Lookahead.follow

    def checked(ahead: Lookahead) -> bool:
        followed = follow(ahead)
        found[followed] += 1
        if followed:
            assert_refreshed(ahead)
        return followed

    monkeypatch.setattr(Lookahead, "follow", checked)
    return found


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_g18_members_go_where_they_go_without_a_look_ahead(
    strategy: str,
    seed: int,
    outcomes: Counter[bool],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(lookahead, "_MAX_DEPTH", 3)
    monkeypatch.setattr(lookahead, "_DEPTH", 2)
    monkeypatch.setattr(repetition, "MIN_MEMBERS", 1)
    ahead = placements(strategy, seed, tmp_path)
    monkeypatch.setattr(Lookahead, "begin", lambda _ahead, _more: False)
    assert placements(strategy, seed, tmp_path) == ahead
    if seed == 3:
        assert outcomes[True]


class Normalizes:
    """Scores with the lowest score in mind, so that it matters which nodes are feasible."""

    name = "example.com/Normalizes"
    score_reuse = ReuseRule(Columns.LABELS)

    def __init__(self, args: NoArgs | None, handle: Handle) -> None: ...

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        return rows % 7

    def normalize_scores(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows, scores: Int64Column
    ) -> Int64Column:
        lowest: Int64Column = np.minimum(len(rows), scores - scores.min())
        return lowest


class ReadsPods:
    """Scores by the pods of a node, of which amounts tell nothing."""

    name = "example.com/ReadsPods"
    score_reuse = ReuseRule(Columns.USAGE)

    def __init__(self, args: NoArgs | None, handle: Handle) -> None: ...

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        return np.array([table.pod_count[row] % 3 for row in rows], dtype=np.int64)


class Reserves:
    """Changes a named version when the third member is reserved."""

    name = "example.com/Reserves"
    world: Any = None

    def __init__(self, args: NoArgs | None, handle: Handle) -> None:
        self.calls = 0

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.calls += 1
        if self.calls == 3:
            table = self.world._assembly.state.cache.table
            table.bump("example.com/version")
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None: ...


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        # Each member fills its node. All but the first two are placed by results looked up.
        (None, {True: 18}),
        (Normalizes, {False: 18}),
        (ReadsPods, {}),
        (Reserves, {True: 1, False: 17}),
    ],
)
def test_g18_results_are_looked_up_if_nothing_else_can_change(
    plugin: Any, expected: dict[bool, int], outcomes: Counter[bool]
) -> None:
    with GangCluster(30, *(() if plugin is None else (plugin,))) as cluster:
        if plugin is Reserves:
            plugin.world = cluster.world
        cluster.add_group(20)
        cluster.add_members(20, cpu=4)
        assert len(cluster.bound()) == 20
    assert outcomes == expected


def test_g18_a_trial_that_was_undone_leaves_results_as_they_were(
    outcomes: Counter[bool],
) -> None:
    with GangCluster(4) as cluster:
        cluster.add_group(13, "undone")
        cluster.add_members(12, "undone", cpu=0.9)
        # It is smaller, so it comes last.
        cluster.add_members(1, "undone", name="x", cpu=0.1, spec={"nodeSelector": {"no": "node"}})
        assert not cluster.bound()
        assert outcomes == {True: 10}
        cluster.validate()
        cluster.add_group(12, "placed")
        cluster.add_members(12, "placed", cpu=0.9)
        assert len(cluster.bound()) == 12
        cluster.validate()
