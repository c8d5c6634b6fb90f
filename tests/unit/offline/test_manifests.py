"""Worlds and `simulate` with manifests as people write them, which no API server has seen."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import offline
from tests.unit.api.stored.existing import (
    JsonObject,
    limit_range,
    pod,
    priority_class,
    storage_class,
)

_GPU = "nvidia.com/gpu"


def _node(status: JsonObject | None = None) -> JsonObject:
    made = offline.node("n1", cpu=8, resources={_GPU: 4})
    return made if status is None else {**made, "status": status}


@pytest.mark.parametrize(
    ("manifest", "fits"),
    [
        (pod({"resources": {"limits": {_GPU: 1}}}), 4),
        (pod({"resources": {"limits": {"cpu": "3"}}}), 2),
        (pod(initContainers=[{"name": "i", "resources": {"limits": {_GPU: 2}}}]), 2),
        (pod(resources={"limits": {"cpu": "2"}}), 4),
        (pod({"ports": [{"containerPort": 9100}]}, hostNetwork=True), 1),
    ],
)
def test_the_copies_that_fit_are_those_of_the_stored_pod(manifest: JsonObject, fits: int) -> None:
    with offline.World() as world:
        world.add_nodes(_node())
        assert world.how_many_fit(manifest).total == fits
        assert len(world.add_pods(manifest, 6)) == 6
        assert len(world.schedule().placed) == min(fits, 6)
        assert world.filled.startswith("filled in as an API server would: ")


def test_the_capacity_of_a_node_is_allocatable() -> None:
    with offline.World() as world:
        world.add(_node({"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}))
        assert world.how_many_fit(pod({"resources": {"requests": {"cpu": "1"}}})).total == 4


def test_a_class_beside_the_pods_decides_who_is_evicted() -> None:
    wanted = {"resources": {"requests": {"cpu": "8"}}}
    with offline.World() as world:
        world.add(priority_class("urgent", 1000))
        world.add_nodes(_node())
        world.add({**pod(wanted, nodeName="n1"), "metadata": {"name": "low"}})
        world.add({**pod(wanted, priorityClassName="urgent"), "metadata": {"name": "high"}})
        result = world.schedule()
        assert [each.pod for each in result.evicted] == ["default/low"]
        assert world.placements() == {"default/high": "n1"}


def test_objects_that_decide_about_others_may_come_last(tmp_path: Any) -> None:
    import yaml

    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    objects = [
        pod({"resources": {}}, volumes=volumes),
        claim,
        _node(),
        limit_range("small", {"defaultRequest": {"cpu": "8"}}),
        {**pod(), "metadata": {"name": "second"}},
        {**storage_class("std"), "volumeBindingMode": "WaitForFirstConsumer"},
    ]
    (tmp_path / "dump.yaml").write_text(yaml.safe_dump_all(objects))
    with offline.World.load(tmp_path / "dump.yaml") as world:
        result = world.schedule()
        assert len(result.placed) == 1
        assert "Insufficient cpu" in result.waiting[0].reason
        assert "defaults of LimitRange small (2 objects)" in world.filled
        assert "StorageClass std" in world.filled
        assert "LimitRanges" not in world.filled.partition("not known")[2]


def test_pods_of_a_workload_are_stored_once_for_each_template() -> None:
    template = pod({"resources": {"limits": {_GPU: 1}}})
    with offline.World() as world:
        world.add_nodes(_node())
        result = world.run(until=10.0, workload=[offline.Arrival(0.0, template, 100.0, 10)])
        assert len(result.placed) == 4
        assert "requests from limits" in world.filled


def test_a_dump_of_an_api_server_is_left_as_it_is() -> None:
    stored = pod({"resources": {"limits": {_GPU: 1}}})
    stored["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    with offline.World() as world:
        world.add(stored)
        assert world.filled == ""
        assert world.pod("default/p").spec.containers[0].resources.requests == {}


@pytest.mark.parametrize("name", [3, {"a": 1}, ["x"]])
def test_a_value_of_a_wrong_type_is_no_crash(name: Any) -> None:
    with offline.World() as world:
        world.add(pod(runtimeClassName=name))
        with pytest.raises(offline.WorldError, match="Pod p: "):
            world.add(pod({"resources": 3}))


def _named(name: str, manifest: JsonObject, **metadata: Any) -> JsonObject:
    return {**manifest, "metadata": {"name": name, **metadata}}


def test_pods_that_are_alike_are_completed_once_until_something_else_decides() -> None:
    with offline.World() as world:
        world.add(priority_class("urgent", 5))
        for name in ("a", "b"):
            world.add(_named(name, pod(priorityClassName="urgent")))
        world.add(priority_class("urgent", 6))
        world.add(_named("c", pod(priorityClassName="urgent")))
        world.remove("PriorityClass", "urgent")
        world.add(_named("d", pod(priorityClassName="urgent")))
        found = [world.pod(f"default/{name}").spec for name in "abcd"]
        assert [each.priority for each in found] == [5, 5, 6, 0]
        assert found[0] is not found[1]
        assert "priority 5 of PriorityClass urgent (2 objects)" in world.filled


def test_labels_decide_where_their_keys_are_merged() -> None:
    constraint = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "w"}},
        "matchLabelKeys": ["rev"],
    }
    given = pod(topologySpreadConstraints=[constraint])
    with offline.World() as world:
        for rev in ("1", "2"):
            world.add(_named(f"p{rev}", given, labels={"rev": rev}))
        for rev in ("1", "2"):
            (spread,) = world.pod(f"default/p{rev}").spec.topology_spread_constraints
            assert spread.label_selector is not None
            (merged,) = spread.label_selector.match_expressions
            assert merged.values == (rev,)
