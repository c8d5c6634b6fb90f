"""SchedulingQueue: decides which pod is scheduled next, and when a rejected pod is retried.

A pod enters the active queue through PreEnqueue, is popped, and is then in flight until `done`. If
its attempt fails, it waits in the backoff queue (if an event helped it meanwhile, or the attempt
ended in an error) or among the unschedulable pods, until an event that one of its rejectors
registered, a requested time, or the periodic flush moves it.

Invariants, checked by `validate`: a pod is in one sub-queue or in flight, never in two of them;
gated pods are unschedulable pods; events are kept for in-flight pods only as long as they matter.

Pure: no asyncio, no threads, and no clock but the injected one. One event loop owns the queue;
operations never suspend, so upstream's locks are not needed. Behaves like
scheduling_queue.go: PriorityQueue; docs/differences.md lists the differences.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Final

from scheduler.api.pod import Pod
from scheduler.explain.records import QueueState
from scheduler.framework.events import (
    FORCE_ACTIVATE,
    PROFILES_REPLACED,
    TIME_TICK,
    UNSCHEDULED_POD_ADD,
    ActionType,
    ClusterEvent,
    EventResource,
)
from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.cluster_events import pod_events
from scheduler.queue.in_flight import InFlightEvent, PreCheck
from scheduler.queue.parts import QueueProfiles
from scheduler.queue.queueing_hints import AFTER_BACKOFF, SKIP
from scheduler.queue.snapshots import QueueSnapshots
from scheduler.queue.sub_queues import UNSCHEDULABLE_STATES
from scheduler.queue.wakeups import DUE_NOW, UNKNOWN_EVENTS

SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
REQUEUE_AFTER: Final = "RequeueAfter"
_POD_ADD: Final = UNSCHEDULED_POD_ADD.label


class AlreadyQueuedError(ValueError):
    """A pod whose attempt failed is already in a sub-queue."""


def _takes_room(event: ClusterEvent) -> bool:
    """Whether an event cannot leave more room on any node: a pod was added to one."""
    return event.resource is EventResource.ASSIGNED_POD and event.action_type is ActionType.ADD


class SchedulingQueue(QueueSnapshots):
    """All pending pods of our profiles; `QueueParts` documents the arguments."""

    def __len__(self) -> int:
        """Return the number of pods in the sub-queues; those in flight do not count."""
        return len(self._sub_queues)

    # ------------------------------------------------------------------- informer: pods of our own

    def add(self, pod: Pod) -> None:
        """Queue a new pending pod. A known pod is updated instead."""
        known = self._sub_queues.by_name(pod.key) or self._in_flight.get(pod.metadata.uid)
        if known is not None:
            self.update(known.pod, pod)
        else:
            self._queue_new(pod, _POD_ADD)

    def update(self, old: Pod | None, new: Pod) -> None:
        """Replace the object of a pending pod, and requeue the pod if a hint returns Queue."""
        if old is not None and old.uid != new.uid:
            self.delete(old)
            self.add(new)
            return
        queued = self._sub_queues.by_name(new.key)
        if queued is not None and queued.uid != new.uid:
            self.delete(queued.pod)
            queued = None
        running = self._in_flight.get(new.uid)
        if running is not None:
            self._update_in_flight(old or running.pod, new)
        elif queued is not None:
            self._update_queued(queued, old or queued.pod, new)
        else:
            self._queue_new(new, _POD_ADD)

    def delete(self, pod: Pod) -> None:
        """Forget a pod that was deleted or bound. A running attempt calls `done` itself."""
        self.nominator.forget(pod)
        queued = self._sub_queues.by_name(pod.key)
        if queued is not None and queued.uid == pod.uid:
            self._sub_queues.remove(queued)
            self._sub_queues.count_rejectors(queued, -1)
            self._readmissions.discard(pod.uid)
            self._wakeups.forget(pod.uid)

    def _queue_new(self, pod: Pod, label: str) -> None:
        now = self._clock.now()
        self._mover.move_to_active(QueuedPodInfo(pod, now), label, now=now)

    def _update_in_flight(self, old: Pod, new: Pod) -> None:
        only = frozenset((new.uid,))
        for event in pod_events(new, old, self._options.features):
            subscription = self._hints.subscription(event)
            if subscription.plugins:
                self._in_flight.record(
                    InFlightEvent(event, old, new, subscription.label, only=only)
                )
        self.nominator.update_nominated_pod(old, new)

    def _update_queued(self, info: QueuedPodInfo, old: Pod, new: Pod) -> None:
        postponed = self._wakeups.is_postponed(new.uid)
        info.pod = new
        if info.pause and old.spec != new.spec:
            # The pause was for the cost of scheduling the old spec.
            info.pause, info.backoff_expiration = 0.0, None
            self.signals.due(self._policy.release(self._policy.expiry(info)))
        self._mover.refresh(info)
        self.nominator.update_nominated_pod(old, new)
        if self._sub_queues.state(new.uid) not in UNSCHEDULABLE_STATES:
            return
        if postponed:
            # `refresh` may have moved the pod out of the group whose events are postponed.
            self._mover.requeue(info, AFTER_BACKOFF, UNKNOWN_EVENTS)
            return
        requeued = False
        for event in pod_events(new, old, self._options.features):
            subscription = self._hints.subscription(event)
            if not subscription.plugins:
                continue
            update = InFlightEvent(event, old, new, subscription.label)
            decision = self._hints.evaluate(update, info, None)
            # A hint may call the queue and move the pod.
            if decision is SKIP or self._sub_queues.unschedulable.get(new.uid) is not info:
                continue
            state = self._mover.requeue(info, decision, subscription.label)
            if state not in UNSCHEDULABLE_STATES:
                return
            requeued = True
        if info.gated and not requeued and old.spec.scheduling_gates != new.spec.scheduling_gates:
            # Removing one of several gates is not an event, but the message must list the others.
            self.recheck((new.uid,))

    # ------------------------------------------------------------------------- scheduling attempts

    def pop(self) -> QueuedPodInfo | None:
        """Take out the next pod to schedule, in flight from now on; None when there is none.

        Also None when many pods of deferred namespaces had to be set aside first; `on_ready` is
        then called at once. Members of groups of which `recheck` has some left are not popped.
        """
        info = self._sub_queues.pop(self._retry_suppressor, early=self._options.pop_from_backoff)
        if info is not None and self._readmissions and info.uid in self._readmissions:
            info = self._readmitted(info)
        if info is None:
            self.signals.waiting_for_pod = True
            if self._sub_queues.active.pop_again:
                self.signals.ready()
            return None
        self._start_attempt(info)
        return info

    def queued(self, uid: str) -> QueuedPodInfo | None:
        """Return the record of a pod that waits in a sub-queue."""
        return self._sub_queues.get(uid)

    def waiting(self, uid: str) -> QueuedPodInfo | None:
        """Return the record of a pod that waits in a sub-queue and that no plugin gates."""
        info = self.queued(uid)
        return None if info is None or info.gated else info

    def pop_member(self, info: QueuedPodInfo) -> None:
        """Take out a `waiting` pod, even in backoff, for an attempt together with its group."""
        self._sub_queues.remove(info)
        self._readmissions.discard(info.uid)
        info.popped_early = False
        self._start_attempt(info)

    def _start_attempt(self, info: QueuedPodInfo) -> None:
        info.attempts += 1
        self._cycle += 1
        self._in_flight.start(info)
        self._retry_suppressor.attempt_started(info.uid)
        if info.unschedulable_plugins or info.pending_plugins:
            self._sub_queues.count_rejectors(info, -1)

    def _readmitted(self, info: QueuedPodInfo | None) -> QueuedPodInfo | None:
        """Return `info` or the next pod that the PreEnqueue plugins of its new profile admit.

        None if there is no other pod, or if the time slice is over; `on_ready` is then called.
        """
        time_slice = self._wakeups.time_slice()
        while info is not None and info.uid in self._readmissions:
            self._readmissions.remove(info.uid)
            if not self._mover.run_pre_enqueue(info):
                break
            self._mover.move_to_unschedulable(info, PROFILES_REPLACED.label)
            if time_slice.over():
                self.signals.waiting_for_pod = True
                self.signals.ready()
                return None
            info = self._sub_queues.pop(
                self._retry_suppressor, early=self._options.pop_from_backoff
            )
        return info

    def done(self, uid: str) -> None:
        """End a pod's attempt, or the part of it for which events matter. Idempotent."""
        self._retry_suppressor.attempt_finished(uid)
        self._in_flight.finish(uid)

    def add_unschedulable_if_not_present(self, info: QueuedPodInfo) -> QueueState:
        """Queue a popped pod whose attempt failed, end the attempt, and return where it waits.

        The failure handler has put the newest object, the rejecting plugins, `last_message`,
        `requeue_at` and `post_filter` into the record; no rejecting plugin means that the attempt
        ended in an error.

        Raises AlreadyQueuedError if the pod is in a sub-queue.
        """
        try:
            queued = self._sub_queues.by_name(info.key)
            if queued is not None:
                state = self._sub_queues.state(queued.uid)
                # These are upstream's texts; only this one has no article.
                waits = state in UNSCHEDULABLE_STATES
                where = "unschedulable queue" if waits else f"the {state} queue"
                raise AlreadyQueuedError(f"Pod {info.key} is already present in {where}")
            rejected = bool(info.unschedulable_plugins or info.pending_plugins)
            if rejected:
                info.unschedulable_count += 1
                info.consecutive_errors_count = 0
            else:
                info.consecutive_errors_count += 1
            info.timestamp = self._clock.now()
            info.backoff_expiration = None
            info.was_flushed_from_unschedulable = False
            self._sub_queues.count_rejectors(info, 1)
            self._retry_suppressor.attempt_rejected(info)
            decision, label = AFTER_BACKOFF, ""
            events = self._in_flight.events_for(info.uid)
            if rejected and events is not None:
                decision, label = self._hints.evaluate_missed(events, info)
            state = self._mover.requeue(info, decision, SCHEDULE_ATTEMPT_FAILURE)
            info.last_event, info.last_hint = label or SCHEDULE_ATTEMPT_FAILURE, decision.plugin
            return state
        finally:
            self.done(info.uid)

    def charge(self, namespace: str, seconds: float) -> bool:
        """Charge the CPU time of an attempt to the pod's namespace.

        A namespace with many expensive attempts is deferred: its pods are popped after all others
        for a while. Returns whether that begins now.
        """
        return self._accounts.charge(namespace, seconds)

    def defer_groups(self, seconds: float) -> None:
        """Defer pods in groups for `seconds`; see `accounts`."""
        self._accounts.defer_groups(seconds)

    def recognize_groups(
        self,
        group_name: Callable[[Pod], str | None],
        ahead_of: Callable[[QueuedPodInfo], str | None] | None,
    ) -> None:
        """Use functions of constant time: in which groups pods are, and which go before others.

        `ahead_of` returns the UID of an active pod that must be popped before another one.
        """
        self._sub_queues.active.group_name = group_name
        self._sub_queues.active.ahead_of = ahead_of

    # ---------------------------------------------------------- events that move unschedulable pods

    def move_all_to_active_or_backoff(
        self, event: ClusterEvent, old: Any, new: Any, pre_check: PreCheck | None = None
    ) -> int:
        """Requeue the unschedulable pods that a cluster event may help, according to their hints.

        Pods for which `pre_check` returns False are excluded, also if in flight. Returns the number
        of pods moved; work beyond a time slice is left to `run_due`.
        """
        self._events += 1
        if self.signals.on_room.listeners and not _takes_room(event):
            self.signals.on_room()
        subscription = self._hints.subscription(event)
        if not subscription.plugins and not subscription.wildcard:
            self._events_ignored += 1
            return 0
        self._end_suppression()
        if not self._in_flight and not self._sub_queues.unschedulable.may_move(
            subscription, old if new is None else new
        ):
            return 0
        happened = InFlightEvent(event, old, new, subscription.label, pre_check)
        self._in_flight.record(happened)
        return self._wakeups.start(happened, subscription)

    def helped_by(self, event: ClusterEvent, old: Any, new: Any) -> Callable[[str, Pod], bool]:
        """Return `helps(plugin, pod)`: whether a hint of the plugin returns Queue for the event."""
        happened = InFlightEvent(event, old, new, event.label)
        return partial(self._hints.helps, happened)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pods to the active queue now, regardless of backoff; gated pods stay gated."""
        self._end_suppression()
        label = FORCE_ACTIVATE.label
        for pod in pods:
            info, state = self._sub_queues.get(pod.uid), self._sub_queues.state(pod.uid)
            if info is not None and state is not QueueState.ACTIVE:
                from_backoff = state is QueueState.BACKOFF
                state = self._mover.move_to_active(info, label, from_backoff=from_backoff)
                if state is QueueState.ACTIVE:
                    continue
            if pod.uid in self._in_flight:
                only = frozenset((pod.uid,))
                self._in_flight.record(InFlightEvent(FORCE_ACTIVATE, None, pod, label, only=only))

    def recheck(self, uids: Iterable[str]) -> None:
        """Run PreEnqueue again for queued pods, which may ungate or gate them.

        Work beyond a time slice is left to `run_due`. Until it is done for all members of a group
        in `uids`, none of them is popped: a part of a group would seem to be all of it.
        """
        self._end_suppression()
        self._wakeups.recheck(uids)

    def wake(self, uids: Iterable[str], plugin: str, event_label: str) -> int:
        """Requeue pods that `plugin` rejected, on its own request.

        Pods that another plugin gates, or that `plugin` did not reject, are ignored. For pods in
        flight it takes effect when their attempt fails. Returns the number of pods moved.
        """
        self._end_suppression()
        concerned = frozenset(uids)
        event = ClusterEvent("", ActionType.NONE, event_label)
        request = InFlightEvent(event, None, None, event_label, only=concerned, plugin=plugin)
        if any(uid in self._in_flight for uid in concerned):
            self._in_flight.record(request)
        moved = 0
        for uid in sorted(concerned):
            info = self._sub_queues.unschedulable.get(uid)
            if info is None or (info.gated and info.gating_plugin != plugin):
                continue
            decision = self._hints.evaluate(request, info, None)
            if decision is not SKIP:
                state = self._mover.requeue(info, decision, event_label)
                moved += state not in UNSCHEDULABLE_STATES
        return moved

    def _end_suppression(self) -> None:
        """Allow early retries of suppressed pods after an event, now or in the next round."""
        if self._retry_suppressor.event_happened(self._clock.now):
            self._release_suppressed()
        elif self._options.pop_from_backoff and self._retry_suppressor.due is not None:
            self.signals.due(self._retry_suppressor.due)

    def _release_suppressed(self) -> None:
        if not self._sub_queues.backing_off:
            return
        if self._options.pop_from_backoff and self._sub_queues.backoff.release():
            self.signals.ready()

    # ----------------------------------------------------------------------------- other profiles

    def replace_profiles(self, profiles: QueueProfiles, changed: Collection[str]) -> list[Pod]:
        """Use other plugins from now on; every pod keeps its history.

        Pods of `changed` profiles (with changed PreEnqueue plugins or registrations) are retried
        when their backoff ends: unschedulable and gated pods in slices, pods in flight if their
        attempt fails. PreEnqueue runs again before such a pod is popped.

        Returns the pods whose profile no longer exists; unless in flight, they are dropped.
        """
        gone = self._hints.profiles - profiles.hints.keys()
        self._hints.replace(profiles.hints)
        self._pre_enqueue.replace(profiles.pre_enqueue)
        self._timetable.time_plugins = self._hints.subscription(TIME_TICK).plugins
        strangers = [
            info.pod
            for info in (self._sub_queues if gone else ())
            if info.pod.spec.scheduler_name in gone
        ]
        for pod in strangers:
            self.delete(pod)
        if profiles.sort_key is not None:
            self._mover.sort_by(profiles.sort_key, PROFILES_REPLACED.label)
        self._readmissions.update(
            info.uid
            for infos in (self._sub_queues.active, self._sub_queues.backoff)
            for info in infos
            if info.pod.spec.scheduler_name in changed
        )
        replaced = InFlightEvent(PROFILES_REPLACED, None, None, PROFILES_REPLACED.label)
        self._in_flight.record(replaced)
        self._end_suppression()
        self._wakeups.move_all(self._sub_queues.unschedulable.retire(changed), replaced)
        return strangers

    def replace_backoff(self, *, initial: float, maximum: float) -> None:
        """Use other backoff durations, in seconds, for failures from now on."""
        self._policy.initial, self._policy.maximum = initial, maximum

    # ---------------------------------------------------------------------------------------- time

    def next_wakeup(self) -> float | None:
        """Return the wall clock time at which `run_due` has work; None when never."""
        timed = self._sub_queues.inactive or self._wakeups.backlog
        if timed or self._retry_suppressor.due is not None:
            self._clock.now()  # Detects a jump back, which shifts the times below.
        wakeup = self._retry_suppressor.due
        if timed:
            for due in (
                self._sub_queues.next_due(),
                self._timetable.next(self._sub_queues.unschedulable),
                DUE_NOW if self._wakeups.backlog else None,
            ):
                if due is not None and (wakeup is None or due < wakeup):
                    wakeup = due
        self.signals.armed(wakeup)
        return wakeup

    def run_due(self) -> None:
        """Do the work whose time has come; work beyond a time slice remains due."""
        now = self._clock.now()
        if self._sub_queues.inactive or self._wakeups.backlog:
            self._wakeups.resume()
        if self._sub_queues.backing_off:
            self.flush_backoff_completed()
        if self._retry_suppressor.due is not None and self._retry_suppressor.start_round_if_due(
            now
        ):
            self._release_suppressed()
        due = self._sub_queues.next_due() if self._sub_queues.inactive else None
        if due is not None and due <= now:
            self._retry_requested(now)
        if self._timetable.flush_due(now):
            self.flush_unschedulable_left_over()
        if self._timetable.tick_due(now):
            self.tick_time_hints()

    def _retry_requested(self, now: float) -> None:
        """Requeue the pods for which a plugin requested a retry at a time that has passed."""
        time_slice = self._wakeups.time_slice()
        while (info := self._sub_queues.next_retry_due(now)) is not None:
            self._mover.requeue(info, AFTER_BACKOFF, REQUEUE_AFTER)
            if time_slice.over():
                break

    def flush_backoff_completed(self) -> None:
        """Move pods whose backoff has ended to the active queue."""
        now, time_slice = self._clock.now(), self._wakeups.time_slice()
        # Each iteration takes the pod out of the backoff queue, even if it becomes gated.
        while (info := self._sub_queues.backoff.next_completed(now)) is not None:
            self._mover.move_to_active(info, BACKOFF_COMPLETE, from_backoff=True)
            if time_slice.over():
                break

    def flush_unschedulable_left_over(self) -> None:
        """Retry pods that were unschedulable for too long, in case a hint was wrong.

        PreEnqueue runs again for those that are gated, unless by their scheduling gates.
        """
        longest = self._options.max_in_unschedulable
        if longest is None:
            return
        now = self._clock.now()
        self._wakeups.flush(now, now - longest)

    def tick_time_hints(self) -> int:
        """Evaluate the hints of the Time event.

        The event is not recorded for pods in flight, whose plugins read the clock themselves.
        """
        self._end_suppression()
        tick = InFlightEvent(TIME_TICK, None, None, TIME_TICK.label)
        return self._wakeups.start(tick, self._hints.subscription(TIME_TICK))

    def close(self) -> None:
        """End all attempts. Queued pods can still be popped."""
        self._closed = True
        for info in list(self._in_flight):
            self.done(info.uid)
