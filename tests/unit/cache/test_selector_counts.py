"""Pods per row by selector: columns, their limits, and what is left without pods."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.api import LabelSelector
from scheduler.api.selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    CompiledLabelSelector,
    Requirement,
    compile_label_selector,
)
from scheduler.cache import selector_counts
from scheduler.cache.selector_counts import SelectorCounts
from scheduler.framework import PodTerm
from tests.unit.cache.objects import labelled, node, pod
from tests.unit.plugins.clusters import Cluster

A = compile_label_selector(LabelSelector(match_labels={"app": "a"}))
NO_TIER = CompiledLabelSelector((Requirement("tier", DOES_NOT_EXIST),))


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
    cluster.cache.assume_pod(pod("p", labels={"app": "a"}), "n1")
    counts = cluster.table.pod_counts(terms, terminating=False)
    assert counts.sum() == 1
    cluster.cache.forget_pod("p")
    assert counts.sum() == 0


def test_the_least_recently_read_columns_are_dropped_and_no_longer_updated() -> None:
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


def test_selectors_that_do_not_distinguish_present_pods_get_no_column() -> None:
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


def test_a_label_of_a_new_pod_matters_from_then_on() -> None:
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


def test_nothing_is_left_when_the_last_pod_is_removed() -> None:
    index = SelectorCounts(capacity=2)
    one = labelled("p", "a")
    index.add(one, 0)
    index.remove(one, 0)
    assert index.statistics().groups == 0


def test_removing_a_group_with_many_labels_does_not_compare_its_key_for_each(
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
    many = pod("p", "n1", labels={f"k{number}": "v" for number in range(1000)})

    index.add(many, 1)
    index.remove(many, 1)

    assert compared <= 2
    assert index.statistics().groups == 0


def test_the_values_of_a_label_are_those_of_some_pods_of_some_namespaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster([node("n1")])
    for uid, app, namespace in (("p", "a", "x"), ("q", "b", "x"), ("r", "c", "y")):
        cluster.cache.add_pod(labelled(uid, app, namespace=namespace))
    cluster.cache.add_pod(pod("s", "n1", namespace="x"))
    values = cluster.table.selector_counts.label_values
    assert values(["x", "x", "z"], "app") == {"a": 1, "b": 1}
    assert values(["x", "y"], "app") == {"a": 1, "b": 1, "c": 1}
    assert values(["x"], "other") == {}
    monkeypatch.setattr(selector_counts, "MAX_GROUPS", 2)
    assert values(["x", "y"], "app") == {"a": 1, "b": 1}
