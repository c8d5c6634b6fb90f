"""Changes that the node table records: the change log, and named versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scheduler.api import Node
from scheduler.cache import Cache, NodeTable
from scheduler.cache.change_log import ChangeLog
from scheduler.framework import Columns
from tests.unit.cache.objects import image, node, pod, table_with, taint

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
def test_an_update_of_a_pod_is_logged_if_plugins_can_distinguish_it(
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
    # A row that is no longer a node has changed for every reader.
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
