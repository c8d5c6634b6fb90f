"""Rows of the node table, its columns of resources, and its indexes of images and ports."""

from __future__ import annotations

import pytest

from scheduler.api.quantity import QuantityError
from scheduler.cache import Cache, NodeTable
from scheduler.framework import CPU, EPHEMERAL_STORAGE, MEMORY, Columns
from tests.unit.cache.objects import image, node, pod, row_of, table_with, taint

GI = 1 << 30


def test_a_row_is_reused_after_its_node_and_pods_are_gone() -> None:
    table = table_with(node("a"), node("b"))
    first = row_of(table, "a")
    table.remove_node("a")
    assert table.row_of("a") is None
    assert table.names[first] == ""
    assert table.set_node(node("c")) == first
    assert list(table.validate()) == []


def test_a_removed_node_with_pods_is_a_placeholder_until_they_are_deleted() -> None:
    cache = Cache()
    cache.set_node(node("a", labels={"zone": "x"}, images=[image("i:1")]))
    table = cache.table
    place = row_of(table, "a")
    cache.add_pod(pod("p", "a", requests={"cpu": "1"}))
    assert cache.remove_node("a")
    assert not table.valid[place]
    assert (table.row_of("a"), table.names[place], table.node_count) == (None, "a", 0)
    assert table.requested[CPU, place] == 1000
    assert table.allocatable[CPU, place] == 0
    assert len(table.rows) == 0
    with pytest.raises(LookupError, match=r"row 0 \(a\) is not a node"):
        _ = table.node_info(place).node
    cache.set_node(node("b"))
    assert row_of(table, "b") != place
    cache.set_node(node("a"))
    assert row_of(table, "a") == place
    assert table.pod_count[place] == 1
    cache.remove_node("a")
    assert cache.remove_pod(pod("p", "a"))
    assert table.names[place] == ""
    cache.validate()


def test_pods_that_come_before_their_node_wait_for_it() -> None:
    cache = Cache()
    cache.add_pod(pod("p", "late", requests={"cpu": "1"}))
    assert cache.table.node_count == 0
    cache.set_node(node("late"))
    assert cache.table.requested[CPU, row_of(cache.table, "late")] == 1000
    assert not cache.remove_node("never seen")


def test_rows_beyond_the_first_capacity_keep_everything() -> None:
    cache = Cache()
    table = cache.table
    before = table.capacity
    labels = table.label_column("zone")
    cache.set_node(node("first", labels={"zone": "a"}, taints=[taint("t")], images=[image("i")]))
    cache.add_pod(pod("p", "first", requests={"cpu": "1", "example.com/gpu": "2"}))
    for index in range(3 * before):
        cache.set_node(node(f"n{index}", labels={"zone": f"z{index}"}))
    first = row_of(table, "first")
    assert table.capacity == 4 * before
    assert len(labels) == before
    assert len(table.label_column("zone")) == table.capacity
    assert table.label_values("zone").values[table.label_column("zone")[first]] == "a"
    assert table.taint_sets[table.taint_set[first]][0].key == "t"
    assert table.images["i"].rows == {first}
    assert table.scalar_amounts_at("example.com/gpu", first) == (0, 2)
    assert table.requested.shape == table.allocatable.shape == (3, table.capacity)
    assert (table.node_count, len(table.rows)) == (3 * before + 1, 3 * before + 1)
    cache.validate()


def test_allocatable_follows_the_node() -> None:
    allocatable = {
        "cpu": "1500m",
        "memory": "4Gi",
        "ephemeral-storage": "10Gi",
        "pods": "7",
        "example.com/gpu": "2",
        "hugepages-2Mi": "64Mi",
    }
    table = table_with(node("a", allocatable=allocatable))
    at = row_of(table, "a")
    assert table.allocatable[:, at].tolist() == [1500, 4 * GI, 10 * GI]
    assert table.scalar_amounts_at("example.com/gpu", at) == (2, 0)
    assert table.scalar_amounts_at("hugepages-2Mi", at) == (64 << 20, 0)
    assert table.pod_limit[at] == 7
    assert table.node_info(at).allocatable.milli_cpu == 1500
    table.set_node(node("a", allocatable={"cpu": "1"}))
    assert table.allocatable[:, at].tolist() == [1000, 0, 0]
    assert table.scalar_amounts_at("example.com/gpu", at) == (0, 0)
    assert table.pod_limit[at] == 0
    assert table.scalar_amounts_at("example.com/nothing", at) == (0, 0)


def test_requested_is_what_pods_take_and_give_back() -> None:
    cache = Cache()
    cache.set_node(node("a"))
    table, at = cache.table, 0
    cache.add_pod(
        pod("p", "a", requests={"cpu": "1", "ephemeral-storage": "1Gi", "example.com/x": "3"})
    )
    cache.add_pod(pod("q", "a", requests={"memory": "1Gi"}))
    assert table.requested[[CPU, MEMORY, EPHEMERAL_STORAGE], at].tolist() == [1000, GI, GI]
    # A container that states nothing counts 100m and 200 MiB for scoring.
    assert table.non_zero_requested[:, at].tolist() == [1100, GI + 200 * (1 << 20)]
    info = table.node_info(at)
    assert (info.requested.milli_cpu, info.requested.scalars) == (1000, (("example.com/x", 3),))
    assert info.non_zero_requested == (1100, GI + 200 * (1 << 20))
    assert (info.pod_count, {each.uid for each in info.pods}) == (2, {"p", "q"})
    cache.remove_pod(pod("p", "a"))
    cache.remove_pod(pod("q", "a"))
    assert not table.requested[:, at].any()
    assert not table.non_zero_requested[:, at].any()


