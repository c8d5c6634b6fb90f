"""What a queue tells about itself: callbacks, statistics, records of pods, invariants.

Part of `SchedulingQueue`, which owns the parts named here; nothing in this file moves a pod.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.api.pod import Pod
from scheduler.queue.accounts import NamespaceAccounts
from scheduler.queue.in_flight import InFlight
from scheduler.queue.nominator import QueueNominator
from scheduler.queue.pre_enqueue import PreEnqueueRunner
from scheduler.queue.queueing_hints import HintIndex
from scheduler.queue.signals import GateListener, Signals
from scheduler.queue.statistics import PodView, QueueInvariantError, QueueStatistics
from scheduler.queue.steady_clock import SteadyClock
from scheduler.queue.sub_queues import SubQueues
from scheduler.queue.views import Viewer
from scheduler.queue.wakeups import Wakeups


class QueueInspection:
    """The reading side of a queue. Made by `SchedulingQueue.__init__`, never alone."""

    nominator: QueueNominator
    _accounts: NamespaceAccounts
    _clock: SteadyClock
    _closed: bool
    _cycle: int
    _early_pop: bool
    _events: int
    _events_ignored: int
    _pre_enqueue: PreEnqueueRunner
    _hints: HintIndex
    _in_flight: InFlight
    _sub_queues: SubQueues
    _signals: Signals
    _viewer: Viewer
    _wakeups: Wakeups

    def __contains__(self, uid: object) -> bool:
        return isinstance(uid, str) and self._sub_queues.where(uid) is not None

    @property
    def on_ready(self) -> Callable[[], None] | None:
        """Called once after `pop` returned None, as soon as it would return a pod."""
        return self._signals.on_ready

    @on_ready.setter
    def on_ready(self, callback: Callable[[], None] | None) -> None:
        self._signals.on_ready = callback

    @property
    def on_timer(self) -> Callable[[], None] | None:
        """Called when `next_wakeup` moved to an earlier time than it returned last: ask again."""
        return self._signals.on_timer

    @on_timer.setter
    def on_timer(self, callback: Callable[[], None] | None) -> None:
        self._signals.on_timer = callback

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def scheduling_cycle(self) -> int:
        """How many pods were popped."""
        return self._cycle

    @property
    def on_gated(self) -> GateListener | None:
        """Called with a pod's record and the refusal, whenever a PreEnqueue plugin holds a pod.

        For conditions that a gate wants written. Must not call the queue.
        """
        return self._signals.on_gated

    @on_gated.setter
    def on_gated(self, callback: GateListener | None) -> None:
        self._signals.on_gated = callback

    def pending_pods(self) -> tuple[list[Pod], str]:
        """All queued pods, and upstream's one-line summary."""
        return [info.pod for info in self._sub_queues], self.statistics().summary

    def statistics(self) -> QueueStatistics:
        """Counts; O(1) but for the deferred namespaces, of which there are few."""
        sub_queues, hints = self._sub_queues, self._hints.counts
        return QueueStatistics(
            active=len(sub_queues.active),
            backoff=len(sub_queues.backoff),
            backoff_errors=sub_queues.backoff.errors,
            unschedulable=len(sub_queues.unschedulable) - sub_queues.unschedulable.gated,
            gated=sub_queues.unschedulable.gated,
            in_flight=len(self._in_flight),
            in_flight_events=self._in_flight.event_count,
            in_flight_events_dropped=self._in_flight.dropped,
            nominated=len(self.nominator),
            scheduling_cycle=self._cycle,
            events=self._events,
            events_ignored=self._events_ignored,
            hint_calls=hints.calls,
            hint_answers_shared=hints.shared,
            hint_errors=hints.errors,
            pre_enqueue_runs=self._pre_enqueue.counts.runs,
            pre_enqueue_errors=self._pre_enqueue.counts.errors,
            clock_jumps=self._clock.jumps,
            closed=self._closed,
            wakeups_left=self._wakeups.backlog,
            deferred_namespaces=tuple(sorted(self._accounts.over())),
        )

    def view(self, namespace: str, name: str) -> PodView | None:
        """What is known about one pod, queued or in flight; None for others. O(sub-queue)."""
        return self._viewer.view(f"{namespace}/{name}")

    def views(self, *, namespace: str = "", limit: int | None = None) -> list[PodView]:
        """All pods: active in order, backoff in order, unschedulable, gated, in flight.

        Only those of `namespace` if given, and at most `limit` of each place. Sorts copies.
        """
        return self._viewer.views(namespace, limit)

    def validate(self) -> None:
        """Raise QueueInvariantError if anything is broken. Slow; for tests and debugging."""
        found = self._sub_queues.violations() + self._in_flight.violations()
        found += self.nominator.violations()
        found += [
            f"pod {info.key} is in flight and in a sub-queue"
            for info in self._in_flight
            if info.uid in self
        ]
        ready = len(self._sub_queues.active) or (
            self._early_pop and self._sub_queues.backoff.poppable
        )
        if self._signals.waiting_for_pod and ready:
            found.append("a pod could be popped, but nobody was told")
        if found:
            raise QueueInvariantError(found)
