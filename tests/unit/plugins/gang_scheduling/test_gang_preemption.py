"""Gangs evict only for the whole of them, and only what makes room for all."""

from __future__ import annotations

import random
from typing import Any

import pytest

from scheduler.testing import node, pod
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster, notes

ZONE = "topology.kubernetes.io/zone"


def term(kind: str, app: str, key: str) -> dict[str, Any]:
    required = [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}]
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


SPECS: list[dict[str, Any]] = [
    {},
    {"nodeSelector": {"disk": "ssd"}},
    term("podAntiAffinity", "x", "kubernetes.io/hostname"),
    term("podAntiAffinity", "low", "kubernetes.io/hostname"),
    term("podAffinity", "x", ZONE),
]


def gone(cluster: GangCluster, keys: list[str]) -> set[str]:
    """Return those of the pods that do not exist any more, or are terminating."""
    known = {each.key: each for each in cluster.world._assembly.tables.stores["pods"].list()}
    return {key for key in keys if key not in known or known[key].terminating}


def add_singles(cluster: GangCluster, count: int, **fields: Any) -> list[str]:
    keys = cluster.add_pods(pod("low", cpu=2, **fields), count)
    cluster.tick(1)
    assert set(keys) <= set(cluster.world.placements())
    return keys


def test_g29_a_gang_evicts_as_many_as_it_needs(cluster: GangCluster) -> None:
    low = add_singles(cluster, 4, spec={"terminationGracePeriodSeconds": 20})
    cluster.add_group(3)
    keys = cluster.add_members(3, priority=100)
    cluster.tick(3)
    victims = gone(cluster, low)
    assert len(victims) == 3
    assert not cluster.bound("g-pod"), "their room is not free yet"
    nominated = [cluster.world.pod(key).status.nominated_node_name for key in keys]
    assert sorted(nominated) == sorted(cluster.world.placements()[key] for key in victims)
    cluster.tick(40)
    assert gone(cluster, low) == victims
    assert len(cluster.bound("g-pod")) == 3


def test_g30_a_gang_that_does_not_fit_even_then_evicts_nobody(cluster: GangCluster) -> None:
    low = add_singles(cluster, 4)
    cluster.add_group(5)
    cluster.add_members(5, priority=100)
    cluster.tick(400)
    assert not gone(cluster, low)
    assert not cluster.bound("g-pod")


def test_g30_nobody_is_evicted_for_members_of_which_one_fits_nowhere(cluster: GangCluster) -> None:
    low = add_singles(cluster, 4)
    cluster.add_group(3)
    cluster.add_members(2, priority=100)
    cluster.add_members(1, name="odd", priority=100, spec={"nodeSelector": {"disk": "ssd"}})
    cluster.tick(400)
    assert not gone(cluster, low)


def test_g30_nobody_is_evicted_if_affinity_between_members_forbids_it(cluster: GangCluster) -> None:
    low = add_singles(cluster, 4)
    cluster.add_group(3)
    spec = term("podAntiAffinity", "x", "kubernetes.io/hostname")
    cluster.add_members(3, cpu=1, priority=100, labels={"app": "x"}, spec=spec)
    cluster.tick(400)
    assert not gone(cluster, low)


def test_g30_pods_of_the_same_priority_stay(cluster: GangCluster) -> None:
    low = add_singles(cluster, 4, priority=100)
    cluster.add_group(3)
    cluster.add_members(2, priority=100)
    cluster.add_members(1, name="higher", priority=200)
    cluster.tick(60)
    assert not gone(cluster, low), "the lowest member decides"


def test_g30_one_member_that_never_preempts_keeps_the_group_from_it(cluster: GangCluster) -> None:
    low = add_singles(cluster, 4)
    cluster.add_group(3)
    cluster.add_members(2, priority=100)
    cluster.add_members(1, name="meek", priority=100, spec={"preemptionPolicy": "Never"})
    cluster.tick(60)
    assert not gone(cluster, low)


def test_g29_free_room_is_used_first(cluster: GangCluster) -> None:
    low = add_singles(cluster, 2)
    cluster.add_group(3)
    cluster.add_members(3, priority=100)
    cluster.tick(40)
    assert len(gone(cluster, low)) == 1
    assert len(cluster.bound("g-pod")) == 3


