"""With reuse and without, every decision is equal after any sequence of changes.

The machine changes nodes, pods and nominations at random and compares two engines over one cache,
one with reuse and one without. It runs over the in-tree plugins and over plugins made to be
difficult: they skip, depend on named versions, need normalising, are scalar, or raise.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from devtools.conformance.deciding import Decision, decide
from plugins import DEFAULT_PLUGINS, in_tree
from scheduler.api import Pod
from scheduler.cache import label_columns
from scheduler.cache.change_log import ChangeLog
from scheduler.framework import (
    SKIP,
    Codes,
    Columns,
    CycleState,
    Int64Column,
    NodeInfo,
    NodeTableView,
    NominatingInfo,
    ReuseRule,
    Rows,
    Status,
    unresolvable,
    unschedulable,
)
from tests.unit.engine.harness import PROFILE, World

NODES = [f"n{index}" for index in range(5)]

ZONES = ("a", "b", "c")

SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}]},
    {
        "containers": [{"name": "c", "image": "big:1", "ports": [{"hostPort": 80}]}],
        "nodeSelector": {"zone": "a"},
        "priority": 10,
    },
    {
        "containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 5,
                        "preference": {
                            "matchExpressions": [
                                {"key": "zone", "operator": "In", "values": ["a", "b"]}
                            ]
                        },
                    }
                ]
            }
        },
    },
    {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["n1", "n2"]}
                            ]
                        }
                    ]
                }
            }
        }
    },
)

WEB: dict[str, Any] = {"labelSelector": {"matchLabels": {"app": "web"}}}


def spread(when: str) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when, **WEB}
    return {"topologySpreadConstraints": [constraint]}


def terms(side: str, key: str) -> dict[str, Any]:
    term = {"topologyKey": "zone", **WEB}
    listed = term if key.startswith("required") else {"weight": 3, "podAffinityTerm": term}
    return {"affinity": {side: {key: [listed]}}}


NEIGHBOURS: tuple[dict[str, Any], ...] = (
    {**spread("DoNotSchedule"), "priority": 5},
    spread("ScheduleAnyway"),
    terms("podAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
    {
        **terms("podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
        "containers": [{"name": "c", "ports": [{"hostPort": 80}]}],
    },
    terms("podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution"),
)
"""Pods whose nodes depend on the pods there. As many as `SHAPES`, so that draws fit both."""

nodes = st.fixed_dictionaries(
    {
        "labels": st.dictionaries(st.just("zone"), st.sampled_from(ZONES)),
        "spec": st.fixed_dictionaries(
            {
                "unschedulable": st.sampled_from([False, False, True]),
                "taints": st.lists(
                    st.builds(
                        lambda key, effect: {"key": key, "effect": effect},
                        st.sampled_from(["gpu", "spot"]),
                        st.sampled_from(["NoSchedule", "PreferNoSchedule"]),
                    ),
                    max_size=2,
                ),
            }
        ),
        "allocatable": st.fixed_dictionaries(
            {
                "cpu": st.sampled_from(["2", "4", "8"]),
                "memory": st.sampled_from(["2Gi", "8Gi"]),
                "pods": st.sampled_from(["2", "110"]),
            },
            optional={"example.com/gpu": st.sampled_from(["1", "2"])},
        ),
        "images": st.lists(
            st.just({"names": ["big:1"], "sizeBytes": 600 * 1024 * 1024}), max_size=1
        ),
    }
)


class ReuseMachine(RuleBasedStateMachine):
    """Changes a cluster and compares the two engines after every step."""

    plugins: tuple[type[Any], ...] = ()
    weights: dict[str, int] = {}
    percentage: int | None = None
    signatures = SHAPES

    @initialize(given=st.lists(nodes, min_size=1, max_size=3))
    def begin(self, given: list[dict[str, Any]]) -> None:
        self.world = World(*self.plugins, weights=self.weights, percentage=self.percentage)
        # So short that the tail is passed now and then.
        self.world.cache.table.change_log = ChangeLog(16)
        self.reusing = self.world.algorithm
        self.plain = self.world.another_engine(reuse=False).algorithms[PROFILE]
        self.placed: dict[str, Pod] = {}
        self.count = 0
        for name, parts in zip(NODES, given, strict=False):
            self.set_node(name, parts)

    def new_pod(self, signature: int, **metadata: Any) -> Pod:
        self.count += 1
        pod = self.world.pod(f"p{self.count}", **self.signatures[signature], **metadata)
        # Labels are no part of a signature: pods of one signature differ in them.
        pod.metadata.labels = {"app": "web"} if self.count % 2 else {"app": f"a{self.count % 3}"}
        return pod

    @rule(name=st.sampled_from(NODES), parts=nodes)
    def set_node(self, name: str, parts: dict[str, Any]) -> None:
        self.world.node(name, **parts)

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name: str) -> None:
        self.world.cache.remove_node(name)

    @rule(name=st.sampled_from(NODES), signature=st.integers(0, len(SHAPES) - 1))
    def place(self, name: str, signature: int) -> None:
        pod = self.new_pod(signature, nodeName=name)
        self.placed[pod.uid] = pod
        self.world.cache.add_pod(pod)

    @rule(pick=st.integers(0, 100))
    def displace(self, pick: int) -> None:
        if self.placed:
            uid = sorted(self.placed)[pick % len(self.placed)]
            self.world.cache.remove_pod(self.placed.pop(uid))

    @rule(name=st.sampled_from(NODES), signature=st.integers(0, len(SHAPES) - 1))
    def nominate(self, name: str, signature: int) -> None:
        self.world.nominations.add_nominated_pod(self.new_pod(signature), NominatingInfo(name))

    @rule()
    def end_nominations(self) -> None:
        for name in self.world.nominations.nominated_nodes():
            for pod in self.world.nominations.nominated_pods_for_node(name):
                self.world.nominations.delete_nominated_pod_if_exists(pod)

    @rule()
    def change_a_named_version(self) -> None:
        self.world.cache.table.bump("services")

    @rule()
    def grow_past_the_capacity(self) -> None:
        capacity = self.world.cache.table.capacity
        if capacity > 256:
            # Each growth doubles: the next ones would take minutes and show nothing new.
            return
        names = [f"extra{index}" for index in range(capacity)]
        self.world.nodes(*names)
        for name in names[3:]:
            self.world.cache.remove_node(name)

    @rule(
        signature=st.integers(0, len(SHAPES) - 1),
        keep=st.booleans(),
        nominated=st.sampled_from(["", *NODES]),
    )
    def schedule(self, signature: int, keep: bool, nominated: str) -> None:
        pod = self.new_pod(signature, nominated=nominated)
        self.compare(pod)
        attempt = self.world.attempt(pod)
        if attempt.result is not None:
            self.compare(self.new_pod(signature))
            if keep:
                self.placed[pod.uid] = attempt.pod
            else:
                self.world.engine.abandon(attempt)

    @invariant()
    def all_shapes_are_treated_alike(self) -> None:
        if hasattr(self, "world"):
            for signature in range(len(SHAPES)):
                self.compare(self.new_pod(signature))
            self.world.cache.validate()

    @rule(pick=st.integers(0, 100), label=st.sampled_from(["web", "a1"]), going=st.booleans())
    def relabel(self, pick: int, label: str, going: bool) -> None:
        if self.placed:
            uid = sorted(self.placed)[pick % len(self.placed)]
            old = self.placed[uid]
            when = "2026-01-01T00:00:00Z" if going else None
            metadata = msgspec.structs.replace(
                old.metadata, labels={"app": label}, deletion_timestamp=when
            )
            self.placed[uid] = msgspec.structs.replace(old, metadata=metadata)
            self.world.cache.update_pod(self.placed[uid])

    def compare(self, pod: Pod) -> None:
        if not self.world.cache.table.node_count:
            return
        assert self.decided(self.reusing, pod) == self.decided(self.plain, pod)

    def decided(self, algorithm: Any, pod: Pod) -> Decision:
        # Both must see the same rotation, whatever was sampled in attempts before.
        algorithm.search.rotation = 0
        return decide(algorithm, self.world.cache.table, pod)


# -- plugins that are difficult to reuse ---------------------------------------------------------


def by_usage(rows: Rows, table: NodeTableView) -> Int64Column:
    count: Int64Column = table.pod_count[rows]
    return count


class Crowded:
    """Columnar, rejects with two codes, and sits out while many pods are about."""

    name = "Crowded"
    filter_reuse = ReuseRule(Columns.USAGE)

    def __init__(self, args: object, handle: object) -> None: ...

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        total = int(table.pod_count[table.valid].sum())
        if total == 5:
            return unschedulable("exactly five pods")
        return SKIP if total % 4 == 3 else None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if node.pod_count >= 2:
            return unresolvable("very crowded")
        return unschedulable("crowded") if node.pod_count == 1 else None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        return np.minimum(by_usage(rows, table), 2).astype(np.int32)

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        return unresolvable("very crowded") if code == 2 else unschedulable("crowded")


class Versioned:
    """Columnar, depends on a named version; its PreScore sits out on even versions."""

    name = "Versioned"
    filter_reuse = ReuseRule(Columns.EXISTENCE, ("services",))
    score_reuse = ReuseRule(Columns.LABELS, ("services",))

    def __init__(self, args: object, handle: Any) -> None:
        self._table: NodeTableView = handle.table

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return unschedulable("not this version") if self._rejects(node.name) else None

    def _rejects(self, name: str) -> bool:
        version = self._table.version("services")
        return version % 3 == 1 and name == f"n{version % 5}"

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        return np.array([self._rejects(table.names[row]) for row in rows], dtype=np.int32)

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        return unschedulable("not this version")

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        zones = table.label_column("zone")[rows].astype(np.int64)
        return (zones + 1) * (1 + table.version("services") % 7)

    def normalize_scores(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows, scores: Int64Column
    ) -> Int64Column:
        return 100 * scores // max(int(scores.max()), 1)


class Volatile:
    """Columnar, must run every time; its Score is skipped now and then."""

    name = "Volatile"

    def __init__(self, args: object, handle: object) -> None: ...

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return unschedulable("memory is odd") if self._odd(node.non_zero_requested[1]) else None

    def _odd(self, memory: int) -> bool:
        return (memory >> 20) // 100 % 3 == 1

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        memory = table.non_zero_requested[1, rows].tolist()
        return np.array([self._odd(each) for each in memory], dtype=np.int32)

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        return unschedulable("memory is odd")

    def pre_score(
        self, state: CycleState, pod: Pod, table: NodeTableView, feasible: Rows
    ) -> Status | None:
        return SKIP if len(feasible) % 3 == 2 else None

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        return table.pod_count[rows] % 101


class Raising:
    """Columnar and reusable; raises, or scores out of range, for certain nodes."""

    name = "Raising"
    filter_reuse = ReuseRule(Columns.USAGE)
    score_reuse = ReuseRule(Columns.USAGE)

    def __init__(self, args: object, handle: object) -> None: ...

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if node.pod_count == 4:
            msg = "four pods"
            raise ValueError(msg)
        return None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        if (table.pod_count[rows] == 4).any():
            msg = "four pods"
            raise ValueError(msg)
        return np.zeros(len(rows), dtype=np.int32)

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        raise AssertionError

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        return np.where(table.pod_count[rows] == 3, 101, table.pod_count[rows])


class Awkward:
    """Scalar in both points."""

    name = "Awkward"

    def __init__(self, args: object, handle: object) -> None: ...

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return unschedulable("zone c") if node.labels.get("zone") == "c" else None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return node.pod_count % 100


class InTree(ReuseMachine):
    plugins = in_tree()
    weights = dict(DEFAULT_PLUGINS)


class Neighbours(ReuseMachine):
    plugins = in_tree()
    weights = dict(DEFAULT_PLUGINS)
    signatures = NEIGHBOURS


class Difficult(ReuseMachine):
    plugins = (Crowded, Versioned, Volatile)
    weights = {"Versioned": 3}


class Failing(ReuseMachine):
    # Raising is first: a reusable column is made for nodes, too, that another plugin rejected.
    plugins = (Raising, Crowded, Versioned)


class WithScalar(ReuseMachine):
    plugins = (Crowded, Awkward, Versioned)


class NoReusableFilter(ReuseMachine):
    plugins = (Volatile,)
    percentage = 50


MACHINES = (InTree, Neighbours, Difficult, Failing, WithScalar, NoReusableFilter)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_reuse_never_changes_a_decision(machine: type[ReuseMachine]) -> None:
    # A third of the examples of the profile: a step costs ten decisions.
    examples = settings().max_examples // 3
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=25)
    )


@pytest.mark.parametrize("machine", [InTree, Neighbours], ids=lambda machine: machine.__name__)
def test_reuse_changes_no_decision_when_label_columns_get_other_ids(
    monkeypatch: pytest.MonkeyPatch, machine: type[ReuseMachine]
) -> None:
    monkeypatch.setattr(label_columns, "MAX_LABEL_COLUMNS", 0)
    examples = settings().max_examples // 6
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=25)
    )
