"""A gang of pods seen for the first time is not tried where free resources show it to fail."""

from __future__ import annotations

import random

import pytest

from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster
from tests.unit.plugins.gang_scheduling.test_repeated_members import KINDS, ZONE


def test_no_member_is_tried_where_too_few_fit(cluster: GangCluster, attempts: list[str]) -> None:
    cluster.add_group(20)
    first, *_ = cluster.add_members(20, cpu=0.5)
    expected = "needs 20 pods, 16 fit at most, 4 do not: short of cpu on 2 nodes"
    assert expected in cluster.message(first)
    assert attempts == []


def test_a_member_that_fits_nowhere_is_tried_once_and_says_why(
    cluster: GangCluster, attempts: list[str]
) -> None:
    cluster.add_group(20)
    cluster.add_members(20, cpu=5)
    cluster.tick(1)
    (tried,) = attempts
    assert "0/2 nodes are available: 2 Insufficient cpu" in cluster.message(tried)


def test_a_gang_that_was_not_tried_comes_back_when_there_is_room(
    cluster: GangCluster, attempts: list[str]
) -> None:
    cluster.add_group(20)
    cluster.add_members(20, cpu=0.5)
    cluster.tick(30)
    assert attempts == []
    cluster.add_node(node("n2", cpu=2))
    assert len(cluster.bound()) == 20


def test_members_of_templates_beyond_the_limit_are_tried(
    cluster: GangCluster, attempts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.engine.template_capacity.MAX_TEMPLATES", 0)
    cluster.add_group(20)
    cluster.add_members(20, cpu=0.5)
    cluster.tick(1)
    assert attempts
    assert cluster.bound() == {}
    cluster.add_node(node("n2", cpu=2))
    cluster.tick(15)
    assert len(cluster.bound()) == 20


def outcome(seed: int) -> bool:
    """Return whether a random gang is placed in a random cluster."""
    draw = random.Random(seed)
    with GangCluster(0, seed=seed) as cluster:
        for number in range(6):
            cluster.add_node(
                node(
                    f"n{number}",
                    cpu=draw.choice((2, 4, 8)),
                    labels={ZONE: f"z{number % 3}", "disk": draw.choice(("ssd", "hdd"))},
                    unschedulable=draw.random() < 0.2,
                )
            )
        cluster.add(pod("o", cpu=1, node="n0", labels={"app": "old"}))
        count = draw.randrange(2, 16)
        cluster.add_group(draw.randrange(2, count + 1))
        for _ in range(draw.choice((1, 2))):
            spec, cpu = draw.choice(KINDS), draw.choice((1, 2))
            cluster.add_members(count, cpu=cpu, labels={"app": "x"}, spec=spec)
        cluster.tick(1)
        cluster.validate()
        return bool(cluster.bound("g"))


@pytest.mark.slow
def test_the_look_changes_no_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    least = "scheduler.groups.cycles.run.MIN_NEED_TO_LOOK"
    monkeypatch.setattr(least, 2)
    outcomes = [outcome(seed) for seed in range(30)]
    assert len(set(outcomes)) == 2
    monkeypatch.setattr(least, 1_000)
    assert [outcome(seed) for seed in range(30)] == outcomes