def test_an_image_has_its_nodes_and_the_size_that_was_reported_first() -> None:
    table = table_with(
        node("a", images=[image("i:1", "i@sha", size=10)]),
        node("b", images=[image("i:1", size=20)]),
    )
    assert {name: (state.size, state.rows) for name, state in table.images.items()} == {
        "i:1": (10, {0, 1}),
        "i@sha": (10, {0}),
    }
    table.set_node(node("a", images=[image("j", size=5)]))
    assert {name: state.rows for name, state in table.images.items()} == {"i:1": {1}, "j": {0}}
    table.remove_node("b")
    assert set(table.images) == {"j"}
    table.set_node(node("c", images=[image("i:1", size=30)]))
    assert table.images["i:1"].size == 30
    assert table.node_info(0).image_states is table.images


def test_of_two_images_of_one_name_on_a_node_the_first_gives_the_size() -> None:
    table = table_with(node("a", images=[image("i:1", "i@sha", size=10), image("i@sha", size=900)]))
    assert table.images["i@sha"].size == 10


def test_a_node_that_alone_has_an_image_may_revise_its_size_others_may_not() -> None:
    table = table_with(node("a", images=[image("i", size=10)]))
    table.set_node(node("a", images=[image("i", size=20)]))
    assert (table.images["i"].size, table.images["i"].rows) == (20, {0})
    table.set_node(node("b", images=[image("i", size=30)]))
    table.set_node(node("b", images=[image("i", size=40)]))
    assert (table.images["i"].size, table.images["i"].rows) == (20, {0, 1})


def test_declared_features_follow_the_node() -> None:
    table = table_with(node("a", declaredFeatures=["A", "B"]))
    assert table.declared_features[0] == table.node_info(0).declared_features == {"A", "B"}
    table.set_node(node("a"))
    assert table.declared_features[0] == frozenset()


def test_host_ports_are_counted_by_port_row_and_ip() -> None:
    cache = Cache()
    cache.set_node(node("a"))
    cache.set_node(node("b"))
    first = pod("p", "a", ports=[{"hostPort": 80}, {"hostPort": 53, "protocol": "UDP"}])
    second = pod("q", "a", ports=[{"hostPort": 80, "hostIP": "10.0.0.1"}])
    third = pod("r", "b", ports=[{"hostPort": 80}])
    for each in (first, second, third):
        cache.add_pod(each)
    table = cache.table
    assert table.host_ports == {
        ("TCP", 80): {0: {"0.0.0.0": 1, "10.0.0.1": 1}, 1: {"0.0.0.0": 1}},
        ("UDP", 53): {0: {"0.0.0.0": 1}},
    }
    assert table.node_info(0).used_ports == {
        ("TCP", 80): {"0.0.0.0": 1, "10.0.0.1": 1},
        ("UDP", 53): {"0.0.0.0": 1},
    }
    for each in (first, third):
        cache.remove_pod(each)
    assert table.host_ports == {("TCP", 80): {0: {"10.0.0.1": 1}}}
    cache.remove_pod(second)
    assert table.host_ports == {}
    assert table.node_info(0).used_ports == {}


def test_two_pods_on_one_port_keep_it_until_both_are_gone() -> None:
    cache = Cache()
    cache.set_node(node("a"))
    pods = [pod(uid, "a", ports=[{"hostPort": 80}]) for uid in ("p", "q")]
    for each in pods:
        cache.add_pod(each)
    cache.remove_pod(pods[0])
    assert cache.table.host_ports == {("TCP", 80): {0: {"0.0.0.0": 1}}}


def test_claims_are_counted_by_namespaced_name() -> None:
    cache = Cache()
    cache.set_node(node("a"))
    cache.add_pod(pod("p", "a", claims=["data", "logs"]))
    cache.add_pod(pod("q", "a", claims=["data"], namespace="other"))
    cache.add_pod(pod("r", "a", claims=["data"]))
    assert cache.table.node_info(0).pvc_ref_counts == {
        "default/data": 2,
        "default/logs": 1,
        "other/data": 1,
    }


def test_an_unreadable_quantity_changes_nothing_and_a_repaired_node_appears() -> None:
    table = NodeTable()
    broken = node("n1", allocatable={"cpu": "four", "pods": "10"})
    with pytest.raises(QuantityError):
        table.set_node(broken)
    assert (table.node_count, table.row_of("n1"), table.sequence) == (0, None, 0)
    table.set_node(node("n1"))
    with pytest.raises(QuantityError):
        table.set_node(broken)
    assert table.allocatable[CPU, row_of(table, "n1")] == 4000
    table.set_node(node("n1", allocatable={"cpu": "2", "pods": "10"}))
    assert table.allocatable[CPU, row_of(table, "n1")] == 2000
    assert list(table.validate()) == []


def test_the_last_node_with_an_image_revises_its_size_whenever_it_reports() -> None:
    table = NodeTable()
    table.set_node(node("first", images=[image("i", size=2)]))
    table.set_node(node("second", images=[image("i", size=3)]))
    table.set_node(node("first"))
    assert table.images["i"].size == 2
    before = table.sequence
    # The report is unchanged, but no other node has the image any more.
    table.set_node(node("second", images=[image("i", size=3)]))
    assert table.images["i"].size == 3
    changes = table.change_log.since(before)
    assert changes is not None
    assert changes[table.row_of("second") or 0] & Columns.IMAGES
