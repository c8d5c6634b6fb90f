"""The board of the demo `morning`: usage, news, waiting pods and the audit."""

from __future__ import annotations

import pytest

from simulator.demos.morning.audit import audit
from simulator.demos.morning.cluster import MERGE_SECONDS, ClusterBoard
from simulator.demos.morning.script import Script
from simulator.demos.morning.waits import NodeReason, WaitGroup, node_reasons
from simulator.store import StoreChange
from tests.integration.demo.demo_cluster import MESSAGE, DemoCluster

PINNED = (
    "0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 node(s) didn't satisfy "
    "plugin(s) [NodeAffinity]. no new claims to deallocate"
)


@pytest.fixture
def cluster() -> DemoCluster:
    made = DemoCluster()
    made.node("n1")
    made.node("n2", gpus=2)
    return made


def recounted(cluster: DemoCluster) -> ClusterBoard:
    board = ClusterBoard("kubestow", lambda: 0.0)
    for table in ("nodes", "pods"):
        for version in cluster.store.items(table):
            board.observe(table, StoreChange("ADDED", version, None, version.rv))
    return board


def texts(board: ClusterBoard, kind: str) -> list[str]:
    return [news.text for news in board.news if news.kind == kind]


# -- counting ----------------------------------------------------------------------------------


def test_bound_pods_use_resources_until_they_end(cluster: DemoCluster) -> None:
    cluster.pod("a", cpu="1500m")
    cluster.bind("a", "n1")
    node = cluster.board.nodes[0]
    assert (node.cpu.used, node.cpu.allocatable, node.usage.pods) == (1500, 4000, 1)
    cluster.finish("a")
    assert (node.cpu.used, node.usage.pods) == (0, 0)
    assert (cluster.board.bound, cluster.board.pods) == (1, 1)


def test_a_deleted_pod_is_no_longer_counted(cluster: DemoCluster) -> None:
    cluster.pod("a")
    cluster.bind("a", "n1")
    cluster.delete("a")
    cluster.pod("b")
    cluster.delete("b")
    assert (cluster.board.bound, cluster.board.pods, cluster.board.waiting()) == (0, 0, [])
    assert cluster.board.nodes[0].usage.pods == 0


def test_pods_of_other_schedulers_use_resources_and_are_not_counted(cluster: DemoCluster) -> None:
    cluster.pod("other", scheduler="default-scheduler")
    cluster.bind("other", "n1")
    cluster.pod("unplaced", scheduler="default-scheduler")
    assert (cluster.board.bound, cluster.board.pods, cluster.board.waiting()) == (0, 0, [])
    assert cluster.board.nodes[0].cpu.used == 1000


def test_a_node_that_comes_after_its_pods_shows_them(cluster: DemoCluster) -> None:
    cluster.pod("early")
    cluster.bind("early", "late")
    cluster.node("late")
    assert cluster.board.nodes[-1].usage.pods == 1
    assert cluster.board.faults == ["shop/early was bound to late: does not exist"]


def test_zones_and_pools_are_in_order(cluster: DemoCluster) -> None:
    cluster.node("gpu-2", zone="z-1b", pool="gpu")
    cluster.node("gpu-1", zone="z-1b", pool="gpu")
    cluster.node("n3", zone="z-1b")
    names = {zone: [node.name for node in nodes] for zone, nodes in cluster.board.zones().items()}
    assert names == {"z-1a": ["n1", "n2"], "z-1b": ["n3", "gpu-1", "gpu-2"]}


def test_pace_and_rate_count_what_was_bound_lately(cluster: DemoCluster) -> None:
    for number, at in enumerate((0.1, 0.2, 0.6, 2.1)):
        cluster.pod(f"p{number}")
        cluster.now = at
        cluster.bind(f"p{number}", "n1")
    assert cluster.board.pace(5) == [2, 1, 0, 0, 1]
    assert cluster.board.rate(window=1.0) == 1.0
    assert cluster.board.rate(window=2.0) == 1.5


def test_latency_leaves_out_pods_that_had_to_wait(cluster: DemoCluster) -> None:
    assert cluster.board.latency(0.5) is None
    cluster.pod("quick")
    cluster.pod("slow")
    cluster.reject("slow")
    cluster.now = 0.25
    cluster.bind("quick", "n1")
    cluster.now = 9.0
    cluster.bind("slow", "n1")
    assert cluster.board.latency(0.5) == cluster.board.latency(0.99) == 0.25


# -- news and waiting --------------------------------------------------------------------------


