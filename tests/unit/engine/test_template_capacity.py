"""The bounds of templates follow the nodes, and are never too low."""

from __future__ import annotations

import random
from typing import Any

import pytest

from scheduler.engine.template_capacity import GroupBound, Template, TemplateCapacities
from scheduler.framework import CycleState
from scheduler.testing import Cluster, node, pod

TEMPLATES: tuple[dict[str, Any], ...] = (
    {"cpu": 1},
    {"cpu": 3, "memory": "1Gi"},
    {"cpu": 1, "spec": {"nodeSelector": {"disk": "ssd"}}},
    {"cpu": "0.5", "spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}},
    {"cpu": 1, "resources": {"example.com/gpu": 1}},
)


def random_node(name: str, draw: random.Random) -> dict[str, Any]:
    return node(
        name,
        cpu=draw.choice((2, 4, 8)),
        pods=draw.choice((2, 100)),
        labels={"disk": "ssd"} if draw.random() < 0.5 else {},
        taints=("a=b:NoSchedule",) if draw.random() < 0.3 else (),
        unschedulable=draw.random() < 0.1,
        resources={"example.com/gpu": draw.choice((1, 4))} if draw.random() < 0.4 else {},
    )


def change(cluster: Cluster, draw: random.Random, number: int) -> None:
    """Make one random change of the nodes, or of what is placed on them."""
    world = cluster.world
    nodes = [each.metadata.name for each in world._assembly.tables.stores["nodes"].list()]
    placed = [each.metadata.name for each in world._assembly.tables.stores["pods"].list()]
    match draw.randrange(5):
        case 0:
            cluster.add_node(random_node(f"m{number}", draw))
        case 1 if len(nodes) > 1:
            world.drop_node(draw.choice(nodes))
        case 2 if nodes:
            cluster.add(random_node(draw.choice(nodes), draw))
        case 3 if placed:
            world.remove("Pod", draw.choice(placed), "default")
        case _ if nodes:
            cluster.add(pod(f"p{number}", cpu=draw.choice((1, 2)), node=draw.choice(nodes)))
    cluster.tick(0.1)


class Bounds:
    """Templates of a cluster, and of each a pod with its cycle state."""

    def __init__(self, cluster: Cluster) -> None:
        scheduler = cluster.world._assembly
        self.algorithm = next(iter(scheduler.scheduling.engine.algorithms.values()))
        self.table = scheduler.state.cache.table
        cluster.world.add_pods(pod("first", cpu=1000))
        cluster.tick(1)
        self.pods = []
        for number, template in enumerate(TEMPLATES):
            (key,) = cluster.add_pods(pod(f"t{number}", priority=-1, **gated(template)))
            self.pods.append(cluster.world.pod(key))

    def fresh(self) -> TemplateCapacities:
        return TemplateCapacities(self.algorithm.search.filtering.slots, self.table)

    def templates(self, capacities: TemplateCapacities) -> list[Template]:
        found = []
        for each in self.pods:
            template = capacities.add(each, passed_pre_filter())
            assert template is not None
            found.append(template)
        return found

    def totals(self, capacities: TemplateCapacities) -> list[int]:
        capacities.refresh()
        return [capacities.total(each, exact=True) for each in self.templates(capacities)]


def passed_pre_filter() -> CycleState:
    state = CycleState(0.0)
    state.skip_filter |= {"NodePorts", "InterPodAffinity", "PodTopologySpread"}
    return state


def gated(template: dict[str, Any]) -> dict[str, Any]:
    spec = {**template.get("spec", {}), "schedulingGates": [{"name": "example.com/never"}]}
    return {**template, "spec": spec}


@pytest.mark.parametrize("seed", range(8))
def test_the_bounds_after_changes_are_those_of_a_fresh_look(seed: int) -> None:
    draw = random.Random(seed)
    with Cluster(seed=seed) as cluster:
        for number in range(6):
            cluster.add_node(random_node(f"n{number}", draw))
        bounds = Bounds(cluster)
        capacities = bounds.fresh()
        templates = bounds.templates(capacities)
        for number in range(40):
            change(cluster, draw, number)
            capacities.refresh()
            expected = bounds.totals(bounds.fresh())
            estimates = [capacities.total(each, exact=False) for each in templates]
            assert all(a >= b for a, b in zip(estimates, expected, strict=True))
            if draw.random() < 0.5:
                assert [capacities.total(each, exact=True) for each in templates] == expected


@pytest.mark.parametrize("seed", range(8))
def test_as_many_pods_fit_as_the_bound_says(seed: int) -> None:
    draw = random.Random(seed)
    with Cluster(seed=seed) as cluster:
        for number in range(6):
            cluster.add_node(random_node(f"n{number}", draw))
        for number in range(6):
            change(cluster, draw, number)
        bounds = Bounds(cluster)
        expected = bounds.totals(bounds.fresh())
        which = draw.randrange(len(TEMPLATES))
        keys = cluster.add_pods(pod("x", **TEMPLATES[which]), expected[which] + 3)
        cluster.tick(1)
        placed = cluster.world.placements()
        assert sum(key in placed for key in keys) == expected[which]


def test_templates_that_no_group_uses_make_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scheduler.engine.template_capacity.MAX_TEMPLATES", 3)
    with Cluster() as cluster:
        cluster.add_node(node("n", cpu=4))
        bounds = Bounds(cluster)
        capacities = bounds.fresh()
        state = passed_pre_filter()
        first, second, third, fourth, fifth = bounds.pods
        used = capacities.add(first, state)
        assert used is not None
        used.groups = 1
        assert capacities.add(second, state)
        assert capacities.add(third, state)
        assert capacities.add(fourth, state) is not None
        assert len(capacities) == 2
        other = capacities.add(fifth, state)
        assert other is not None
        assert capacities.of(first) is used
        used.groups = other.groups = 1
        capacities.refresh()
        assert capacities.total(used, exact=True) == 4
        assert capacities.total(other, exact=True) == 0


def test_members_without_a_template_may_all_fit() -> None:
    bound = GroupBound(3, (), unlimited=3)
    assert not bound.too_low()
    assert GroupBound(4, (), unlimited=3).too_low()


def test_a_node_without_room_that_changes_its_label_counts_in_its_new_domain() -> None:
    with Cluster() as cluster:
        cluster.add_node(node("n", cpu=4, labels={"zone": "a"}))
        cluster.add(pod("full", cpu=4, node="n"))
        bounds = Bounds(cluster)
        capacities = bounds.fresh()
        template = bounds.templates(capacities)[0]
        zones = bounds.table.label_values("zone").ids

        def room(zone: str) -> int:
            capacities.refresh()
            return int(capacities.by_domain(template, "zone", exact=True)[zones[zone]])

        assert room("a") == 0
        cluster.add(node("n", cpu=4, labels={"zone": "a", "changed": "yes"}))
        cluster.tick(0.1)
        assert room("a") == 0
        cluster.add(node("n", cpu=4, labels={"zone": "b"}))
        cluster.tick(0.1)
        zones = bounds.table.label_values("zone").ids
        assert room("b") == 0
        cluster.world.remove("Pod", "full", "default")
        cluster.tick(0.1)
        assert room("b") == 4


def test_a_node_without_room_is_skipped_until_it_has_some() -> None:
    with Cluster() as cluster:
        for name in ("n", "m"):
            cluster.add_node(node(name, cpu=4))
            cluster.add(pod(f"full-{name}", cpu=4, node=name))
        bounds = Bounds(cluster)
        capacities = bounds.fresh()
        bounds.templates(capacities)
        assert bounds.totals(capacities) == [0, 0, 0, 0, 0]
        cluster.add(node("n", cpu=4, labels={"changed": "yes"}))
        cluster.tick(0.1)
        assert bounds.totals(capacities) == [0, 0, 0, 0, 0]
        cluster.world.remove("Pod", "full-n", "default")
        cluster.tick(0.1)
        assert bounds.totals(capacities) == [4, 1, 0, 8, 0]
        cluster.add(pod("some", cpu=3, node="n"))
        cluster.tick(0.1)
        assert bounds.totals(capacities) == [1, 0, 0, 2, 0]
