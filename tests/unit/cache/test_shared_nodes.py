"""Nodes that state equal amounts share them, and nodes that do not have their own."""

from __future__ import annotations

import pytest

from scheduler.api import Node
from scheduler.api.quantity import QuantityError
from scheduler.api.requests import node_allocatable
from scheduler.cache.shared_nodes import MAX_POOLS, MAX_SHARED, SharedNodes
from scheduler.framework import CPU
from tests.unit.cache.objects import node, row_of, table_with


def with_cpu(name: str, cpu: str) -> Node:
    return node(name, allocatable={"cpu": cpu, "pods": "10"}, capacity={"cpu": cpu})


def test_nodes_of_a_pool_share_amounts_and_records() -> None:
    one, other = with_cpu("a", "4"), with_cpu("b", "4")
    table = table_with(one, other)
    assert one.status.allocatable is other.status.allocatable
    assert one.status.capacity is other.status.capacity
    assert table.resources[row_of(table, "a")] is table.resources[row_of(table, "b")]
    assert table.declared_features[row_of(table, "a")] is table.declared_features[1]


def test_a_node_with_other_amounts_has_its_own() -> None:
    one, other = with_cpu("a", "4"), with_cpu("b", "4")
    table = table_with(one, other)
    table.set_node(with_cpu("b", "6"))
    assert table.allocatable[CPU].tolist()[:2] == [4000, 6000]
    assert one.status.allocatable == {"cpu": "4", "pods": "10"}
    assert list(table.validate()) == []


def test_amounts_that_differ_in_type_or_text_are_parsed_apart() -> None:
    shared = SharedNodes()
    for cpu in ("1", "1000m", 1, 1.5, "1500m"):
        each = node("a", allocatable={"cpu": cpu})
        assert shared.allocatable(each) == node_allocatable(node("a", allocatable={"cpu": cpu}))


def test_an_amount_that_cannot_be_read_is_refused_each_time() -> None:
    shared = SharedNodes()
    for _ in range(2):
        with pytest.raises(QuantityError):
            shared.allocatable(node("a", allocatable={"cpu": "many"}))


def test_what_is_kept_is_bounded() -> None:
    shared = SharedNodes()
    for number in range(MAX_POOLS + 5):
        each = with_cpu("a", str(number))
        assert shared.allocatable(each)[0].milli_cpu == 1000 * number
        shared.share_capacity(each)
        assert each.status.capacity == {"cpu": str(number)}
    assert len(shared._allocatable) == len(shared._capacities) == 5
    names = {f"example.com/{number}": "1" for number in range(MAX_SHARED + 1)}
    large = node("a", allocatable=names, capacity=names)
    assert len(shared.allocatable(large)[0].scalars) == MAX_SHARED + 1
    shared.share_capacity(large)
    assert len(shared._allocatable) == len(shared._capacities) == 5
