"""GroupReservations: keeps nodes for groups that others starve, one group of a profile at a time.

A group whose attempts have failed for long enough, and before which no other one of its priority
waits longer, has its members nominated to the nodes of a plan (`engine.group_reservation`). The
filters then leave this room to it, as against pods of the same priority and of lower ones. The
plan is renewed after changes of nodes, and given up when the group is placed, cannot fit even
beside nobody else, or has had its time; the profile then has a pause that is as long.

Nominations are in memory only. They are withdrawn for each cycle of the group, which may choose any
nodes, and set again after it failed. Nothing here runs unless a group waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.api.pod import Pod
from scheduler.engine import Engine
from scheduler.engine.group_reservation import plan_reservation
from scheduler.framework import CLEAR_NOMINATION, Clock, NominatingInfo, QueuedPodInfo
from scheduler.framework.events import ASSIGNED_POD_DELETE
from scheduler.framework.grouping import GroupingPlugin, GroupReservation, GroupToSchedule
from scheduler.queue import SchedulingQueue

PLAN_SECONDS: Final = 30.0
"""Between two looks for a group that needs a reservation, and at most between two of its plans."""

MAX_DOUBLINGS: Final = 20
"""More members than a group may have."""

PLAN_COST: Final = 20.0
"""Time between plans after events, in times that the last plan took: at most 5 % of the time."""

MAX_PLANS: Final = 3
"""Groups of a profile for which a plan is tried at one time; each costs a few milliseconds."""


@dataclass(slots=True)
class _Waiting:
    """A group whose attempts fail."""

    info: QueuedPodInfo
    group: GroupToSchedule
    since: float
    #: When it was considered last, which lets others of its priority go first.
    considered: float = -1.0


@dataclass(slots=True)
class _Profile:
    """The groups of one profile."""

    waiting: dict[str, _Waiting] = field(default_factory=dict)
    #: The group with the reservation; empty for none.
    name: str = ""
    began: float = 0.0
    #: Its members with their nodes; they are nominated there, but not during its cycles.
    plan: list[tuple[Pod, str]] = field(default_factory=list)
    #: When to look again.
    due: float | None = None
    #: No reservation before.
    pause: float = 0.0
    #: No further plan before, so that plans take a small part of the time.
    not_before: float = 0.0


class GroupReservations:
    """Implements `framework.TimedWork`."""

    def __init__(self, engine: Engine, queue: SchedulingQueue, clock: Clock) -> None:
        self.on_timer: Callable[[], None] = lambda: None
        self._engine = engine
        self._queue = queue
        self._clock = clock
        self._profiles: dict[str, _Profile] = {}

    # -- cycles ----------------------------------------------------------------------------------

    def begins(self, info: QueuedPodInfo, group: GroupToSchedule) -> None:
        """Withdraw the nominations of a group whose cycle begins."""
        profile = self._profiles.get(info.pod.spec.scheduler_name)
        if profile is not None and profile.name == group.name:
            self._withdraw(profile)

    def forget(self, info: QueuedPodInfo, group: GroupToSchedule) -> None:
        """Forget a group that was placed, or waits for something else than nodes."""
        profile = self._profiles.get(info.pod.spec.scheduler_name)
        if profile is None or profile.waiting.pop(group.name, None) is None:
            return
        if profile.name == group.name:
            self._end(profile, info)
            # The next group may have its turn.
            self._look_at(profile, max(self._clock.monotonic(), profile.not_before))

    def failed(self, info: QueuedPodInfo, group: GroupToSchedule, *, evicting: bool) -> None:
        """Take note of a cycle that failed; with evictions under way the group has its room."""
        if group.alone or min(group.reserve_after, group.reserve_for) <= 0:
            return
        profile = self._profiles.setdefault(info.pod.spec.scheduler_name, _Profile())
        known = profile.waiting.get(group.name)
        now = self._clock.monotonic()
        if known is None:
            profile.waiting[group.name] = _Waiting(info, group, now)
            self._look_at(profile, now + group.reserve_after)
            return
        known.info, known.group = info, group
        if profile.name == group.name and not evicting:
            self._nominate(profile, known)

    def note_event(self) -> None:
        """Plan again soon, since nodes have changed: room that is free already is the best."""
        now = self._clock.monotonic()
        for profile in self._profiles.values():
            if profile.name and profile.plan:
                self._look_at(profile, max(now, profile.not_before))

    # -- TimedWork -------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return when a reservation may begin, change or end."""
        if not self._profiles:
            return None
        times = [each.due for each in self._profiles.values() if each.due is not None]
        return min(times, default=None)

    def run_due(self) -> None:
        """Begin, renew and end reservations."""
        now = self._clock.monotonic()
        for name, profile in list(self._profiles.items()):
            if profile.due is None or profile.due > now:
                continue
            profile.due = None
            if profile.name:
                self._renew(profile, now)
            if not profile.name:
                self._choose(profile, now)
            if not profile.waiting:
                del self._profiles[name]
                continue
            self._look_at(profile, now + PLAN_SECONDS)
            if profile.name:
                longest = profile.waiting[profile.name].group.reserve_for
                self._look_at(profile, profile.began + longest)

    def _look_at(self, profile: _Profile, due: float) -> None:
        if profile.due is None or due < profile.due:
            profile.due = due
            self.on_timer()

    def _renew(self, profile: _Profile, now: float) -> None:
        waiting = profile.waiting.get(profile.name)
        if waiting is None or not self._refresh(profile, waiting):
            self._end(profile, None if waiting is None else waiting.info)
        elif now - profile.began >= waiting.group.reserve_for:
            profile.pause = now + (now - profile.began)
            self._end(profile, waiting.info)
        else:
            self._nominate(profile, waiting)

    def _choose(self, profile: _Profile, now: float) -> None:
        """Give the reservation to the group that needs it most, if one may have it."""
        if now < profile.pause:
            return

        def rank(waiting: _Waiting) -> tuple[int, float, float]:
            return -waiting.info.pod.priority, waiting.considered, waiting.since

        plans = 0
        for waiting in sorted(profile.waiting.values(), key=rank):
            if plans == MAX_PLANS:
                return
            if now - waiting.since < waiting.group.reserve_after:
                continue
            if not self._refresh(profile, waiting):
                continue
            plans += 1
            waiting.considered = now
            profile.name, profile.began = waiting.group.name, now
            self._nominate(profile, waiting)
            if profile.name:
                return

    def _refresh(self, profile: _Profile, waiting: _Waiting) -> bool:
        """Read the group anew; False, and forget it, if it does not wait any more."""
        queue = self._queue
        members = (queue.waiting(uid) for uid in (waiting.info.uid, *waiting.group.members))
        info = next((each for each in members if each is not None), None)
        grouping = self._grouping(waiting.info)
        group = None if info is None or grouping is None else grouping.group_to_schedule(info.pod)
        if info is None or group is None:
            del profile.waiting[waiting.group.name]
            return False
        waiting.info, waiting.group = info, group
        return True

    # -- nominations -----------------------------------------------------------------------------

    def _nominate(self, profile: _Profile, waiting: _Waiting) -> None:
        """Plan, and nominate the members; end the reservation if there is no plan."""
        members = map(self._queue.waiting, waiting.group.members)
        infos = [each for each in members if each is not None and not each.pod.terminating]
        need = waiting.group.need
        began = self._clock.monotonic()
        plan = None
        if len(infos) >= need:
            draining = _draining(began - profile.began)
            plan = plan_reservation(self._engine, waiting.group, infos, draining)
        if plan is None:
            self._end(profile, waiting.info)
            return
        freed = self._apply(profile, plan)
        ended = self._clock.monotonic()
        profile.not_before = ended + (ended - began) * PLAN_COST
        self._let_in(freed)
        until = profile.began + waiting.group.reserve_for
        priority = min(pod.priority for pod, _ in plan)
        nodes = tuple(dict.fromkeys(node for _, node in plan))
        self._report(waiting.info, GroupReservation(nodes, len(plan), priority, until))

    def _apply(self, profile: _Profile, plan: list[tuple[Pod, str]]) -> list[tuple[Pod, str]]:
        """Nominate as planned; return the nominations that were withdrawn.

        Members of one kind change places so that as many as possible keep theirs.
        """
        nominator = self._queue.nominator
        places: dict[int, Counter[str]] = {}
        for pod, node in plan:
            places.setdefault(id(pod.signature), Counter())[node] += 1
        planned = {pod.uid: id(pod.signature) for pod, _ in plan}
        kept: dict[str, str] = {}
        freed: list[tuple[Pod, str]] = []
        for pod, node in profile.plan:
            wanted = places.get(planned.get(pod.uid, 0))
            if wanted is not None and wanted[node] and nominator.node_of(pod.uid) == node:
                wanted[node] -= 1
                kept[pod.uid] = node
            else:
                freed.append((pod, node))
        nodes = {kind: wanted.elements() for kind, wanted in places.items()}
        profile.plan = []
        for pod, _ in plan:
            node = kept[pod.uid] if pod.uid in kept else next(nodes[id(pod.signature)])
            if nominator.node_of(pod.uid) != node:
                nominator.add_nominated_pod(pod, NominatingInfo(node))
            profile.plan.append((pod, node))
        for pod, _ in freed:
            if pod.uid not in planned:
                nominator.add_nominated_pod(pod, CLEAR_NOMINATION)
        return freed

    def _withdraw(self, profile: _Profile) -> None:
        nominator = self._queue.nominator
        for pod, node in profile.plan:
            if nominator.node_of(pod.uid) == node:
                nominator.add_nominated_pod(pod, CLEAR_NOMINATION)

    def _end(self, profile: _Profile, info: QueuedPodInfo | None) -> None:
        """End the reservation, and let those try that it kept away."""
        freed = profile.plan
        self._withdraw(profile)
        profile.name, profile.plan = "", []
        if info is not None:
            self._report(info, None)
        self._let_in(freed)

    def _let_in(self, freed: list[tuple[Pod, str]]) -> None:
        """Let those try that nominations kept away."""
        # One of each kind: which resources are free again is all that hints ask for.
        for pod, node in {id(pod.signature): (pod, node) for pod, node in freed}.values():
            left = msgspec.structs.replace(pod.status, nominated_node_name=node)
            old = msgspec.structs.replace(pod, status=left)
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, old, None)

    def _report(self, info: QueuedPodInfo, reservation: GroupReservation | None) -> None:
        grouping = self._grouping(info)
        report = getattr(grouping, "group_reserved", None)
        if report is not None:
            report(info.pod, reservation)

    def _grouping(self, info: QueuedPodInfo) -> GroupingPlugin | None:
        return self._engine.grouping.get(info.pod.spec.scheduler_name)


def _draining(seconds: float) -> int:
    """Return for how many members room is kept that other pods must leave first."""
    return 1 << min(int(seconds / PLAN_SECONDS), MAX_DOUBLINGS)
