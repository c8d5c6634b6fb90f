"""Gangs in a cluster in virtual time: gate, cycle, requeueing, barrier."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import deque
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.api.pod import Pod, PodStatus
from scheduler.api.pod_groups import POD_GROUPS
from scheduler.testing import node
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster

HOST = "kubernetes.io/hostname"


# -- gate and quorum -----------------------------------------------------------------------------


def test_g1_a_complete_gang_is_bound_in_one_cycle(cluster: GangCluster, cycles: list[bool]) -> None:
    cluster.add_group(4)
    cluster.add_members(4)
    assert len(cluster.bound()) == 4
    assert cycles == [True]
    reasons = {each.reason for each in cluster.events}
    assert reasons == {"GangScheduled", "Scheduled"}, "nobody waited or failed in between"
    groups = cluster.world._assembly.state.listers[POD_GROUPS]
    cluster.tick(2)
    stored: Any = groups.get("g", "default")
    assert stored.status.phase == "Scheduling"


def test_g2_an_incomplete_gang_is_not_tried(cluster: GangCluster, cycles: list[bool]) -> None:
    cluster.add_group(4)
    first, *_ = cluster.add_members(3)
    assert cluster.message(first) == "pod group default/g: 3 of 4 pods exist"
    assert cycles == []
    cluster.add_members(1)
    assert len(cluster.bound()) == 4


def test_g3_members_wait_for_their_object(cluster: GangCluster) -> None:
    first, *_ = cluster.add_members(2)
    assert (
        cluster.message(first)
        == "pod group default/g: there is no such PodGroup of scheduling.x-k8s.io"
    )
    cluster.add_group(2)
    assert len(cluster.bound()) == 2


def test_g4_a_label_holds_nobody_where_the_resource_is_not_served(
    cluster: GangCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    permissions = cluster.world._assembly.state.permissions
    served = False
    monkeypatch.setattr(type(permissions), "serves", lambda _self, _resource: served)
    cluster.add_members(1)
    assert len(cluster.bound()) == 1
    served = True
    late, *_ = cluster.add_members(1)
    assert (
        cluster.message(late)
        == "pod group default/g: there is no such PodGroup of scheduling.x-k8s.io"
    )
    served = False
    cluster.tick(60)
    assert len(cluster.bound()) == 2


def test_a_pod_with_the_label_is_bound_by_no_answer_that_is_older(
    cluster: GangCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PodGroups are installed, and a group with its pods is created before the next check."""
    permissions = cluster.world._assembly.state.permissions
    answers: deque[bool | None] = deque()
    served = False

    async def ask(_self: object, _resource: str) -> bool | None:
        nonlocal served
        await asyncio.sleep(1)
        served = bool(answers[0])
        return answers.popleft()

    monkeypatch.setattr(type(permissions), "serves", lambda _self, _resource: served)
    monkeypatch.setattr(type(permissions), "served_now", ask)
    answers.extend((False, None, None, True))
    cluster.add_node(node("n2", cpu=4))
    cluster.add_members(1, "old")
    cluster.tick(0.5)
    first, *_ = cluster.add_members(3)
    cluster.tick(1)
    assert [*cluster.bound()] == ["default/old-pod-0"], "the question is older than the others"
    assert "it is not known whether the API server serves PodGroups" in cluster.message(first)
    cluster.tick(1)
    cluster.add_group(4)
    cluster.add_members(1)
    assert len(cluster.bound("g-")) == 4
    assert [each.note for each in cluster.events if each.reason == "GangScheduled"]
    assert not answers


def test_g5_a_gated_member_is_named(cluster: GangCluster, cycles: list[bool]) -> None:
    cluster.add_group(3)
    cluster.add_members(2)
    (gated,) = cluster.add_members(1, spec={"schedulingGates": [{"name": "example.com/wait"}]})
    for waiting in ("default/g-pod-0", "default/g-pod-1"):
        assert cluster.message(waiting) == (
            "pod group default/g: 3 of 3 pods exist, 1 of them with scheduling gates"
        )
    assert cycles == []
    cluster.world.add(without_gates(cluster, gated))
    assert len(cluster.bound()) == 3


