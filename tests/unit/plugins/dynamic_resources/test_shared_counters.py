"""Counters concern all nodes; a node without devices of their pool does little work for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.dynamic_resources.budget import SearchBudget
from plugins.dynamic_resources.devices import SliceView
from plugins.dynamic_resources.errors import AllocationError
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.permissions import SLICES
from plugins.dynamic_resources.pools import Pool, SliceIndex, _build, gather_pools
from scheduler.api.devices import ResourceSlice
from scheduler.api.node import Node
from tests.unit.plugins.clusters import node
from tests.unit.plugins.dynamic_resources.objects import DeviceCluster, device
from tests.unit.plugins.dynamic_resources.worlds import DRIVER, decoded

NODES = ("n0", "n1", "n2")
ALL = {"allocationMode": "All"}


def part(
    name: str, of: str, content: dict[str, Any], generation: int = 1, count: int = 2, **where: Any
) -> ResourceSlice:
    """Return one of the `count` slices of a pool."""
    pool = {"name": of, "generation": generation, "resourceSliceCount": count}
    spec = {"driver": DRIVER, "pool": pool, **content, **where}
    return decoded({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def counters(units: int = 1) -> dict[str, Any]:
    return {"sharedCounters": [{"name": "set", "counters": {"units": {"value": str(units)}}}]}


def partitions(count: int, counter: str = "units") -> dict[str, Any]:
    """Return devices that take a unit each."""
    taken = [{"counterSet": "set", "counters": {counter: {"value": "1"}}}]
    return {"devices": [device(f"d{each}", consumesCounters=taken) for each in range(count)]}


def cluster(nodes: int) -> DeviceCluster:
    """Return nodes with two partitions each, of which one can be allocated."""
    world = DeviceCluster(*(f"n{number}" for number in range(nodes)))
    world.add_class()
    for number in range(nodes):
        name = f"n{number}"
        for kind, content in (("c", counters()), ("d", partitions(2))):
            made = part(f"{name}-{kind}", name, content, nodeName=name)
            world.cluster.add_object(SLICES, made)
    return world


def test_an_allocation_has_only_its_node_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cluster(10)
    for each in ("a", "b"):
        world.add_claim(each)
    state = world.reserved(world.pod("a", name="p-a"), "n3")
    searched: list[str] = []
    second = world.pod("b", name="p-b")
    state, table = world.state(second), world.cluster.table
    assert world.plugin.pre_filter(state, second, table) is None
    attempt = state.read("DynamicResources/attempt")
    search = attempt._search

    def counted(each: Node, *rest: Any, **more: Any) -> Any:
        searched.append(each.metadata.name)
        return search(each, *rest, **more)

    monkeypatch.setattr(attempt, "_search", counted)
    codes = world.plugin.filter_rows(state, second, table, table.rows).tolist()
    assert searched == ["n3"]
    rejected = [table.names[row] for row, code in zip(table.rows, codes, strict=True) if code]
    assert rejected == ["n3"], "the unit of the pool is taken"


@pytest.mark.parametrize("nodes", [2, 50])
def test_a_node_looks_at_its_own_slices_however_many_pools_there_are(nodes: int) -> None:
    world = cluster(nodes)
    index, subject = world.devices.slices, world.cluster.table.node_info(0).node
    gather_pools(index, subject, Features())
    total = 0

    def check(steps: int = 1) -> None:
        nonlocal total
        total += steps

    (pool,) = gather_pools(index, subject, Features(), check)
    assert (pool.name, len(pool.devices), len(pool.counter_slices)) == ("n0", 2, 1)
    assert total == 2 + 2, "the slices of the node, and the devices"


def test_pools_are_kept_by_node_in_spite_of_counters() -> None:
    world = cluster(2)
    first, second = (world.cluster.table.node_info(row).node for row in (0, 1))
    kept = world.devices.pools_of(first), world.devices.pools_of(second)
    assert world.devices.pools_of(first) is kept[0]
    assert world.devices.pools_of(second) is kept[1]


def test_an_unusable_pool_of_counters_elsewhere_is_no_concern_of_a_node() -> None:
    world = cluster(2)
    world.add_claim("c", {"name": "r", "exactly": {"deviceClassName": "gpu", **ALL}})
    before = world.filtered(world.pod("c"))[1]
    assert before == dict.fromkeys(("n0", "n1"), "cannot allocate all claims")
    made = part("x-c", "x", counters(), nodeName="n2")
    world.cluster.add_object(SLICES, made)
    assert world.filtered(world.pod("c"))[1] == before
    here = part("y-c", "y", counters(), nodeName="n1")
    world.cluster.add_object(SLICES, here)
    with pytest.raises(AllocationError, match="y is currently being updated"):
        world.filtered(world.pod("c"))


class OverTimeError(Exception):
    """Raised in place of the engine's error for a cycle over its budget."""


def test_gathering_ends_with_the_time_of_the_cycle() -> None:
    shared = (
        part(f"s{number}", f"p{number}", {"devices": []}, allNodes=True) for number in range(200)
    )
    index = SliceIndex(SliceView(each) for each in shared)

    def check_time() -> None:
        if budget._steps > 100:
            raise OverTimeError

    budget = SearchBudget(lambda: 0.0, 0.0, check_time)
    with pytest.raises(OverTimeError):
        gather_pools(index, node("n0"), Features(), budget)


slices = st.builds(
    lambda number, pool, content, where, generation, count: part(
        f"s{number}", pool, content, generation, count, **where
    ),
    st.integers(0, 5),
    st.sampled_from("pqr"),
    st.sampled_from(
        [counters(), counters(2), partitions(1), partitions(2), partitions(1, "unknown")]
    ),
    st.sampled_from([{"nodeName": "n0"}, {"nodeName": "n1"}, {"allNodes": True}]),
    st.sampled_from([1, 1, 2]),
    st.integers(1, 2),
)


def upstream_pools(views: Iterable[SliceView], subject: Node) -> list[Pool]:
    """Return all pools that a node sees, found as upstream does."""
    seen: dict[tuple[str, str], list[SliceView]] = {}
    index = SliceIndex(views)
    for each in index._by_name.values():
        if each.nodes.matches(subject):
            seen.setdefault((each.driver, each.pool), []).append(each)
    built = [_build(index, key, of_pool, None) for key, of_pool in sorted(seen.items())]
    return [each for each in built if each is not None]


def effect(pools: list[Pool]) -> Any:
    """Return what the allocator derives from pools."""
    unusable = [(each.name, each.is_incomplete) for each in pools if not each.is_usable]
    usable = [
        (each.name, [one.id for one in each.devices], len(each.counter_slices))
        for each in pools
        if each.is_usable and each.devices
    ]
    return usable, unusable[:1], any(each.invalid_reason for each in pools)


@settings(deadline=None)
@given(st.lists(st.tuples(slices, st.booleans()), max_size=12))
def test_nodes_see_of_pools_what_they_see_upstream(
    events: list[tuple[ResourceSlice, bool]],
) -> None:
    world = DeviceCluster(*NODES)
    kept: dict[str, ResourceSlice] = {}
    for made, is_deleted in events:
        name = made.metadata.name
        if is_deleted and name in kept:
            world.cluster.delete_object(SLICES, kept.pop(name))
        else:
            world.cluster.add_object(SLICES, made)
            kept[name] = made
        for each in NODES:
            subject = node(each)
            expected = upstream_pools(map(SliceView, kept.values()), subject)
            assert effect(world.devices.pools_of(subject)) == effect(expected)