def test_placements_of_one_workload_are_merged_into_one_line_for_a_while(
    cluster: DemoCluster,
) -> None:
    for name in ("w-1", "w-2", "w-3"):
        cluster.pod(name, app="web")
    cluster.bind("w-1", "n1")
    assert texts(cluster.board, "placed") == ["w-1 on n1"]
    cluster.bind("w-2", "n2")
    assert texts(cluster.board, "placed") == ["2 pods of shop/web on 2 nodes"]
    cluster.now = MERGE_SECONDS
    cluster.bind("w-3", "n1")
    assert texts(cluster.board, "placed") == ["2 pods of shop/web on 2 nodes", "w-3 on n1"]


def test_a_pod_begins_to_wait_once(cluster: DemoCluster) -> None:
    cluster.pod("a")
    cluster.reject("a")
    cluster.reject("a", MESSAGE.replace("2 Ins", "1 Ins"))
    assert texts(cluster.board, "waits") == ["a: insufficient cpu"]


def test_waiting_pods_are_grouped_by_the_most_frequent_reason(cluster: DemoCluster) -> None:
    for name in ("a", "b", "c", "d"):
        cluster.pod(name)
    cluster.reject("a")
    cluster.reject("b")
    cluster.gate("c", "example.com/ready")
    assert cluster.board.waits() == [
        WaitGroup("insufficient cpu", 2, "shop/a", "2 insufficient cpu, 1 cordoned"),
        WaitGroup("gate example.com/ready", 1, "shop/c", ""),
        WaitGroup("in the queue", 1, "shop/d", ""),
    ]


@pytest.mark.parametrize(
    ("message", "reasons"),
    [
        (
            "0/9 nodes are available: 1 Insufficient a.io/gpu, 8 Too many pods. preemption: 0/9 …",
            [(8, "too many pods"), (1, "insufficient a.io/gpu")],
        ),
        (
            PINNED,
            [(1, "taint not tolerated")],
        ),
        (
            "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            [(3, "didn't satisfy plugin(s) [NodeAffinity]")],
        ),
        ("0/1 nodes are available: 1 a plugin's own words.", [(1, "a plugin's own words")]),
        ("no nodes available to schedule pods", []),
        ("", []),
    ],
)
def test_messages_are_shortened(message: str, reasons: list[tuple[int, str]]) -> None:
    assert node_reasons(message) == [NodeReason(*reason) for reason in reasons]


# -- the audit ---------------------------------------------------------------------------------


def test_an_overcommitted_node_is_found_even_when_its_pods_have_ended(cluster: DemoCluster) -> None:
    for name in ("a", "b"):
        cluster.pod(name, cpu="3")
        cluster.bind(name, "n1")
    fault = "shop/b was bound to n1: cpu 6000 of 4000"
    assert audit(cluster.board, recounted(cluster)) == [
        fault,
        "node n1 is over its capacity: cpu 6000 of 4000",
    ]
    cluster.finish("a")
    assert audit(cluster.board, recounted(cluster)) == [fault]


def test_the_audit_counts_afresh(cluster: DemoCluster) -> None:
    cluster.pod("a")
    other = DemoCluster()
    other.node("n1")
    assert audit(cluster.board, other.board) == [
        "0 pods exist, but the view counts 1",
        "0 pods wait, but the view counts 1",
    ]


def test_the_audit_compares_the_final_state_with_the_story(cluster: DemoCluster) -> None:
    for name in ("bound", "lost", "rejected", "silent", "misfit"):
        cluster.pod(name)
    cluster.bind("bound", "n1")
    cluster.bind("misfit", "n1")
    cluster.reject("rejected", "no room")
    script = Script([], 6, frozenset({"silent", "misfit"}))
    assert audit(cluster.board, cluster.board, script) == [
        "there are 5 pods, and 6 were created",
        "pod shop/lost should be bound by now, but waits (and has no condition with a reason)",
        "pod shop/rejected should be bound by now, but waits (Unschedulable: no room)",
        "pod shop/silent waits and has no condition with a reason",
        "pod misfit is bound, and fits on no node",
    ]
    assert not script.settled(cluster.board)


def test_a_script_that_ended_as_promised_is_settled(cluster: DemoCluster) -> None:
    cluster.pod("bound")
    cluster.bind("bound", "n1")
    cluster.pod("misfit")
    script = Script([], 2, frozenset({"misfit"}))
    assert not script.settled(cluster.board)
    cluster.reject("misfit")
    assert script.settled(cluster.board)
    assert audit(cluster.board, recounted(cluster), script) == []
