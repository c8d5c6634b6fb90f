"""SchedulingQueue: which pod is scheduled next, and what brings a pod back that could not be.

A pod enters through PreEnqueue into the active queue, is popped, and is then in flight until
`done`. If its attempt fails it waits in the backoff queue (something happened meanwhile, or the
attempt broke) or in the pool, until an event that one of its rejecting plugins waits for, a time it
asked for, or the periodic flush moves it.

Invariants, checked by `validate`: a pod is in one sub-queue or in flight, never in two places and
never in none while somebody else believes it is queued; gated pods are in the pool only; events are
kept for in-flight pods only as long as they can matter.

Pure: no asyncio, no thread, no clock but the one handed in. Touched from one event loop only; an
operation never suspends, which is what upstream's locks are for. Behaviour: queue-and-events.md of
kube-scheduler v1.36; where it differs, docs/differences.md says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from scheduler.api.pod import Pod
from scheduler.framework.events import (
    ATTEMPT_OUTCOME,
    FORCE_ACTIVATE,
    TIME_TICK,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_UPDATE,
    ActionType,
    ClusterEvent,
)
from scheduler.framework.handle import Clock
from scheduler.framework.plugin import PreEnqueuePlugin
from scheduler.framework.queued import QueuedPodInfo
from scheduler.queue.accounts import NamespaceAccounts
from scheduler.queue.backoff_queue import BackoffPolicy, SortKey
from scheduler.queue.cluster_events import DEFAULT_FEATURES, EventFeatures, pod_events
from scheduler.queue.in_flight import POD_POPPED, InFlight, InFlightEvent, PreCheck
from scheduler.queue.inspection import QueueInspection
from scheduler.queue.metrics import NoMetrics, QueueMetrics
from scheduler.queue.nominator import PodLister, QueueNominator
from scheduler.queue.pod_mover import PodMover
from scheduler.queue.pre_enqueue import PreEnqueueRunner
from scheduler.queue.queueing_hints import (
    AFTER_BACKOFF,
    SKIP,
    EventSubscription,
    HintIndex,
    PluginErrorListener,
    QueueingDecision,
    QueueingHintMap,
    QueueingStrategy,
)
from scheduler.queue.retry_suppressor import RetrySuppressor
from scheduler.queue.signals import Signals
from scheduler.queue.statistics import (
    AlreadyQueuedError,
    QueueState,
)
from scheduler.queue.steady_clock import SteadyClock
from scheduler.queue.sub_queues import SubQueues
from scheduler.queue.timetable import Timetable
from scheduler.queue.unschedulable_pods import Group, identity
from scheduler.queue.views import Viewer
from scheduler.queue.wakeups import UNKNOWN_EVENTS, UNSCHEDULABLE_TIMEOUT, Wakeups

POD_ADD: Final = UNSCHEDULED_POD_ADD.label
POD_UPDATE: Final = UNSCHEDULED_POD_UPDATE.label
SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"
REQUEUE_AFTER: Final = "RequeueAfter"
RECHECK: Final = "Recheck"
NOW: Final = 0.0
"""A time that has passed on every wall clock, also on one that was just set back a little."""

_ALREADY: Final = {
    QueueState.ACTIVE: "the active queue",
    QueueState.BACKOFF: "the backoff queue",
    QueueState.UNSCHEDULABLE: "unschedulable queue",
    QueueState.GATED: "unschedulable queue",
}
UNSCHEDULABLE_STATES: Final = (QueueState.UNSCHEDULABLE, QueueState.GATED)


class SchedulingQueue(QueueInspection):
    """All pending pods of our profiles. See the module's docstring."""

    def __init__(  # noqa: PLR0913 - one option per setting
        self,
        clock: Clock,
        sort_key: SortKey,
        pre_enqueue: Mapping[str, Sequence[PreEnqueuePlugin]],
        hints: Mapping[str, QueueingHintMap],
        *,
        pod_lister: PodLister,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        max_in_unschedulable: float | None = 300.0,
        pop_from_backoff: bool = True,
        time_based_hint_period: float = 30.0,
        cycle_budget: float = math.inf,
        slice_seconds: float = math.inf,
        metrics: QueueMetrics | None = None,
        features: EventFeatures = DEFAULT_FEATURES,
        timer: Callable[[], float] | None = None,
        on_plugin_error: PluginErrorListener | None = None,
    ) -> None:
        """Times are in seconds.

        Args:
            clock: wall clock for all times; monotonic clock to measure jumps of the wall clock.
            sort_key: the QueueSort plugin's; smaller is popped first.
            pre_enqueue: profile -> its PreEnqueue plugins, in order.
            hints: profile -> what its plugins wait for (`build_hint_map`).
            pod_lister: the newest pod that the informer knows, for the nominator.
            initial_backoff: wait after the first failure; doubles with each one.
            max_backoff: longest backoff; 0 means none at all.
            max_in_unschedulable: a pod in the pool for longer is retried; None never does that.
            pop_from_backoff: feature gate SchedulerPopFromBackoffQ: backoff ends in windows of one
                second, PreEnqueue runs before backoff, and a pod in backoff may be popped when
                nothing is active.
            time_based_hint_period: time between two Time events.
            cycle_budget: CPU time that one scheduling cycle may use; `charge` goes by it.
            slice_seconds: after so long, work for many pods is put off to the next `run_due`.
            metrics: told about every move; None tells nobody.
            features: which updates of objects count as events of their own.
            timer: measures hints and PreEnqueue plugins, in seconds; None measures nothing.
            on_plugin_error: told about every exception that a plugin raised, for the log.
        """
        self._metrics = metrics or NoMetrics()
        self._policy = BackoffPolicy(initial_backoff, max_backoff, aligned=pop_from_backoff)
        self._early_pop = pop_from_backoff
        self._signals = Signals()
        self._max_in_unschedulable = max_in_unschedulable
        self._features = features
        self._clock = SteadyClock(clock, self._clock_jumped)
        self._hints = HintIndex(hints, self._metrics, timer, on_plugin_error)
        self._accounts = NamespaceAccounts(clock.monotonic, cycle_budget)
        self._sub_queues = SubQueues(
            self._policy, sort_key, self._metrics, self._hints.required_keys, self._accounts.over
        )
        self._in_flight = InFlight()
        self._retry_suppressor = RetrySuppressor()
        self._pre_enqueue = PreEnqueueRunner(pre_enqueue, self._metrics, timer, on_plugin_error)
        self._time_plugins = self._hints.subscription(TIME_TICK).plugins
        #: Nominations of pending pods.
        self.nominator = QueueNominator(
            pod_lister,
            lambda pod, cause: self._pre_enqueue.report("", "nomination listener", pod, cause),
        )
        self._timetable = Timetable(
            clock.now(),
            flush=max_in_unschedulable is not None,
            hint_period=time_based_hint_period,
            time_plugins=self._time_plugins,
        )
        self._mover = PodMover(
            clock=self._clock,
            policy=self._policy,
            sub_queues=self._sub_queues,
            pre_enqueue=self._pre_enqueue,
            hints=self._hints,
            nominator=self.nominator,
            signals=self._signals,
            timetable=self._timetable,
        )
        self._wakeups = Wakeups(
            sub_queues=self._sub_queues,
            hints=self._hints,
            pre_enqueue=self._pre_enqueue,
            mover=self._mover,
            accounts=self._accounts,
            monotonic=clock.monotonic,
            seconds=slice_seconds,
        )
        self._viewer = Viewer(
            self._sub_queues, self._in_flight, self.nominator, self._policy, max_in_unschedulable
        )
        self._cycle = 0
        self._events = 0
        self._events_ignored = 0
        self._closed = False

    def __len__(self) -> int:
        """Pods in the sub-queues, without those in flight."""
        return len(self._sub_queues)

    # -------------------------------------------------------------------- pods come, change and go

    def add(self, pod: Pod) -> None:
        """A pending pod appeared. A pod that is known already is updated instead."""
        queued = self._sub_queues.by_name(pod.key)
        if queued is not None:
            self.update(queued.pod, pod)
            return
        running = self._in_flight.get(pod.uid)
        if running is not None:
            self.update(running.pod, pod)
            return
        now = self._clock.now()
        self._mover.move_to_active(QueuedPodInfo(pod, now), POD_ADD, now=now)

    def update(self, old: Pod | None, new: Pod) -> None:
        """A pending pod changed. It may wake; no other pod is concerned."""
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
            now = self._clock.now()
            self._mover.move_to_active(QueuedPodInfo(new, now), POD_UPDATE, now=now)

    def delete(self, pod: Pod) -> None:
        """A pending pod is gone, or bound by somebody. An attempt under way calls `done` itself."""
        self.nominator.forget(pod)
        queued = self._sub_queues.by_name(pod.key)
        if queued is None or queued.uid != pod.uid:
            return
        self._sub_queues.remove(pod.uid)
        self._sub_queues.count_rejectors(queued, -1)

    # ------------------------------------------------------------------------------------ attempts

    def pop(self) -> QueuedPodInfo | None:
        """The next pod to schedule, in flight from now on; None when there is none.

        Also None when many pods of deferred namespaces had to be put aside; `on_ready` is then
        called at once.
        """
        info = self._sub_queues.pop(self._retry_suppressor, early=self._early_pop)
        if info is None:
            self._signals.waiting_for_pod = True
            if self._sub_queues.active.pop_again:
                self._signals.ready()
            return None
        info.attempts += 1
        self._cycle += 1
        self._in_flight.start(info)
        self._retry_suppressor.attempt_started(info.uid)
        self._metrics.inflight_events(POD_POPPED, 1)
        if info.unschedulable_plugins or info.pending_plugins:
            self._sub_queues.count_rejectors(info, -1)
        return info

    def done(self, uid: str) -> None:
        """The pod's attempt is over, or past the point where an event matters. Idempotent."""
        self._retry_suppressor.attempt_finished(uid)
        released = self._in_flight.finish(uid)
        if released is None:
            return
        self._metrics.inflight_events(POD_POPPED, -1)
        for label, count in released.items():
            self._metrics.inflight_events(label, -count)

    def add_unschedulable_if_not_present(self, info: QueuedPodInfo) -> QueueState:
        """A popped pod's attempt failed. Ends the attempt, and says where the pod waits now.

        The failure handler has put the newest object, the rejecting plugins, `last_message`,
        `requeue_at` and `post_filter` into the record; no rejecting plugin means that the attempt
        broke.

        Raises AlreadyQueuedError if the pod is in a sub-queue.
        """
        try:
            self._check_absent(info)
            now = self._clock.now()
            if info.unschedulable_plugins or info.pending_plugins:
                info.unschedulable_count += 1
                info.consecutive_errors_count = 0
            else:
                info.consecutive_errors_count += 1
            info.timestamp = now
            info.backoff_expiration = None
            info.was_flushed_from_unschedulable = False
            self._sub_queues.count_rejectors(info, 1)
            self._retry_suppressor.attempt_rejected(info)
            decision, cause = self._missed(info)
            state = self._mover.requeue(info, decision, SCHEDULE_ATTEMPT_FAILURE)
            info.last_event, info.last_hint = cause, decision.plugin
            return state
        finally:
            self.done(info.uid)

    def charge(self, namespace: str, seconds: float) -> bool:
        """An attempt at a pod of the namespace used so much CPU time.

        A namespace with many expensive attempts is deferred: its pods are popped after all others
        for a while. Returns whether that begins now.
        """
        return self._accounts.charge(namespace, seconds)

    # --------------------------------------------------------------------- what wakes waiting pods

    def move_all_to_active_or_backoff(
        self, event: ClusterEvent, old: Any, new: Any, pre_check: PreCheck | None = None
    ) -> int:
        """Something happened in the cluster; wake the pods that their plugins say it may help.

        `pre_check` excludes pods, in the pool and in flight. Returns how many pods were moved; what
        takes longer than a slice is left to `run_due`.
        """
        self._events += 1
        subscription = self._hints.subscription(event)
        if not subscription.plugins and not event.wildcard:
            self._events_ignored += 1
            return 0
        self._note_event()
        occurrence = InFlightEvent(event, old, new, subscription.label, pre_check)
        self._record(occurrence)
        if event.wildcard:
            groups = [
                group
                for group in self._sub_queues.unschedulable.groups_of(subscription.plugins)
                if group.gated
            ]
            groups += self._sub_queues.unschedulable.groups(gated=False)
        else:
            groups = self._candidates(subscription, occurrence)
        return self._move(groups, occurrence)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pods to the active queue now, whatever their backoff. A closed gate stays closed."""
        self._note_event()
        for pod in pods:
            uid = pod.uid
            state = self._sub_queues.where(uid)
            moved = False
            if state is not None and state is not QueueState.ACTIVE:
                info = self._sub_queues.get(uid)
                assert info is not None
                now_in = self._mover.move_to_active(
                    info, FORCE_ACTIVATE.label, from_backoff=state is QueueState.BACKOFF
                )
                moved = now_in is QueueState.ACTIVE
            if not moved and uid in self._in_flight:
                self._record(
                    InFlightEvent(
                        FORCE_ACTIVATE, None, pod, FORCE_ACTIVATE.label, only=frozenset((uid,))
                    )
                )

    def recheck(self, uids: Iterable[str]) -> None:
        """Run PreEnqueue again for waiting pods: it may free gated ones, and gate the others."""
        self._note_event()
        for uid in uids:
            info = self._sub_queues.get(uid)
            if info is None:
                continue
            if info.gated:
                self._mover.requeue(info, AFTER_BACKOFF, RECHECK)
            elif self._mover.run_pre_enqueue(info):
                self._mover.move_to_unschedulable(info, RECHECK)

    def wake(self, uids: Iterable[str], plugin: str, event_label: str) -> int:
        """`plugin` itself says which of the pods it rejected may be tried again.

        Pods that another plugin's gate holds, or that `plugin` did not reject, stay. Pods in flight
        are told when they come back. Returns how many pods were moved.
        """
        self._note_event()
        concerned = frozenset(uids)
        event = ClusterEvent("", ActionType.NONE, event_label)
        occurrence = InFlightEvent(event, None, None, event_label, only=concerned, plugin=plugin)
        if any(uid in self._in_flight for uid in concerned):
            self._record(occurrence)
        moved = 0
        for uid in sorted(concerned):
            info = self._sub_queues.unschedulable.get(uid)
            if info is None or (info.gated and info.gating_plugin != plugin):
                continue
            decision = self._hints.evaluate(occurrence, info, None)
            if decision is not SKIP:
                moved += (
                    self._mover.requeue(info, decision, event_label) not in UNSCHEDULABLE_STATES
                )
        return moved

    # ---------------------------------------------------------------------------------------- time

    def next_wakeup(self) -> float | None:
        """Wall clock time at which `run_due` has something to do; None when never."""
        self._clock.now()  # a jump that was not noticed yet would make the answer too late
        sub_queues = self._sub_queues
        times = (
            sub_queues.backoff.next_release(),
            sub_queues.next_retry(),
            self._timetable.next(sub_queues.unschedulable),
            self._retry_suppressor.due,
            NOW if self._wakeups.backlog else None,
        )
        wakeup = min((time for time in times if time is not None), default=None)
        self._signals.armed(wakeup)
        return wakeup

    def run_due(self) -> None:
        """Do the work whose time has come; what takes longer than a slice remains due."""
        now = self._clock.now()
        self._wakeups.resume()
        self.flush_backoff_completed()
        if self._retry_suppressor.start_round_if_due(now):
            self._try_early()
        time_slice = self._wakeups.time_slice()
        while (info := self._sub_queues.next_retry_due(now)) is not None:
            self._mover.requeue(info, AFTER_BACKOFF, REQUEUE_AFTER)
            if time_slice.over():
                break
        if self._timetable.flush_due(now):
            self.flush_unschedulable_left_over()
        if self._timetable.tick_due(now):
            self.tick_time_hints()

    def flush_backoff_completed(self) -> None:
        """Move pods whose backoff has ended to the active queue."""
        now, time_slice = self._clock.now(), self._wakeups.time_slice()
        # Every turn takes the pod out of the backoff queue, whether it becomes active or is gated.
        while (info := self._sub_queues.backoff.next_completed(now)) is not None:
            self._mover.move_to_active(info, BACKOFF_COMPLETE, from_backoff=True)
            if time_slice.over():
                break

    def flush_unschedulable_left_over(self) -> None:
        """Retry pods that were in the pool for too long, in case a hint was wrong."""
        if self._max_in_unschedulable is None:
            return
        latest = self._clock.now() - self._max_in_unschedulable
        pool = self._sub_queues.unschedulable
        left_over = [
            info
            for group in pool.groups(gated=False)
            for info in group.members.values()
            if info.timestamp < latest
        ]
        self._wakeups.move(left_over, AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT)

    def tick_time_hints(self) -> int:
        """Ask the hints for the Time event. Pods in flight read the clock themselves."""
        self._note_event()
        groups = self._sub_queues.unschedulable.groups_of(self._time_plugins)
        return self._move(groups, InFlightEvent(TIME_TICK, None, None, TIME_TICK.label))

    def close(self) -> None:
        """End all attempts. What is queued can still be popped."""
        self._closed = True
        for info in list(self._in_flight):
            self.done(info.uid)

    # ------------------------------------------------------------------------------------- updates

    def _update_in_flight(self, old: Pod, new: Pod) -> None:
        concerned = frozenset((new.uid,))
        for event in pod_events(new, old, self._features):
            subscription = self._hints.subscription(event)
            if subscription.plugins:
                self._record(InFlightEvent(event, old, new, subscription.label, only=concerned))
        self.nominator.update_nominated_pod(old, new)

    def _update_queued(self, info: QueuedPodInfo, old: Pod, new: Pod) -> None:
        concerned = self._wakeups.concerns(new.uid)
        info.pod = new
        if info.pause and old.spec != new.spec:
            # Another template, about which nothing is known yet.
            info.pause, info.backoff_expiration = 0.0, None
            self._signals.due(self._policy.release(self._policy.expiry(info)))
        self._mover.refresh(info)
        self.nominator.update_nominated_pod(old, new)
        if self._sub_queues.where(new.uid) not in UNSCHEDULABLE_STATES:
            return
        if concerned:
            # It leaves its group before that was looked at.
            self._mover.requeue(info, AFTER_BACKOFF, UNKNOWN_EVENTS)
            return
        asked = False
        for event in pod_events(new, old, self._features):
            subscription = self._hints.subscription(event)
            if not subscription.plugins:
                continue
            occurrence = InFlightEvent(event, old, new, subscription.label)
            decision = self._hints.evaluate(occurrence, info, None)
            if decision is SKIP or self._sub_queues.unschedulable.get(new.uid) is not info:
                continue
            if self._mover.requeue(info, decision, subscription.label) not in UNSCHEDULABLE_STATES:
                return
            asked = True
        if info.gated and not asked and old.spec.scheduling_gates != new.spec.scheduling_gates:
            # No event: nobody waits for a part of the gates. But people are told which are left.
            self.recheck((new.uid,))

    # -------------------------------------------------------------------------------------- events

    def _candidates(
        self, subscription: EventSubscription, occurrence: InFlightEvent
    ) -> list[Group]:
        """The groups whose hints have to be asked about the event, each once."""
        pool = self._sub_queues.unschedulable
        found: dict[Hashable, Group] = {}
        for plugin in subscription.plugins:
            if not pool.has_groups_of((plugin,)):
                continue
            keyed = subscription.keyed.get(plugin)
            offers = self._hints.provided_keys(keyed, occurrence) if keyed else None
            if offers is None:
                found.update((group.key, group) for group in pool.groups_of((plugin,)))
                continue
            for registration, offered in offers:
                for group in pool.groups_requiring(registration, offered):
                    found[group.key] = group
        own = pool.group_of(occurrence.subject)
        if own is not None and not set(own.indexed_under).isdisjoint(subscription.plugins):
            found[own.key] = own
        return list(found.values())

    def _move(self, groups: Sequence[Group], occurrence: InFlightEvent) -> int:
        if not groups:
            return 0
        moved = self._wakeups.start(groups, occurrence)
        if self._wakeups.backlog:
            self._signals.due(NOW)
        return moved

    def _missed(self, info: QueuedPodInfo) -> tuple[QueueingDecision, str]:
        """What the events since the pod was popped, and the outcome of its attempt, mean for it.

        Also the label of the event that decided.
        """
        found, cause = SKIP, SCHEDULE_ATTEMPT_FAILURE
        events = self._in_flight.events_for(info.uid)
        if events is None or not (info.unschedulable_plugins or info.pending_plugins):
            return AFTER_BACKOFF, cause
        pod_identity = identity(info.pod)
        for occurrence in events:
            if not occurrence.concerns(info):
                continue
            decision = self._hints.evaluate(occurrence, info, pod_identity)
            if decision.strategy > found.strategy:
                found, cause = decision, occurrence.label
                if decision.strategy is QueueingStrategy.IMMEDIATELY or not info.pending_plugins:
                    break
        if found is SKIP and self._hints.subscription(ATTEMPT_OUTCOME).plugins:
            outcome = InFlightEvent(ATTEMPT_OUTCOME, None, info, ATTEMPT_OUTCOME.label)
            decision = self._hints.evaluate(outcome, info, None)
            if decision is not SKIP:
                # The attempt was a real one: the next comes after backoff, Pending or not.
                return QueueingDecision(
                    QueueingStrategy.AFTER_BACKOFF, decision.plugin
                ), outcome.label
        return found, cause

    def _note_event(self) -> None:
        """Let pods like those that were turned down be tried early again, now or soon."""
        if self._retry_suppressor.event_happened(self._clock.now()):
            self._try_early()
        elif self._early_pop and self._retry_suppressor.due is not None:
            self._signals.due(self._retry_suppressor.due)

    def _try_early(self) -> None:
        if self._early_pop and self._sub_queues.backoff.release():
            self._signals.ready()

    def _record(self, occurrence: InFlightEvent) -> None:
        if not self._in_flight.record(occurrence):
            return
        self._metrics.inflight_events(occurrence.label, 1)
        dropped = self._in_flight.overflow()
        if dropped is not None:
            self._metrics.inflight_events(dropped.label, -1)

    # --------------------------------------------------------------------------------- bookkeeping

    def _check_absent(self, info: QueuedPodInfo) -> None:
        queued = self._sub_queues.by_name(info.key)
        if queued is not None:
            where = _ALREADY[self._sub_queues.where(queued.uid) or QueueState.UNSCHEDULABLE]
            raise AlreadyQueuedError(f"Pod {info.key} is already present in {where}")

    def _clock_jumped(self, jump: float) -> None:
        self._timetable.shift(jump)
        self._retry_suppressor.shift(jump)
        queued = list(self._sub_queues)
        for info in (*queued, *self._in_flight):
            info.timestamp += jump
            if info.backoff_expiration is not None:
                info.backoff_expiration = self._policy.align(info.backoff_expiration + jump)
            if info.initial_attempt_timestamp is not None:
                info.initial_attempt_timestamp += jump
            if info.requeue_at is not None:
                info.requeue_at += jump
        for info in queued:
            self._mover.refresh(info)
        self._signals.clock_rewound()
