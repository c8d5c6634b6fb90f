"""Columnar results without victims equal the scalar ones.

The search for victims rules nodes out with `filter_without_victims`; the other opinion is a dry
run: an overlay and a clone of the cycle state from which the victims are removed one after the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from plugins import InterPodAffinity, NodePorts, NodeResourcesFit, PodTopologySpread, in_tree
from scheduler.api import Pod
from scheduler.cache import NodeOverlay
from scheduler.engine.preemption.without_victims import UnknownColumnError, WithoutPotentialVictims
from scheduler.framework import CycleState, PodTerm, PotentialVictims
from tests.unit.api.objects import pod as api_pod
from tests.unit.plugins.clusters import Cluster, node
from tests.unit.plugins.random_neighbours import HOST, RACK, REQUIRED, ZONE, Maker, seeds

QUICK = settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)
PLUGINS = (InterPodAffinity, NodePorts, PodTopologySpread)
ALL_A: dict[str, Any] = {"labelSelector": {"matchLabels": {"app": "a"}}}
EXISTS = {"key": "app", "operator": "Exists"}
OWN = frozenset({"default-scheduler"})


def without_victims(cluster: Cluster, gone: PotentialVictims) -> Any:
    return WithoutPotentialVictims(cluster.table, gone)


def dry_run_reasons(
    plugin: Any,
    state: CycleState,
    pod: Pod,
    cluster: Cluster,
    gone: PotentialVictims,
    random: Random,
) -> list[tuple[str, ...]]:
    """The reasons of `filter` on every node, its victims removed in any order."""
    found = []
    for row in cluster.table.rows.tolist():
        node, trial = NodeOverlay(cluster.table, row), state.clone()
        victims = [
            each for each in node.pods if gone.includes(each.priority, each.spec.scheduler_name)
        ]
        random.shuffle(victims)
        for victim in victims:
            node.remove_pod(victim)
            if hasattr(plugin, "remove_pod"):
                assert plugin.remove_pod(trial, pod, victim, node) is None
        status = plugin.filter(trial, pod, node)
        found.append(() if status is None else status.reasons)
    return found


def reasons(
    plugin: Any, state: CycleState, pod: Pod, codes: Sequence[int]
) -> list[tuple[str, ...]]:
    return [plugin.filter_status(state, pod, code).reasons if code else () for code in codes]


@pytest.mark.parametrize("kind", PLUGINS, ids=lambda kind: kind.name)
def test_all_rows_at_once_equal_a_dry_run_of_each(kind: type[Any]) -> None:
    compared = 0

    @QUICK
    @given(seed=seeds)
    def check(seed: int) -> None:
        nonlocal compared
        maker = Maker(seed)
        cluster, pod = maker.cluster(), maker.pod(terms=0.8)
        cluster.intern(pod)
        schedulers = maker.random.choice((None, OWN))
        gone = PotentialVictims(maker.random.choice((0, 5, 10, 11)), schedulers)
        plugin, state = kind(None, cluster.handle()), CycleState()
        if plugin.pre_filter(state, pod, cluster.table) is not None:
            return
        compared += 1
        rows = cluster.table.rows
        codes = plugin.filter_without_victims(state, pod, without_victims(cluster, gone), rows)
        expected = dry_run_reasons(plugin, state, pod, cluster, gone, maker.random)
        assert reasons(plugin, state, pod, codes.tolist()) == expected
        few = rows[:2]
        again = plugin.filter_without_victims(state, pod, without_victims(cluster, gone), few)
        assert again.tolist() == codes[:2].tolist()

    check()
    assert compared > 50


TWICE_NEAR = {
    "affinity": {
        "podAffinity": {
            REQUIRED: [
                {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "a"}}},
                {"topologyKey": HOST, "labelSelector": {"matchExpressions": [EXISTS]}},
            ]
        }
    }
}
TWO_SPREADS = {
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **ALL_A}
        for key in (ZONE, RACK)
    ]
}


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        # Counted once per term, a pod that goes is gone from both. The pod itself matches neither.
        (InterPodAffinity, TWICE_NEAR, ["node(s) didn't match pod affinity rules"]),
        # Upstream takes no pod off a node that lacks a topology key: the first constraint decides.
        (
            PodTopologySpread,
            TWO_SPREADS,
            ["node(s) didn't match pod topology spread constraints"],
        ),
    ],
)
def test_rare_cases(kind: type[Any], spec: dict[str, Any], expected: list[str]) -> None:
    labels = {"n": {HOST: "n", ZONE: "z"}, "m": {ZONE: "z", RACK: "m"}, "o": {ZONE: "y", RACK: "o"}}
    cluster = Cluster(node(name, labels=given) for name, given in labels.items())
    for name in ("n", "n", "m", "m"):
        cluster.place(api_pod({}, metadata={"labels": {"app": "a"}}), name)
    pod = cluster.intern(api_pod({"priority": 10, **spec}, metadata={"uid": "p"}))
    plugin, state, gone = kind(None, cluster.handle()), CycleState(), PotentialVictims(10, None)
    assert plugin.pre_filter(state, pod, cluster.table) is None
    codes = plugin.filter_without_victims(
        state, pod, without_victims(cluster, gone), cluster.table.rows
    )
    found = reasons(plugin, state, pod, codes.tolist())
    assert found == dry_run_reasons(plugin, state, pod, cluster, gone, Random(0))
    assert list(found[0]) == expected


@pytest.mark.slow
@QUICK
@given(seed=seeds)
def test_counts_of_removable_pods_equal_a_recount_after_any_sequence_of_events(seed: int) -> None:
    maker = Maker(seed)
    cluster = maker.cluster()
    gone = PotentialVictims(maker.random.choice((0, 5, 11)), maker.random.choice((None, OWN)))
    for _ in range(5):
        # Includes the terms of future pods: a column must follow later groups.
        pod = cluster.intern(maker.pod(terms=1))
        own = InterPodAffinity(None, cluster.handle())._terms.own(pod)
        for terms in ([each.pods] for each in (*own.required, *own.required_anti)):
            counts = without_victims(cluster, gone).victim_counts(terms)
            assert counts.tolist() == recounted(cluster, terms, gone)
        maker.change(cluster)
        cluster.cache.validate()


def recounted(cluster: Cluster, terms: Sequence[PodTerm], gone: PotentialVictims) -> list[int]:
    counts = [0] * cluster.table.capacity
    for row in range(cluster.table.capacity):
        for pod in cluster.table.pods[row].values():
            counts[row] += gone.includes(pod.priority, pod.spec.scheduler_name) and all(
                (namespaces is None or pod.metadata.namespace in namespaces)
                and selector.matches(pod.metadata.labels)
                for namespaces, selector in terms
            )
    return counts


@QUICK
@given(seed=seeds)
def test_ports_that_stay_taken_equal_a_walk_over_pods(seed: int) -> None:
    maker = Maker(seed)
    cluster = maker.cluster()
    gone = PotentialVictims(maker.random.choice((0, 5, 11)), maker.random.choice((None, OWN)))
    for protocol, port in (("TCP", 80), ("TCP", 81), ("UDP", 80)):
        found = {
            (ip, row)
            for ip, rows in without_victims(cluster, gone).remaining_ports(protocol, port).items()
            for row in np.flatnonzero(rows).tolist()
        }
        kept: set[tuple[str, int]] = set()
        freed: set[tuple[str, int]] = set()
        for row in range(cluster.table.capacity):
            for pod in cluster.table.pods[row].values():
                goes = gone.includes(pod.priority, pod.spec.scheduler_name)
                for ip, held_protocol, held in pod.signature.host_ports:
                    if (held_protocol, held) == (protocol, port):
                        (freed if goes else kept).add((ip, row))
        assert found == kept - freed


@pytest.mark.slow
@QUICK
@given(seed=seeds)
def test_resources_without_the_victims_equal_a_dry_run_of_each_node(seed: int) -> None:
    """Resources that few nodes have are kept otherwise than those that many have."""
    random = Random(seed)
    names = ("cpu", "example.com/gpu", "example.com/nic")

    def amounts(most: int) -> dict[str, str]:
        return {name: str(random.randint(0, most)) for name in names if random.random() < 0.7}

    cluster = Cluster(
        node(f"n{index}", allocatable={**amounts(6), "pods": "9"})
        for index in range(random.choice((2, 9)))
    )
    for _ in range(12):
        requests = {"requests": amounts(2)}
        placed = api_pod(
            {
                "priority": random.choice((0, 5, 10)),
                "schedulerName": random.choice(("default-scheduler", "other")),
                "containers": [{"name": "c", "resources": requests}],
            },
            metadata={"uid": f"u{random.random()}"},
        )
        cluster.place(placed, f"n{random.randrange(cluster.table.node_count)}")
    containers = [{"name": "c", "resources": {"requests": amounts(3)}}]
    pod = cluster.intern(api_pod({"priority": 10, "containers": containers}))
    gone = PotentialVictims(random.choice((0, 5, 10)), random.choice((None, OWN)))
    plugin, state = NodeResourcesFit(None, cluster.handle()), CycleState()
    rows, table = cluster.table.rows, without_victims(cluster, gone)
    expected = dry_run_reasons(plugin, state, pod, cluster, gone, random)
    for some in (rows, rows[:2]):
        codes = plugin.filter_rows(state, pod, table, some).tolist()
        assert reasons(plugin, state, pod, codes) == expected[: len(some)]


def test_ambiguous_columns_raise() -> None:
    table = without_victims(Maker(1).cluster(), PotentialVictims(5, None))
    reads: tuple[Callable[[], Any], ...] = (
        lambda: table.host_ports,
        lambda: table.non_zero_requested,
        lambda: table.pod_counts(()),
        lambda: table.existing_pod_terms("one", {}, {}),
    )
    for read in reads:
        with pytest.raises(UnknownColumnError, match="not known for a cluster without the victims"):
            read()


def test_in_tree_filters_that_depend_on_pods_beyond_resources_filter_without_victims() -> None:
    named = {kind.name for kind in in_tree() if hasattr(kind, "filter_without_victims")}
    assert named == {kind.name for kind in PLUGINS}
