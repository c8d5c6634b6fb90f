"""Affinity terms of placed pods: which of them match a pod, and what is cached."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api.selectors import (
    CompiledLabelSelector,
)
from scheduler.cache.term_index import TermIndex
from scheduler.framework import TermKind
from tests.unit.cache.objects import anti, crowd, label_keys, node, with_anti_affinity

KEYS = label_keys("zone", "rack")


def test_identical_terms_of_different_pods_are_one() -> None:
    index = TermIndex(4, KEYS)
    index.add(anti("a"), 0)
    index.add(anti("a"), 2)
    (found,) = index.matching_terms("default", {"app": "a"}, {})
    # Each pod has the term twice.
    assert found.counts.tolist() == [2, 0, 2, 0]
    assert (found.kind, found.topology_key, found.weight) == (TermKind.REQUIRED_ANTI, "zone", 0)


def test_terms_vanish_with_their_last_owner_also_from_cached_matches() -> None:
    index = TermIndex(2, KEYS)
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


def test_terms_that_select_namespaces_depend_on_the_namespace_labels() -> None:
    index = TermIndex(1, KEYS)
    term = {
        "labelSelector": {},
        "topologyKey": "zone",
        "namespaceSelector": {"matchLabels": {"team": "t"}},
    }
    index.add(with_anti_affinity(term), 0)
    assert index.matching_terms("one", {}, {}) == ()
    assert len(index.matching_terms("one", {}, {"team": "t"})) == 1
    assert index.matching_terms("one", {}, {"team": "other"}) == ()


def test_term_columns_grow_with_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.cache.term_index.MAX_COLUMNS", 1)
    index = TermIndex(1, KEYS)
    index.add(anti("a"), 0)
    index.add(anti("a", key="rack"), 0)
    for _ in range(2):
        for each in index.matching_terms("default", {"app": "a"}, {}):
            assert each.counts.tolist() == [2]
    index.grow(2)
    for each in index.matching_terms("default", {"app": "a"}, {}):
        assert each.counts.tolist() == [2, 0]


def test_terms_with_a_topology_key_that_no_node_has_do_not_match() -> None:
    keys = label_keys("zone", "rack")
    index = TermIndex(4, keys)
    for each in (*crowd(3), anti("a", key="absent-0-1")):
        index.add(each, 1)
    found = index.matching_terms("default", {"app": "a"}, {})
    assert [(each.topology_key, each.counts[1]) for each in found] == [("zone", 150)]

    keys.write(1, None, node("n2", labels={"absent-0-1": ""}))
    found = index.matching_terms("default", {"app": "a"}, {})
    assert sorted(each.counts[1] for each in found) == [1, 2, 150]


def test_a_term_is_evaluated_only_for_pods_with_a_label_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = TermIndex(2, KEYS)
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