def test_g31_a_thief_does_not_get_the_room_and_nobody_else_is_evicted(
    cluster: GangCluster,
) -> None:
    low = add_singles(cluster, 4, spec={"terminationGracePeriodSeconds": 30})
    cluster.add_group(3)
    cluster.add_members(3, priority=100)
    cluster.tick(1)
    assert len(gone(cluster, low)) == 3
    victims = gone(cluster, low)
    never = {"preemptionPolicy": "Never"}
    cluster.add_pods(pod("thief", cpu=2, priority=50, spec=never), 2)
    cluster.tick(60)
    assert len(cluster.bound("g-pod")) == 3
    assert not cluster.bound("thief")
    assert gone(cluster, low) == victims


def test_g32_single_pods_are_evicted_before_a_gang_is_broken(cluster: GangCluster) -> None:
    cluster.add_group(2, "old")
    cluster.add_members(2, "old", spec={"nodeSelector": {"kubernetes.io/hostname": "n0"}})
    cluster.tick(1)
    low = add_singles(cluster, 2)
    cluster.add_group(2)
    cluster.add_members(2, priority=100)
    cluster.tick(40)
    assert gone(cluster, low) == set(low)
    assert len(cluster.bound("old")) == 2
    assert len(cluster.bound("g-pod")) == 2


def test_g33_of_a_gang_beyond_its_minimum_the_surplus_is_evicted() -> None:
    with GangCluster(3) as cluster:
        cluster.add_group(4, "old")
        cluster.add_members(6, "old")
        cluster.tick(2)
        assert len(cluster.bound("old")) == 6
        cluster.add_group(2)
        cluster.add_members(2, priority=100)
        cluster.tick(40)
        assert len(cluster.bound("old")) == 4
        assert len(cluster.bound("g-pod")) == 2
        cluster.validate()


def test_g32_a_gang_that_must_give_way_goes_as_a_whole(cluster: GangCluster) -> None:
    cluster.add_group(4, "old")
    old = cluster.add_members(4, "old")
    cluster.tick(1)
    cluster.add_group(1)
    cluster.add_members(1, priority=100)
    cluster.tick(40)
    assert gone(cluster, old) == set(old)
    assert len(cluster.bound("g-pod")) == 1


def test_a_victim_is_spared_if_what_goes_with_another_one_makes_room_enough() -> None:
    with GangCluster(3) as cluster:
        host = "kubernetes.io/hostname"
        (single,) = cluster.add_pods(pod("single", cpu=4, spec={"nodeSelector": {host: "n0"}}))
        cluster.tick(1)
        cluster.add_group(2, "old")
        old = cluster.add_members(2, "old", cpu=4)
        cluster.tick(1)
        assert len(cluster.bound()) == 3
        # The first member would evict the single pod, as no gang is broken by that. The second one
        # must evict the gang, whose two nodes are enough for both.
        cluster.add_group(2)
        cluster.add_members(2, cpu=4, priority=100)
        cluster.tick(40)
        assert gone(cluster, old) == set(old)
        assert single in cluster.bound()
        assert len(cluster.bound("g-pod")) == 2
        cluster.validate()


def test_a_victim_is_not_spared_if_the_group_needs_its_node() -> None:
    with GangCluster(3) as cluster:
        host = "kubernetes.io/hostname"
        cluster.add_pods(pod("single", cpu=4, spec={"nodeSelector": {host: "n0"}}))
        cluster.tick(1)
        cluster.add_group(2, "old")
        cluster.add_members(2, "old", cpu=4)
        cluster.tick(1)
        cluster.add_group(3)
        cluster.add_members(3, cpu=4, priority=100)
        cluster.tick(40)
        assert len(cluster.bound("g-pod")) == 3
        cluster.validate()


def test_a_group_never_evicts_its_own_members(cluster: GangCluster) -> None:
    label = {"scheduling.x-k8s.io/pod-group": "g"}
    cluster.add_group(5)
    for number in range(4):
        spec = {"schedulerName": "kubestow"}
        placed = pod(f"old-{number}", cpu=2, node=f"n{number % 2}", labels=label, spec=spec)
        cluster.add(placed)
    cluster.tick(1)
    (late,) = cluster.add_members(1, priority=100)
    cluster.tick(400)
    assert len(cluster.bound("old")) == 4
    assert late not in cluster.bound()


