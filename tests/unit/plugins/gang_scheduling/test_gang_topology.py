"""Gangs that require, or prefer, one domain of a node label."""

from __future__ import annotations

import random
from typing import Any

import pytest

from scheduler.groups.terms import TOPOLOGY_PREFERRED, TOPOLOGY_REQUIRED
from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster
from tests.unit.plugins.gang_scheduling.test_gang_preemption import gone

RACK, ZONE = "example.com/rack", "topology.kubernetes.io/zone"


def racks(cluster: GangCluster, count: int = 3, nodes: int = 2, *, zones: int = 2) -> None:
    """Add racks `r0` and so on of nodes `r0-0` and so on with 4 CPU, in zones in turn."""
    for rack in range(count):
        for number in range(nodes):
            labels = {RACK: f"r{rack}", ZONE: f"z{rack % zones}"}
            cluster.add_node(node(f"r{rack}-{number}", cpu=4, labels=labels))


def required(key: str = RACK, preferred: str = "") -> dict[str, str]:
    """Return the annotations of a group that requires a domain."""
    found = {TOPOLOGY_REQUIRED: key} if key else {}
    return {**found, TOPOLOGY_PREFERRED: preferred} if preferred else found


def add_gang(cluster: GangCluster, minimum: int, name: str = "g", **fields: Any) -> None:
    annotations = fields.pop("annotations", required())
    cluster.add_group(minimum, name, annotations=annotations)
    cluster.add_members(fields.pop("count", minimum), name, **fields)


def racks_of(cluster: GangCluster, prefix: str = "g-pod") -> list[str]:
    """Return the rack of each bound member."""
    return sorted(where.partition("-")[0] for where in cluster.bound(prefix).values())


def events(cluster: GangCluster, reason: str) -> list[str]:
    cluster.tick(1)
    return [each.note for each in cluster.events if each.reason == reason]


def delete(cluster: GangCluster, key: str) -> None:
    cluster.world.remove("Pod", key.partition("/")[2], "default")


@pytest.fixture
def cluster() -> Any:
    with GangCluster(0) as found:
        yield found
        found.validate()


@pytest.mark.parametrize(("members", "rack"), [(3, "r1"), (4, "r0")])
def test_g25_the_rack_with_the_least_room_left_over(
    cluster: GangCluster, members: int, rack: str
) -> None:
    racks(cluster)
    cluster.add(pod("old", cpu=2, node="r1-0"))
    add_gang(cluster, members)
    assert racks_of(cluster) == [rack] * members


def test_g25_nodes_without_the_label_are_out(cluster: GangCluster) -> None:
    racks(cluster, 1, 1)
    for number in range(4):
        cluster.add_node(node(f"n{number}", cpu=4))
    add_gang(cluster, 3)
    key = "default/g-pod-0"
    text = "needs 3 pods, 2 fit at most in the best domain example.com/rack=r0, 1 do not"
    assert text in cluster.message(key)
    assert not cluster.bound()
    cluster.add_node(node("r0-1", cpu=4, labels={RACK: "r0"}))
    cluster.tick(5)
    assert len(cluster.bound()) == 3


def test_g25_no_node_has_the_label(cluster: GangCluster) -> None:
    cluster.add_node(node("n0", cpu=8))
    add_gang(cluster, 2)
    text = "needs 2 pods; no node has the label example.com/rack, of which it requires one domain"
    assert text in cluster.message("default/g-pod-0")
    assert any(text in each for each in events(cluster, "FailedScheduling"))
    cluster.add_node(node("r0-0", cpu=4, labels={RACK: ""}))
    cluster.tick(5)
    assert len(cluster.bound()) == 2


def test_g25_a_native_group(cluster: GangCluster) -> None:
    racks(cluster, 2)
    cluster.add(pod("old", cpu=2, node="r0-0"))
    constraints = {"topology": [{"key": RACK}]}
    cluster.add_native_group(4, schedulingConstraints=constraints)
    cluster.add_native_members(4)
    assert racks_of(cluster, "g-native") == ["r1"] * 4
    assert any(
        "in the domain example.com/rack=r1" in each for each in events(cluster, "GangScheduled")
    )


