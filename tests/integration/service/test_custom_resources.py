"""Plugins that read custom resources: typed or not, watched, absent at first, refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from devtools.embedded_service import (
    bound_to,
    condition,
    node,
    plugin,
    pod,
    scheduling,
    settled,
    until,
)
from scheduler.api import Named, Pod
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    ConfigurationError,
    Handle,
    Metric,
    NodeInfo,
    Status,
    unresolvable,
)
from simulator import EmbeddedCluster
from simulator.api import MERGE_PATCH
from simulator.objects import JsonObject
from simulator.resources import Resource

RACKS = "example.com/v1/racks"
ROW = Resource("example.com", "v1", "racks", "Rack", namespaced=False)


class RackFilter:
    """Keeps pods off nodes of racks that are closed; a rack is an object."""

    name = "RackFilter"
    required_resources = (RACKS,)

    def __init__(self, args: object, handle: Handle) -> None:
        self._listers = handle.listers

    def filter(self, state: object, pod: Pod, node: NodeInfo) -> Status | None:
        rack = self._listers[RACKS].get(node.labels.get("rack", ""))
        if rack is None:
            return unresolvable("node(s) without a rack")
        return unresolvable("node(s) in closed racks") if self.closed(rack) else None

    def closed(self, rack: Any) -> bool:
        return bool(rack.spec.get("closed"))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changed = ClusterEvent("racks.v1.example.com", ActionType.ADD | ActionType.UPDATE)
        return [ClusterEventWithHint(changed)]


class RackSpec(Named):
    """The part of a rack that is read."""

    spec: dict[str, bool] = {}


class TypedRackFilter(RackFilter):
    """The same filter, with a type of its own for racks."""

    name = "TypedRackFilter"
    resource_types = {RACKS: RackSpec}

    def closed(self, rack: Any) -> bool:
        assert isinstance(rack, RackSpec)
        return rack.spec.get("closed", False)


def rack(name: str, *, closed: bool = False, **more: object) -> JsonObject:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Rack",
        "metadata": {"name": name},
        "spec": {"closed": closed, **more},
    }


def replace_spec(cluster: EmbeddedCluster, name: str, spec: object) -> None:
    cluster.api.patch(ROW, "", name, {"spec": spec}, MERGE_PATCH)


def reason(cluster: EmbeddedCluster, name: str) -> str:
    return str(condition(cluster, name).get("message", ""))


@pytest.mark.parametrize("made", [RackFilter, TypedRackFilter])
async def test_a_change_of_a_custom_object_wakes_the_pod(
    cluster: EmbeddedCluster, made: type[Any]
) -> None:
    cluster.resources.add(ROW)
    cluster.create(node("n1", labels={"rack": "r1"}))
    cluster.create(rack("r1", closed=True))
    cluster.create(pod("p"))
    async with scheduling(cluster, [made]) as scheduler:
        await until(lambda: "closed racks" in reason(cluster, "p"))
        attempts = scheduler.connections.metrics.attempts_by_result()["unschedulable"]
        replace_spec(cluster, "r1", {"closed": False})
        await until(lambda: bound_to(cluster, "p") == "n1")
        await settled(scheduler)
        assert attempts == 1


async def test_a_resource_that_is_absent_has_no_objects_until_it_is_served(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create(node("n1", labels={"rack": "r1"}))
    cluster.create(pod("p"))
    async with scheduling(cluster, [RackFilter]):
        await until(lambda: "without a rack" in reason(cluster, "p"))
        cluster.resources.add(ROW)
        cluster.create(rack("r1"))
        await until(lambda: bound_to(cluster, "p") == "n1")


async def test_a_malformed_object_costs_itself_only(cluster: EmbeddedCluster) -> None:
    cluster.resources.add(ROW)
    for name in ("n1", "n2"):
        cluster.create(node(name, labels={"rack": name}))
        cluster.create(rack(name))
    replace_spec(cluster, "n1", ["not", "a", "mapping"])
    cluster.create(pod("p"))
    async with scheduling(cluster, [RackFilter]):
        await until(lambda: bound_to(cluster, "p") == "n2")


@pytest.mark.parametrize(
    ("plugins", "problem"),
    [
        (
            [plugin("P", filter=lambda *_: None, required_resources=("racks",))],
            'P: required_resources: "racks" is no built-in resource',
        ),
        (
            [
                plugin(
                    "P",
                    filter=lambda *_: None,
                    metrics=(Metric("x_gadgets", "gauge", "x", ("gadget",), describes="gadgets"),),
                )
            ],
            'a plugin: "gadgets" is no built-in resource.*`describes`',
        ),
        (
            [
                TypedRackFilter,
                plugin(
                    "Q",
                    filter=lambda *_: None,
                    required_resources=(RACKS,),
                    resource_types={RACKS: Named},
                ),
            ],
            "TypedRackFilter, Q declare different types",
        ),
    ],
)
async def test_a_wrong_declaration_is_a_problem_of_the_configuration(
    cluster: EmbeddedCluster, plugins: list[type[Any]], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        async with scheduling(cluster, plugins):
            raise AssertionError("it must not start")
