"""A small finished run: two nodes, and a pod that is placed after a failed attempt."""

from __future__ import annotations

from scheduler.explain.records import NodeScore
from scheduler.history import Decision, DecisionResult, RejectionCount
from scheduler.history.run import RecordedRun, RunNode, RunPod

BEGIN, END = 1_000.0, 1_100.0


def decision(seq: int, time: float, pod: str = "default/web", **changes: object) -> Decision:
    """Return a decision that placed a pod on n1, with changes."""
    fields: dict[str, object] = {
        "uid": "",
        "profile": "kubestow",
        "attempt": 1,
        "queue": "active",
        "event": "",
        "hint_plugin": "",
        "result": DecisionResult.PLACED,
        "node": "n1",
        "message": "",
        "nodes": 2,
        "evaluated": 2,
        "feasible": 1,
        "best": (NodeScore("n1", 171, ()),),
        "bound": time + 0.5,
    }
    return Decision(seq=seq, time=time, pod=pod, **(fields | changes))  # type: ignore[arg-type]


def rejected(seq: int, time: float, pod: str = "default/web") -> Decision:
    """Return a decision that found no node."""
    why = RejectionCount("NodeResourcesFit", "Unschedulable", "Insufficient cpu", 2)
    return decision(
        seq,
        time,
        pod,
        result=DecisionResult.UNSCHEDULABLE,
        node="",
        message="0/2 nodes are available: 2 Insufficient cpu.",
        feasible=0,
        rejections=(why,),
        best=(),
        bound=0.0,
    )


def example_run() -> RecordedRun:
    """`web` arrives at 1,010, is rejected then, and placed at 1,050 after `old` ended at 1,040."""
    capacity = {"cpu": 4.0, "pods": 10.0}
    return RecordedRun(
        begin=BEGIN,
        end=END,
        nodes=[
            RunNode(name="n1", zone="a", allocatable=capacity),
            RunNode(name="n2", zone="b", allocatable={**capacity, "cpu": 1.0}, removed=1_090.0),
        ],
        pods=[
            RunPod(
                namespace="default", name="old", node="n1", requests={"cpu": 3.0}, deleted=1_040.0
            ),
            RunPod(namespace="default", name="web", requests={"cpu": 2.0}, created=1_010.0),
        ],
        decisions=[decision(2, 1_050.0, attempt=2), rejected(1, 1_010.0)],
    )
