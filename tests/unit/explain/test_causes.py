"""Causes of waiting pods in plain words."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import plugins
from plugins.node_resources.fit import TOO_MANY_PODS
from scheduler.explain.records.causes import (
    MAX_CAUSES,
    cause_of,
    counted_reasons,
    headline,
    words_of,
)
from scheduler.framework import Status

NOT_IN_TREE = "plugins.extra."
NONE_FITS = "0/{} nodes are available: {}. preemption: 0/9 nodes are available: 9 Insufficient x."


@pytest.mark.parametrize(
    ("reasons", "cause"),
    [
        ("3 Insufficient cpu", "lack CPU"),
        ("3 Insufficient nvidia.com/gpu", "lack nvidia.com/gpu"),
        (f"3 {TOO_MANY_PODS}", "lack room for pods"),
        ("9 node(s) had untolerated taint(s)", "lack a toleration"),
        # The nodes with other labels were never meant for the pod.
        (
            "2 Insufficient cpu, 90 node(s) didn't match Pod's node affinity/selector",
            "lack CPU",
        ),
        ("2 node(s) were unschedulable, 3 node(s) had untolerated taint(s)", "lack a toleration"),
        (
            "2 node(s) didn't match pod topology spread constraints (missing required label)",
            "lack a label to spread by",
        ),
        ("2 node(s) too hot", "are held by Heat"),
    ],
)
def test_the_cause_is_the_reason_of_most_nodes_that_may_pass(reasons: str, cause: str) -> None:
    assert cause_of("unschedulable", NONE_FITS.format(9, reasons), ["Heat"]) == cause


@pytest.mark.parametrize(
    ("place", "message", "plugins", "cause"),
    [
        ("gated", "anything", ["SchedulingGates"], "are gated"),
        ("gated", "3 Insufficient cpu", ["Team"], "are held by Team"),
        ("unschedulable", "", ["GangScheduling"], "wait for their group"),
        ("active", "", [], "wait for their turn"),
        ("active", "timed out", [], "wait for their turn"),
        ("backoff", "timed out", [], "met an error"),
    ],
)
def test_pods_that_no_node_rejected(
    place: str, message: str, plugins: list[str], cause: str
) -> None:
    assert cause_of(place, message, plugins) == cause


def test_what_others_write_is_bounded() -> None:
    assert cause_of("gated", "", ["x" * 10_000]) == f"are held by {'x' * 80}"
    name = "y" * 3_000
    assert cause_of("unschedulable", f"0/1: 1 Insufficient {name}", []) == f"lack {'y' * 80}"
    assert counted_reasons("9" * 100_000) == []
    assert words_of("anything") is None


def test_few_causes_are_in_the_headline() -> None:
    causes = [(f"are held by P{number}", 9 - number) for number in range(6)]
    told = headline(causes, sum(count for _, count in causes))
    assert told.startswith("39 pods wait: 9 are held by P0, ")
    assert told.endswith(", 9 for other reasons")
    assert told.count(",") == MAX_CAUSES


def reasons_of_nodes() -> Iterator[tuple[str, str]]:
    """Yield the constants of the in-tree plugins that say why a node was rejected."""
    for found in pkgutil.walk_packages(plugins.__path__, "plugins."):
        if not found.name.startswith(NOT_IN_TREE):
            for name, value in vars(importlib.import_module(found.name)).items():
                if isinstance(value, Status) and value.message.startswith("node(s) "):
                    yield f"{found.name}.{name}", value.message


def test_each_reason_of_nodes_has_plain_words() -> None:
    found = dict(reasons_of_nodes())
    assert len(found) > 15
    missing = [name for name, reason in found.items() if words_of(reason) is None]
    assert missing == [], "add words to _WORDS in scheduler/explain/records/causes.py"
