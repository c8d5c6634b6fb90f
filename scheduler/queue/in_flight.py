"""Pods in flight, and the events since they were popped.

A popped pod is in no sub-queue, so events cannot move it. They are recorded here instead, and
evaluated when the pod returns: otherwise a pod that was rejected because of the state before an
event would miss the event (KEP-4247: Track Pods being processed in the scheduling queue).

Invariant: an event is kept exactly as long as a pod that was popped before it is in flight. Pods
and events share one numbering, so that "before" is a comparison of two integers.

Bounded: beyond `limit` the oldest events are dropped, and `events_for` returns None for pods popped
before them; the caller must then assume that some event concerned the pod.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from scheduler.api.pod import Pod
from scheduler.framework.events import ClusterEvent, QueueingHint
from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.metrics import QueueMetrics

PreCheck = Callable[[Pod], bool]

#: An event takes about 200 bytes, without its objects, which are mostly shared with the caches.
IN_FLIGHT_EVENT_LIMIT = 100_000

POD_POPPED = "PodPopped"


@dataclass(slots=True, eq=False)
class InFlightEvent:
    """One cluster event with its objects, and the results of the hints evaluated for it."""

    cluster_event: ClusterEvent
    old: Any
    new: Any
    label: str
    #: If given, the event concerns only pods for which this returns True.
    pre_check: PreCheck | None = None
    #: UIDs of the only pods that the event concerns; None: all pods.
    only: frozenset[str] | None = None
    #: The plugin that requested the retry itself: no hint is evaluated, the result is Queue.
    plugin: str = ""
    #: Results of per-signature hints, by registration and pod identity.
    hint_results: dict[Any, QueueingHint] = field(default_factory=dict)
    #: UID of the changed object, or empty. Hint results for the pod itself are not shared.
    subject: str = field(init=False)

    def __post_init__(self) -> None:
        changed = self.old if self.new is None else self.new
        metadata = getattr(changed, "metadata", None)
        self.subject = "" if metadata is None else metadata.uid

    @property
    def controller(self) -> str:
        """UID of the controller of the changed object, or empty."""
        metadata = getattr(self.old if self.new is None else self.new, "metadata", None)
        owners = () if metadata is None else metadata.owner_references
        return next((each.uid for each in owners if each.controller), "")

    def narrowed(self, uids: Collection[str]) -> InFlightEvent:
        """Return a copy of the event for these pods only; both share the results of hints."""
        return replace(self, only=frozenset(uids))

    def concerns(self, info: QueuedPodInfo) -> bool:
        """Whether hints must be evaluated for the pod."""
        if self.only is not None and info.uid not in self.only:
            return False
        return self.pre_check is None or self.pre_check(info.pod)


class InFlight:
    """Popped pods, and the events since the first of them was popped."""

    def __init__(self, metrics: QueueMetrics, limit: int = IN_FLIGHT_EVENT_LIMIT) -> None:
        self._metrics = metrics
        self._limit = limit
        # In order of popping. Not a dict: its first key is found in O(n) after many deletions.
        self._pods: OrderedDict[str, tuple[int, QueuedPodInfo]] = OrderedDict()
        #: Events kept, oldest first.
        self.events: deque[InFlightEvent] = deque()
        #: Number of the first event kept, and number of the next event.
        self._first = 0
        self._next = 0
        #: Number of events dropped because of the limit.
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (info for _, info in self._pods.values())

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return the record of a pod in flight; None for others."""
        entry = self._pods.get(uid)
        return None if entry is None else entry[1]

    def start(self, info: QueuedPodInfo) -> None:
        """Begin the attempt of a popped pod."""
        self._pods[info.uid] = (self._next, info)
        self._metrics.inflight_events(POD_POPPED, 1)

    def record(self, event: InFlightEvent) -> None:
        """Keep an event for the pods in flight, if any; beyond the limit the oldest is dropped."""
        if not self._pods:
            return
        self.events.append(event)
        self._next += 1
        self._metrics.inflight_events(event.label, 1)
        if len(self.events) > self._limit:
            self._first += 1
            self.dropped += 1
            self._metrics.inflight_events(self.events.popleft().label, -1)

    def events_for(self, uid: str) -> list[InFlightEvent] | None:
        """Return the events since the pod was popped; None if dropped, or if not in flight."""
        entry = self._pods.get(uid)
        if entry is None or entry[0] < self._first:
            return None
        return list(islice(self.events, entry[0] - self._first, None))

    def finish(self, uid: str) -> None:
        """End the pod's attempt, and drop the events that no attempt needs any more. Idempotent."""
        if self._pods.pop(uid, None) is None:
            return
        self._metrics.inflight_events(POD_POPPED, -1)
        if not self.events:
            return
        needed = next(iter(self._pods.values()))[0] if self._pods else self._next
        released: Counter[str] = Counter()
        while self._first < needed:
            released[self.events.popleft().label] += 1
            self._first += 1
        for label, count in released.items():
            self._metrics.inflight_events(label, -count)

    def violations(self) -> list[str]:
        """Return the broken invariants, for `validate()`."""
        found: list[str] = []
        if self._next - self._first != len(self.events):
            found.append("in flight: events are misnumbered")
        if self.events and not self._pods:
            found.append(f"in flight: {len(self.events)} events are kept for no pod")
        starts = [start for start, _ in self._pods.values()]
        if starts != sorted(starts):
            found.append("in flight: pods are out of order")
        if starts and self.events and starts[0] > self._first:
            found.append("in flight: events older than the first pod are kept")
        return found
