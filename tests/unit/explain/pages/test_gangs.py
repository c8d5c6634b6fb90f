"""`/debug/gangs`, and the table that `kubestow gangs` makes of it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from scheduler.cli.gangs import show
from scheduler.explain.records import GroupList, GroupView
from tests.unit.explain.pages.gang_pages_of import pages_of
from tests.unit.plugins.gang_scheduling.gang_cluster import GangCluster


def printed(page: GroupList) -> list[str]:
    file = io.StringIO()
    show(page, Console(file=file, width=10_000, highlight=False))
    return [" ".join(line.split()) for line in file.getvalue().splitlines()]


@pytest.fixture
def cluster() -> GangCluster:
    cluster = GangCluster()
    cluster.add_group(2, "bound")
    cluster.add_members(2, "bound")
    cluster.add_native_group(6, "large")
    cluster.add_native_members(6, "large")
    cluster.add_group(3, "short")
    cluster.add_members(1, "short")
    cluster.add_members(1, "lost", namespace="other")
    cluster.tick(3)
    return cluster


def test_groups_that_wait_come_first_with_their_numbers(cluster: GangCluster) -> None:
    page = pages_of(cluster).gangs({})
    assert [(each.group, each.source, each.stage) for each in page.groups] == [
        ("default/large", "Native", "Unschedulable"),
        ("default/short", "CRD", "WaitingForMembers"),
        ("other/lost", "CRD", "Invalid"),
        ("default/bound", "CRD", "AllBound"),
    ]
    large = page.groups[0]
    assert (large.minimum, large.pending, large.bound, large.reserved) == (6, 6, 0, 0)
    assert page.total == 4


def test_a_namespace_and_a_limit(cluster: GangCluster) -> None:
    pages = pages_of(cluster)
    assert [each.group for each in pages.gangs({"namespace": "other"}).groups] == ["other/lost"]
    page = pages.gangs({"limit": "1"})
    assert ([each.group for each in page.groups], page.total) == (["default/large"], 4)
    with pytest.raises(ValueError, match="limit=0"):
        pages.gangs({"limit": "0"})


def test_the_table_says_why_each_group_waits(cluster: GangCluster) -> None:
    lines = printed(pages_of(cluster).gangs({"limit": "3"}))
    assert lines == [
        "GROUP SOURCE STATE MIN HAVE NOW WAIT WHY",
        (
            "default/large Native Unschedulable 6 0 0 6 "
            "needs 6 pods, 2 fit at most, 4 do not: short of cpu on 2 nodes; even an empty cluster "
            "takes 4 at most"
        ),
        "default/short CRD WaitingForMembers 3 0 0 1 1 of 3 pods exist",
        "other/lost CRD Invalid 0 0 0 1 there is no such PodGroup of scheduling.x-k8s.io",
        "and 1 other group",
    ]


def test_the_table_of_none_and_of_a_hostile_one() -> None:
    empty = GroupList(now=0.0, leading=False, total=0, groups=())
    assert printed(empty) == [
        "This replica stands by and decides nothing.",
        "There are no pod groups.",
    ]
    view = GroupView("a/b", "CRD", "Invalid", 0, 0, 0, 0, 1, 0, 0, "\x1b[31m[red]x")
    (_, line) = printed(GroupList(now=0.0, leading=True, total=1, groups=(view,)))
    assert line.endswith("?[31m[red]x")
