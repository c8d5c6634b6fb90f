"""WaitingPods: counts pending pods by cause and by owner, for `/debug/waiting`.

One pass over all pods, in any order. What it keeps is bounded by the number of pods, what it
returns by the limits asked for, whatever the pods are called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nlargest, nsmallest
from typing import Final, Generic, TypeVar

from scheduler.explain.records.causes import headline, of_pods
from scheduler.explain.records.waiting import WaitingCause

MAX_CAUSES: Final = 30
"""Causes listed; plugins may have any number."""
MAX_SELECTED: Final = 100_000
"""Pods among which the longest waiting are found."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Selection:
    """The pods that are asked for; empty: any."""

    namespace: str = ""
    owner: str = ""
    """`NAMESPACE/KIND/NAME`; `NAMESPACE/` for pods of no owner."""
    cause: str = ""
    words: tuple[str, ...] = ()
    """All in `namespace/name` of the pod, in lower case."""

    def has(self, namespace: str, name: str, owner: str, cause: str) -> bool:
        """Whether a pod is selected; the namespace was compared before."""
        if self.cause and cause != self.cause:
            return False
        if self.owner and f"{namespace}/{owner}" != self.owner:
            return False
        return not self.words or all(
            word in f"{namespace}/{name} {owner}".lower() for word in self.words
        )


@dataclass(slots=True)
class Waiting(Generic[T]):
    """A group of pods; `pod` has waited longest."""

    namespace: str
    owner: str
    cause: str
    pods: int
    since: float
    pod: T


class WaitingPods(Generic[T]):
    """The pods added so far, counted."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._causes: Counter[str] = Counter()
        self._groups: dict[tuple[str, str, str], Waiting[T]] = {}
        # Two lists, since as many tuples would be work for the garbage collector.
        self._since: list[float] = []
        self._pods: list[T] = []
        self.total = 0
        self.selected = 0

    def add(self, namespace: str, name: str, owner: str, cause: str, since: float, pod: T) -> None:
        """Count a pod that waits since a time."""
        if self._selection.namespace and namespace != self._selection.namespace:
            return
        self.total += 1
        self._causes[cause] += 1
        if not self._selection.has(namespace, name, owner, cause):
            return
        self.selected += 1
        if self.selected <= MAX_SELECTED:
            self._since.append(since)
            self._pods.append(pod)
        key = (namespace, owner, cause)
        group = self._groups.get(key)
        if group is None:
            self._groups[key] = Waiting(namespace, owner, cause, 1, since, pod)
            return
        group.pods += 1
        if since < group.since:
            group.since, group.pod = since, pod

    @property
    def group_total(self) -> int:
        """The number of groups."""
        return len(self._groups)

    def headline(self) -> str:
        """Return all causes in a sentence."""
        return headline(self._ordered(), self.total)

    def causes(self) -> list[WaitingCause]:
        """Return the most frequent causes."""
        return [
            WaitingCause(cause, pods, of_pods(pods, cause))
            for cause, pods in self._ordered()[:MAX_CAUSES]
        ]

    def _ordered(self) -> list[tuple[str, int]]:
        return sorted(self._causes.items(), key=lambda each: (-each[1], each[0]))

    def groups(self, limit: int) -> Iterator[Waiting[T]]:
        """Return the largest groups, the longest waiting of equal ones first."""
        yield from nlargest(limit, self._groups.values(), key=lambda each: (each.pods, -each.since))

    def longest(self, limit: int) -> list[T]:
        """Return the selected pods that have waited longest."""
        order = nsmallest(limit, range(len(self._pods)), key=self._since.__getitem__)
        return [self._pods[at] for at in order]
