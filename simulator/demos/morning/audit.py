"""The audit of the morning: what must be true when it ends.

Reads two boards, both fed by the API server's store alone: the one that observed every change, and
one counted afresh from what is stored at the end. Nothing is taken from the scheduler.
"""

from __future__ import annotations

from simulator.demos.morning.cluster import ClusterBoard
from simulator.demos.morning.script import Script
from simulator.demos.morning.waits import waiting_reason


def audit(
    watched: ClusterBoard, recounted: ClusterBoard, script: Script | None = None
) -> list[str]:
    """Return a sentence for everything that is wrong; without a script, for what always is."""
    problems = [*dict.fromkeys([*watched.faults, *recounted.faults])]
    for node in recounted.nodes:
        excess = node.overcommitted()
        if excess:
            problems.append(f"node {node.name} is over its capacity: {excess}")
    for what, seen, stored in (
        ("exist", watched.pods, recounted.pods),
        ("are bound", watched.bound, recounted.bound),
        ("wait", len(watched.waiting()), len(recounted.waiting())),
    ):
        if seen != stored:
            problems.append(f"{stored} pods {what}, but the view counts {seen}")
    return problems if script is None else problems + _departures(recounted, script)


def _departures(board: ClusterBoard, script: Script) -> list[str]:
    """Return how the end differs from the one that the script promises."""
    problems: list[str] = []
    if board.pods != script.pods:
        problems.append(f"there are {board.pods} pods, and {script.pods} were created")
    for pod in board.waiting():
        reason, message = waiting_reason(pod)
        if pod.metadata.name not in script.waiting:
            why = f"{reason}: {message}" if reason else "and has no condition with a reason"
            problems.append(f"pod {pod.key} should be bound by now, but waits ({why})")
        elif not reason:
            problems.append(f"pod {pod.key} waits and has no condition with a reason")
    problems += [
        f"pod {name} is bound, and fits on no node"
        for name in sorted(script.waiting)
        if board.is_bound(name)
    ]
    return problems
