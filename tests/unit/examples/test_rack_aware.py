"""RackAware: no domain has more than its share of an app, whatever happens to pods and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.extra.rack_aware import Level, RackAware, RackAwareArgs
from scheduler.framework.plugin_class import class_problems
from scheduler.testing import Cluster, check_plugin, node, pod

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "rack_aware"
ZONE: Final = "topology.kubernetes.io/zone"
RACK: Final = "topology.kubernetes.io/rack"
APP: Final = "app.kubernetes.io/name"
NAME: Final = "kubestow.io/RackAware"

WEB: Final = {APP: "web"}
HALF_A_ZONE: Final = {"levels": [{"key": ZONE, "maxPercent": 50}]}


def fill(cluster: Cluster, zones: str = "ab", racks: int = 2, hosts: int = 2) -> None:
    """Add hosts; the racks of every zone have the same names."""
    for zone in zones:
        for rack in range(racks):
            for host in range(hosts):
                labels = {ZONE: zone, RACK: f"rack-{rack}"}
                cluster.add_node(node(f"{zone}-{rack}-{host}", labels=labels))


def counts(cluster: Cluster, depth: int = 3) -> Counter[str]:
    """Pods by host; by rack with `depth` 2, by zone with 1."""
    cluster.decisions()
    names = cluster.world.placements().values()
    return Counter("-".join(name.split("-")[:depth]) for name in names)


def test_racks_of_the_same_name_in_two_zones_are_two(cluster: Cluster) -> None:
    cluster.enable(RackAware)
    fill(cluster)
    cluster.add_pods(pod("web", labels=WEB), count=8)
    assert counts(cluster, 2) == {"a-0": 2, "a-1": 2, "b-0": 2, "b-1": 2}


@pytest.mark.parametrize(
    ("percent", "pods", "placed"),
    [
        (50, 1, 1),
        (50, 2, 1),
        (50, 3, 2),
        (34, 3, 2),
        (33, 3, 1),
        (34, 9, 4),
        (100, 9, 9),
        (1, 9, 1),
    ],
)
def test_shares_are_rounded_up(cluster: Cluster, percent: int, pods: int, placed: int) -> None:
    cluster.enable(RackAware, {"levels": [{"key": ZONE, "maxPercent": percent}]})
    fill(cluster, zones="a")
    # All exist before the first one is scheduled.
    cluster.add_pods(pod("web", labels=WEB), count=pods)
    assert counts(cluster, 1) == {"a": placed}


def test_what_a_failed_rack_held_waits_for_it_beyond_the_share_of_the_others(
    cluster: Cluster,
) -> None:
    levels = [{"key": ZONE}, {"key": RACK, "maxPercent": 33}]
    cluster.enable(RackAware, {"levels": levels})
    fill(cluster, zones="a", racks=3, hosts=1)
    cluster.add_pods(pod("web", labels=WEB), count=6)
    assert counts(cluster, 2) == {"a-0": 2, "a-1": 2, "a-2": 2}
    cluster.world.drop_node("a-2-0")
    assert counts(cluster, 2) == {"a-0": 2, "a-1": 2}
    cluster.add_node(node("a-2-0", labels={ZONE: "a", RACK: "rack-2"}))
    assert counts(cluster, 2) == {"a-0": 2, "a-1": 2, "a-2": 2}


def test_a_full_rack_is_named(cluster: Cluster) -> None:
    cluster.enable(RackAware)
    fill(cluster, zones="a", racks=1)
    cluster.add_pods(pod("web", labels=WEB), count=3)
    cluster.assert_scheduled("web-0")
    reason = f"2 node(s) whose {RACK} had its share of the app's pods"
    cluster.assert_unschedulable("web-2", plugin=NAME, reason=reason)


def test_a_node_outside_the_hierarchy_takes_other_pods_only(cluster: Cluster) -> None:
    cluster.enable(RackAware)
    cluster.add_node(node("bare", labels={ZONE: "a"}))
    cluster.add_pods(pod("web", labels=WEB))
    cluster.add_pods(pod("other"))
    cluster.assert_unschedulable("web", plugin=NAME, reason=f"node(s) without label {RACK}")
    cluster.assert_scheduled("other", node="bare")


def test_apps_and_namespaces_count_by_themselves(cluster: Cluster) -> None:
    cluster.enable(RackAware, HALF_A_ZONE)
    fill(cluster, zones="a")
    for name, namespace in (("web", "default"), ("web", "other"), ("api", "default")):
        cluster.add_pods(pod(name, namespace=namespace, labels={APP: name}))
    assert counts(cluster, 1) == {"a": 3}


def end_of_a_pod(cluster: Cluster) -> None:
    cluster.world.remove("Pod", "web-0", "default")


def another_app(cluster: Cluster) -> None:
    moved = pod("web-0", labels={APP: "other"}, node=cluster.world.placements()["default/web-0"])
    cluster.add(moved)


def growth(cluster: Cluster) -> None:
    cluster.add_pods(pod("more", labels=WEB, cpu=100))


def another_zone(cluster: Cluster) -> None:
    fill(cluster, zones="b", racks=1)


def a_label_of_a_node(cluster: Cluster) -> None:
    cluster.add(node("a-0-0", labels={ZONE: "b", RACK: "rack-0"}))


@pytest.mark.parametrize(
    "change", [end_of_a_pod, another_app, growth, another_zone, a_label_of_a_node]
)
def test_what_makes_room_wakes_the_pods_that_wait(
    cluster: Cluster, change: Callable[[Cluster], None]
) -> None:
    cluster.enable(RackAware, HALF_A_ZONE)
    fill(cluster, zones="a")
    cluster.add_pods(pod("web", labels=WEB), count=2)
    cluster.assert_unschedulable("web-1", plugin=NAME)
    change(cluster)
    cluster.assert_scheduled("web-1")


def test_preemption_makes_room_in_a_full_domain(cluster: Cluster) -> None:
    cluster.enable(RackAware, {"levels": [{"key": ZONE, "maxPercent": 33}]})
    fill(cluster, zones="a")
    cluster.add_pods(pod("low", labels=WEB), count=2)
    cluster.assert_scheduled("low-0")
    cluster.add_pods(pod("high", labels=WEB, priority=100))
    cluster.tick(60)
    assert cluster.world.placements().keys() == {"default/high"}


@pytest.mark.parametrize(
    ("prefer", "racks"),
    [("Spread", {"a-0": 1, "a-1": 1, "b-0": 1, "b-1": 1}), ("Pack", {"a-0": 2, "a-1": 2})],
)
def test_pods_are_spread_or_packed_by_the_widest_level_first(
    cluster: Cluster, prefer: str, racks: dict[str, int]
) -> None:
    levels = [{"key": ZONE}, {"key": RACK, "maxPercent": 50}]
    cluster.enable(RackAware, {"prefer": prefer, "levels": levels}, weight=1000)
    fill(cluster)
    cluster.add_pods(pod("web", labels=WEB), count=4)
    found = counts(cluster, 2)
    assert sorted(found.values()) == sorted(racks.values())
    assert len(counts(cluster, 1)) == len({each[0] for each in racks})


@settings(max_examples=10)
@given(st.lists(st.sampled_from(("add", "end", "fail", "repair")), max_size=8))
def test_no_placement_ever_exceeds_a_share(steps: list[str]) -> None:
    with Cluster() as cluster:
        cluster.enable(RackAware)
        fill(cluster, zones="a", racks=3, hosts=1)
        pods: list[str] = []
        failed: list[int] = []
        for number, step in enumerate(steps):
            before = counts(cluster)
            if step == "add":
                pods += cluster.add_pods(pod(f"web-{number}", labels=WEB))
            elif step == "end" and pods:
                cluster.world.delete_pod(pods.pop())
            elif step == "fail" and len(failed) < 3:
                # Its pods become pending again.
                cluster.world.drop_node(f"a-{len(failed)}-0")
                failed.append(len(failed))
            elif step == "repair" and failed:
                rack = failed.pop()
                labels = {ZONE: "a", RACK: f"rack-{rack}"}
                cluster.add_node(node(f"a-{rack}-0", labels=labels))
            limit = -(-len(pods) * 34 // 100)
            # Only what is placed now obeys: nothing is evicted when the app shrinks.
            grown = counts(cluster) - before
            assert all(counts(cluster)[name] <= limit for name in grown)


def test_the_configuration_of_the_example_spreads_apps_over_zones_and_racks() -> None:
    with Cluster(config=EXAMPLE / "config.yaml") as cluster:
        fill(cluster, zones="abc", racks=2, hosts=4)
        for app in ("web", "api", "db"):
            cluster.add_pods(pod(app, labels={APP: app}, cpu="250m"), count=12)
        cluster.tick(60)
        for app in ("web", "api", "db"):
            placed = cluster.world.placements()
            racks = Counter(placed[f"default/{app}-{number}"][:3] for number in range(12))
            assert racks == {f"{zone}-{rack}": 2 for zone in "abc" for rack in range(2)}


@pytest.mark.parametrize(
    ("args", "paths"),
    [
        (RackAwareArgs(), []),
        (RackAwareArgs(label="a/b/c"), ["label"]),
        (RackAwareArgs(levels=()), ["levels"]),
        (RackAwareArgs(levels=(Level(key="a"),) * 2), ["levels[1].key"]),
        (RackAwareArgs(levels=(Level(key=""), Level(key="a", max_percent=0))),
         ["levels[0].key", "levels[1].maxPercent"]),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(args: RackAwareArgs, paths: list[str]) -> None:
    assert [path for path, _ in RackAware.validate_args(args)] == paths


OTHERS: Final = {"prefer": "Pack", "levels": [{"key": ZONE, "maxPercent": 50}, {"key": "app"}]}


@pytest.mark.slow
@pytest.mark.parametrize("args", [{}, OTHERS])
def test_the_contract_holds(args: dict[str, Any]) -> None:
    report = check_plugin(RackAware, {"label": "app", **args}, clusters=8)
    assert report.woken
    assert list(class_problems(RackAware)) == []