def test_preemption_waits_while_victims_leave(cluster: GangCluster) -> None:
    low = add_singles(cluster, 4, spec={"terminationGracePeriodSeconds": 40})
    cluster.add_group(2)
    cluster.add_members(2, priority=100)
    cluster.tick(1)
    first = gone(cluster, low)
    assert len(first) == 2
    cluster.add_node(node("n2", cpu=1))
    cluster.tick(30)
    assert gone(cluster, low) == first


@pytest.mark.parametrize("seed", range(30))
def test_g30_whoever_is_evicted_made_room_for_a_whole_gang(seed: int) -> None:
    draw = random.Random(seed)
    with GangCluster(0, seed=seed) as cluster:
        for number in range(draw.randrange(2, 6)):
            labels = {ZONE: f"z{number % 2}", "disk": draw.choice(("ssd", "hdd"))}
            cluster.add_node(node(f"n{number}", cpu=draw.choice((2, 4, 8)), labels=labels))
        low: list[str] = []
        for number in range(draw.randrange(4, 12)):
            cpu, priority = draw.choice((1, 2, 3)), draw.choice((0, 5, 50))
            name = f"low{number}"
            low += cluster.add_pods(pod(name, cpu=cpu, priority=priority, labels={"app": "low"}))
        if draw.random() < 0.5:
            cluster.add_group(2, "old")
            low += cluster.add_members(3, "old", cpu=1, priority=draw.choice((0, 50)))
        cluster.tick(5)
        before = [key for key in low if key in cluster.world.placements()]
        minimum = draw.randrange(1, 6)
        cluster.add_group(minimum)
        for number in range(draw.randrange(1, 3)):
            cluster.add_members(
                minimum,
                name=f"g-{number}",
                cpu=draw.choice((1, 2, 3)),
                priority=draw.choice((10, 100)),
                labels={"app": "x"},
                spec=draw.choice(SPECS),
            )
        cluster.tick(300)
        bound = cluster.bound("g-")
        if gone(cluster, before):
            assert len(bound) >= minimum
        assert not bound or len(bound) >= minimum
        cluster.validate()


def test_g35_a_single_pod_evicts_a_gang_as_a_whole(cluster: GangCluster) -> None:
    cluster.add_group(4, "old")
    old = cluster.add_members(4, "old")
    cluster.tick(1)
    (single,) = cluster.add_pods(pod("single", cpu=2, priority=100))
    cluster.tick(1)
    assert gone(cluster, old) == set(old)
    assert [each.reason for each in cluster.events].count("Preempted") == len(old)
    cluster.tick(40)
    assert single in cluster.bound()


def test_g35_a_single_pod_prefers_a_node_where_no_gang_is_broken(cluster: GangCluster) -> None:
    cluster.add_group(2, "old")
    old = cluster.add_members(2, "old", spec={"nodeSelector": {"kubernetes.io/hostname": "n0"}})
    cluster.tick(1)
    low = add_singles(cluster, 2, priority=50)
    (single,) = cluster.add_pods(pod("single", cpu=2, priority=100))
    cluster.tick(40)
    assert single in cluster.bound()
    assert not gone(cluster, old)
    assert len(gone(cluster, low)) == 1


def test_g35_a_gang_with_a_member_of_the_same_priority_is_no_victim(cluster: GangCluster) -> None:
    cluster.add_group(4, "old")
    old = cluster.add_members(3, "old")
    old += cluster.add_members(1, "old", name="old-high", priority=100)
    cluster.tick(1)
    assert len(cluster.bound("old")) == 4
    cluster.add_pods(pod("single", cpu=2, priority=100))
    cluster.tick(60)
    assert not gone(cluster, old)


def test_an_event_says_for_whom_a_gang_was_evicted_as_a_whole(cluster: GangCluster) -> None:
    cluster.add_group(4, "low")
    cluster.add_members(4, "low", priority=1)
    cluster.tick(1)
    cluster.add_group(2, "high")
    cluster.add_members(2, "high", priority=7)
    cluster.tick(60)
    assert len(cluster.bound("high")) == 2
    (note,) = notes(cluster, "GangPreempted")
    assert note == (
        "all 4 pods evicted for pod group default/high, whose priority is 7: fewer than 4 members "
        "would be left; the annotation kubestow.io/disruption: Pod lets members be evicted one by "
        "one"
    )
    texts = {each.partition(" on node ")[0] for each in notes(cluster, "Preempted")}
    assert texts == {"Preempted by pod group default/high"}
    assert all("its priority is 7, its scheduler" in each for each in notes(cluster, "Preempted"))


