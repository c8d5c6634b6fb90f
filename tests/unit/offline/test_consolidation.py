"""Consolidation empties the nodes that it may, and every step holds after those before it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import offline
from scheduler.offline.checkpoint import Checkpoint
from scheduler.offline.consolidation import DO_NOT_DISRUPT, SAFE_TO_EVICT
from tests.unit.offline.test_growth import PERMIT

HOST = "kubernetes.io/hostname"


def owned(name: str, *, kind: str = "ReplicaSet", **options: Any) -> dict[str, Any]:
    """A pod with a controller."""
    found = offline.pod(name, **{"cpu": 1, "labels": {"app": "web"}, **options})
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "u"}
    found["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return found


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def budget(allowed: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed},
    }


def crowded(*pods: dict[str, Any]) -> offline.World:
    """A world whose node `small` has some pods, and `large` room for all and a pod that stays."""
    world = offline.World()
    world.add_nodes(offline.node("small", cpu=4))
    world.add_nodes(offline.node("large", cpu=32))
    for pod in pods:
        world.add_pods({**pod, "spec": {**pod["spec"], "nodeName": "small"}})
    world.add_pods(offline.pod("stays", cpu=20, node="large"))
    return world


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (owned("web"), ""),
        (owned("web", kind="DaemonSet"), ""),
        (offline.pod("bare"), "no controller would make them anew: default/bare"),
        (offline.pod("bare", annotations={SAFE_TO_EVICT: "true"}), ""),
        (owned("web", spec=volume(emptyDir={})), "hostPath would be lost: default/web"),
        (owned("web", spec=volume(hostPath={"path": "/x"})), "hostPath would be lost: default/web"),
        (owned("web", spec=volume(emptyDir={"medium": "Memory"})), ""),
        (owned("web", spec=volume(configMap={"name": "emptyDir"})), ""),
        (
            owned("web", annotations={SAFE_TO_EVICT: "false"}),
            "do-not-disrupt forbids it: default/web",
        ),
        (owned("web", annotations={DO_NOT_DISRUPT: "true"}), "do-not-disrupt forbids it: default/"),
        (owned("web", spec={"nodeSelector": {HOST: "small"}}), "fits on no other node: 0/1 nodes"),
        (owned("web", spec={"schedulerName": "other"}), "schedulerName is 'other'"),
    ],
    ids=str,
)  # fmt: skip
def test_a_pod_keeps_its_node_or_moves(pod: dict[str, Any], reason: str) -> None:
    with crowded(pod) as world:
        found = offline.consolidate(world)
        kept = {each.node: each.reason for each in found.kept}
        assert reason in kept.get("small", "")
        assert ("small" in kept) is bool(reason)
        assert "large" in kept
        assert world.placements()["default/stays"] == "large"


def test_pods_without_controller_and_with_local_data_move_if_wanted() -> None:
    pods = offline.pod("bare"), owned("web", spec=volume(emptyDir={}))
    with crowded(*pods) as world:
        for options, emptied in (
            ({}, 0),
            ({"force": True}, 0),
            ({"delete_emptydir_data": True}, 0),
            ({"force": True, "delete_emptydir_data": True}, 1),
        ):
            assert len(offline.consolidate(world, **options).emptied) == emptied


@pytest.mark.parametrize(("allowed", "emptied"), [(0, 0), (1, 0), (2, 1)])
def test_a_budget_limits_the_evictions_of_one_node(allowed: int, emptied: int) -> None:
    with crowded(owned("a"), owned("b")) as world:
        world.add(budget(allowed))
        found = offline.consolidate(world)
        assert len(found.emptied) == emptied
        if not emptied:
            assert "PodDisruptionBudgets allow at once: " in found.kept[0].reason


def test_a_local_volume_keeps_its_pod() -> None:
    claim = owned("web", spec=volume(persistentVolumeClaim={"claimName": "data"}))
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": ["small"]}]}]
    with crowded(claim) as world:
        world.add_all(
            [
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolume",
                    "metadata": {"name": "disk"},
                    "spec": {
                        "capacity": {"storage": "1Gi"},
                        "claimRef": {"namespace": "default", "name": "data"},
                        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
                    },
                },
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {
                        "name": "data",
                        "namespace": "default",
                        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                    },
                    "spec": {"volumeName": "disk"},
                },
            ]
        )
        (kept, _) = offline.consolidate(world).kept
        assert (kept.node, "PersistentVolume's node affinity" in kept.reason) == ("small", True)


def test_a_move_that_only_scheduling_rejects_is_taken_back(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(PERMIT)
    annotations = {"example.com/waits-at": "Permit", "example.com/delay": "1"}
    with offline.World(config=config) as world:
        world.add_nodes(offline.node("n", cpu=4), count=3)
        world.add_pods(owned("slow", node="n-0", annotations=annotations))
        world.add_pods(owned("web", cpu=2, node="n-1"))
        found = offline.consolidate(world)
        assert [each.node for each in found.emptied] == ["n-2", "n-1"]
        assert found.kept[0].node == "n-0"
        assert "when it is emptied, default/slow waits" in found.kept[0].reason


def test_no_other_pod_is_evicted_and_pods_that_wait_go_on_waiting() -> None:
    with crowded(owned("high", cpu=12, priority=10)) as world:
        world.add(offline.node("small", cpu=12))  # as large as its pod now
        world.add_pods(owned("low", cpu=8, node="large"))
        world.add_pods(offline.pod("giant", cpu=64))
        found = offline.consolidate(world, force=True)
        assert not found.emptied
        assert "fits on no other node" in found.kept[-1].reason
        assert found.waiting == ("default/giant",)


def test_dumps_tell_which_pods_have_local_data(tmp_path: Path) -> None:
    pods = [owned("a", spec=volume(emptyDir={})), owned("b", spec=volume(configMap={}))]
    for suffix in ("json", "yaml"):
        file = tmp_path / f"dump.{suffix}"
        file.write_text(json.dumps({"kind": "List", "items": pods}, indent=1))
        with offline.World.load(file) as world:
            assert world.copy()._local_storage == world._local_storage == {"default/a"}


SLOW = {"example.com/waits-at": "Permit", "example.com/delay": "1"}
"""Annotations of a pod that waits at Permit for longer than a consolidation does."""


@settings(max_examples=15, deadline=None)
@pytest.mark.slow
@given(
    pods=st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.booleans()), max_size=10),
    seed=st.integers(0, 3),
)
def test_every_step_holds_after_those_before_it(
    tmp_path_factory: pytest.TempPathFactory, pods: list[tuple[int, bool]], seed: int
) -> None:
    config = tmp_path_factory.getbasetemp() / "permit.yaml"
    config.write_text(PERMIT)
    with offline.World(config=config, seed=seed) as world:
        world.add_nodes(offline.node("n", cpu=6), count=4)
        for number, (cpu, slow) in enumerate(pods):
            node, annotations = f"n-{number % 4}", SLOW if slow else {}
            world.add_pods(owned(f"web-{number}", cpu=cpu, node=node, annotations=annotations))
        before = world.placements()
        found = offline.consolidate(world)
        assert world.placements() == before
        assert len(found.emptied) + len(found.kept) == 4
        with world.copy() as copy:
            waiting = len(copy.schedule().waiting)
            for step in found.emptied:
                assert sorted(copy.drop_node(step.node)) == sorted(step.moves)
                assert len(copy.schedule().waiting) == waiting
                placed = copy.placements()
                # As if the steps that were put back in between had not been tried.
                assert {pod: placed[pod] for pod in step.moves} == step.moves


def test_a_world_is_put_back_to_a_checkpoint() -> None:
    with offline.World() as world:
        world.add_nodes(offline.node("n", cpu=4), count=3)
        world.add_pods(owned("web", cpu=3), count=3)
        world.add_pods(owned("high", cpu=3, priority=5))
        world.add_pods(owned("giant", cpu=64))
        world.schedule()
        before, state = world.placements(), world._assembly.random.getstate()
        cache = world._assembly.state.cache
        names, pods = list(cache.table.names), [sorted(each) for each in cache.table.pods]
        checkpoint = Checkpoint(world)
        world.drop_node("n-1")
        world.add_pods(owned("higher", cpu=3, priority=9))
        world.add_nodes(offline.node("more", cpu=1))
        assert world.schedule().evicted
        checkpoint.put_back()
        assert world.placements() == before
        assert [each.pod for each in world.waiting()] == ["default/giant", "default/web-2"]
        assert world._assembly.random.getstate() == state
        assert list(cache.table.names)[: len(names)] == names
        assert [sorted(each) for each in cache.table.pods][: len(names)] == pods
        cache.validate()
