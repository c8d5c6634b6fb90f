"""Nodes that reach the same shared slices are searched once, and get what each would get alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.dynamic_resources.devices import SliceView
from plugins.dynamic_resources.features import Features
from plugins.dynamic_resources.permissions import SLICES
from plugins.dynamic_resources.pools import SliceIndex, gather_pools
from scheduler.api.devices import ResourceSlice
from scheduler.api.node import Node
from tests.unit.plugins.clusters import node
from tests.unit.plugins.dynamic_resources.objects import DeviceCluster, device
from tests.unit.plugins.dynamic_resources.worlds import DRIVER, decoded

LABELS = ("a", "b")


def labelled(*labels: str) -> dict[str, Any]:
    """Return a node selector for nodes that have a label with one of these keys."""
    terms = [{"matchExpressions": [{"key": each, "operator": "Exists"}]} for each in labels]
    return {"nodeSelectorTerms": terms}


def slice_of(name: str, pool: str, **where: Any) -> ResourceSlice:
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
        "devices": [device(f"{name}-d")],
        **where,
    }
    return decoded({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def test_nodes_of_one_reach_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = DeviceCluster("plain-0", "plain-1")
    for number in range(20):
        world.cluster.cache.set_node(node(f"with-{number}", labels={"a": ""}))
    world.add_class()
    world.add_claim()
    world.cluster.add_object(SLICES, slice_of("s", "p", nodeSelector=labelled("a")))
    searched: list[str] = []
    subject, table = world.pod("c"), world.cluster.table
    state = world.state(subject)
    assert world.plugin.pre_filter(state, subject, table) is None
    attempt = state.read("DynamicResources/attempt")
    search = attempt._search

    def counted(each: Node, *rest: Any, **more: Any) -> Any:
        searched.append(each.metadata.name)
        return search(each, *rest, **more)

    monkeypatch.setattr(attempt, "_search", counted)
    codes = world.plugin.filter_rows(state, subject, table, table.rows).tolist()
    passed = [table.names[row] for row, code in zip(table.rows, codes, strict=True) if not code]
    assert passed == [f"with-{number}" for number in range(20)]
    assert len(searched) == 2


wheres = st.one_of(
    st.sampled_from(["n0", "n1"]).map(lambda name: {"nodeName": name}),
    st.sets(st.sampled_from(LABELS), min_size=1).map(
        lambda labels: {"nodeSelector": labelled(*sorted(labels))}
    ),
    st.just({"allNodes": True}),
)
nodes = st.lists(st.sets(st.sampled_from(LABELS)), min_size=1, max_size=5)


@settings(deadline=None)
@given(
    labels=nodes,
    slices=st.lists(st.tuples(st.sampled_from("pq"), wheres), max_size=4),
    gone=st.integers(0, 4),
)
def test_nodes_of_one_reach_have_the_same_pools(
    labels: list[set[str]], slices: list[tuple[str, dict[str, Any]]], gone: int
) -> None:
    index = SliceIndex(
        SliceView(slice_of(f"s{number}", pool, **where))
        for number, (pool, where) in enumerate(slices)
    )
    index.remove(f"s{gone}")
    found: dict[Any, Any] = {}
    for number, own in enumerate(labels):
        each: Node = node(f"n{number}", labels=dict.fromkeys(own, ""))
        reach = index.reach(each)
        if reach is None:
            continue
        pools = [
            (pool.name, pool.is_incomplete, [str(one.id) for one in pool.devices])
            for pool in gather_pools(index, each, Features())
        ]
        assert found.setdefault(reach, pools) == pools
