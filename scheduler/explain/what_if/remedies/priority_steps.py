"""Changes of a pod with which preemption would make room for it: a priority, leave to preempt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from scheduler.api.pod import Pod
from scheduler.explain.records import Change, Code, Step
from scheduler.explain.what_if.remedies.situation import Situation, listed

MAX_PODS: Final = 2000
"""Placed pods among which priority classes are looked for."""
MAX_CLASSES: Final = 3
"""Classes that are tried, the lowest first."""
MAX_PRIORITY: Final = 1_000_000_000
"""The highest priority of a class that users may create."""
NEVER: Final = "Never"
COST: Final = 4.5


def raised(situation: Situation) -> Iterator[Step]:
    """Yield priorities above those of placed pods; victims are not known before the trial."""
    pod = situation.pod
    allowed: tuple[Change, ...] = ()
    beginning = "give the pod"
    if pod.spec.preemption_policy == NEVER:
        allowed = (situation.set_pod("/spec/preemptionPolicy", "PreemptLowerPriority"),)
        yield _step("let the pod preempt others (its preemptionPolicy is Never)", allowed)
        beginning = "let the pod preempt others, and give it"
    placed = list(islice(_placed(situation), MAX_PODS))
    classes = {
        each.priority: each.spec.priority_class_name
        for each in placed
        if each.spec.priority_class_name and pod.priority < each.priority <= MAX_PRIORITY
    }
    for priority in sorted(classes)[:MAX_CLASSES]:
        name = classes[priority]
        changes = (*allowed, *_changes(situation, priority, name))
        yield _step(f"{beginning} priorityClassName {name} ({priority})", changes)
    highest = max((each.priority for each in placed if each.priority < MAX_PRIORITY), default=-1)
    if highest >= max(pod.priority, max(classes, default=pod.priority)):
        changes = (*allowed, *_changes(situation, highest + 1, None))
        yield _step(f"{beginning} a priority class of at least {highest + 1}", changes)


def with_victims(step: Step, node: str, victims: Sequence[str]) -> Step:
    """Return a step as it is listed, once a trial has shown whom it evicts."""
    text = f"{step.text}, so that preemption evicts {listed(victims)} from {node}"
    return Step(step.code, text, step.changes, step.cost + len(victims), node)


def _step(text: str, changes: tuple[Change, ...]) -> Step:
    return Step(Code.RAISE_PRIORITY, text, changes, COST)


def _changes(situation: Situation, priority: int, name: str | None) -> tuple[Change, ...]:
    # The API server derives the number from the class when the pod is created.
    return (
        situation.set_pod("/spec/priorityClassName", name),
        situation.set_pod("/spec/priority", priority),
    )


def _placed(situation: Situation) -> Iterator[Pod]:
    table = situation.table
    for row in table.rows.tolist():
        yield from table.pods[row].values()
