"""The node table: what its columns and indexes hold after changes of nodes and pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scheduler.api import Node
from scheduler.api.quantity import QuantityError
from scheduler.cache import Cache, NodeTable, label_columns
from scheduler.cache.change_log import ChangeLog
from scheduler.framework import CPU, EPHEMERAL_STORAGE, MEMORY, Columns
from tests.unit.cache.objects import image, node, pod, taint

GI = 1 << 30


def table_with(*nodes: Node) -> NodeTable:
    table = NodeTable()
    for each in nodes:
        table.set_node(each)
    return table


def row(table: NodeTable, name: str) -> int:
    found = table.row_of(name)
    assert found is not None
    return found


# -- rows ----------------------------------------------------------------------------------------


def test_a_row_is_reused_after_its_node_and_pods_are_gone() -> None:
    table = table_with(node("a"), node("b"))
    first = row(table, "a")
    table.remove_node("a")
    assert table.row_of("a") is None
    assert table.names[first] == ""
    assert table.set_node(node("c")) == first
    assert list(table.validate()) == []


def test_a_removed_node_with_pods_is_a_placeholder_until_they_are_deleted() -> None:
    cache = Cache()
    cache.set_node(node("a", labels={"zone": "x"}, images=[image("i:1")]))
    table = cache.table
    place = row(table, "a")
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
    assert row(table, "b") != place
    cache.set_node(node("a"))
    assert row(table, "a") == place
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
    assert cache.table.requested[CPU, row(cache.table, "late")] == 1000
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
    first = row(table, "first")
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


# -- resources -----------------------------------------------------------------------------------


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
    at = row(table, "a")
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


# -- labels --------------------------------------------------------------------------------------


def labels(table: NodeTable, key: str) -> dict[str, str | None]:
    values = table.label_values(key).values
    column = table.label_column(key)
    return {
        table.names[each]: (values[column[each]] if column[each] >= 0 else None)
        for each in table.rows.tolist()
    }


def test_a_label_column_is_made_on_first_use_and_followed_after() -> None:
    table = table_with(node("a", labels={"zone": "x"}), node("b"))
    assert labels(table, "zone") == {"a": "x", "b": None}
    table.set_node(node("a", labels={"zone": "y"}))
    table.set_node(node("b", labels={"zone": "x"}))
    table.set_node(node("c", labels={"zone": "y", "rack": "1"}))
    assert labels(table, "zone") == {"a": "y", "b": "x", "c": "y"}
    assert labels(table, "rack") == {"a": None, "b": None, "c": "1"}
    table.remove_node("c")
    table.set_node(node("d"))
    assert labels(table, "rack") == {"a": None, "b": None, "d": None}


def test_the_label_column_used_longest_ago_goes_when_a_node_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(label_columns, "MAX_LABEL_COLUMNS", 2)
    keys = [f"key-{index}" for index in range(5)]
    table = table_with(
        node("a", labels={"zone": "x", "rack": "1", "host": "a"}),
        node("b", labels=dict.fromkeys(keys, "")),
    )
    for key in ("zone", "rack", "zone", "host"):
        table.label_column(key)
    assert list(table._labels) == ["rack", "zone", "host"], "a cycle may hold any of them"
    for key in keys:
        table.label_column(key)
        table.label_column("zone")
        # As a kubelet reports, nothing has changed.
        table.set_node(node("b", labels=dict.fromkeys(keys, "")))
        assert list(table._labels) == [key, "zone"]
    assert labels(table, "rack") == {"a": "1", "b": None}


def test_keys_that_no_node_has_share_a_column_until_one_has() -> None:
    table = table_with(node("a", labels={"zone": "x"}))
    shared = table.label_column("key-0")
    assert all(table.label_column(f"key-{index}") is shared for index in range(10_000))
    assert list(table._labels) == []
    table.set_node(node("b", labels={"key-1": "y"}))
    assert labels(table, "key-1") == {"a": None, "b": "y"}
    assert labels(table, "key-2") == {"a": None, "b": None}
    assert list(table._labels) == ["key-1"]
    table.remove_node("b")
    assert labels(table, "key-1") == {"a": None}
    assert list(table.validate()) == []


def test_a_label_column_made_again_may_have_other_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_columns, "MAX_LABEL_COLUMNS", 0)
    table = table_with(node("a", labels={"zone": "x"}), node("b", labels={"zone": "y"}))
    assert labels(table, "zone") == {"a": "x", "b": "y"}
    held, column = table.label_values("zone"), table.label_column("zone")
    table.set_node(node("a", labels={"zone": "z"}))
    assert labels(table, "zone") == {"a": "z", "b": "y"}
    assert table.label_values("zone").ids == {"z": 0, "y": 1}
    # In the hands of a cycle they go on fitting each other.
    assert [held.values[each] for each in column[table.rows].tolist()] == ["x", "y"]


def test_label_values_are_integers_where_they_read_as_such() -> None:
    table = table_with(
        node("a", labels={"n": "7"}),
        node("b", labels={"n": "seven"}),
        node("c", labels={"n": "-3"}),
        node("d", labels={"n": str(1 << 63)}),
    )
    table.label_column("n")
    values = table.label_values("n")
    read = {
        value: int(values.integers[index]) if values.is_integer[index] else None
        for value, index in values.ids.items()
    }
    assert read == {"7": 7, "seven": None, "-3": -3, str(1 << 63): None}
    table.set_node(node("e", labels={"n": "9"}))
    assert int(table.label_values("n").integers[table.label_values("n").ids["9"]]) == 9


# -- taints --------------------------------------------------------------------------------------


def test_values_that_no_node_has_any_more_are_forgotten_in_time() -> None:
    table = NodeTable()
    table.set_node(node("stays", labels={"host": "stays", "size": "7"}))
    table.label_column("host")
    table.label_column("size")
    held = table.label_values("host")
    for index in range(1000):
        name = f"n{index}"
        table.set_node(node(name, labels={"host": name, "size": str(index % 3)}))
        values = table.label_values("host")
        assert len(values.ids) == len(values.values) <= 2 * table.capacity
        for row in table.rows.tolist():
            value = values.values[table.label_column("host")[row]]
            assert value == table.names[row]
            assert values.ids[value] == table.label_column("host")[row]
        if index >= 3:
            table.remove_node(f"n{index - 3}")
    # Ids in the hands of a cycle go on meaning the same.
    assert held is not table.label_values("host")
    assert held.values[held.ids["stays"]] == "stays"
    assert table.label_values("size").integers.tolist() == [7, 0, 1, 2]


def test_nodes_with_equal_taints_share_an_id_and_order_matters() -> None:
    one, two = taint("one"), taint("two")
    table = table_with(
        node("a", taints=[one, two]),
        node("b", taints=[one, {**two, "timeAdded": "2025-01-01T00:00:00Z"}]),
        node("c", taints=[two, one]),
        node("d"),
    )
    a, b, c, d = table.taint_set[:4].tolist()
    assert a == b
    assert len({a, c, d}) == 3
    assert d == 0
    assert [each.key for each in table.taint_sets[c]] == ["two", "one"]
    assert table.taint_sets[0] == ()


def test_an_id_without_nodes_is_used_again() -> None:
    table = table_with(node("a", taints=[taint("one")]), node("b", taints=[taint("two")]))
    size = len(table.taint_sets)
    for key in ("three", "four", "five"):
        table.set_node(node("a", taints=[taint(key)]))
        assert [each.key for each in table.taint_sets[table.taint_set[0]]] == [key]
    assert [each.key for each in table.taint_sets[table.taint_set[1]]] == ["two"]
    assert len(table.taint_sets) == size
    table.remove_node("a")
    table.remove_node("b")
    assert all(each == () for each in table.taint_sets)
    table.set_node(node("c", taints=[taint("six")]))
    assert len(table.taint_sets) == size


def test_a_cordon_is_a_column_of_its_own() -> None:
    table = table_with(node("a", unschedulable=True))
    assert table.unschedulable[0]
    assert table.node_info(0).unschedulable
    table.set_node(node("a"))
    assert not table.unschedulable[0]


# -- images, features, ports ---------------------------------------------------------------------


def test_images_know_their_nodes_and_the_size_that_was_said_first() -> None:
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


# -- the change log ------------------------------------------------------------------------------

FULL = Columns.ALL
NOTHING = Columns(0)


def changed(table: NodeTable, since: int) -> dict[int, int] | None:
    return table.change_log.since(since)


@pytest.mark.parametrize(
    ("parts", "groups"),
    [
        ({}, None),
        ({"labels": {"zone": "x"}}, Columns.LABELS),
        ({"taints": [taint("t")]}, Columns.TAINTS),
        ({"unschedulable": True}, Columns.TAINTS),
        ({"allocatable": {"cpu": "1"}}, Columns.ALLOCATABLE),
        ({"images": [image("i")]}, Columns.IMAGES),
        ({"declaredFeatures": ["A"]}, Columns.FEATURES),
        (
            {"labels": {"zone": "x"}, "images": [image("i")]},
            Columns.LABELS | Columns.IMAGES,
        ),
        ({"annotations": {"a": "b"}}, Columns.ALL & ~Columns.EXISTENCE),
        ({"capacity": {"cpu": "9"}}, Columns.ALL & ~Columns.EXISTENCE),
        (
            {"conditions": [{"type": "Ready", "status": "True"}]},
            Columns.ALL & ~Columns.EXISTENCE,
        ),
    ],
)
def test_an_update_of_a_node_logs_the_groups_that_changed(
    parts: dict[str, Any], groups: Columns | None
) -> None:
    table = table_with(node("a"))
    before = table.sequence
    table.set_node(node("a", **parts))
    assert changed(table, before) == ({} if groups is None else {0: int(groups)})


def test_a_heartbeat_changes_nothing() -> None:
    def beat(time: str) -> Node:
        return node("a", conditions=[{"type": "Ready", "status": "True", "lastProbeTime": time}])

    table = table_with(beat("2025-01-01T00:00:00Z"))
    before = table.sequence
    table.set_node(beat("2025-01-01T00:05:00Z"))
    assert changed(table, before) == {}


def test_nodes_that_come_and_go_log_everything() -> None:
    table = table_with(node("a"))
    assert changed(table, 0) == {0: int(FULL)}
    before = table.sequence
    table.remove_node("a")
    assert changed(table, before) == {0: int(FULL)}


@pytest.mark.parametrize(
    ("parts", "groups"),
    [
        ({}, Columns.USAGE),
        ({"ports": [{"hostPort": 80}]}, Columns.USAGE | Columns.PORTS),
        ({"claims": ["data"]}, Columns.USAGE | Columns.VOLUMES),
    ],
)
def test_pods_log_what_they_occupy(parts: dict[str, Any], groups: Columns) -> None:
    cache = Cache()
    cache.set_node(node("a"))
    for change in (cache.add_pod, cache.remove_pod):
        before = cache.table.sequence
        change(pod("p", "a", **parts))
        assert changed(cache.table, before) == {0: int(groups)}


@pytest.mark.parametrize(
    ("parts", "groups"),
    [
        ({}, NOTHING),
        ({"annotations": {"a": "b"}}, NOTHING),
        ({"labels": {"app": "x"}}, Columns.USAGE),
        ({"deletionTimestamp": "2025-01-01T00:00:00Z"}, Columns.USAGE),
        ({"requests": {"cpu": "2"}}, Columns.USAGE),
    ],
)
def test_an_update_of_a_pod_is_logged_if_plugins_can_tell(
    parts: dict[str, Any], groups: Columns
) -> None:
    cache = Cache()
    cache.set_node(node("a"))
    cache.add_pod(pod("p", "a"))
    before = cache.table.sequence
    cache.update_pod(pod("p", "a", **parts))
    assert changed(cache.table, before) == ({0: int(groups)} if groups else {})


def test_changed_rows_are_filtered_by_group() -> None:
    cache = Cache()
    for name in ("a", "b", "c"):
        cache.set_node(node(name))
    table = cache.table
    before = table.sequence
    cache.add_pod(pod("p", "b"))
    cache.set_node(node("c", labels={"zone": "x"}))
    assert rows(table.changed_rows(before, Columns.USAGE)) == [1]
    assert rows(table.changed_rows(before, Columns.LABELS)) == [2]
    assert rows(table.changed_rows(before, Columns.ALL)) == [1, 2]
    assert rows(table.changed_rows(before, Columns.IMAGES)) == []
    cache.remove_node("a")
    # That a row is no longer a node concerns everybody.
    assert rows(table.changed_rows(before, Columns.IMAGES)) == [0]
    assert rows(table.changed_rows(table.sequence, Columns.ALL)) == []
    table.change_log = ChangeLog(2)
    for index in range(3):
        cache.set_node(node("b", labels={"zone": str(index)}))
    assert table.changed_rows(0, Columns.ALL) is None


def rows(found: Any) -> list[int]:
    assert isinstance(found, np.ndarray)
    return sorted(found.tolist())


def test_nominations_are_logged_for_rows_that_exist() -> None:
    table = table_with(node("a"))
    before = table.sequence
    table.note_nominations("a")
    table.note_nominations("unknown")
    assert changed(table, before) == {0: int(Columns.NOMINATIONS)}


@pytest.mark.parametrize(
    ("change", "bumped"),
    [
        (lambda table: table.set_node(node("b")), {"node_count", "images"}),
        (lambda table: table.remove_node("a"), {"node_count", "images"}),
        (lambda table: table.set_node(node("a", images=[image("i")])), {"images"}),
        (lambda table: table.set_node(node("a", labels={"zone": "x"})), set()),
        (lambda table: table.bump("services"), {"services"}),
        (lambda table: table.bump("services", revise=False), {"services"}),
    ],
)
def test_named_versions(change: Callable[[NodeTable], object], bumped: set[str]) -> None:
    table = table_with(node("a"))
    names = ("node_count", "images", "services")
    before = {name: table.version(name) for name in names}
    change(table)
    assert {name for name in names if table.version(name) != before[name]} == bumped


def test_an_unreadable_quantity_changes_nothing_and_a_repaired_node_appears() -> None:
    table = NodeTable()
    broken = node("n1", allocatable={"cpu": "four", "pods": "10"})
    with pytest.raises(QuantityError):
        table.set_node(broken)
    assert (table.node_count, table.row_of("n1"), table.sequence) == (0, None, 0)
    table.set_node(node("n1"))
    with pytest.raises(QuantityError):
        table.set_node(broken)
    assert table.allocatable[CPU, row(table, "n1")] == 4000
    table.set_node(node("n1", allocatable={"cpu": "2", "pods": "10"}))
    assert table.allocatable[CPU, row(table, "n1")] == 2000
    assert list(table.validate()) == []


def test_the_last_node_with_an_image_revises_its_size_whenever_it_reports() -> None:
    table = NodeTable()
    table.set_node(node("first", images=[image("i", size=2)]))
    table.set_node(node("second", images=[image("i", size=3)]))
    table.set_node(node("first"))
    assert table.images["i"].size == 2
    before = table.sequence
    # Nothing in it is new, but nobody else speaks for the image any more.
    table.set_node(node("second", images=[image("i", size=3)]))
    assert table.images["i"].size == 3
    changes = table.change_log.since(before)
    assert changes is not None
    assert changes[table.row_of("second") or 0] & Columns.IMAGES