def test_g26_a_rack_for_all_members_comes_before_one_for_the_minimum(cluster: GangCluster) -> None:
    racks(cluster, 2)
    for number in range(2):
        cluster.add(pod(f"old-{number}", cpu=2, node=f"r0-{number}"))
    add_gang(cluster, 2, count=4)
    assert racks_of(cluster) == ["r1"] * 4


@pytest.fixture
def patient() -> Any:
    """A cluster that waits for members that come a moment later."""
    with GangCluster(0, args={"assembleFor": "500ms"}) as found:
        racks(found, 2)
        for number in range(2):
            found.add(pod(f"old-{number}", cpu=2, node=f"r0-{number}"))
        found.add_group(2, annotations=required())
        yield found
        found.validate()


def test_g26_members_that_come_one_after_the_other_belong_together(
    patient: GangCluster, cycles: list[bool]
) -> None:
    for _ in range(4):
        patient.add_members(1)
        patient.tick(0.1)
    assert not patient.bound("g-pod")
    patient.tick(0.5)
    assert racks_of(patient) == ["r1"] * 4
    assert cycles[0]
    (late,) = patient.add_members(1)
    patient.tick(0.1)
    assert "one more pod does not fit" in patient.message(late), "it does not wait again"


def test_g26_a_gang_whose_object_comes_after_its_pods_waits_no_longer(
    cycles: list[bool],
) -> None:
    with GangCluster(0, args={"assembleFor": "500ms"}) as cluster:
        racks(cluster, 2)
        cluster.add_members(4)
        cluster.tick(3)
        assert cycles == []
        cluster.add_group(4, annotations=required())
        cluster.tick(0.4)
        assert cycles == []
        cluster.tick(0.2)
        assert cycles[0]
        assert racks_of(cluster) == ["r0"] * 4
        cluster.validate()


def test_g26_the_first_attempt_waits_for_two_seconds_at_most(
    patient: GangCluster, cycles: list[bool]
) -> None:
    for _ in range(7):
        patient.add_members(1)
        assert cycles == []
        patient.tick(0.3)
    patient.tick(0.3)
    assert cycles[0]


def test_g26_a_gang_that_loses_members_meanwhile_falls_back_to_its_gate(
    patient: GangCluster, cycles: list[bool]
) -> None:
    first, second = patient.add_members(2)
    patient.tick(0.2)
    delete(patient, first)
    assert patient.message(second) == "pod group default/g: 1 of 2 pods exist"
    assert cycles == []
    patient.add_members(1)
    patient.tick(1)
    assert len(patient.bound("g-pod")) == 2


def test_g26_members_beyond_the_minimum_stay_in_the_rack(cluster: GangCluster) -> None:
    racks(cluster, 2)
    add_gang(cluster, 2, count=6)
    assert len(racks_of(cluster)) == 4
    assert len(set(racks_of(cluster))) == 1
    waiting = [each.pod for each in cluster.world.waiting()]
    assert len(waiting) == 2
    text = (
        "one more pod does not fit in the domain example.com/rack=r0 of its other pods: 0/2 nodes"
    )
    assert text in cluster.message(waiting[0])
    cluster.add_node(node("r0-2", cpu=4, labels={RACK: "r0"}))
    cluster.tick(10)
    assert racks_of(cluster) == ["r0"] * 6


def test_g26_pods_of_a_basic_group_follow_the_first(cluster: GangCluster) -> None:
    racks(cluster, 2)
    cluster.add_native_group(0, schedulingConstraints={"topology": [{"key": RACK}]})
    cluster.add_native_members(6)
    assert len(set(racks_of(cluster, "g-native"))) == 1
    assert len(racks_of(cluster, "g-native")) == 4


