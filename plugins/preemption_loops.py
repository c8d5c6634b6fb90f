"""Loops of preemption between schedulers, and their end.

If another scheduler puts the pods that were evicted for a pod back at once, before the pod gets
there, the pod evicts them again, and so on: kubernetes#130429 reports 8,000 evictions in two days.
Schedulers do not respect each other's nominations, so neither notices. Here a pod that has evicted
pods of one owner and another scheduler `TOLERATED` times, and waits still, evicts them only after a
pause, which doubles each time up to `MAX_PAUSE`. Victims of our own profiles never count: they do
respect nominations.

A pause begins with the eviction after which it comes. The record is kept with the pod in the queue
(`QueuedPodInfo.plugin_memory`), so it ends with the pod, recordings have it, and its size is
bounded. Each member of a gang keeps a record of what was evicted for the gang.

A new process finds the record of a stopped pod in the condition that tells why it waits. Only
schedulers write that, and it delays the evictions for this one pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from scheduler.api.pod import Pod
from scheduler.framework import Metric, QueuedPodInfo, plugin_names
from scheduler.sanitizing.go_values import format_duration

TOLERATED: Final = 3
"""Preemptions for one pod that evict pods of the same owner: chance may put them back twice."""
FIRST_PAUSE: Final = 60.0
MAX_PAUSE: Final = 3600.0
"""Seconds. One eviction an hour leaves a trace, and lets the pod in once the cause is gone."""
MAX_OWNERS: Final = 32
"""Owners that are remembered for a pod; of others it is not noticed that they come back."""

STOPPED: Final = (
    "stopped for {pause}: pods of {owner}, which are placed by scheduler {scheduler}, were evicted "
    "for this pod {count} times, and were there again each time. Let one scheduler place both, or "
    "set victimSchedulers: Own"
)
_BEGINNING: Final = "stopped for "
POD_SCHEDULED: Final = "PodScheduled"
_STOPPED: Final = re.compile(
    re.escape(STOPPED)
    .replace(re.escape("{pause}"), "[0-9hms]+")
    .replace(re.escape("{owner}"), r"([A-Za-z0-9]+ [a-z0-9.-]+/[a-z0-9.:-]+)")
    # Not validated by the API server: its author could write the rest of the sentence. The last
    # count is ours.
    .replace(re.escape("{scheduler}"), ".*")
    .replace(re.escape("{count}"), "([0-9]{1,6})")
    + r"\.?"
)
STOPPED_FOR_GROUP: Final = (
    "preemption for it is stopped for {pause}: pods of {owner} were evicted for it {count} times, "
    "and another scheduler put them back each time"
)
EVENT_REASON: Final = "PreemptionLoop"
LOOPS: Final = "kubestow_preemption_loops_total"
METRICS: Final = (
    Metric(
        LOOPS,
        "counter",
        "Times that preemption for a pod was stopped for a while, because another scheduler placed "
        "pods of the evicted ones' owner again and again.",
    ),
)


@dataclass(slots=True)
class LoopMemory:
    """The preemptions for one pod so far."""

    #: Preemptions that evicted pods of an owner, which another scheduler places, by owner.
    evictions: dict[str, int] = field(default_factory=dict)
    #: Wall clock seconds until which preemption is stopped; 0: it never was.
    stopped_until: float = 0.0
    stops: int = 0
    #: Whether the present stop has been reported.
    told: bool = False

    def stop(self, victims: Iterable[Pod], now: float) -> str:
        """Return why these victims, of other schedulers, are not evicted now; empty if they are."""
        repeated = [(self.evictions.get(owner_of(each), 0), each) for each in victims]
        if not repeated:
            return ""
        count, victim = max(repeated, key=lambda each: each[0])
        left = self.stopped_until - now
        # A clock that was set back must not extend the pause.
        if count < TOLERATED or not 0 < left <= MAX_PAUSE:
            return ""
        return STOPPED.format(
            pause=format_duration(timedelta(seconds=self._length())),
            owner=owner_of(victim),
            scheduler=victim.spec.scheduler_name,
            count=count,
        )

    def stop_of_group(self, now: float) -> str:
        """Return why a gang with this record evicts nobody now; empty if it may."""
        if not 0 < self.stopped_until - now <= MAX_PAUSE:
            return ""
        owner, count = max(self.evictions.items(), key=lambda each: each[1])
        pause = format_duration(timedelta(seconds=self._length()))
        return STOPPED_FOR_GROUP.format(pause=pause, owner=owner, count=count)

    def evicted(self, victims: Iterable[Pod], now: float) -> None:
        """Note that these victims, of other schedulers, are evicted."""
        again = False
        for owner in {owner_of(each) for each in victims}:
            if owner in self.evictions or len(self.evictions) < MAX_OWNERS:
                self.evictions[owner] = self.evictions.get(owner, 0) + 1
                again = again or self.evictions[owner] >= TOLERATED
        if again:
            self.stops += 1
            self.stopped_until = now + self._length()
            self.told = False

    def pause_again(self, stops: int, now: float) -> None:
        """Begin the present one of so many pauses anew; it has been reported."""
        self.stops, self.told = max(stops, 1), True
        self.stopped_until = now + self._length()

    def _length(self) -> float:
        return min(FIRST_PAUSE * 2.0 ** min(self.stops - 1, 10), MAX_PAUSE)


def owner_of(pod: Pod) -> str:
    """Return the controller that makes a pod again, or else the pod itself, as people write it."""
    metadata = pod.metadata
    for each in metadata.owner_references:
        if each.controller:
            return f"{each.kind} {metadata.namespace}/{each.name}"
    return f"pod {pod.key}"


def known_memory(info: QueuedPodInfo | None) -> LoopMemory | None:
    """Return the record of a pod, if it has one."""
    if info is None or info.plugin_memory is None:
        return None
    found = info.plugin_memory.get(plugin_names.DEFAULT_PREEMPTION)
    return found if isinstance(found, LoopMemory) else None


def ensure_memory(info: QueuedPodInfo) -> LoopMemory:
    """Return the record of a pod, made on first use."""
    found = known_memory(info)
    if found is None:
        found = info.memory()[plugin_names.DEFAULT_PREEMPTION] = LoopMemory()
    return found


def recall(info: QueuedPodInfo, now: float) -> None:
    """Restore the record of a pod from its condition if it has none; its pause begins anew."""
    if known_memory(info) is not None:
        return
    conditions = info.pod.status.conditions
    message = next((each.message for each in conditions if each.type == POD_SCHEDULED), "")
    _, stopped, rest = message.partition(_BEGINNING)
    found = _STOPPED.fullmatch(stopped + rest)
    if found is None:
        return
    memory = ensure_memory(info)
    memory.evictions[found[1]] = int(found[2])
    memory.pause_again(int(found[2]) - TOLERATED + 1, now)
