"""GroupReservations: reserves nodes for starved groups, for one group of a profile at a time.

If the attempts at a group have failed for long enough, and no other group of its priority waits
longer, its members are nominated to the nodes of a plan (`groups.cycles.reservation`). The filters
then reserve this room against pods of the same or a lower priority. The plan is renewed after
changes of nodes. It ends when the group is placed, cannot fit even on emptied nodes, or has had its
maximum time; the profile then pauses for the same time.

A group that holds nodes and cannot run (`GroupToSchedule.holds_nodes`) does not wait for that: it
gets the reservation after its first failure, also in place of another group of its priority.

A new leader has no reservations. It counts the time since the API server shows a member as
unschedulable, so that a group that has waited long enough gets a reservation after its first cycle.

The nominations are in memory only. They are withdrawn for each cycle of the group, which may choose
any nodes, and set again if it fails. There is no overhead unless a group waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.api.meta import parse_time
from scheduler.api.pod import Pod
from scheduler.engine import Engine
from scheduler.engine.failure import REASON_UNSCHEDULABLE
from scheduler.framework import CLEAR_NOMINATION, Clock, NominatingInfo, QueuedPodInfo
from scheduler.framework.events import ASSIGNED_POD_DELETE
from scheduler.framework.grouping import GroupingPlugin, GroupReservation, GroupToSchedule
from scheduler.groups.cycles.reservation import plan_reservation
from scheduler.queue import SchedulingQueue

PLAN_SECONDS: Final = 30.0
"""Seconds between two searches for a group to reserve for, and maximum between two plans."""

MAX_DOUBLINGS: Final = 20
"""Maximum number of doublings in `_draining`; 2 to this power exceeds `MAX_MEMBERS`."""

PLAN_COST: Final = 20.0
"""Minimum time between plans, in durations of the last plan: at most 5 % of the time."""

MAX_PLANS: Final = 3
"""Maximum number of groups of a profile to plan for at once; each costs a few milliseconds."""


@dataclass(slots=True)
class _Waiting:
    """A group whose attempts have failed."""

    info: QueuedPodInfo
    group: GroupToSchedule
    since: float
    #: Time when it was last considered; others of its priority then go first.
    considered: float = -1.0


@dataclass(slots=True)
class _Profile:
    """The waiting groups and the reservation of one profile."""

    waiting: dict[str, _Waiting] = field(default_factory=dict)
    #: Name of the group with the reservation; empty: none.
    name: str = ""
    began: float = 0.0
    #: End of the reservation at the latest, in seconds since the epoch, for people.
    until: float = 0.0
    #: The members of that group with their nodes; they are nominated except during its cycles.
    plan: list[tuple[Pod, str]] = field(default_factory=list)
    #: Time of the next check.
    due: float | None = None
    #: Time before which no reservation begins.
    pause: float = 0.0
    #: Time before which no further plan is made, to limit the time that plans take.
    not_before: float = 0.0
    #: Whether a group that holds nodes has failed, so that it may take over the reservation.
    claimed: bool = False


class GroupReservations:
    """Implements `framework.TimedWork`."""

    def __init__(
        self, engine: Engine, queue: SchedulingQueue, clock: Clock, wake: Callable[[], None]
    ) -> None:
        self._wake = wake
        self._engine = engine
        self._queue = queue
        self._clock = clock
        self._profiles: dict[str, _Profile] = {}

    # -- cycles ----------------------------------------------------------------------------------

    def begins(self, info: QueuedPodInfo, group: GroupToSchedule) -> None:
        """Withdraw the nominations of a group at the start of its cycle."""
        profile = self._profiles.get(info.pod.spec.scheduler_name)
        if profile is not None and profile.name == group.name:
            self._withdraw(profile)

    def forget(self, info: QueuedPodInfo, group: GroupToSchedule) -> None:
        """Drop a group that was placed, or that waits for something other than nodes."""
        profile = self._profiles.get(info.pod.spec.scheduler_name)
        if profile is None or profile.waiting.pop(group.name, None) is None:
            return
        if profile.name == group.name:
            self._end(profile, info)
            # Another group may now get the reservation.
            self._look_at(profile, max(self._clock.monotonic(), profile.not_before))

    def failed(self, info: QueuedPodInfo, group: GroupToSchedule, *, evicting: bool) -> None:
        """Handle a failed cycle; with `evicting`, evictions already make room for the group."""
        if group.alone or min(group.reserve_after, group.reserve_for) <= 0:
            return
        profile = self._profiles.setdefault(info.pod.spec.scheduler_name, _Profile())
        known = profile.waiting.get(group.name)
        now = self._clock.monotonic()
        if group.holds_nodes and profile.name != group.name and not evicting:
            profile.claimed = True
            self._look_at(profile, now)
        if known is None:
            since = now - min(_waited(info, self._clock.now()), group.reserve_after)
            profile.waiting[group.name] = _Waiting(info, group, since)
            self._look_at(profile, since + group.reserve_after)
            return
        known.info, known.group = info, group
        if profile.name == group.name and not evicting:
            self._nominate(profile, known)

    def note_event(self) -> None:
        """Plan again soon after a change of nodes, since room that is already free is the best."""
        now = self._clock.monotonic()
        for profile in self._profiles.values():
            if profile.name and profile.plan:
                self._look_at(profile, max(now, profile.not_before))

    # -- TimedWork -------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return the time at which a reservation may begin, change or end."""
        earliest = None
        for each in self._profiles.values():
            if each.due is not None and (earliest is None or each.due < earliest):
                earliest = each.due
        return earliest

    def run_due(self) -> None:
        """Begin, renew and end reservations."""
        now = self._clock.monotonic()
        for name, profile in list(self._profiles.items()):
            if profile.due is None or profile.due > now:
                continue
            profile.due = None
            if profile.claimed:
                self._yield(profile)
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
            self._wake()

    def _yield(self, profile: _Profile) -> None:
        """End the reservation if a group that holds nodes needs it more."""
        profile.claimed = False
        current = profile.waiting.get(profile.name)
        if (
            current is not None
            and not current.group.holds_nodes
            and any(
                each.group.holds_nodes and each.info.pod.priority >= current.info.pod.priority
                for each in profile.waiting.values()
            )
        ):
            self._end(profile, current.info)

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
        """Give the reservation to the group that needs it most, if any is eligible."""
        pauses = now < profile.pause

        def rank(waiting: _Waiting) -> tuple[int, bool, float, float]:
            holds_nodes = waiting.group.holds_nodes
            return -waiting.info.pod.priority, not holds_nodes, waiting.considered, waiting.since

        plans = 0
        for waiting in sorted(profile.waiting.values(), key=rank):
            if plans == MAX_PLANS:
                return
            # The pause is for other groups and single pods; one that holds nodes had no turn yet.
            urgent = waiting.group.holds_nodes and waiting.considered < 0
            if not urgent and (pauses or now - waiting.since < waiting.group.reserve_after):
                continue
            if not self._refresh(profile, waiting):
                continue
            plans += 1
            waiting.considered = now
            profile.name, profile.began = waiting.group.name, now
            profile.until = self._clock.now() + waiting.group.reserve_for
            self._nominate(profile, waiting)
            if profile.name:
                return

    def _refresh(self, profile: _Profile, waiting: _Waiting) -> bool:
        """Update the data of a group; if it no longer waits, drop it and return False."""
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
        priority = min(pod.priority for pod, _ in plan)
        nodes = tuple(dict.fromkeys(node for _, node in plan))
        self._report(waiting.info, GroupReservation(nodes, len(plan), priority, profile.until))

    def _apply(self, profile: _Profile, plan: list[tuple[Pod, str]]) -> list[tuple[Pod, str]]:
        """Nominate members according to `plan`; return the nominations that were withdrawn.

        Equal members are interchanged, so that as many as possible keep their nominations.
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
        """End the reservation, and requeue pods that it kept from these nodes."""
        freed = profile.plan
        self._withdraw(profile)
        profile.name, profile.plan = "", []
        if info is not None:
            self._report(info, None)
        self._let_in(freed)

    def _let_in(self, freed: list[tuple[Pod, str]]) -> None:
        """Requeue pods that these nominations kept from their nodes."""
        # One event per kind of pod is enough, since hints only read which resources became free.
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


def _waited(info: QueuedPodInfo, now: float) -> float:
    """Return for how long another leader had tried a pod before its first attempt here, seconds."""
    if info.attempts > 1:
        return 0.0
    for each in info.pod.status.conditions:
        if each.type == "PodScheduled" and each.reason == REASON_UNSCHEDULABLE:
            since = parse_time(each.last_transition_time or "")
            return 0.0 if since is None else max(now - since, 0.0)
    return 0.0


def _draining(seconds: float) -> int:
    """Return for how many members to reserve room that other pods still use."""
    return 1 << min(int(seconds / PLAN_SECONDS), MAX_DOUBLINGS)
