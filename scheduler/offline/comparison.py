"""Comparison of two runs of one scenario: which pods fare otherwise, each with the cause."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.explain.records.story import compared
from scheduler.offline.experiment import SimulatedRun
from scheduler.offline.records import Placement, Waiting


@dataclass(frozen=True, slots=True)
class Difference:
    """A pod whose fate differs."""

    pod: str
    """`namespace/name`."""
    change: str
    """`moved`, `placed`, `waits` (in the second run), or `evicted` (in the second run only)."""
    before: str
    """The node in the first run; empty: none."""
    after: str
    cause: str
    """Why, from the decision of the second run."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The second run as seen from the first."""

    base: str
    compared: str
    seed: int
    figures: dict[str, tuple[float, float]]
    """Of both runs, by name."""
    differences: tuple[Difference, ...]
    """By pod."""


def compare(first: SimulatedRun, second: SimulatedRun) -> Comparison:
    """Compare two runs of one scenario and seed."""
    names = [each for each in first.figures if each in second.figures]
    pairs = {each: (first.figures[each], second.figures[each]) for each in names}
    before = {each.pod: each for each in first.result}
    after = {each.pod: each for each in second.result}
    found = [
        difference
        for pod in sorted(before.keys() & after.keys())
        if (difference := _difference(before[pod], after[pod])) is not None
    ]
    known = {each.pod for each in first.result.evicted}
    taken = {each.pod: each for each in second.result.placed}
    for each in second.result.evicted:
        if each.pod not in known:
            room = [
                other.pod
                for other in taken.values()
                if other.node == each.node and other.time >= each.time
            ]
            cause = f"made room; {room[0]} was placed there next" if room else "made room"
            found.append(Difference(each.pod, "evicted", each.node, "", cause))
    found.sort(key=lambda each: (each.pod, each.change))
    return Comparison(first.name, second.name, first.seed, pairs, tuple(found))


def by_cause(differences: Iterable[Difference]) -> list[tuple[str, str, list[str]]]:
    """Return change, cause and pods of what has one cause, the most pods first.

    The cause has no names of nodes and no amounts, which differ from pod to pod.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for each in differences:
        groups.setdefault((each.change, _kind_of(each)), []).append(each.pod)
    return [(*kind, pods) for kind, pods in sorted(groups.items(), key=lambda each: -len(each[1]))]


def _kind_of(difference: Difference) -> str:
    cause = difference.cause
    if difference.before:
        cause = cause.replace(difference.before, "the node before")
    cause = re.sub(r"\bthe best of \d+ that", "the best of those that", cause)
    cause = re.sub(r"\bthe \d+ that", "those that", cause)
    return re.sub(r" -\d+", " less", re.sub(r" \+\d+", " more", cause))


def _difference(first: Placement | Waiting, second: Placement | Waiting) -> Difference | None:
    before = first.node if isinstance(first, Placement) else ""
    if isinstance(second, Waiting):
        if not before:
            return None
        return Difference(second.pod, "waits", before, "", second.reason or "it was not tried yet")
    if before == second.node:
        return None
    if isinstance(first, Waiting):
        cause = f"it waited: {first.reason}" if first.reason else "it waited"
        return Difference(second.pod, "placed", "", second.node, cause)
    return Difference(second.pod, "moved", before, second.node, _why_not(before, second))


def _why_not(node: str, placed: Placement) -> str:
    """Return why a run chose another node than `node`."""
    decision = placed.decision
    best = () if decision is None else decision.best
    chosen = next((each for each in best if each.node == placed.node), None)
    other = next((each for each in best if each.node == node), None)
    if chosen is not None and other is not None:
        return f"{node} compared to it: {compared(chosen, other)}"
    if placed.feasible <= len(best) or placed.feasible == 1:
        return f"{node} was not among the {placed.feasible} that it fitted on"
    return f"{node} was not among the best of {placed.feasible} that it fitted on"