def test_g27_no_rack_fits_and_the_best_one_is_named(cluster: GangCluster) -> None:
    racks(cluster)
    for number in range(2):
        cluster.add(pod(f"old-{number}", cpu=2, node=f"r{number}-0"))
    add_gang(cluster, 5)
    text = (
        "pod group default/g: needs 5 pods, 4 fit at most in the best domain example.com/rack=r2, "
        "1 do not: short of cpu on 2 nodes; even an empty cluster takes 4 at most"
    )
    assert cluster.message("default/g-pod-0") == text
    assert not cluster.bound("g-pod")


def test_g27_a_preferred_zone_is_filled_in_few_racks(cluster: GangCluster) -> None:
    racks(cluster, 6)
    cluster.add(pod("old", cpu=2, node="r0-0"))
    add_gang(cluster, 7, annotations=required("", f"{RACK},{ZONE}"))
    assert sorted(set(racks_of(cluster))) == ["r2", "r4"], "the zone with least room left over"
    (note,) = events(cluster, "GangScheduled")
    assert note.endswith(
        "in 2 domains of example.com/rack, the domain topology.kubernetes.io/zone=z0"
    )


@pytest.mark.parametrize("nodes", [2, 3])
def test_g27_a_failure_with_a_preferred_rack_is_that_on_all_nodes(
    cluster: GangCluster, nodes: int
) -> None:
    racks(cluster, nodes, 1)
    term = {"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": ZONE}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spec = {"affinity": affinity}
    add_gang(cluster, 2, annotations=required("", RACK), cpu=1, spec=spec)
    message = cluster.message("default/g-pod-0")
    assert f"needs 2 pods, 0 fit: 0/{nodes} nodes are available: {nodes} node(s)" in message


def test_g27_a_preferred_rack_that_fits(cluster: GangCluster) -> None:
    racks(cluster)
    add_gang(cluster, 4, annotations=required("", RACK))
    assert len(set(racks_of(cluster))) == 1


def test_g27_a_preferred_rack_within_a_required_zone(cluster: GangCluster) -> None:
    racks(cluster, 4)
    cluster.add(pod("old", cpu=2, node="r0-0"))
    add_gang(cluster, 8, annotations=required(ZONE, RACK))
    assert sorted(set(racks_of(cluster))) == ["r1", "r3"]
    add_gang(cluster, 4, "h", annotations=required(ZONE, RACK))
    assert racks_of(cluster, "h-pod") == ["r2"] * 4


def test_g27_anywhere_in_as_few_racks_as_possible(cluster: GangCluster) -> None:
    racks(cluster, 4)
    cluster.add_node(node("n0", cpu=32))
    add_gang(cluster, 8, annotations=required("", RACK))
    assert sorted(set(racks_of(cluster))) == ["r0", "r1"]
    (note,) = events(cluster, "GangScheduled")
    assert note.endswith("in 2 domains of example.com/rack")


def test_g28_placed_members_determine_the_rack(cluster: GangCluster) -> None:
    racks(cluster)
    cluster.add_group(1, annotations=required())
    for number, where in enumerate(("r0-0", "r1-0", "r1-1")):
        cluster.add_members(1, name=f"by-hand-{number}", node=where)
    cluster.add_members(1)
    assert racks_of(cluster) == ["r1"]
    (note,) = events(cluster, "TopologySplit")
    assert note == (
        "pods are in 2 domains of example.com/rack, of which one is required; the others go to "
        "example.com/rack=r1, which has most of them"
    )


def test_g28_a_gang_that_lost_members_comes_back_to_its_rack(cluster: GangCluster) -> None:
    racks(cluster)
    add_gang(cluster, 4)
    (rack,) = set(racks_of(cluster))
    first, second, *_ = cluster.bound()
    for key in (first, second):
        delete(cluster, key)
    cluster.add_members(2)
    cluster.tick(5)
    assert racks_of(cluster) == [rack] * 4


