"""InterPodAffinity on random clusters: the contract, and a walk over pods as the other opinion."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from plugins import InterPodAffinity
from plugins.inter_pod_affinity import terms
from plugins.inter_pod_affinity.plugin import InterPodAffinityArgs
from scheduler.api import Pod
from scheduler.api.many_terms import MANY_TERMS
from scheduler.api.pod_affinity import AffinityTerm, PodAffinityTerms, compile_pod_affinity
from scheduler.framework import CycleState, NodeInfo
from scheduler.testing import PluginCase, check_plugin_contract
from tests.unit.plugins.clusters import Cluster
from tests.unit.plugins.random_neighbours import LABELS_OF_SPACES, Maker, check_added_pod, seeds

QUICK = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)
ARGUMENTS = (
    InterPodAffinityArgs(),
    InterPodAffinityArgs(hard_pod_affinity_weight=0),
    InterPodAffinityArgs(hard_pod_affinity_weight=7, ignore_preferred_terms_of_existing_pods=True),
)
arguments = st.sampled_from(ARGUMENTS)


@pytest.fixture(
    scope="module", autouse=True, params=[MANY_TERMS, 0], ids=["few terms", "many terms"]
)
def many_terms(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test twice: as if all pods had so many terms that these are asked about together."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(terms, "MANY_TERMS", request.param)
        if not request.param:
            patched.setattr("scheduler.cache.term_index.MANY_TERMS", 0)
        yield


@settings(QUICK, max_examples=40)
@given(seed=seeds, args=arguments)
def test_contract(seed: int, args: InterPodAffinityArgs) -> None:
    maker = Maker(seed)
    cluster = maker.cluster()
    asking = [maker.pod() for _ in range(2)]
    case = PluginCase(cluster.table, [cluster.intern(each) for each in asking])
    check_plugin_contract(InterPodAffinity(args, cluster.handle()), case)


def terms_of(pod: Pod) -> PodAffinityTerms:
    return compile_pod_affinity(pod.spec.affinity, pod.metadata.namespace)


def speaks_of(term: AffinityTerm, pod: Pod) -> bool:
    """Whether `term` is about `pod`, by the labels of the pod's namespace."""
    namespace = pod.metadata.namespace
    return term.matches(namespace, LABELS_OF_SPACES[namespace], pod.metadata.labels)


def placed(cluster: Cluster) -> Iterator[tuple[NodeInfo, Pod]]:
    for row in cluster.table.rows.tolist():
        node = cluster.table.node_info(row)
        for each in node.pods:
            yield node, each


def together(node: NodeInfo, other: NodeInfo, key: str) -> bool:
    return key in node.labels and node.labels[key] == other.labels.get(key)


def expected_code(cluster: Cluster, pod: Pod, node: NodeInfo) -> str | None:
    own, everyone = terms_of(pod), list(placed(cluster))
    if own.required:
        fitting = [
            where
            for where, other in everyone
            if all(speaks_of(each, other) for each in own.required)
        ]
        met = all(
            any(together(node, where, each.topology_key) for where in fitting)
            for each in own.required
        )
        no_match = not any(
            each.topology_key in where.labels for where in fitting for each in own.required
        )
        itself = all(speaks_of(each, pod) for each in own.required)
        has_keys = all(each.topology_key in node.labels for each in own.required)
        if not has_keys or not (met or (no_match and itself)):
            return "node(s) didn't match pod affinity rules"
    for each in own.required_anti:
        if any(
            together(node, where, each.topology_key) and speaks_of(each, other)
            for where, other in everyone
        ):
            return "node(s) didn't match pod anti-affinity rules"
    for where, other in everyone:
        for each in terms_of(other).required_anti:
            if together(node, where, each.topology_key) and speaks_of(each, pod):
                return "node(s) didn't satisfy existing pods anti-affinity rules"
    return None


@QUICK
@given(seed=seeds)
def test_filter_equals_a_walk_over_pods(seed: int) -> None:
    maker = Maker(seed)
    cluster, pod = maker.cluster(), maker.pod(terms=0.8)
    cluster.intern(pod)
    assume(not terms_of(pod).errors)
    plugin, state = InterPodAffinity(None, cluster.handle()), CycleState()
    result = plugin.pre_filter(state, pod, cluster.table)
    assert result is None or result.skip
    for row in cluster.table.rows.tolist():
        node = cluster.table.node_info(row)
        status = None if result is not None else plugin.filter(state, pod, node)
        reason = None if status is None else status.message
        assert reason == expected_code(cluster, pod, node)


def contributions(
    cluster: Cluster, pod: Pod, args: InterPodAffinityArgs
) -> Iterator[tuple[NodeInfo, str, int]]:
    """(node, key, weight) of every pod that takes part."""
    own = terms_of(pod)
    for where, other in placed(cluster):
        theirs = terms_of(other)
        listed = [
            *((w, each) for w, each in own.preferred),
            *((-w, each) for w, each in own.preferred_anti),
        ]
        for weight, each in listed:
            if speaks_of(each, other):
                yield where, each.topology_key, weight
        listed = [
            *((args.hard_pod_affinity_weight, each) for each in theirs.required),
            *((w, each) for w, each in theirs.preferred),
            *((-w, each) for w, each in theirs.preferred_anti),
        ]
        for weight, each in listed:
            if weight and speaks_of(each, pod):
                yield where, each.topology_key, weight


@QUICK
@given(seed=seeds, args=arguments)
def test_scores_equal_a_walk_over_pods(seed: int, args: InterPodAffinityArgs) -> None:
    maker = Maker(seed)
    cluster, pod = maker.cluster(), maker.pod()
    cluster.intern(pod)
    own, table = terms_of(pod), cluster.table
    assume(not own.errors)
    plugin, state = InterPodAffinity(args, cluster.handle()), CycleState()
    result = plugin.pre_score(state, pod, table, table.rows)
    parts = [each for each in contributions(cluster, pod, args) if each[1] in each[0].labels]
    ignoring = args.ignore_preferred_terms_of_existing_pods
    if not parts or (ignoring and not own.preferred and not own.preferred_anti):
        assert result is not None
        assert result.skip
        return
    assert result is None
    scores = plugin.score_rows(state, pod, table, table.rows)
    expected = [
        sum(weight for where, key, weight in parts if together(table.node_info(row), where, key))
        for row in table.rows.tolist()
    ]
    assert scores.tolist() == expected
    lowest, spread = min(expected), max(expected) - min(expected)
    assert plugin.normalize_scores(state, pod, table, table.rows, scores).tolist() == [
        int(100.0 * (float(each - lowest) / float(spread))) if spread else 0 for each in expected
    ]


@QUICK
@given(seed=seeds)
def test_adding_and_removing_a_pod_equals_counting_again(seed: int) -> None:
    maker = Maker(seed)
    cluster, pod, other = maker.cluster(), maker.pod(terms=0.8), maker.pod()
    cluster.intern(pod)
    assume(not terms_of(pod).errors)
    plugin, table = InterPodAffinity(None, cluster.handle()), cluster.table
    assume(len(table.rows))
    state = CycleState()
    # A plugin that sits out is not asked about added pods either.
    assume(plugin.pre_filter(state, pod, table) is None)
    check_added_pod(maker, plugin, cluster, pod, other, state)
