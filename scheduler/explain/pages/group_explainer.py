"""GroupExplainer: explains one pod group, with data of the plugin, the engine and the queue.

It runs on the event loop between cycles, and has no side effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from scheduler.api.pod import Pod
from scheduler.engine import Engine
from scheduler.explain.examining.group_examination import GroupExamination
from scheduler.explain.records import (
    GroupExplanation,
    GroupMembers,
    GroupPlan,
    GroupRoom,
    NextGroupAttempt,
    QueueState,
)
from scheduler.framework import Clock, QueuedPodInfo
from scheduler.framework.grouping import GroupDetails, GroupingPlugin, GroupReservation
from scheduler.groups.running.scheduling import GroupScheduling
from scheduler.queue import SchedulingQueue

EXAMPLES: Final = 5
"""Maximum number of nodes, and of victims, to name."""

MAX_VIEWED: Final = 8
"""Maximum number of members to examine, since most members in one state wait for the same."""

HELD: Final = "its members may be tried; now: {why}"
IN_CYCLE: Final = "its members are being bound"
ACTIVE: Final = "it is in the active queue"
BACKOFF: Final = "its backoff ends"
EVICTIONS: Final = "pods that are evicted for it have left"
ROOM: Final = "all nodes together have room for {need} of its pods; now for {possible} at most"
DOMAIN_ROOM: Final = (
    "one domain of {key} has room for {need} of its pods; now for {possible} at most"
)
EVENTS: Final = "an event that may help a pod that {plugins} rejected"


class GroupExplainer:
    """Explains the groups of one process."""

    def __init__(
        self,
        engine: Engine,
        queue: SchedulingQueue,
        groups: GroupScheduling,
        plugins: Callable[[], Iterable[GroupingPlugin]],
        *,
        clock: Clock,
    ) -> None:
        """`plugins` returns the grouping plugins."""
        self._engine = engine
        self._queue = queue
        self._groups = groups
        self._plugins = plugins
        self._clock = clock

    def named(self, namespace: str, name: str) -> tuple[GroupExplanation, ...]:
        """Explain all groups of a name: none, one, or one per group API."""
        found: dict[str, GroupDetails] = {}
        for plugin in self._plugins():
            for each in plugin.group_details(namespace, name):
                found.setdefault(each.view.source, each)
        return tuple(map(self._explain, found.values()))

    def of_pod(self, pod: Pod) -> GroupExplanation | None:
        """Explain the group of a pod, if it is in one."""
        for plugin in self._plugins():
            found = plugin.group_of(pod)
            if found is not None:
                return self._explain(found)
        return None

    # -- one group -------------------------------------------------------------------------------

    def _explain(self, group: GroupDetails) -> GroupExplanation:
        infos = [each for each in map(self._queue.queued, group.pending) if each is not None]
        ours = [each for each in infos if each.pod.spec.scheduler_name in self._engine.frameworks]
        rooms = GroupExamination(self._engine, ours, clock=self._clock).rooms(group.topology)
        plan = self._plan(group)
        return GroupExplanation(
            view=group.view,
            need=group.need,
            rules=group.rules,
            members=tuple(self._named_members(group.members)),
            attempt=group.attempt,
            next=self._next(group, infos, plan),
            templates=rooms.templates,
            more_templates=rooms.more_templates,
            topology=rooms.topology,
            plan=plan,
            reservation=self._kept(group.reservation),
        )

    def _named_members(self, members: Iterable[GroupMembers]) -> Iterator[GroupMembers]:
        for each in members:
            names = (self._name_of(uid) for uid in each.examples)
            yield replace(each, examples=tuple(filter(None, names)))

    def _name_of(self, uid: str) -> str:
        """Return the name of a pod that has a node or is in the queue; empty for others."""
        queued = self._queue.queued(uid)
        pod = self._engine.cache.get_pod(uid) if queued is None else queued.pod
        return "" if pod is None else pod.metadata.name

    def _plan(self, group: GroupDetails) -> GroupPlan | None:
        victims, until = self._groups.evictions.left(group.name)
        if not victims:
            return None
        nominated = (self._queue.nominator.node_of(uid) for uid in group.pending)
        nodes = islice(dict.fromkeys(each for each in nominated if each), EXAMPLES)
        keys = (f"{each.metadata.namespace}/{each.metadata.name}" for each in victims)
        examples = tuple(islice(keys, EXAMPLES))
        return GroupPlan(len(victims), examples, tuple(nodes), self._wall(until))

    def _kept(self, reservation: GroupReservation | None) -> GroupRoom | None:
        if reservation is None:
            return None
        nodes = reservation.nodes
        return GroupRoom(
            members=reservation.members,
            nodes=len(nodes),
            examples=nodes[:EXAMPLES],
            priority=reservation.priority,
            until=reservation.until,
        )

    def _wall(self, monotonic: float) -> float:
        return self._clock.now() + monotonic - self._clock.monotonic()

    # -- the next attempt ------------------------------------------------------------------------

    def _next(
        self, group: GroupDetails, infos: Sequence[QueuedPodInfo], plan: GroupPlan | None
    ) -> NextGroupAttempt | None:
        """Return what the group waits for; an attempt at any member tries the whole group."""
        if group.held:
            return NextGroupAttempt(HELD.format(why=group.held.removeprefix(f"{group.name}: ")))
        by_state: dict[QueueState | None, list[QueuedPodInfo]] = {}
        for info in infos:
            by_state.setdefault(self._queue.state(info.uid), []).append(info)
        if not infos:
            return NextGroupAttempt(IN_CYCLE) if group.pending or group.view.reserved else None
        if QueueState.ACTIVE in by_state:
            return NextGroupAttempt(ACTIVE, self._clock.now())
        if QueueState.BACKOFF in by_state:
            return NextGroupAttempt(BACKOFF, self._retry(by_state[QueueState.BACKOFF]))
        waiting = by_state.get(QueueState.UNSCHEDULABLE, [])
        retry = self._retry(waiting)
        if plan is not None:
            return NextGroupAttempt(EVICTIONS, retry)
        bound = self._groups.waiting.bound_of(group.pending)
        if bound is not None:
            text = ROOM if bound.within is None else DOMAIN_ROOM
            key = "" if bound.within is None else bound.within.key
            possible = bound.possible(exact=True)
            return NextGroupAttempt(text.format(need=bound.need, possible=possible, key=key), retry)
        plugins = {name for each in waiting for name in each.unschedulable_plugins}
        plugins |= {name for each in waiting for name in each.pending_plugins}
        return NextGroupAttempt(EVENTS.format(plugins=", ".join(sorted(plugins))), retry)

    def _retry(self, infos: Sequence[QueuedPodInfo]) -> float | None:
        """Return when any of the members is retried even without an event."""
        # Members with the most rejectors are those that the other members wait for.
        some = sorted(infos, key=lambda each: -len(each.unschedulable_plugins))[:MAX_VIEWED]
        pods = (each.pod.metadata for each in some)
        views = (self._queue.view(each.namespace, each.name) for each in pods)
        times = [each.next_retry for each in views if each is not None]
        return min((each for each in times if each is not None), default=None)
