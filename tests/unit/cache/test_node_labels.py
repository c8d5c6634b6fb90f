"""Label columns and taint sets of the node table: ids, limits, and compaction."""

from __future__ import annotations

import pytest

from scheduler.cache import NodeTable, label_columns
from tests.unit.cache.objects import node, table_with, taint


def labels(table: NodeTable, key: str) -> dict[str, str | None]:
    values = table.label_values(key).values
    column = table.label_column(key)
    return {
        table.names[each]: (values[column[each]] if column[each] >= 0 else None)
        for each in table.rows.tolist()
    }


def test_a_label_column_is_built_on_first_use_and_kept_up_to_date() -> None:
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


def test_the_least_recently_used_label_column_is_dropped_when_a_node_is_written(
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
        # A heartbeat: nothing has changed.
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


def test_a_label_column_built_again_may_have_other_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_columns, "MAX_LABEL_COLUMNS", 0)
    table = table_with(node("a", labels={"zone": "x"}), node("b", labels={"zone": "y"}))
    assert labels(table, "zone") == {"a": "x", "b": "y"}
    held, column = table.label_values("zone"), table.label_column("zone")
    table.set_node(node("a", labels={"zone": "z"}))
    assert labels(table, "zone") == {"a": "z", "b": "y"}
    assert table.label_values("zone").ids == {"z": 0, "y": 1}
    # Ids and values that a cycle holds still match each other.
    assert [held.values[each] for each in column[table.rows].tolist()] == ["x", "y"]


def test_label_values_are_integers_where_they_parse_as_such() -> None:
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


def test_values_that_no_node_has_any_more_are_dropped_by_compaction() -> None:
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
    # Ids that a cycle holds keep their meaning.
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
