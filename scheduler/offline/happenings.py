"""Happenings: what a shadow has seen, kept so that it can be replayed with other decisions. Pure.

Of each pod there are at most three moments: its arrival, its binding and its end. Of all other
objects every change is kept, in order. Bounded: at `MAX_PODS` or `MAX_CHANGES` nothing more is
added, and what is replayed ends there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from scheduler.api.pod import Pod
from scheduler.client.deltas import Delta, DeltaType

MAX_PODS: Final = 200_000
MAX_CHANGES: Final = 200_000

_PREEMPTED: Final = "PreemptionByScheduler"
_PODS: Final = "pods"


@dataclass(slots=True)
class Life:
    """The known moments of one pod, in wall clock seconds."""

    pod: Pod
    """Its newest version without a node, or the first with one."""
    followed: bool
    """Whether it is a pod of the followed names that was seen without a node."""
    arrived: float
    bound: float | None = None
    placed: Pod | None = None
    """The version with which the binding was seen."""
    ended: float | None = None
    preempted: bool = False


class Change(NamedTuple):
    """A change of another object than a pod; None: it was deleted."""

    time: float
    plural: str
    old: Any | None
    new: Any | None


class Happenings:
    """Everything that happened from `begin` on."""

    def __init__(self, names: Collection[str]) -> None:
        """Follow the pods of these scheduler names."""
        self._names = frozenset(names)
        self.began: float | None = None
        #: The time at which there was no more room; None: there is.
        self.full: float | None = None
        self.lives: dict[str, Life] = {}
        self.initial: list[tuple[str, Any]] = []
        self.changes: list[Change] = []

    def begin(self, objects: Mapping[str, Iterable[Any]], now: float) -> None:
        """Take the objects of each kind as they are now."""
        self.began = now
        for plural, items in objects.items():
            if plural == _PODS:
                for pod in items:
                    self._appeared(pod, now)
            else:
                self.initial += ((plural, item) for item in items)

    def note(self, plural: str, batch: Sequence[Delta[Any]], now: float) -> None:
        """Take changes, in order; those before the begin are part of what is there then."""
        if self.began is None or self.full is not None:
            return
        if plural == _PODS:
            for delta in batch:
                self._pod(delta, now)
        else:
            self.changes += (
                Change(now, plural, each.old, _after(each))
                for each in batch
            )  # fmt: skip
        if len(self.lives) >= MAX_PODS or len(self.changes) >= MAX_CHANGES:
            self.full = now

    def _appeared(self, pod: Pod, now: float) -> None:
        if pod.spec.node_name:
            self.lives[pod.uid] = Life(pod, False, now, now, pod)
        else:
            followed = pod.spec.scheduler_name in self._names
            self.lives[pod.uid] = Life(pod, followed, now)

    def _pod(self, delta: Delta[Pod], now: float) -> None:
        pod = delta.object
        life = self.lives.get(pod.uid)
        if delta.type is DeltaType.DELETED:
            if life is not None:
                life.ended, life.preempted = now, _is_preempted(pod)
        elif life is None:
            self._appeared(pod, now)
        elif life.bound is None:
            if pod.spec.node_name:
                life.bound, life.placed = now, pod
            else:
                life.pod = pod


def _after(delta: Delta[Any]) -> Any | None:
    return None if delta.type is DeltaType.DELETED else delta.object


def _is_preempted(pod: Pod) -> bool:
    return any(
        each.type == "DisruptionTarget" and each.reason == _PREEMPTED
        for each in pod.status.conditions
    )
