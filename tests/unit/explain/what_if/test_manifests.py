"""Questions about manifests are about the objects that an API server would store."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import offline
from tests.unit.api.stored.existing import limit_range, pod, priority_class
from tests.unit.explain.what_if.test_asker import asked_world, question

_GPU = "nvidia.com/gpu"
NODE = offline.node("n", cpu=8, resources={_GPU: 4})
LOW = offline.pod("low", cpu=8, node="n")


def _add(obj: dict[str, Any]) -> dict[str, Any]:
    return {"action": "add", "kind": obj["kind"], "name": obj["metadata"]["name"], "value": obj}


@pytest.mark.parametrize(("gpus", "fits"), [(4, True), (5, False)])
async def test_limits_are_requests(gpus: int, fits: bool) -> None:
    with asked_world(NODE) as (_, _, asker):
        manifest = pod({"resources": {"limits": {_GPU: gpus}}})
        found = await asker.what_if(question(manifest=manifest))
        assert found.fits is fits
        assert "requests from limits" in found.notes[-1]
        assert "not known: LimitRanges" in found.notes[-1]


async def test_what_is_added_decides_how_the_pod_is_stored() -> None:
    with asked_world(NODE, LOW) as (_, _, asker):
        urgent = priority_class("urgent", 1000)
        manifest = pod({"resources": {"requests": {"cpu": "1"}}}, priorityClassName="urgent")
        found = await asker.what_if(question(manifest=manifest))
        assert (found.fits, found.victims) == (False, [])
        found = await asker.what_if(question(manifest=manifest, changes=[_add(urgent)]))
        assert (found.fits, found.victims) == (False, ["default/low"])
        small = limit_range("small", {"defaultRequest": {"cpu": "9"}})
        found = await asker.what_if(
            question(manifest=pod({}), drop_nodes=[], changes=[_add(small)], remove_pods=["low"])
        )
        assert "Insufficient cpu" in found.message


async def test_a_class_that_is_set_decides_about_the_priority_of_a_pod() -> None:
    with asked_world(NODE, LOW, offline.pod("high", cpu=8), priority_class("urgent", 9)) as (
        _,
        _,
        asker,
    ):
        fields = {"/spec/priorityClassName": "urgent"}
        found = await asker.what_if(question(pod="default/high", fields=fields))
        assert found.victims == ["default/low"]
        fields["/spec/preemptionPolicy"] = "Never"
        found = await asker.what_if(question(pod="default/high", fields=fields))
        assert found.victims == []


async def test_a_node_that_is_added_has_its_capacity() -> None:
    with asked_world(LOW) as (_, _, asker):
        node = {"kind": "Node", "metadata": {"name": "m"}}
        node["status"] = {"capacity": {"cpu": 4, "memory": "8Gi", "pods": 9}}
        manifest = pod({"resources": {"limits": {"cpu": 4}}})
        found = await asker.what_if(question(manifest=manifest, changes=[_add(node)]))
        assert found.node == "m"
