"""Results of dry runs are cached by node, and never used when outdated."""

from __future__ import annotations

import random
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins import NodeResourcesFit, in_tree
from scheduler.api import Pod
from scheduler.cache.change_log import ChangeLog
from scheduler.engine import Evaluator, FitError
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.framework import Columns, CycleState, NominatingInfo, ReuseRule
from scheduler.framework.preemption import PreemptionFinding
from tests.unit.engine.harness import PROFILE, plugin
from tests.unit.engine.preemption.harness import (
    ALLOCATABLE,
    ANY,
    WEB,
    Budgets,
    Cluster,
    budget,
    cluster,
    names,
)

NODES = [f"n{number}" for number in range(1, 6)]


def away_from(app: str) -> dict[str, Any]:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}
    listed = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAntiAffinity": listed}}


SPREAD: dict[str, Any] = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
}


class Burst:
    """A cluster that changes at random between preemptors of a few templates."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = Cluster(*in_tree(), seed=seed)
        # So short that the tail is passed now and then.
        self.cluster.cache.table.change_log = ChangeLog(16)
        for name in NODES:
            self.node(name, ALLOCATABLE)
        self.placed: list[Pod] = []
        self.count = 0
        for _ in range(12):
            self.place()

    def name(self) -> str:
        self.count += 1
        return f"p{self.count}"

    def place(self) -> None:
        pod = self.cluster.place(
            self.name(),
            self.random.choice(NODES),
            self.random.choice(("1", "2")),
            self.random.choice((0, 0, 5)),
            self.random.choice(("", "01", "02")),
            self.random.choice(({"app": "web"}, {"app": "a"})),
            **self.random.choice(({}, {}, {}, away_from("b"))),
        )
        self.placed.append(pod)

    def node(self, name: str, size: dict[str, str]) -> None:
        zone = "a" if name in NODES[:2] else name
        self.cluster.node(name, labels={"zone": zone}, allocatable=size)

    def update(self, old: Pod, new: Pod) -> None:
        self.placed[self.placed.index(old)] = new
        self.cluster.cache.update_pod(new)

    def change(self) -> None:
        c, pick = self.cluster, self.random.choice(self.placed)
        match self.random.choice(
            ("place", "end", "start", "label", "node", "budget", "budget", "nominee", "")
        ):
            case "place":
                self.place()
            case "end" if len(self.placed) > 1:
                self.placed.remove(pick)
                c.cache.remove_pod(pick)
            case "start":
                start = f"2025-01-01T00:00:0{self.random.randrange(9)}Z"
                status = msgspec.structs.replace(pick.status, start_time=start)
                self.update(pick, msgspec.structs.replace(pick, status=status))
            case "label":
                labels = {"app": self.random.choice(("web", "a"))}
                metadata = msgspec.structs.replace(pick.metadata, labels=labels)
                self.update(pick, msgspec.structs.replace(pick, metadata=metadata))
            case "node":
                size = {**ALLOCATABLE, "cpu": self.random.choice(("2", "4", "6"))}
                self.node(self.random.choice(NODES), size)
            case "budget":
                selector = self.random.choice((WEB, WEB, WEB, {"matchLabels": {"app": "a"}}))
                disrupted = self.random.choice(([], [], [pick.metadata.name]))
                c.budgets[:] = [budget(self.random.randrange(-1, 3), selector, *disrupted)]
            case "nominee":
                nominee = c.incoming("2", 100, self.name())
                c.nominations.add_nominated_pod(nominee, NominatingInfo(self.random.choice(NODES)))

    def fresh(self) -> Evaluator:
        c = self.cluster
        return Evaluator(
            c.framework,
            c.cache.table,
            c.nominations,
            Budgets(c.budgets),
            random=random.Random(0),
            own_schedulers=[PROFILE],
        )

    def compare(self, caching: Evaluator) -> bool:
        """Compare the search with a fresh one; return whether it chose a node."""
        wishes = self.random.choice(({}, away_from("web"), away_from("b"), SPREAD))
        cpu = self.random.choice(("2", "4"))
        pod = self.cluster.incoming(cpu, 100, self.name(), **wishes)
        pod.metadata.labels = {"app": self.random.choice(("web", "b"))}
        state = CycleState()
        try:
            run_synchronously(self.cluster.algorithm.search.find(state, pod))
        except FitError as raised:
            statuses = raised.diagnosis.statuses
        else:
            return False
        caching._random = random.Random(0)
        found = caching.find(state, pod, statuses, ANY)
        assert summary_of(found) == summary_of(self.fresh().find(state, pod, statuses, ANY))
        return found.chosen is not None


def summary_of(finding: PreemptionFinding) -> Any:
    chosen = finding.chosen
    if chosen is None:
        return finding.message, finding.error
    return chosen.node_name, names(chosen.victims), chosen.pdb_violations


@pytest.mark.slow
def test_cached_and_fresh_searches_have_equal_results() -> None:
    successes = 0

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        nonlocal successes
        burst = Burst(seed)
        caching = burst.fresh()
        for _ in range(10):
            successes += burst.compare(caching)
            burst.change()

    check()
    assert successes > 100


def dry_runs(monkeypatch: pytest.MonkeyPatch, c: Cluster) -> list[int]:
    """The rows that are dry-run from now on."""
    rows: list[int] = []
    runner = c.evaluator._dry_runner
    original = runner._without_victims

    def counted(trial: Any, row: int, slots: Any) -> Any:
        rows.append(row)
        return original(trial, row, slots)

    monkeypatch.setattr(runner, "_without_victims", counted)
    return rows


def test_only_nodes_that_changed_are_dry_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    c = cluster(4)
    placed = [c.place(f"low{number}", f"n{number}", "4") for number in range(1, 5)]
    rows = dry_runs(monkeypatch, c)
    c.decide(c.incoming(name="first"))
    assert sorted(rows) == [0, 1, 2, 3]
    rows.clear()
    c.decide(c.incoming(name="second"))
    assert rows == []
    c.cache.remove_pod(placed[2])
    c.place("low", "n3", "4")
    c.decide(c.incoming(name="third"))
    assert rows == [2]
    rows.clear()
    c.decide(c.incoming("3", name="of another signature"))
    assert sorted(rows) == [0, 1, 2, 3]


def test_a_changed_budget_affects_nodes_with_more_of_its_pods_than_it_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    c = cluster(4)
    web, db = {"app": "web"}, {"app": "db"}
    c.place("one", "n1", "4", labels=web)
    for name in ("first of two", "second of two"):
        c.place(name, "n2", "2", labels=web)
    c.place("unprotected", "n3", "4", priority=50, labels=db)
    c.place("another", "n4", "4", labels=web)
    c.budgets.append(budget(5, WEB))
    c.decide(c.incoming(name="fills the cache"))
    rows = dry_runs(monkeypatch, c)
    for now, again, spared in (
        (budget(3, WEB), [], False),
        (budget(1, WEB), [1], False),
        (budget(2, WEB), [1], False),
        (budget(0, WEB), [0, 1, 3], True),
        (budget(-1, WEB), [0, 1, 3], True),
        (budget(-1, WEB, "one"), [0, 1, 3], False),
        (budget(-1, WEB), [0, 1, 3], True),
        (budget(-1, {"matchLabels": {"app": "db"}}), [0, 1, 2, 3], False),
        (None, [0, 1, 2, 3], False),
    ):
        c.budgets[:] = [] if now is None else [now]
        rows.clear()
        chosen = c.decide(c.incoming(name="next"))
        assert sorted(rows) == again, now
        # The pod of higher priority goes where all others are under a budget that is used up.
        assert (chosen.node_name == "n3") == spared, now


def test_nodes_are_dry_run_again_when_a_version_named_by_a_filter_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = plugin(
        "Named",
        filter=lambda *_: None,
        filter_rows=lambda state, pod, table, rows: rows.astype("int32") * 0,
        filter_status=lambda *_: None,
        filter_reuse=ReuseRule(Columns.USAGE, ("leases",)),
    )
    c = cluster(2, NodeResourcesFit, named)
    for number in (1, 2):
        c.place(f"low{number}", f"n{number}", "4")
    rows = dry_runs(monkeypatch, c)
    for changed, again in (("", [0, 1]), ("events", []), ("leases", [0, 1])):
        c.cache.table.bump(changed, revise=False)
        rows.clear()
        c.decide(c.incoming(name="next"))
        assert sorted(rows) == again, changed


def test_a_new_start_time_changes_the_victim_at_once() -> None:
    c = cluster(1)
    placed = {name: c.place(name, "n1", "2", start="05") for name in ("a", "b")}
    for name, start in (("a", "06"), ("b", "07"), ("a", "08")):
        old = placed[name]
        status = msgspec.structs.replace(old.status, start_time=f"2025-01-01T00:00:{start}Z")
        placed[name] = msgspec.structs.replace(old, status=status)
        c.cache.update_pod(placed[name])
        assert names(c.decide(c.incoming("2", name=f"after {start}")).victims) == [name]


def test_a_node_is_dry_run_again_when_its_nominations_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    c = cluster(2)
    for number in (1, 2):
        c.place(f"low{number}", f"n{number}", "4")
    nominee = c.incoming("1", 100, "nominee")
    c.nominations.add_nominated_pod(nominee, NominatingInfo("n1"))
    rows = dry_runs(monkeypatch, c)
    for name in ("first", "second"):
        c.decide(c.incoming("2", name=name))
    assert sorted(rows) == [0, 1]
    rows.clear()
    c.nominations.add_nominated_pod(nominee, NominatingInfo("n2"))
    c.decide(c.incoming("2", name="third"))
    assert sorted(rows) == [0, 1]


def test_outcomes_for_the_nominated_pod_itself_are_not_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    c = cluster(1)
    c.place("low", "n1", "4")
    own = c.incoming("3", name="own")
    c.nominations.add_nominated_pod(own, NominatingInfo("n1"))
    rows = dry_runs(monkeypatch, c)
    for _ in range(2):
        # In turn, so that a shared outcome would show.
        assert c.find(c.incoming("3", name="other"), ANY).message
        assert names(c.decide(own).victims) == ["low"]
    assert rows == [0, 0, 0]
