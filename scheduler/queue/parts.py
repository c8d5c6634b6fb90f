"""The parts of the scheduling queue, and the settings they are built from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.framework.events import TIME_TICK
from scheduler.framework.handle import Clock
from scheduler.framework.plugin import PreEnqueuePlugin
from scheduler.queue.accounts import NamespaceAccounts
from scheduler.queue.backoff_queue import BackoffPolicy, SortKey
from scheduler.queue.cluster_events import DEFAULT_FEATURES, EventFeatures
from scheduler.queue.in_flight import InFlight
from scheduler.queue.metrics import QueueMetrics
from scheduler.queue.nominator import PodLister, QueueNominator
from scheduler.queue.pod_mover import PodMover
from scheduler.queue.pre_enqueue import PreEnqueueRunner
from scheduler.queue.queueing_hints import HintIndex, PluginErrorListener, QueueingHintMap
from scheduler.queue.retry_suppressor import RetrySuppressor
from scheduler.queue.signals import Signals
from scheduler.queue.steady_clock import SteadyClock
from scheduler.queue.sub_queues import SubQueues
from scheduler.queue.timetable import Timetable
from scheduler.queue.wakeups import Wakeups


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """Settings of the queue. Times are in seconds."""

    initial_backoff: float = 1.0
    """Wait after the first failure; doubles with each one."""
    max_backoff: float = 10.0
    """Longest backoff; 0 disables backoff."""
    max_in_unschedulable: float | None = 300.0
    """A pod unschedulable for longer is retried; None disables that."""
    pop_from_backoff: bool = True
    """Feature gate SchedulerPopFromBackoffQ: backoff ends in windows of one second, PreEnqueue runs
    before backoff, and a pod in backoff may be popped when nothing is active."""
    time_based_hint_period: float = 30.0
    """Time between two Time events."""
    cycle_budget: float = math.inf
    """CPU time that one scheduling cycle may use; the basis of `SchedulingQueue.charge`."""
    slice_seconds: float = math.inf
    """Work on many pods that exceeds this time is postponed to the next `run_due`."""
    features: EventFeatures = DEFAULT_FEATURES
    """Feature gates that decide which updates count as separate events."""


DEFAULT_OPTIONS: Final = QueueOptions()


@dataclass(frozen=True, slots=True)
class QueueProfiles:
    """The plugins and registrations of all profiles, as far as the queue uses them."""

    #: Profile -> its PreEnqueue plugins, in order.
    pre_enqueue: Mapping[str, Sequence[PreEnqueuePlugin]]
    #: Profile -> the events that its plugins registered (`build_hint_map`).
    hints: Mapping[str, QueueingHintMap]
    #: The QueueSort plugin's. None: as before.
    sort_key: SortKey | None = None


class QueueParts:
    """The parts of a `SchedulingQueue`, which inherits them, built from its settings.

    Args:
        clock: wall clock for all times; monotonic clock to measure jumps of the wall clock.
        sort_key: the QueueSort plugin's; smaller is popped first.
        pre_enqueue: profile -> its PreEnqueue plugins, in order.
        hints: profile -> the events that its plugins registered (`build_hint_map`).
        pod_lister: returns the newest pod that the informer knows, for the nominator.
        nomination_under_way: returns whether a write of a pod's nomination (by UID) is queued or in
            flight.
        metrics: receives every move.
        timer: returns seconds, to measure hints and PreEnqueue plugins; None: not measured.
        on_plugin_error: receives every exception that a plugin raised, for the log.
    """

    def __init__(  # noqa: PLR0913 - one argument per collaborator
        self,
        clock: Clock,
        sort_key: SortKey,
        pre_enqueue: Mapping[str, Sequence[PreEnqueuePlugin]],
        hints: Mapping[str, QueueingHintMap],
        *,
        pod_lister: PodLister,
        nomination_under_way: Callable[[str], bool] = lambda _uid: False,
        options: QueueOptions = DEFAULT_OPTIONS,
        metrics: QueueMetrics | None = None,
        timer: Callable[[], float] | None = None,
        on_plugin_error: PluginErrorListener | None = None,
    ) -> None:
        metrics = metrics or QueueMetrics()
        self._options = options
        #: Callbacks for the scheduling loop.
        self.signals = Signals()
        self._policy = BackoffPolicy(
            options.initial_backoff, options.max_backoff, aligned=options.pop_from_backoff
        )
        self._clock = SteadyClock(clock, self._clock_jumped)
        self._hints = HintIndex(hints, metrics, timer, on_plugin_error)
        self._accounts = NamespaceAccounts(clock.monotonic, options.cycle_budget)
        self._sub_queues = SubQueues(
            self._policy, sort_key, metrics, self._hints.required_keys, self._accounts.over_limit
        )
        self._in_flight = InFlight(metrics)
        self._retry_suppressor = RetrySuppressor()
        self._pre_enqueue = PreEnqueueRunner(pre_enqueue, metrics, timer, on_plugin_error)
        #: Nominations of pending pods.
        self.nominator = QueueNominator(
            pod_lister,
            nomination_under_way,
            lambda pod, error: self._pre_enqueue.report("", "nomination listener", pod, error),
        )
        self._timetable = Timetable(
            clock.now(),
            flush=options.max_in_unschedulable is not None,
            hint_period=options.time_based_hint_period,
            time_plugins=self._hints.subscription(TIME_TICK).plugins,
        )
        self._mover = PodMover(
            clock=self._clock,
            policy=self._policy,
            sub_queues=self._sub_queues,
            pre_enqueue=self._pre_enqueue,
            nominator=self.nominator,
            signals=self.signals,
            timetable=self._timetable,
        )
        self._wakeups = Wakeups(
            self._mover, self._hints, self._accounts, clock.monotonic, options.slice_seconds
        )
        #: UIDs of pods, active or in backoff, that were admitted by plugins that are now replaced.
        self._readmissions: set[str] = set()
        #: Since the start: pods popped, events received, and events that no plugin registered.
        self._cycle = self._events = self._events_ignored = 0
        self._closed = False

    def _clock_jumped(self, jump: float) -> None:
        self._timetable.shift(jump)
        self._retry_suppressor.shift(jump)
        queued = list(self._sub_queues)
        for info in (*queued, *self._in_flight):
            self._policy.shift(info, jump)
        for info in queued:
            self._mover.refresh(info)
        self.signals.clock_rewound()