def test_g34_victims_are_in_one_rack_only(cluster: GangCluster) -> None:
    racks(cluster)
    low = cluster.add_pods(pod("low", cpu=2), 12)
    cluster.tick(1)
    where = cluster.bound("low")
    add_gang(cluster, 3, priority=100)
    cluster.tick(40)
    assert len(racks_of(cluster)) == 3
    assert len(set(racks_of(cluster))) == 1
    victims = gone(cluster, low)
    assert len(victims) == 3
    assert {where[each].partition("-")[0] for each in victims} == set(racks_of(cluster))


def test_g34_no_rack_can_be_emptied_far_enough(cluster: GangCluster) -> None:
    racks(cluster)
    low = cluster.add_pods(pod("low", cpu=2), 12)
    cluster.tick(1)
    add_gang(cluster, 5, priority=100)
    cluster.tick(100)
    assert not gone(cluster, low)
    assert not cluster.bound("g-pod")


def test_g34_each_member_beyond_the_minimum_evicts_for_itself(cluster: GangCluster) -> None:
    racks(cluster, 2)
    low = cluster.add_pods(pod("low", cpu=2), 8)
    cluster.tick(1)
    add_gang(cluster, 1, priority=100)
    cluster.tick(40)
    cluster.add_members(3, priority=100)
    cluster.tick(100)
    assert len(racks_of(cluster)) == 4
    assert len(set(racks_of(cluster))) == 1
    assert len(gone(cluster, low)) == 4


def test_g34_the_rack_with_the_lowest_priorities(cluster: GangCluster) -> None:
    racks(cluster)
    for rack, priority in enumerate((20, 10, 20)):
        for number in range(4):
            where = f"r{rack}-{number // 2}"
            cluster.add(pod(f"low-{rack}-{number}", cpu=2, node=where, priority=priority))
    add_gang(cluster, 3, priority=100)
    cluster.tick(40)
    assert racks_of(cluster) == ["r1"] * 3


@pytest.mark.parametrize("seed", range(60))
def test_g27_a_required_rack_is_never_left(seed: int) -> None:
    draw = random.Random(seed)
    with GangCluster(0, seed=seed) as cluster:
        for number in range(draw.randrange(2, 14)):
            labels = {RACK: f"r{draw.randrange(4)}"} if draw.random() < 0.9 else {}
            cluster.add_node(node(f"n{number}", cpu=draw.choice((2, 4, 8)), labels=labels))
        groups = [f"g{number}" for number in range(4)]
        for step in range(12):
            group = draw.choice(groups)
            action = draw.random()
            if step < len(groups):
                key = draw.choice((RACK, RACK, ""))
                annotations = required(RACK, key and ZONE)
                cluster.add_group(draw.randrange(1, 6), groups[step], annotations=annotations)
            elif action < 0.6:
                priority = draw.choice((0, 0, 50))
                count, cpu = draw.randrange(1, 5), draw.choice((1, 2))
                cluster.add_members(count, group, cpu=cpu, priority=priority)
            elif action < 0.8 and (placed := sorted(cluster.bound())):
                delete(cluster, draw.choice(placed))
            else:
                cluster.add_pods(pod(f"single{step}", cpu=1), draw.randrange(1, 4))
            cluster.tick(draw.choice((0.1, 1, 20)))
            check_racks(cluster, groups)
        cluster.tick(120)
        check_racks(cluster, groups)
        cluster.validate()


def check_racks(cluster: GangCluster, groups: list[str]) -> None:
    nodes = {
        each.metadata.name: each for each in cluster.world._assembly.tables.stores["nodes"].list()
    }
    for group in groups:
        found = {
            nodes[name].metadata.labels.get(RACK) for name in cluster.bound(f"{group}-").values()
        }
        assert len(found) <= 1, f"{group} is in {found}"
        assert None not in found, group


@pytest.mark.parametrize("value", ["", "a" * 63, "R_7.x-y", "0"])
def test_g25_values_with_odd_characters(cluster: GangCluster, value: str) -> None:
    for number in range(2):
        cluster.add_node(node(f"n{number}", cpu=4, labels={RACK: value}))
    add_gang(cluster, 5)
    assert f"in the best domain example.com/rack={value}, 1 do not" in cluster.message(
        "default/g-pod-0"
    )
