"""PodTopologySpread on random clusters: the contract, and a walk over pods as the other opinion."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from plugins import PodTopologySpread
from plugins.pod_topology_spread.arguments import PodTopologySpreadArgs
from plugins.pod_topology_spread.constraints import Constraint, Constraints
from plugins.pod_topology_spread.inclusion import Inclusion
from scheduler.api import Pod
from scheduler.api.node import HOSTNAME
from scheduler.api.selectors import SelectorError
from scheduler.framework import CycleState
from scheduler.testing import PluginCase, check_plugin_contract
from tests.unit.plugins.clusters import Cluster
from tests.unit.plugins.random_neighbours import ZONE, Maker, check_added_pod, seeds

QUICK = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)
DEFAULTS = [
    {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"},
    {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"},
]
ARGUMENTS = (
    PodTopologySpreadArgs(),
    msgspec.convert(
        {"defaultingType": "List", "defaultConstraints": DEFAULTS}, PodTopologySpreadArgs
    ),
)
arguments = st.sampled_from(ARGUMENTS)


@settings(QUICK, max_examples=40)
@given(seed=seeds, args=arguments)
def test_contract(seed: int, args: PodTopologySpreadArgs) -> None:
    maker = Maker(seed)
    cluster = maker.cluster()
    asking = [maker.pod() for _ in range(2)]
    case = PluginCase(cluster.table, [cluster.intern(each) for each in asking])
    check_plugin_contract(PodTopologySpread(args, cluster.handle()), case)


def hard_and_soft(
    cluster: Cluster, pod: Pod, args: PodTopologySpreadArgs
) -> tuple[tuple[Constraint, ...], tuple[Constraint, ...]]:
    """The pod's constraints, if they can be parsed at all."""
    known = Constraints(args, cluster.handle())
    try:
        return known.hard(pod), known.soft(pod)
    except SelectorError:
        assume(False)
        raise


def walk(cluster: Cluster, pod: Pod, constraint: Constraint, keys: list[str]) -> dict[str, int]:
    """Matching pods by domain, node by node and pod by pod."""
    inclusion = Inclusion(cluster.handle())
    counts: dict[str, int] = {}
    for row in cluster.table.rows.tolist():
        node = cluster.table.node_info(row)
        if all(key in node.labels for key in keys) and inclusion.includes(constraint, pod, node):
            domain = node.labels.get(constraint.topology_key, "")
            counts[domain] = counts.get(domain, 0) + matching_on(node, constraint, pod)
    return counts


def matching_on(node: Any, constraint: Constraint, pod: Pod) -> int:
    if constraint.selector.empty:
        return 0
    return sum(
        other.metadata.namespace == pod.metadata.namespace
        and not other.terminating
        and constraint.matches(other)
        for other in node.pods
    )


@QUICK
@given(seed=seeds, args=arguments)
def test_filter_equals_a_walk_over_pods(seed: int, args: PodTopologySpreadArgs) -> None:
    maker = Maker(seed)
    cluster, pod = maker.cluster(), maker.pod()
    cluster.intern(pod)
    hard, _ = hard_and_soft(cluster, pod, args)
    plugin, state = PodTopologySpread(args, cluster.handle()), CycleState()
    result = plugin.pre_filter(state, pod, cluster.table)
    assert (result is not None) == (not hard)
    assume(hard)
    keys = [each.topology_key for each in hard]
    domains = [walk(cluster, pod, each, keys) for each in hard]
    for row in cluster.table.rows.tolist():
        node = cluster.table.node_info(row)
        expected: str | None = None
        for constraint, counts in zip(hard, domains, strict=True):
            if constraint.topology_key not in node.labels:
                expected = "UnschedulableAndUnresolvable"
                break
            fewest = min(counts.values()) if len(counts) >= constraint.min_domains else 0
            here = counts.get(node.labels[constraint.topology_key], 0)
            if here + constraint.matches(pod) - fewest > constraint.max_skew:
                expected = "Unschedulable"
                break
        status = plugin.filter(state, pod, node)
        assert (None if status is None else status.code.label) == expected


@QUICK
@given(seed=seeds, args=arguments)
def test_scores_equal_a_walk_over_pods(seed: int, args: PodTopologySpreadArgs) -> None:
    maker = Maker(seed)
    cluster, pod = maker.cluster(), maker.pod()
    cluster.intern(pod)
    _, soft = hard_and_soft(cluster, pod, args)
    table = cluster.table
    assume(len(table.rows))
    rows = table.rows.tolist()
    chosen = maker.random.sample(rows, maker.random.randint(1, len(rows)))
    feasible = np.array(sorted(chosen), dtype=np.intp)
    plugin, state = PodTopologySpread(args, cluster.handle()), CycleState()
    result = plugin.pre_score(state, pod, table, feasible)
    assert (result is not None) == (not soft)
    assume(soft)
    strict = bool(pod.spec.topology_spread_constraints) or args.defaulting_type == "List"
    keys = [each.topology_key for each in soft]
    nodes = [table.node_info(row) for row in feasible.tolist()]
    scored = [each for each in nodes if not strict or all(key in each.labels for key in keys)]
    totals: dict[int, float] = {each.row: 0.0 for each in scored}
    for constraint in soft:
        key = constraint.topology_key
        registered = {each.labels.get(key, "") for each in scored}
        counts = walk(cluster, pod, constraint, keys if strict else [])
        weight = math.log((len(scored) if key == HOSTNAME else len(registered)) + 2)
        for each in scored:
            if key in each.labels:
                count = (
                    matching_on(each, constraint, pod)
                    if key == HOSTNAME
                    else counts.get(each.labels[key], 0)
                )
                totals[each.row] += count * weight + (constraint.max_skew - 1)
    raw = {row: math.floor(total + 0.5) for row, total in totals.items()}
    scores = plugin.score_rows(state, pod, table, feasible)
    assert scores.tolist() == [raw.get(row, 0) for row in feasible.tolist()]
    most, fewest = max(raw.values(), default=0), min(raw.values(), default=0)
    final = {
        row: 100 * (most + fewest - each) // most if most else 100 for row, each in raw.items()
    }
    assert plugin.normalize_scores(state, pod, table, feasible, scores).tolist() == [
        final.get(row, 0) for row in feasible.tolist()
    ]


@QUICK
@given(seed=seeds)
def test_adding_and_removing_a_pod_equals_counting_again(seed: int) -> None:
    maker = Maker(seed)
    cluster, pod, other = maker.cluster(), maker.pod(terms=0.8), maker.pod()
    cluster.intern(pod)
    hard, _ = hard_and_soft(cluster, pod, ARGUMENTS[0])
    # Upstream's AddPod counts what its PreFilter does not: terminating pods and empty selectors.
    assume(hard and not other.terminating and not any(each.selector.empty for each in hard))
    plugin, table = PodTopologySpread(None, cluster.handle()), cluster.table
    assume(len(table.rows))
    state = CycleState()
    assert plugin.pre_filter(state, pod, table) is None
    check_added_pod(maker, plugin, cluster, pod, other, state)
