"""Counts by selector and by affinity term equal a recount over all pods, whatever happened before.

The recount here walks over pods; it knows nothing of groups, columns or their limits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from scheduler.api import LabelSelector
from scheduler.api.pod_affinity import compile_pod_affinity
from scheduler.api.selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    NOTHING,
    CompiledLabelSelector,
    Requirement,
    compile_label_selector,
)
from scheduler.cache.cache import CacheError
from scheduler.framework import PodTerm, PotentialVictims, TermKind
from tests.unit.cache.objects import labelled, node
from tests.unit.plugins.clusters import Cluster
from tests.unit.plugins.random_neighbours import SPACES, Maker, seeds

A = compile_label_selector(LabelSelector(match_labels={"app": "a"}))
NO_TIER = CompiledLabelSelector((Requirement("tier", DOES_NOT_EXIST),))
ONE, BOTH = frozenset(("one",)), frozenset(SPACES)
QUERIES = (
    (PodTerm(ONE, A),),
    (PodTerm(BOTH, NO_TIER),),
    (PodTerm(None, EVERYTHING),),
    (PodTerm(None, NOTHING),),
    (PodTerm(None, A), PodTerm(ONE, NO_TIER)),
)
QUICK = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)


def recounted(cluster: Cluster, terms: tuple[PodTerm, ...], *, terminating: bool) -> list[int]:
    counts = [0] * cluster.table.capacity
    for row in range(cluster.table.capacity):
        for each in cluster.table.pods[row].values():
            if each.terminating and not terminating:
                continue
            counts[row] += all(
                (term.namespaces is None or each.metadata.namespace in term.namespaces)
                and term.selector.matches(each.metadata.labels)
                for term in terms
            )
    return counts


@pytest.fixture(params=["as objects", "in bulk", "beside many"])
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    """In bulk: every pod is treated as those with thousands of terms and labels are.

    Beside many: terms are treated as those beside which there are many that need the same label.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "beside many":
            patch.setattr("scheduler.cache.term_index.MANY_ALIKE", 1)
            patch.setattr("scheduler.cache.term_blocks.MAX_BLOCK_TERMS", 5)
            patch.setattr("scheduler.cache.term_blocks._MIN_ENTRIES", 2)
        if request.param == "in bulk":
            patch.setattr("scheduler.cache.term_index.MANY_TERMS", 0)
            patch.setattr("scheduler.cache.selector_counts.MANY_LABELS", 0)
            patch.setattr("scheduler.api.packed_labels.MAX_PLAIN_LABELS", 0)
            patch.setattr("scheduler.api.signatures.interner.PACK_BYTES", 0)
        yield request.param


@QUICK
@given(seed=seeds)
@pytest.mark.usefixtures("form")
def test_counts_equal_a_recount_after_any_sequence_of_events(seed: int) -> None:
    maker = Maker(seed)
    cluster = maker.cluster()
    for _ in range(6):
        for terms in maker.random.sample(QUERIES, 2):
            for terminating in (False, True):
                counts = cluster.table.pod_counts(terms, terminating=terminating)
                assert counts.tolist() == recounted(cluster, terms, terminating=terminating)
        maker.change(cluster)
        cluster.cache.validate()


@QUICK
@given(seed=seeds)
@pytest.mark.usefixtures("form")
def test_existing_pod_terms_equal_a_walk_over_pods_after_any_sequence_of_events(seed: int) -> None:
    maker = Maker(seed)
    cluster, labels = maker.cluster(), maker.labels()
    for _ in range(5):
        space = maker.space()
        space_labels = {"team": "t"} if space == "one" else {}
        pod = space, labels, space_labels
        victims = PotentialVictims(maker.random.choice((-5, 5, 11)), None)
        for terms, among in (
            (cluster.table.existing_pod_terms(*pod), None),
            (cluster.table.terms.matching_terms(*pod, victims), victims),
        ):
            found: Counter[tuple[TermKind, str, int]] = Counter()
            for each in terms:
                assert len(each.rows) <= each.row_count
                for row, number in each.rows.items():
                    assert each.counts[row] == number
                    found[each.kind, each.topology_key, row] += number * (each.weight or 1)
            assert found == _walked(cluster, *pod, among)
        maker.change(cluster)
        cluster.cache.validate()


def _walked(
    cluster: Cluster,
    space: str,
    labels: dict[str, str],
    space_labels: dict[str, str],
    among: PotentialVictims | None,
) -> Counter[tuple[TermKind, str, int]]:
    """By kind, topology key that some node has, and row: number of terms, or sum of weights."""
    found: Counter[tuple[TermKind, str, int]] = Counter()
    nodes = [cluster.table.nodes[row] for row in range(cluster.table.capacity)]
    known = {key for each in nodes if each for key in each.metadata.labels}
    for row in range(cluster.table.capacity):
        for owner in cluster.table.pods[row].values():
            if among and not among.includes(owner.priority, owner.spec.scheduler_name):
                continue
            terms = compile_pod_affinity(owner.spec.affinity, owner.metadata.namespace)
            listed = [
                *((TermKind.REQUIRED, 0, each) for each in terms.required),
                *((TermKind.REQUIRED_ANTI, 0, each) for each in terms.required_anti),
                *((TermKind.PREFERRED, weight, each) for weight, each in terms.preferred),
                *((TermKind.PREFERRED_ANTI, weight, each) for weight, each in terms.preferred_anti),
            ]
            for kind, weight, each in listed:
                if each.topology_key in known and each.matches(space, space_labels, labels):
                    found[kind, each.topology_key, row] += weight or 1
    return found


def test_validate_reports_wrong_counts() -> None:
    cluster = Cluster([node("n1")])
    cluster.cache.add_pod(labelled("p", "a"))
    counts = cluster.table.pod_counts((PodTerm(None, A),), terminating=True)
    counts += np.int32(1)
    with pytest.raises(CacheError, match=r"selector counts: .* differs from the pods placed"):
        cluster.cache.validate()
