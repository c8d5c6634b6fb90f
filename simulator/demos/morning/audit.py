"""What must be true when the demo ends; the scheduler's own word is not asked for.

Reads two boards, both fed by the API server's store alone: the one that watched all the time, and
one counted afresh from what is stored at the end.
"""

from __future__ import annotations

from simulator.demos.morning.cluster import Board
from simulator.demos.morning.story import Story
from simulator.demos.morning.waits import waiting_reason


def audit(watched: Board, recounted: Board, story: Story | None = None) -> list[str]:
    """Everything that is wrong, as sentences; without a story only what no cluster may show."""
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
    return problems if story is None else problems + _departures(recounted, story)


def _departures(board: Board, story: Story) -> list[str]:
    """How the end differs from the one the story promises."""
    problems: list[str] = []
    if board.pods != story.pods:
        problems.append(f"there are {board.pods} pods, and {story.pods} were created")
    for pod in board.waiting():
        reason, message = waiting_reason(pod)
        if pod.metadata.name not in story.waiting:
            told = f"{reason}: {message}" if reason else "and was not told why"
            problems.append(f"pod {pod.key} should be bound by now, but waits ({told})")
        elif not reason:
            problems.append(f"pod {pod.key} waits and was not told why")
    problems += [
        f"pod {name} is bound, and fits on no node"
        for name in sorted(story.waiting)
        if board.is_bound(name)
    ]
    return problems
