"""Overlays: what-ifs that never touch the table."""

from __future__ import annotations

from scheduler.cache import Cache, NodeOverlay
from scheduler.framework import CPU
from tests.unit.cache.objects import node, pod


def occupied() -> Cache:
    cache = Cache()
    cache.set_node(node("a", labels={"zone": "x"}))
    cache.add_pod(
        pod("p", "a", requests={"cpu": "1", "example.com/x": "2"}, ports=[{"hostPort": 80}])
    )
    return cache


def test_an_untouched_overlay_says_what_the_table_says() -> None:
    cache = occupied()
    view, overlay = cache.table.node_info(0), NodeOverlay(cache.table, 0)
    for name in (
        "name",
        "row",
        "labels",
        "requested",
        "non_zero_requested",
        "used_ports",
        "pod_count",
        "allocatable",
        "allowed_pod_number",
        "taints",
        "declared_features",
    ):
        assert getattr(view, name) == getattr(overlay, name), name
    assert list(view.pods) == list(overlay.pods)


def test_added_and_removed_pods_count_in_the_overlay_only() -> None:
    cache = occupied()
    overlay = NodeOverlay(cache.table, 0)
    added = pod("q", requests={"cpu": "500m"}, ports=[{"hostPort": 80}], claims=["data"])
    overlay.add_pod(added)
    assert (overlay.requested.milli_cpu, overlay.pod_count) == (1500, 2)
    assert overlay.used_ports == {("TCP", 80): {"0.0.0.0": 2}}
    assert overlay.pvc_ref_counts == {"default/data": 1}
    placed = cache.get_pod("p")
    assert placed is not None
    overlay.remove_pod(placed)
    overlay.remove_pod(placed)
    assert (overlay.requested.milli_cpu, overlay.requested.scalars) == (500, ())
    assert overlay.non_zero_requested == (500, 200 * (1 << 20))
    assert cache.table.requested[CPU, 0] == 1000
    assert cache.table.node_info(0).used_ports == {("TCP", 80): {"0.0.0.0": 1}}
    cache.validate()


def test_a_copy_goes_its_own_way() -> None:
    cache = occupied()
    overlay = NodeOverlay(cache.table, 0)
    overlay.add_pod(pod("q"))
    other = overlay.copy()
    other.add_pod(pod("r"))
    assert (overlay.pod_count, other.pod_count) == (2, 3)
