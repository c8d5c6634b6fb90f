"""The cycle of a group in a recording, decided again in a world.

Members wait in the queue of the world wherever its own history has put them, so each is taken from
there with the record that it had. What earlier cycles learnt about templates (`TemplateCapacities`)
decides as well: those that were known then are made known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from scheduler.engine import Attempt
from scheduler.engine.group_result import GroupResult
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.framework import QueuedPodInfo
from scheduler.framework.grouping import GroupToSchedule
from scheduler.groups.cycles.cycle import GroupCycle
from scheduler.offline.assembly import Assembly
from scheduler.offline.bundles import Record, find_pod, restore_record


class Member(msgspec.Struct):
    """A member with the record that it had in the queue."""

    pod: str
    uid: str
    learnt: bool = False
    """Whether the capacities of the profile had its template."""
    info: dict[str, Any] = {}
    memory: dict[str, Any] = {}


class RecordedGroup:
    """One cycle. Used once."""

    def __init__(
        self, world: Assembly, group: GroupToSchedule, members: Sequence[Member], monotonic: float
    ) -> None:
        """`monotonic` is where the time of the world begins."""
        self._world = world
        self._group = group
        self._members = members
        self._monotonic = monotonic
        #: By UID, once they were taken.
        self.infos: dict[str, QueuedPodInfo] = {}

    def take(self, rotation: int) -> str:
        """Take the members from the queue; return why they cannot be decided about here."""
        scheduling, why = self._world.scheduling, ""
        for member in self._members:
            pod = find_pod(self._world, member.pod, member.uid)
            if pod is None:
                why = f"the pod {member.pod} is not in the file"
                continue
            info = self.infos[member.uid] = scheduling.queue.take(pod)
            record = Record(member.pod, member.uid, info=member.info, memory=member.memory)
            restore_record(self._world, info, record, self._monotonic)
            algorithm = scheduling.engine.algorithms.get(pod.spec.scheduler_name)
            if algorithm is None:
                why = f"no profile {pod.spec.scheduler_name!r} here"
                continue
            algorithm.search.rotation = rotation
            if member.learnt and algorithm.capacities.of(pod) is None:
                state = run_synchronously(scheduling.engine.pre_filtered(pod))
                if state is not None:
                    algorithm.capacities.add(pod, state)
        return why

    def decide(self, *, may_preempt: bool) -> GroupResult:
        """Run the cycle; nobody carries out its plan of evictions."""
        cycle = GroupCycle(
            self._world.scheduling.engine,
            self._group,
            list(self.infos.values()),
            monotonic=self._world.clock.monotonic,
            take=lambda _info: None,
            on_placed=lambda _attempt: None,
            may_preempt=may_preempt,
        )
        return run_synchronously(cycle.run())

    def ended(self, result: GroupResult) -> Iterator[Attempt]:
        """Yield the attempts that have ended; of a group that was scheduled those with a node."""
        yield from result.placed
        if result.outcome.scheduled:
            return
        yield from result.failed
        for info in result.untried:
            if result.untried_failure is not None:
                yield self._world.scheduling.engine.untried(info, result.untried_failure)

    def abandon(self, result: GroupResult) -> None:
        """Take back what was assumed."""
        engine = self._world.scheduling.engine
        for attempt in reversed(result.placed):
            engine.abandon(attempt)
            engine.waiting_pods.remove(attempt.info.uid)