def test_an_event_says_for_which_pod_a_gang_was_evicted_as_a_whole(cluster: GangCluster) -> None:
    cluster.add_group(4, "low")
    cluster.add_members(4, "low", priority=1)
    cluster.tick(1)
    (single,) = cluster.add_pods(pod("single", cpu=2, priority=7))
    uid = cluster.world.pod(single).uid
    cluster.tick(60)
    assert single in cluster.bound()
    (note,) = notes(cluster, "GangPreempted")
    assert note.startswith(f"all 4 pods evicted for pod {uid}, whose priority is 7: fewer than 4")
    assert "kubestow.io/disruption: Pod" in note
    nodes = {f"Preempted by pod {uid} on node {name}" for name in ("n0", "n1")}
    rest = ": its priority is 7, its scheduler kubestow"
    assert {each.removesuffix(rest) for each in notes(cluster, "Preempted")} == nodes


def test_a_gang_that_only_loses_surplus_members_has_no_such_event() -> None:
    with GangCluster(2) as cluster:
        cluster.add_group(2, "low")
        cluster.add_members(4, "low", priority=1)
        cluster.tick(1)
        cluster.add_pods(pod("single", cpu=2, priority=7))
        cluster.tick(60)
        assert len(cluster.bound("low")) == 3
        assert notes(cluster, "GangPreempted") == []


NEVER = {"preemptionPolicy": "Never"}
MIGHT = "; it might fit if some of 4 pods of lower priority went, but "


@pytest.mark.parametrize(
    ("priorities", "spec", "annotation", "end"),
    [
        ((0, 0, 0), {}, "", ""),
        ((9, 9, 9), NEVER, "", MIGHT + "a member has preemptionPolicy=Never"),
        ((9, 0, 9), {}, "", MIGHT + "it evicts only below 0, its lowest priority"),
        ((9, 9, 9), {}, "meek", MIGHT + "its PriorityClass meek has preemptionPolicy=Never"),
        ((9, 9, 9), {}, "low", MIGHT + "it evicts only below 0, as its PriorityClass low says"),
    ],
)
def test_a_gang_that_does_not_preempt_says_why(
    cluster: GangCluster, priorities: tuple[int, ...], spec: Any, annotation: str, end: str
) -> None:
    for name, value, policy in (("meek", 9, "Never"), ("low", 0, "PreemptLowerPriority")):
        named = {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "value": value}
        cluster.add({**named, "metadata": {"name": name}, "preemptionPolicy": policy})
    low = add_singles(cluster, 4)
    annotations = {"kubestow.io/priority-class": annotation} if annotation else {}
    cluster.add_group(3, annotations=annotations)
    for number, priority in enumerate(priorities):
        cluster.add_members(1, name=f"m{number}", priority=priority, spec=spec)
    cluster.tick(10)
    assert not gone(cluster, low)
    text = next(e.text for e in cluster.plugin("GangScheduling").group_views("", 9)[0])
    assert text.endswith(end) if end else "lower priority" not in text


def test_a_gang_for_which_other_schedulers_pods_stay_says_so(cluster: GangCluster) -> None:
    for number in range(4):
        spec = {"schedulerName": "other"}
        cluster.add(pod(f"low-{number}", cpu=2, node=f"n{number % 2}", spec=spec))
    cluster.add_group(3)
    cluster.add_members(3, priority=9)
    cluster.tick(10)
    text = next(e.text for e in cluster.plugin("GangScheduling").group_views("", 9)[0])
    assert text.endswith("the argument victimSchedulers: All would allow that")


def test_a_gang_for_which_no_eviction_helps_says_so(cluster: GangCluster) -> None:
    add_singles(cluster, 4)
    cluster.add_group(3)
    spec = term("podAntiAffinity", "x", "kubernetes.io/hostname")
    cluster.add_members(3, cpu=1, priority=100, labels={"app": "x"}, spec=spec)
    cluster.tick(10)
    text = next(e.text for e in cluster.plugin("GangScheduling").group_views("", 9)[0])
    assert text.endswith("; no eviction was found that makes room for all pods that it needs")
