"""The read side of the queue: statistics, records of pods for people, and `validate`.

Nothing here moves a pod.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.explain.records import Awaited, PodView, QueueState, QueueStatistics
from scheduler.framework.events import ActionType, ClusterEvent
from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.parts import QueueParts
from scheduler.queue.queueing_hints import Registration
from scheduler.queue.unschedulable_pods import SignatureGroup

_DEFERRED: Final = "waiting behind other namespaces: pods of this one used much CPU time lately"
_OLDEST_STEP: Final = 5_000
"""Number of pods that one step of `oldest` examines."""
_OLDEST_SPARE: Final = 1_000
"""Number of further pods that `oldest` keeps, to replace some that leave meanwhile."""


class QueueInvariantError(AssertionError):
    """An invariant of the queue is broken, see `violations`. This is a bug: please report it."""

    def __init__(self, violations: list[str]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(violations))


class QueueIntrospection(QueueParts):
    """The read side of `SchedulingQueue`."""

    def state(self, uid: str) -> QueueState | None:
        """Return the sub-queue in which a pod waits; None for other pods."""
        return self._sub_queues.state(uid)

    def queued(self, uid: str) -> QueuedPodInfo | None:
        """Return the entry of a queued pod, not to be changed; None for others."""
        return self._sub_queues.get(uid)

    def __contains__(self, uid: object) -> bool:
        return isinstance(uid, str) and self._sub_queues.state(uid) is not None

    def serves(self, pod: Pod) -> bool:
        """Whether the pod's profile exists."""
        return pod.spec.scheduler_name in self._hints.profiles

    def statistics(self) -> QueueStatistics:
        """Return counts; O(1) except for the deferred namespaces, which are few."""
        sub_queues, hints, gates = self._sub_queues, self._hints, self._pre_enqueue
        return QueueStatistics(
            active=len(sub_queues.active),
            backoff=len(sub_queues.backoff),
            backoff_errors=len(sub_queues.backoff.errors),
            unschedulable=len(sub_queues.unschedulable) - sub_queues.unschedulable.gated,
            gated=sub_queues.unschedulable.gated,
            in_flight=len(self._in_flight),
            in_flight_events=len(self._in_flight.events),
            in_flight_events_dropped=self._in_flight.dropped,
            nominated=len(self.nominator),
            scheduling_cycle=self._cycle,
            events=self._events,
            events_ignored=self._events_ignored,
            hint_calls=hints.calls,
            hint_answers_shared=hints.shared_results,
            hint_errors=hints.errors,
            pre_enqueue_runs=gates.runs,
            pre_enqueue_errors=gates.errors,
            clock_jumps=self._clock.jumps,
            closed=self._closed,
            wakeups_left=self._wakeups.backlog,
            deferred_namespaces=tuple(sorted(self._accounts.namespaces_over_limit())),
        )

    def view(self, namespace: str, name: str) -> PodView | None:
        """Return the record of one pod, queued or in flight; None for others. O(sub-queue)."""
        key = f"{namespace}/{name}"
        info = self._sub_queues.by_name(key)
        if info is not None:
            state = self._sub_queues.state(info.uid)
            assert state is not None
            return self._view(info, state, self._sub_queues.rank(info.uid))
        running = next((each for each in self._in_flight if each.key == key), None)
        return None if running is None else self._view(running, QueueState.IN_FLIGHT, None)

    def views(self, *, namespace: str = "", limit: int | None = None) -> list[PodView]:
        """Return all pods: active in order, backoff in order, unschedulable, gated, in flight.

        Only those of `namespace` if given, and at most `limit` of each state. Sorts copies.
        """
        sub_queues = self._sub_queues
        # A position counts pods of all namespaces, so selecting one needs the whole order.
        head = None if namespace else limit
        unschedulable = sub_queues.unschedulable
        sources: tuple[tuple[QueueState, Iterable[QueuedPodInfo], bool], ...] = (
            (QueueState.ACTIVE, sub_queues.active.ordered(head), True),
            (QueueState.BACKOFF, sub_queues.backoff.ordered(head), True),
            (QueueState.UNSCHEDULABLE, _members(unschedulable.groups(gated=False)), False),
            (QueueState.GATED, _members(unschedulable.groups(gated=True)), False),
            (QueueState.IN_FLIGHT, self._in_flight, False),
        )
        found: list[PodView] = []
        for state, infos, ordered in sources:
            selected = (
                (position, info)
                for position, info in enumerate(infos)
                if not namespace or info.pod.metadata.namespace == namespace
            )
            found += [
                self._view(info, state, position if ordered else None)
                for position, info in islice(selected, limit)
            ]
        return found

    def pending(self) -> list[QueuedPodInfo]:
        """Return all pods, those in flight included, in any order; not to be changed."""
        return [*self._sub_queues, *self._in_flight]

    def place(self, uid: str) -> QueueState | None:
        """Return where a pod waits; None if it does not any more."""
        found = self._sub_queues.state(uid)
        return QueueState.IN_FLIGHT if found is None and uid in self._in_flight else found

    def record(self, info: QueuedPodInfo) -> PodView | None:
        """Return the record of a pod without its position; None if it does not wait any more."""
        place = self.place(info.uid)
        return None if place is None else self._view(info, place, None)

    def awaited(self, view: PodView, pod: Pod) -> tuple[Awaited, ...]:
        """Return, by plugin that rejected or gates a pod, the events that may requeue the pod.

        Events that cannot help this pod are omitted.
        """
        if view.place in {QueueState.ACTIVE, QueueState.IN_FLIGHT}:
            return ()
        holding = {view.gating_plugin} if view.gating_plugin else {*view.unschedulable_plugins}
        holding |= set() if view.gating_plugin else {*view.pending_plugins}
        registered = self._hints.registrations(view.profile, pod)
        return tuple(
            Awaited(plugin, tuple(dict.fromkeys(_labels(registered, plugin))))
            for plugin in sorted(holding)
        )

    def oldest(self, limit: int) -> Generator[None, None, list[PodView]]:
        """Find the `limit` pods of all sub-queues that have waited longest, longest first.

        Each step of the generator takes about a millisecond, and the queue may change between
        steps: pods that leave meanwhile are omitted, and new pods are not considered.
        """
        infos = list(self._sub_queues)
        yield
        times = np.empty(len(infos))
        for start in range(0, len(infos), _OLDEST_STEP):
            part = infos[start : start + _OLDEST_STEP]
            times[start : start + len(part)] = [_waiting_since(each) for each in part]
            yield
        kept = limit + _OLDEST_SPARE
        chosen = np.arange(len(infos))
        if kept < len(infos):
            chosen = np.argpartition(times, kept)[:kept]
        order = chosen[np.argsort(times[chosen], kind="stable")].tolist()
        yield
        places = (
            (info, self._sub_queues.state(info.uid)) for info in map(infos.__getitem__, order)
        )
        waiting = ((info, place) for info, place in places if place is not None)
        return [self._view(info, place, None) for info, place in islice(waiting, limit)]

    def validate(self) -> None:
        """Raise QueueInvariantError if an invariant is broken. Slow; for tests and debugging."""
        found = self._sub_queues.violations() + self._in_flight.violations()
        found += self.nominator.violations()
        found += [
            f"pod {info.key} is in flight and in a sub-queue"
            for info in self._in_flight
            if info.uid in self
        ]
        active = self._sub_queues.active
        early = self._options.pop_from_backoff and self._sub_queues.backoff.poppable
        ready = (early and not active.held_groups) or not all(map(active.held, active))
        if self.signals.waiting_for_pod and ready:
            found.append("a pod could be popped, but on_ready was not called")
        if found:
            raise QueueInvariantError(found)

    def _view(self, info: QueuedPodInfo, state: QueueState, position: int | None) -> PodView:
        next_retry, reason = self._next_retry(info, state)
        metadata = info.pod.metadata
        return PodView(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            profile=info.pod.spec.scheduler_name,
            place=state,
            position=position,
            attempts=info.attempts,
            timestamp=info.timestamp,
            next_retry=next_retry,
            next_retry_reason=reason,
            gating_plugin=info.gating_plugin,
            message=info.last_message,
            unschedulable_plugins=tuple(sorted(info.unschedulable_plugins)),
            pending_plugins=tuple(sorted(info.pending_plugins)),
            nominated_node=self.nominator.node_of(info.uid),
            last_event=info.last_event,
            last_hint=info.last_hint,
            waiting_since=_waiting_since(info),
        )

    def _next_retry(self, info: QueuedPodInfo, state: QueueState) -> tuple[float | None, str]:
        if state is QueueState.ACTIVE:
            if self._sub_queues.active.deferred(info):
                return None, _DEFERRED
            return None, "waiting for its turn"
        if state is QueueState.BACKOFF:
            release = self._policy.release(self._policy.expiry(info))
            if info.pause:
                return release, "pause after a scheduling cycle that used too much CPU time"
            return release, "backoff" if info.rejectors else "backoff after an error"
        if state is QueueState.IN_FLIGHT:
            return None, ""
        retry = self._sub_queues.retry_time(info)
        if state is QueueState.GATED:
            if retry is None:
                return None, ""
            if info.gate_errors:
                return retry, "retry of a PreEnqueue plugin that failed"
            return retry, "requested by the gating plugin"
        longest = self._options.max_in_unschedulable
        flush = None if longest is None else info.timestamp + longest
        if retry is not None and (flush is None or retry <= flush):
            return retry, "requested by the rejecting plugin"
        return flush, "" if flush is None else "periodic flush"


def _waiting_since(info: QueuedPodInfo) -> float:
    """Return when a pod first became active, or for a gated pod when it was added."""
    first = info.initial_attempt_timestamp
    return info.timestamp if first is None else first


def _labels(registered: Iterable[Registration], plugin: str) -> Iterator[str]:
    """Yield the labels of the events that a plugin registered, one for each action."""
    for each in registered:
        if each.plugin == plugin:
            event = each.event
            for action in _single_actions(event.action_type):
                yield ClusterEvent(event.resource, action).label


def _single_actions(mask: ActionType) -> Iterator[ActionType]:
    """Yield the named actions in a mask; all updates together count as one action, Update."""
    if mask & ActionType.UPDATE == ActionType.UPDATE:
        yield from (each for each in (ActionType.ADD, ActionType.DELETE) if mask & each)
        yield ActionType.UPDATE
        mask &= ~ActionType.ALL
    yield from mask


def _members(groups: Iterable[SignatureGroup]) -> Iterator[QueuedPodInfo]:
    return (info for group in groups for info in group.members.values())
