"""Blocks of affinity terms: memory, and how often terms are matched with a pod."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scheduler.api.selectors import (
    CompiledLabelSelector,
)
from scheduler.cache.term_block import ClassMatch, TermBlock
from scheduler.cache.term_index import MANY_ALIKE, TermIndex
from scheduler.framework import TermKind
from tests.unit.cache.objects import anti, crowd, label_keys, pod, with_anti_affinity
from tests.unit.plugins.random_neighbours import PREFERRED

KEYS = label_keys("zone", *(f"absent-{owner}-{each}" for owner in range(30) for each in range(100)))


@pytest.mark.parametrize("listed", ["values", "namespaces"])
def test_a_term_that_lists_thousands_is_kept_in_a_fraction_of_their_text(listed: str) -> None:
    index = TermIndex(2, KEYS)
    names = [f"name-{number:050}" for number in range(2000)]
    expression = {"key": "k", "operator": "In", "values": names if listed == "values" else ["v"]}
    term: dict[str, Any] = {
        "topologyKey": "zone",
        "labelSelector": {"matchExpressions": [expression]},
        "namespaces": names if listed == "namespaces" else ["default"],
    }
    owner = with_anti_affinity(term)
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


def test_thousands_of_terms_are_one_block_and_are_dropped_with_their_pod() -> None:
    index, other = TermIndex(2, KEYS), anti("a")
    index.add(other, 0)
    terms = [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {f"k{number}": "v"}}}
        for number in range(2000)
    ]
    owner = with_anti_affinity(*terms)
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


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[TermBlock]:
    """Blocks whose terms were matched with a pod, in order."""
    seen: list[TermBlock] = []
    matching = TermBlock.matching

    def counted(self: TermBlock, *arguments: Any) -> list[ClassMatch]:
        seen.append(self)
        return matching(self, *arguments)

    monkeypatch.setattr(TermBlock, "matching", counted)
    return seen


def test_adding_or_removing_an_owner_matches_only_the_terms_of_its_block_again(
    evaluations: list[TermBlock], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.cache.term_blocks.MAX_BLOCK_OWNERS", 3)
    index = TermIndex(4, KEYS)
    owners = crowd(10)
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
    # Pods that differ only in what no term mentions share one result.
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
"""Requirements that many terms share, the index by label cannot separate, and app=web meets."""


@pytest.mark.slow
@pytest.mark.parametrize("operator", SHARED)
def test_a_pod_is_matched_with_few_terms_one_by_one_however_many_share_an_index_entry(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = TermIndex(2048, KEYS)
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
        owners.append(with_anti_affinity(term, uid=f"{number}"))
        index.add(owners[-1], number)
    held = []
    matches = CompiledLabelSelector.matches

    def counted(self: CompiledLabelSelector, labels: Any) -> bool:
        held.append(self)
        return matches(self, labels)

    monkeypatch.setattr(CompiledLabelSelector, "matches", counted)
    found = index.matching_terms("other", {"app": "web"}, {})
    # Their namespace selectors are matched with the namespace.
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
    index = TermIndex(4, KEYS)
    owners = crowd(30, terms=20)
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
    index = TermIndex(4, KEYS)
    (owner,) = crowd(1)
    owner.signature.pod_affinity_terms(owner.metadata.namespace)
    index.add(owner, 0)
    assert owner.signature.terms_by_namespace == {}


def test_weights_of_many_preferred_terms_are_one_sum() -> None:
    index = TermIndex(2, KEYS)
    listed = [
        {"weight": weight, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}}}
        for weight in range(1, 101)
    ]
    index.add(pod("owner", affinity={"podAffinity": {PREFERRED: listed}}), 0)
    (found,) = index.matching_terms("default", {}, {})
    assert (found.kind, found.weight, found.counts[0]) == (TermKind.PREFERRED, 1, 5050)
