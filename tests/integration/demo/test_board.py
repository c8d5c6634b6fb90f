"""The board of the morning: usage, news, waiting pods and the audit."""

from __future__ import annotations

import pytest

from simulator.demos.morning.audit import audit
from simulator.demos.morning.cluster import MERGE_SECONDS, ClusterBoard
from simulator.demos.morning.script import Script
from simulator.demos.morning.waits import NodeReason, WaitGroup, node_reasons
from simulator.store import Change
from tests.integration.demo.stage import MESSAGE, Stage

PINNED = (
    "0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 node(s) didn't satisfy "
    "plugin(s) [NodeAffinity]. no new claims to deallocate"
)


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.node("n1")
    made.node("n2", gpus=2)
    return made


def recounted(stage: Stage) -> ClusterBoard:
    board = ClusterBoard("kubestow", lambda: 0.0)
    for table in ("nodes", "pods"):
        for version in stage.store.items(table):
            board.observe(table, Change("ADDED", version, None, version.rv))
    return board


def texts(board: ClusterBoard, kind: str) -> list[str]:
    return [news.text for news in board.news if news.kind == kind]


# -- counting ----------------------------------------------------------------------------------


def test_bound_pods_take_room_until_they_end(stage: Stage) -> None:
    stage.pod("a", cpu="1500m")
    stage.bind("a", "n1")
    node = stage.board.nodes[0]
    assert (node.cpu.used, node.cpu.allocatable, node.usage.pods) == (1500, 4000, 1)
    stage.finish("a")
    assert (node.cpu.used, node.usage.pods) == (0, 0)
    assert (stage.board.bound, stage.board.pods) == (1, 1)


def test_a_deleted_pod_is_neither_bound_nor_there(stage: Stage) -> None:
    stage.pod("a")
    stage.bind("a", "n1")
    stage.delete("a")
    stage.pod("b")
    stage.delete("b")
    assert (stage.board.bound, stage.board.pods, stage.board.waiting()) == (0, 0, [])
    assert stage.board.nodes[0].usage.pods == 0


def test_pods_of_other_schedulers_take_room_and_are_not_counted(stage: Stage) -> None:
    stage.pod("other", scheduler="default-scheduler")
    stage.bind("other", "n1")
    stage.pod("unplaced", scheduler="default-scheduler")
    assert (stage.board.bound, stage.board.pods, stage.board.waiting()) == (0, 0, [])
    assert stage.board.nodes[0].cpu.used == 1000


def test_a_node_that_comes_after_its_pods_shows_them(stage: Stage) -> None:
    stage.pod("early")
    stage.bind("early", "late")
    stage.node("late")
    assert stage.board.nodes[-1].usage.pods == 1
    assert stage.board.faults == ["shop/early was bound to late: does not exist"]


def test_zones_and_pools_are_in_order(stage: Stage) -> None:
    stage.node("gpu-2", zone="z-1b", pool="gpu")
    stage.node("gpu-1", zone="z-1b", pool="gpu")
    stage.node("n3", zone="z-1b")
    names = {zone: [node.name for node in nodes] for zone, nodes in stage.board.zones().items()}
    assert names == {"z-1a": ["n1", "n2"], "z-1b": ["n3", "gpu-1", "gpu-2"]}


def test_pace_and_rate_count_what_was_bound_lately(stage: Stage) -> None:
    for number, at in enumerate((0.1, 0.2, 0.6, 2.1)):
        stage.pod(f"p{number}")
        stage.now = at
        stage.bind(f"p{number}", "n1")
    assert stage.board.pace(5) == [2, 1, 0, 0, 1]
    assert stage.board.rate(window=1.0) == 1.0
    assert stage.board.rate(window=2.0) == 1.5


def test_latency_leaves_out_pods_that_had_to_wait(stage: Stage) -> None:
    assert stage.board.latency(0.5) is None
    stage.pod("quick")
    stage.pod("slow")
    stage.refuse("slow")
    stage.now = 0.25
    stage.bind("quick", "n1")
    stage.now = 9.0
    stage.bind("slow", "n1")
    assert stage.board.latency(0.5) == stage.board.latency(0.99) == 0.25


# -- news and waiting --------------------------------------------------------------------------


def test_placements_of_one_workload_are_one_line_for_a_while(stage: Stage) -> None:
    for name in ("w-1", "w-2", "w-3"):
        stage.pod(name, app="web")
    stage.bind("w-1", "n1")
    assert texts(stage.board, "placed") == ["w-1 on n1"]
    stage.bind("w-2", "n2")
    assert texts(stage.board, "placed") == ["2 pods of shop/web on 2 nodes"]
    stage.now = MERGE_SECONDS
    stage.bind("w-3", "n1")
    assert texts(stage.board, "placed") == ["2 pods of shop/web on 2 nodes", "w-3 on n1"]


def test_a_pod_begins_to_wait_once(stage: Stage) -> None:
    stage.pod("a")
    stage.refuse("a")
    stage.refuse("a", MESSAGE.replace("2 Ins", "1 Ins"))
    assert texts(stage.board, "waits") == ["a: insufficient cpu"]


def test_waiting_pods_are_grouped_by_the_most_frequent_reason(stage: Stage) -> None:
    for name in ("a", "b", "c", "d"):
        stage.pod(name)
    stage.refuse("a")
    stage.refuse("b")
    stage.gate("c", "example.com/ready")
    assert stage.board.waits() == [
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


def test_an_overcommitted_node_is_found_even_when_its_pods_have_ended(stage: Stage) -> None:
    for name in ("a", "b"):
        stage.pod(name, cpu="3")
        stage.bind(name, "n1")
    fault = "shop/b was bound to n1: cpu 6000 of 4000"
    assert audit(stage.board, recounted(stage)) == [
        fault,
        "node n1 is over its capacity: cpu 6000 of 4000",
    ]
    stage.finish("a")
    assert audit(stage.board, recounted(stage)) == [fault]


def test_the_audit_counts_afresh(stage: Stage) -> None:
    stage.pod("a")
    other = Stage()
    other.node("n1")
    assert audit(stage.board, other.board) == [
        "0 pods exist, but the view counts 1",
        "0 pods wait, but the view counts 1",
    ]


def test_the_audit_compares_the_end_with_the_story(stage: Stage) -> None:
    for name in ("bound", "lost", "refused", "silent", "misfit"):
        stage.pod(name)
    stage.bind("bound", "n1")
    stage.bind("misfit", "n1")
    stage.refuse("refused", "no room")
    script = Script([], 6, frozenset({"silent", "misfit"}))
    assert audit(stage.board, stage.board, script) == [
        "there are 5 pods, and 6 were created",
        "pod shop/lost should be bound by now, but waits (and has no condition with a reason)",
        "pod shop/refused should be bound by now, but waits (Unschedulable: no room)",
        "pod shop/silent waits and has no condition with a reason",
        "pod misfit is bound, and fits on no node",
    ]
    assert not script.settled(stage.board)


def test_a_script_that_ended_as_promised_is_settled(stage: Stage) -> None:
    stage.pod("bound")
    stage.bind("bound", "n1")
    stage.pod("misfit")
    script = Script([], 2, frozenset({"misfit"}))
    assert not script.settled(stage.board)
    stage.refuse("misfit")
    assert script.settled(stage.board)
    assert audit(stage.board, recounted(stage), script) == []
