"""Counts by selector and by affinity term equal a recount over all pods, whatever happened before.

The recount here walks over pods; it knows nothing of groups, columns or their limits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from scheduler.api import LabelSelector, Pod
from scheduler.api.pod_affinity import compile_pod_affinity
from scheduler.api.selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    NOTHING,
    CompiledLabelSelector,
    Requirement,
    compile_label_selector,
)
from scheduler.cache import selector_counts
from scheduler.cache.cache import CacheError
from scheduler.cache.selector_counts import SelectorCounts
from scheduler.cache.term_block import ClassMatch, TermBlock
from scheduler.cache.term_index import MANY_ALIKE, TermIndex
from scheduler.framework import PodTerm, PotentialVictims, TermKind
from tests.unit.cache.objects import node
from tests.unit.cache.objects import pod as plain_pod
from tests.unit.plugins.clusters import Cluster, pod
from tests.unit.plugins.random_neighbours import PREFERRED, REQUIRED, SPACES, Maker, seeds

A = compile_label_selector(LabelSelector(match_labels={"app": "a"}))
NO_TIER = CompiledLabelSelector((Requirement("tier", DOES_NOT_EXIST),))
ONE, BOTH = frozenset(("one",)), frozenset(SPACES)
QUESTIONS = (
    (PodTerm(ONE, A),),
    (PodTerm(BOTH, NO_TIER),),
    (PodTerm(None, EVERYTHING),),
    (PodTerm(None, NOTHING),),
    (PodTerm(None, A), PodTerm(ONE, NO_TIER)),
)
QUICK = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)


def recounted(cluster: Cluster, terms: tuple[PodTerm, ...], *, terminating: bool) -> list[int]:
    counts = [0] * cluster.table.capacity
    for row in range(cluster.table.capacity):
        for each in cluster.table.pods_on(row).values():
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
        for terms in maker.random.sample(QUESTIONS, 2):
            for terminating in (False, True):
                counts = cluster.table.pod_counts(terms, terminating=terminating)
                assert counts.tolist() == recounted(cluster, terms, terminating=terminating)
        maker.change(cluster)
        cluster.cache.validate()


@QUICK
@given(seed=seeds)
@pytest.mark.usefixtures("form")
def test_owned_terms_equal_a_walk_over_pods_after_any_sequence_of_events(seed: int) -> None:
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
    nodes = [cluster.table.node(row) for row in range(cluster.table.capacity)]
    known = {key for each in nodes if each for key in each.metadata.labels}
    for row in range(cluster.table.capacity):
        for owner in cluster.table.pods_on(row).values():
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


def labelled(uid: str, app: str, **metadata: Any) -> Pod:
    return plain_pod(uid, "n1", labels={"app": app}, **metadata)


def test_a_pod_of_unchanged_signature_moves_between_selectors_when_its_labels_change() -> None:
    cluster = Cluster([node("n1")])
    term = (PodTerm(None, A),)
    assert cluster.table.pod_counts(term, terminating=False).tolist()[0] == 0
    cluster.cache.add_pod(labelled("p", "a"))
    counts = cluster.table.pod_counts(term, terminating=False)
    assert counts.tolist()[0] == 1
    cluster.cache.update_pod(labelled("p", "b"))
    assert counts.tolist()[0] == 0
    cluster.cache.update_pod(labelled("p", "a", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert counts.tolist()[0] == 0
    assert cluster.table.pod_counts(term, terminating=True).tolist()[0] == 1


def test_assumed_pods_count_until_they_are_forgotten() -> None:
    cluster = Cluster([node("n1")])
    terms = (PodTerm(None, A),)
    assert cluster.table.pod_counts(terms, terminating=False).sum() == 0
    cluster.cache.assume_pod(plain_pod("p", labels={"app": "a"}), "n1")
    counts = cluster.table.pod_counts(terms, terminating=False)
    assert counts.sum() == 1
    cluster.cache.forget_pod("p")
    assert counts.sum() == 0


def test_columns_read_longest_ago_are_dropped_and_no_longer_kept_up_to_date() -> None:
    probe = SelectorCounts(capacity=4)
    probe.add(labelled("p", "a"), 1)
    probe.counts((PodTerm(None, A),), terminating=True)
    room = 2 * probe.statistics().bytes
    index = SelectorCounts(capacity=4, max_bytes=room)
    index.add(labelled("p", "a"), 1)
    first = index.counts((PodTerm(None, A),), terminating=True)
    second = index.counts((PodTerm(None, EVERYTHING),), terminating=True)
    assert index.counts((PodTerm(None, NO_TIER),), terminating=True) is second, "none has the label"
    third = index.counts((PodTerm(None, A), PodTerm(None, EVERYTHING)), terminating=True)
    index.add(labelled("q", "a"), 2)
    assert (first.tolist(), second.tolist()) == ([0, 1, 0, 0], [0, 1, 1, 0])
    assert third.tolist() == [0, 1, 1, 0]
    statistics = index.statistics()
    assert (statistics.columns, statistics.evictions) == (2, 1)
    assert 0 < statistics.bytes <= room
    assert index.counts((PodTerm(None, A),), terminating=True).tolist() == [0, 1, 1, 0]
    assert not list(index.validate([(1, labelled("p", "a")), (2, labelled("q", "a"))]))


def test_selectors_that_say_nothing_of_the_pods_there_are_get_no_column() -> None:
    index = SelectorCounts(capacity=4)
    index.add(labelled("p", "a"), 1)
    everything = index.counts((PodTerm(None, EVERYTHING),), terminating=True)
    for number in range(2000):
        key = f"k{number}"
        for operator, values, expected in (
            ("In", ["v"], [0, 0, 0, 0]),
            ("Exists", [], [0, 0, 0, 0]),
            ("NotIn", ["v"], [0, 1, 0, 0]),
            ("DoesNotExist", [], [0, 1, 0, 0]),
        ):
            selector = CompiledLabelSelector((Requirement(key, operator, values),))
            found = index.counts((PodTerm(None, selector),), terminating=True)
            assert found.tolist() == expected
        elsewhere = PodTerm(frozenset((f"space-{number}",)), EVERYTHING)
        assert not index.counts((elsewhere,), terminating=True).any()
    assert everything.tolist() == [0, 1, 0, 0]
    assert index.statistics().columns == 1


def test_a_label_that_a_pod_brings_matters_from_then_on() -> None:
    index = SelectorCounts(capacity=4)
    index.add(labelled("p", "a"), 1)
    terms = {
        operator: (PodTerm(None, CompiledLabelSelector((Requirement("app", operator, values),))),)
        for operator, values in (("In", ["b"]), ("NotIn", ["b"]), ("Exists", ()))
    }
    assert [index.counts(each, terminating=True)[2] for each in terms.values()] == [0, 0, 0]
    second = labelled("q", "b")
    index.add(second, 2)
    assert [index.counts(each, terminating=True)[2] for each in terms.values()] == [1, 0, 1]
    index.remove(second, 2)
    assert [index.counts(each, terminating=True)[2] for each in terms.values()] == [0, 0, 0]
    assert not list(index.validate([(1, labelled("p", "a"))]))


def test_columns_grow_with_the_table() -> None:
    index = SelectorCounts(capacity=2)
    index.add(labelled("p", "a"), 1)
    index.counts((PodTerm(None, A),), terminating=True)
    index.grow(4)
    index.add(labelled("q", "a"), 3)
    assert index.counts((PodTerm(None, A),), terminating=True).tolist() == [0, 1, 0, 1]


def test_nothing_is_left_when_the_last_pod_goes() -> None:
    index = SelectorCounts(capacity=2)
    one = labelled("p", "a")
    index.add(one, 0)
    index.remove(one, 0)
    assert index.statistics().groups == 0


class AllKeys:
    """Nodes have every label key but `absent`."""

    def __init__(self) -> None:
        self.version = 0
        self.absent: set[str] = set()

    def has(self, key: str) -> bool:
        return key not in self.absent


def anti(app: str, key: str = "zone", uid: str = "owner") -> Pod:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    spec = {"affinity": {"podAntiAffinity": {REQUIRED: [term, term]}}}
    return pod(spec, metadata={"uid": uid})


def test_identical_terms_of_different_pods_are_one() -> None:
    index = TermIndex(4, AllKeys())
    index.add(anti("a"), 0)
    index.add(anti("a"), 2)
    (found,) = index.matching_terms("default", {"app": "a"}, {})
    # Each pod has the term twice.
    assert found.counts.tolist() == [2, 0, 2, 0]
    assert (found.kind, found.topology_key, found.weight) == (TermKind.REQUIRED_ANTI, "zone", 0)


def test_terms_vanish_with_their_last_owner_also_from_remembered_answers() -> None:
    index = TermIndex(2, AllKeys())
    first, second = anti("a"), anti("a", key="rack")
    index.add(first, 0)
    assert len(index.matching_terms("default", {"app": "a"}, {})) == 1
    index.add(second, 1)
    assert len(index.matching_terms("default", {"app": "a"}, {})) == 2
    index.remove(first, 0)
    (left,) = index.matching_terms("default", {"app": "a"}, {})
    assert left.topology_key == "rack"
    index.remove(second, 1)
    assert index.empty
    assert index.matching_terms("default", {"app": "a"}, {}) == ()


def test_terms_that_select_namespaces_look_at_their_labels_anew() -> None:
    index = TermIndex(1, AllKeys())
    term = {
        "labelSelector": {},
        "topologyKey": "zone",
        "namespaceSelector": {"matchLabels": {"team": "t"}},
    }
    index.add(pod({"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}), 0)
    assert index.matching_terms("one", {}, {}) == ()
    assert len(index.matching_terms("one", {}, {"team": "t"})) == 1
    assert index.matching_terms("one", {}, {"team": "other"}) == ()


def test_term_columns_grow_with_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.cache.term_index.MAX_COLUMNS", 1)
    index = TermIndex(1, AllKeys())
    index.add(anti("a"), 0)
    index.add(anti("a", key="rack"), 0)
    for _ in range(2):
        for each in index.matching_terms("default", {"app": "a"}, {}):
            assert each.counts.tolist() == [2]
    index.grow(2)
    for each in index.matching_terms("default", {"app": "a"}, {}):
        assert each.counts.tolist() == [2, 0]


def test_a_cache_whose_counts_are_wrong_says_so() -> None:
    cluster = Cluster([node("n1")])
    cluster.cache.add_pod(labelled("p", "a"))
    counts = cluster.table.pod_counts((PodTerm(None, A),), terminating=True)
    counts += np.int32(1)
    with pytest.raises(CacheError, match=r"selector counts: .* differs from the pods placed"):
        cluster.cache.validate()


def test_a_group_with_many_labels_goes_without_comparing_its_key_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = 0

    class Key(tuple[Any, ...]):
        __slots__ = ()
        __hash__ = tuple.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return tuple.__eq__(self, other)

    made = selector_counts._key_of
    monkeypatch.setattr(selector_counts, "_key_of", lambda pod: Key(made(pod)))
    index = SelectorCounts(capacity=4)
    many = plain_pod("p", "n1", labels={f"k{number}": "v" for number in range(1000)})

    index.add(many, 1)
    index.remove(many, 1)

    assert compared <= 2
    assert index.statistics().groups == 0


@pytest.mark.parametrize("listed", ["values", "namespaces"])
def test_a_term_that_lists_thousands_is_kept_in_a_fraction_of_their_text(listed: str) -> None:
    index = TermIndex(2, AllKeys())
    names = [f"name-{number:050}" for number in range(2000)]
    expression = {"key": "k", "operator": "In", "values": names if listed == "values" else ["v"]}
    term: dict[str, Any] = {
        "topologyKey": "zone",
        "labelSelector": {"matchExpressions": [expression]},
        "namespaces": names if listed == "namespaces" else ["default"],
    }
    owner = pod({"affinity": {"podAntiAffinity": {REQUIRED: [term]}}})
    index.add(owner, 1)
    statistics = index.statistics()
    assert (statistics.terms, statistics.blocks, statistics.block_terms) == (0, 1, 1)
    assert statistics.bytes < 2000 * 20
    namespace, value = (names[7], "v") if listed == "namespaces" else ("default", names[7])
    (found,) = index.matching_terms(namespace, {"k": value}, {})
    assert found.counts.tolist() == [0, 1]
    assert index.matching_terms(namespace, {"k": "other"}, {}) == ()
    index.remove(owner, 1)
    assert index.matching_terms(namespace, {"k": value}, {}) == ()
    assert not list(index.validate([]))


def test_thousands_of_terms_are_one_block_and_gone_with_their_pod() -> None:
    index, other = TermIndex(2, AllKeys()), anti("a")
    index.add(other, 0)
    terms = [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {f"k{number}": "v"}}}
        for number in range(2000)
    ]
    owner = pod({"affinity": {"podAntiAffinity": {REQUIRED: terms}}})
    index.add(owner, 1)
    statistics = index.statistics()
    assert (statistics.terms, statistics.blocks, statistics.block_terms) == (1, 1, 2000)
    assert statistics.bytes < 2000 * 60
    (found,) = index.matching_terms("default", {"k7": "v", "k8": "v", "k9": "other"}, {})
    assert found.counts.tolist() == [0, 2], "each of the terms that match counts"
    assert index.matching_terms("default", {"k7": "other"}, {}) == ()
    index.remove(owner, 1)
    assert index.matching_terms("default", {"k7": "v"}, {}) == ()
    assert index.statistics().blocks == 0
    assert not list(index.validate([(0, other)]))


def crowd(index: TermIndex, number: int, terms: int = 100) -> list[Pod]:
    """Pods of another namespace, each with terms of its own about all pods."""
    owners = []
    for owner in range(number):
        listed = [
            {
                "topologyKey": ("zone", f"absent-{owner}-{each}")[each % 2],
                "namespaceSelector": {},
                "labelSelector": {
                    "matchExpressions": [
                        {"key": f"k{owner}-{each}", "operator": "DoesNotExist"},
                        {"key": "role", "operator": "NotIn", "values": ["hermit"]},
                    ]
                },
            }
            for each in range(terms)
        ]
        owners.append(
            pod({"affinity": {"podAntiAffinity": {REQUIRED: listed}}}, metadata={"uid": f"{owner}"})
        )
    return owners


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[TermBlock]:
    """Blocks whose terms were held against a pod, in order."""
    seen: list[TermBlock] = []
    matching = TermBlock.matching

    def counted(self: TermBlock, *arguments: Any) -> list[ClassMatch]:
        seen.append(self)
        return matching(self, *arguments)

    monkeypatch.setattr(TermBlock, "matching", counted)
    return seen


def test_an_owner_more_or_less_holds_the_terms_of_no_other_block_against_the_pod_again(
    evaluations: list[TermBlock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.cache.term_blocks.MAX_BLOCK_OWNERS", 3)
    index = TermIndex(4, AllKeys())
    owners = crowd(index, 10)
    for each in owners[:9]:
        index.add(each, 1)
    assert index.statistics().blocks == 3
    # One for all terms about "zone", and one for each other topology key.
    assert len(index.matching_terms("other", {"app": "a"}, {})) == 1 + 9 * 50
    assert len(evaluations) == 3

    index.add(owners[9], 2)
    found = index.matching_terms("other", {"app": "a"}, {})
    assert {each.counts[1] for each in found if each.topology_key == "zone"} == {9 * 50}
    assert len(evaluations) == 4
    index.remove(owners[9], 2)
    index.matching_terms("other", {"app": "a"}, {})
    # Pods that differ in what no term mentions are alike.
    for number in range(20):
        index.matching_terms(f"ns{number}", {"app": "b", "index": f"{number}"}, {"team": "t"})
    assert len(evaluations) == 4
    assert index.matching_terms("other", {"role": "hermit"}, {}) == ()
    assert len(evaluations) == 7
    index.remove(owners[0], 1)
    index.matching_terms("other", {"app": "a"}, {})
    assert len(evaluations) == 8


SHARED: Any = {
    "NotIn": {"key": "app", "operator": "NotIn"},
    "Exists": {"key": "app", "operator": "Exists"},
    "DoesNotExist": {"key": "none", "operator": "DoesNotExist"},
    "In": {"key": "app", "operator": "In"},
}
"""What terms have in common that no index by label tells apart, and that match app=web."""


@pytest.mark.parametrize("operator", SHARED)
def test_a_pod_is_held_against_few_terms_one_by_one_however_many_are_about_it(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = TermIndex(2048, AllKeys())
    owners = []
    for number in range(1000):
        shared = dict(SHARED[operator])
        if operator == "NotIn":
            shared["values"] = [f"v{number}"]
        if operator == "In":
            shared["values"] = ["web", f"v{number}"]
        unlike = {"key": f"k{number}", "operator": "DoesNotExist"}
        term = {
            "topologyKey": "zone",
            "labelSelector": {"matchExpressions": [shared, unlike]},
            "namespaceSelector": {},
        }
        spec = {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}
        owners.append(pod(spec, metadata={"uid": f"{number}"}))
        index.add(owners[-1], number)
    held = []
    matches = CompiledLabelSelector.matches

    def counted(self: CompiledLabelSelector, labels: Any) -> bool:
        held.append(self)
        return matches(self, labels)

    monkeypatch.setattr(CompiledLabelSelector, "matches", counted)
    found = index.matching_terms("other", {"app": "web"}, {})
    # Their namespace selectors are held against the namespace.
    assert len(held) <= 2 * MANY_ALIKE
    assert len(found) <= MANY_ALIKE + 1
    total = np.sum([each.counts for each in found], axis=0)
    assert total.tolist() == [1] * 1000 + [0] * 1048

    held.clear()
    index.matching_terms("other", {"app": "web"}, {})
    assert not held
    for number, each in enumerate(owners):
        index.remove(each, number)
    assert index.empty
    assert (index.statistics().blocks, index.statistics().block_terms) == (0, 0)


def test_terms_that_come_and_go_in_a_block_leave_nothing_behind() -> None:
    index = TermIndex(4, AllKeys())
    owners = crowd(index, 30, terms=20)
    index.add(owners[0], 0)
    index.matching_terms("other", {}, {})
    alone = index.statistics()
    for _ in range(3):
        for each in owners[1:]:
            index.add(each, 1)
        assert index.statistics().block_terms == 30 * 20
        for each in owners[1:]:
            index.remove(each, 1)
    index.matching_terms("other", {}, {})
    left = index.statistics()
    assert (left.blocks, left.block_terms) == (alone.blocks, alone.block_terms)
    assert left.bytes <= alone.bytes + 100


def test_terms_in_a_block_are_not_kept_as_objects_as_well() -> None:
    index = TermIndex(4, AllKeys())
    (owner,) = crowd(index, 1)
    owner.signature.pod_affinity_terms(owner.metadata.namespace)
    index.add(owner, 0)
    assert owner.signature.terms_by_namespace == {}


def test_terms_about_topologies_that_no_node_has_are_no_answer() -> None:
    keys = AllKeys()
    keys.absent = {f"absent-{owner}-{each}" for owner in range(3) for each in range(100)}
    index = TermIndex(4, keys)
    for each in (*crowd(index, 3), anti("a", key="absent-0-1")):
        index.add(each, 1)
    found = index.matching_terms("default", {"app": "a"}, {})
    assert [(each.topology_key, each.counts[1]) for each in found] == [("zone", 150)]

    keys.absent.remove("absent-0-1")
    keys.version += 1
    found = index.matching_terms("default", {"app": "a"}, {})
    assert sorted(each.counts[1] for each in found) == [1, 2, 150]


def test_weights_of_many_preferred_terms_are_one_sum() -> None:
    index = TermIndex(2, AllKeys())
    listed = [
        {"weight": weight, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}}}
        for weight in range(1, 101)
    ]
    index.add(pod({"affinity": {"podAffinity": {PREFERRED: listed}}}), 0)
    (found,) = index.matching_terms("default", {}, {})
    assert (found.kind, found.weight, found.counts[0]) == (TermKind.PREFERRED, 1, 5050)


def test_a_term_is_held_only_against_pods_that_have_a_label_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = TermIndex(2, AllKeys())
    for number in range(500):
        index.add(anti(f"app{number}", uid=f"{number}"), 0)
    held = 0
    matches = CompiledLabelSelector.matches

    def counted(self: CompiledLabelSelector, labels: Any) -> bool:
        nonlocal held
        held += 1
        return matches(self, labels)

    monkeypatch.setattr(CompiledLabelSelector, "matches", counted)
    assert len(index.matching_terms("default", {"app": "app7", "tier": "x"}, {})) == 1
    assert held == 1