def test_g7_members_that_succeeded_are_looked_up_when_a_replacement_waits(
    cluster: GangCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add_group(4)
    cluster.add_members(4)
    assert len(cluster.bound()) == 4
    pods = {key: cluster.world.pod(key) for key in cluster.bound()}
    server = cluster.world._assembly.server

    async def get(_self: Any, _resource: Any, name: str, namespace: str = "", **_: Any) -> Pod:
        ended = pods[f"{namespace}/{name}"]
        phase = "Succeeded" if name in ("g-pod-0", "g-pod-1") else "Failed"
        return msgspec.structs.replace(ended, status=PodStatus(phase=phase))

    monkeypatch.setattr(type(server), "get", get)
    for name in ("g-pod-0", "g-pod-1", "g-pod-2"):
        cluster.world.remove("Pod", name, "default")
    (replacement,) = cluster.add_members(1)
    assert replacement in cluster.bound()


def test_g8_members_whose_end_cannot_be_looked_up_are_waited_for_thirty_seconds(
    cluster: GangCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add_group(4)
    cluster.add_members(4)
    assert len(cluster.bound()) == 4
    asked: list[str] = []

    async def get(_self: Any, _resource: Any, name: str, namespace: str = "", **_: Any) -> Pod:
        asked.append(name)
        raise OSError("no answer")

    monkeypatch.setattr(type(cluster.world._assembly.server), "get", get)
    for name in ("g-pod-0", "g-pod-1", "g-pod-2"):
        cluster.world.remove("Pod", name, "default")
    (replacement,) = cluster.add_members(1)
    assert cluster.message(replacement) == "pod group default/g: 2 of 4 pods exist"
    assert asked
    cluster.tick(31)
    assert replacement in cluster.bound()


def test_g8_a_started_gang_goes_on_without_replacements_after_a_while(cluster: GangCluster) -> None:
    cluster.add_group(4)
    cluster.add_members(4)
    assert len(cluster.bound()) == 4
    for name in ("g-pod-0", "g-pod-1", "g-pod-2"):
        cluster.world.remove("Pod", name, "default")
    late, *_ = cluster.add_members(1)
    assert late not in cluster.bound()
    cluster.tick(31)
    assert late in cluster.bound()


def test_g9_replacements_start_together() -> None:
    with GangCluster(nodes=4) as cluster:
        cluster.add_group(8)
        cluster.add_members(8)
        assert len(cluster.bound()) == 8
        cluster.world.drop_node("n0")
        cluster.world.drop_node("n1")
        left = len(cluster.bound())
        replacements = cluster.add_members(8 - left, name="again")
        assert not set(replacements) & set(cluster.bound())
        cluster.add_node(node("m0", cpu=4))
        cluster.tick(20)
        assert not set(replacements) & set(cluster.bound()), "room for two of four"
        cluster.add_node(node("m1", cpu=4))
        cluster.tick(20)
        assert set(replacements) <= set(cluster.bound())
        cluster.validate()


def test_g10_a_changed_minimum_counts_at_once(cluster: GangCluster) -> None:
    cluster.add_group(5)
    first, *_ = cluster.add_members(5)
    assert not cluster.bound()
    assert "needs 5 pods" in cluster.message(first)
    cluster.add_group(6)
    assert not cluster.bound()
    assert cluster.message(first) == "pod group default/g: 5 of 6 pods exist"
    cluster.add_group(2)
    cluster.tick(20)
    assert len(cluster.bound()) == 4


def test_g39_a_recreated_object_counts_at_once(cluster: GangCluster) -> None:
    cluster.add_group(5)
    cluster.add_members(4)
    cluster.world.remove("PodGroup.scheduling.x-k8s.io", "g", "default")
    cluster.tick(1)
    cluster.add_group(4)
    assert len(cluster.bound()) == 4


def test_members_of_two_groups_of_one_name_do_not_add_up(cluster: GangCluster) -> None:
    cluster.add_group(2)
    cluster.add_members(1)
    cluster.add_members(1, namespace="other")
    assert not cluster.bound()


# -- the cycle -----------------------------------------------------------------------------------


def test_g11_too_little_room_binds_nobody(cluster: GangCluster, cycles: list[bool]) -> None:
    cluster.add_group(5)
    keys = cluster.add_members(5)
    assert not cluster.bound()
    assert cluster.world._assembly.state.cache.statistics().assumed_pods == 0
    messages = {cluster.message(key) for key in keys}
    text = "pod group default/g: needs 5 pods, 4 fit at most, 1 do not: short of cpu on 2 nodes"
    assert f"{text}; even an empty cluster takes 4 at most" in messages
    assert cycles == [False]


def test_g12_nothing_is_tried_without_an_event(cluster: GangCluster, cycles: list[bool]) -> None:
    cluster.add_group(5)
    cluster.add_members(5)
    cluster.tick(60)
    assert cycles == [False]
    cluster.add_node(node("n2", cpu=4))
    cluster.tick(2)
    assert len(cluster.bound()) == 5
    assert cycles == [False, True]


def test_g13_members_beyond_the_minimum_are_placed_one_by_one(cluster: GangCluster) -> None:
    cluster.add_group(4)
    cluster.add_members(6)
    assert len(cluster.bound()) == 4
    cluster.add_node(node("n2", cpu=2))
    cluster.tick(20)
    assert len(cluster.bound()) == 5


@pytest.mark.parametrize("order", sorted(set(itertools.permutations((2, 2, 4)))))
@pytest.mark.parametrize("priorities", [(0, 0, 0), (9, 9, 1), (1, 1, 9)])
def test_g14_a_mixed_gang_is_found_in_every_order(
    order: tuple[int, ...], priorities: tuple[int, ...]
) -> None:
    with GangCluster() as cluster:
        cluster.add_group(3)
        for number, (cpu, priority) in enumerate(zip(order, priorities, strict=True)):
            cluster.add_members(1, name=f"m{number}", cpu=cpu, priority=priority)
        assert len(cluster.bound()) == 3


@pytest.mark.slow
def test_g15_of_two_gangs_that_fill_the_cluster_one_is_whole(cluster: GangCluster) -> None:
    won: set[str] = set()
    for seed in range(100):
        draw = random.Random(seed)
        names = [f"a{seed}", f"b{seed}"]
        for name in names:
            cluster.add_group(4, name)
        arrivals = names * 4
        draw.shuffle(arrivals)
        for name in arrivals:
            cluster.add_members(1, name)
            cluster.tick(draw.choice((0, 0, 0.1)))
        first, second = sorted(names, key=lambda name: -len(cluster.bound(name)))
        assert (len(cluster.bound(first)), len(cluster.bound(second))) == (4, 0)
        won.add(first[0])
        delete_all(cluster, first)
        cluster.tick(2)
        assert len(cluster.bound(second)) == 4
        delete_all(cluster, second)
        if seed % 10 == 0:
            cluster.validate()
    assert won == {"a", "b"}


def test_g16_anti_affinity_between_members_is_kept(
    cluster: GangCluster, cycles: list[bool]
) -> None:
    cluster.add_group(3)
    cluster.add_members(3, cpu=1, labels={"app": "x"}, spec=apart({"app": "x"}))
    assert not cluster.bound()
    cluster.tick(60)
    assert cycles == [False], "no attempt without an event"
    cluster.add_node(node("n2", cpu=4))
    cluster.tick(20)
    assert sorted(cluster.bound().values()) == ["n0", "n1", "n2"]
    assert cycles == [False, True]


def test_g16_anti_affinity_that_only_the_first_member_has_is_kept() -> None:
    with GangCluster(nodes=1) as cluster:
        cluster.add_group(2)
        cluster.add_members(1, name="a", cpu=1, priority=9, spec=apart({"app": "b"}))
        cluster.add_members(1, name="b", cpu=1, labels={"app": "b"})
        assert not cluster.bound()
        cluster.add_node(node("n1", cpu=4))
        cluster.tick(20)
        assert len(set(cluster.bound().values())) == 2


def test_g17_a_hard_spread_between_members_is_kept(cluster: GangCluster) -> None:
    cluster.add_group(4)
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": HOST,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
    ]
    cluster.add_members(4, cpu=1, labels={"app": "x"}, spec={"topologySpreadConstraints": spread})
    assert sorted(cluster.bound().values()) == ["n0", "n0", "n1", "n1"]


def test_g19_an_undone_trial_leaves_no_trace(cluster: GangCluster) -> None:
    table = cluster.world._assembly.state.cache.table
    cluster.add_members(1, "h", cpu=1)
    cluster.add_group(1, "h")
    assert len(cluster.bound()) == 1
    before = columns(table)
    assert {"requested", "pod_count", "non_zero_requested"} <= before.keys()
    cluster.add_group(9)
    port = {"containers": [container(2, ports=port_80())]}
    cluster.add_members(2, name="port", priority=9, spec=port)
    cluster.add_members(2, priority=9, labels={"app": "x"}, spec=apart({"app": "y"}))
    cluster.add_members(5, name="big", cpu=3)
    assert len(cluster.bound()) == 1
    after = columns(table)
    assert [name for name, column in before.items() if not (after[name] == column).all()] == []
    # The ports are free again.
    cluster.add_group(2, "k")
    cluster.add_members(2, "k", spec={"containers": [container(1, ports=port_80())]})
    assert len(cluster.bound("k")) == 2


def test_a_waiting_gang_that_loses_a_member_falls_back_to_its_gate(cluster: GangCluster) -> None:
    cluster.add_group(5)
    cluster.add_members(5)
    cluster.tick(1)
    cluster.world.remove("Pod", "g-pod-0", "default")
    assert cluster.message("default/g-pod-1") == "pod group default/g: 4 of 5 pods exist"


def delete_all(cluster: GangCluster, group: str) -> None:
    """Delete a group and its members."""
    for key in cluster.bound(group):
        cluster.world.remove("Pod", key.partition("/")[2], "default")
    cluster.world.remove("PodGroup.scheduling.x-k8s.io", group, "default")


def columns(table: Any) -> dict[str, Any]:
    """Return copies of all columns of a node table."""
    names = [name for name in dir(table) if not name.startswith("_")]
    found = {name: getattr(table, name) for name in names}
    return {name: each.copy() for name, each in found.items() if isinstance(each, np.ndarray)}


def port_80() -> list[dict[str, int]]:
    return [{"containerPort": 80, "hostPort": 80}]


def container(cpu: int, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": str(cpu)}}, **more}


def apart(labels: dict[str, str]) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOST}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAntiAffinity": required}}


def without_gates(cluster: GangCluster, key: str) -> dict[str, Any]:
    pod = cluster.world.pod(key)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.metadata.name,
            "namespace": "default",
            "uid": pod.metadata.uid,
            "labels": dict(pod.metadata.labels),
        },
        "spec": {
            "schedulerName": pod.spec.scheduler_name,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
        },
    }
