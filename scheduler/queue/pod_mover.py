"""Moves one pod: through PreEnqueue to active or backoff, or to the unschedulable pods.

Invariant: every call leaves the pod in exactly one sub-queue, indexed by its current record, and
signals the scheduling loop if work became due. This holds even if a plugin raises: its pod is then
gated and retried.

Other modules decide which pods to move, and why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler.explain.records import QueueState
from scheduler.framework.queued import QueuedPodInfo
from scheduler.framework.status import Code, Status, error
from scheduler.queue.backoff_queue import BackoffPolicy, SortKey
from scheduler.queue.nominator import QueueNominator
from scheduler.queue.pre_enqueue import PreEnqueueRunner
from scheduler.queue.queueing_hints import SKIP, QueueingDecision, QueueingStrategy
from scheduler.queue.signals import Signals
from scheduler.queue.steady_clock import SteadyClock
from scheduler.queue.sub_queues import SubQueues
from scheduler.queue.timetable import Timetable
from scheduler.sanitizing.exceptions import error_text

QUEUE_SORT: Final = "QueueSort"
"""The gating plugin of a pod for which the QueueSort plugin raised."""

MIN_RETRY: Final = 0.1
"""Minimum seconds that a pod stays gated, even if its plugin requests less; avoids busy loops."""
MIN_ERROR_RETRY: Final = 1.0
"""Minimum seconds until a failed PreEnqueue plugin runs again."""


@dataclass(slots=True, kw_only=True, eq=False)
class PodMover:
    """The only caller of `SubQueues.to_active`, `to_backoff` and `to_unschedulable`."""

    clock: SteadyClock
    policy: BackoffPolicy
    sub_queues: SubQueues
    pre_enqueue: PreEnqueueRunner
    nominator: QueueNominator
    signals: Signals
    timetable: Timetable

    def requeue(self, info: QueuedPodInfo, decision: QueueingDecision, event: str) -> QueueState:
        """Requeue an unschedulable or unqueued pod according to `decision` and its backoff.

        `event` is the label in metrics and outputs. Returns the pod's new sub-queue.
        """
        if decision is SKIP:
            return self.move_to_unschedulable(info, event)
        if decision.strategy is QueueingStrategy.AFTER_BACKOFF and self.policy.backing_off(
            info, self.clock.now()
        ):
            return self._move_to_backoff(info, event, decision.plugin)
        return self.move_to_active(info, event, hint=decision.plugin)

    def move_to_active(
        self,
        info: QueuedPodInfo,
        event: str,
        *,
        from_backoff: bool = False,
        hint: str = "",
        now: float | None = None,
    ) -> QueueState:
        """Move a pod to the active queue, or to the unschedulable pods if it is gated.

        `now` spares another read of the clock.
        """
        info.last_event, info.last_hint = event, hint
        # That of a gated pod counts as well.
        if info.pod.status.nominated_node_name and not self.nominator.node_of(info.uid):
            self.nominator.add_nominated_pod(info.pod, None)
        # With aligned backoff, PreEnqueue ran when the pod entered the backoff queue.
        if not (from_backoff and self.policy.aligned) and self.run_pre_enqueue(info):
            return self.move_to_unschedulable(info, event)
        try:
            self.sub_queues.to_active(info, event)
        except Exception as cause:  # noqa: BLE001 - boundary: plugin call (QueueSort)
            return self._gate_unsortable(info, event, cause)
        info.requeue_at = None
        if info.initial_attempt_timestamp is None:
            info.initial_attempt_timestamp = self.clock.now() if now is None else now
        self.signals.ready()
        return QueueState.ACTIVE

    def move_to_unschedulable(self, info: QueuedPodInfo, event: str) -> QueueState:
        """Move a pod to the unschedulable pods, or re-index it there."""
        self.sub_queues.to_unschedulable(info, event)
        next_periodic = self.timetable.next(self.sub_queues.unschedulable)
        for due in (self.sub_queues.retry_time(info), next_periodic):
            if due is not None:
                self.signals.due(due)
        return QueueState.GATED if info.gated else QueueState.UNSCHEDULABLE

    def run_pre_enqueue(self, info: QueuedPodInfo) -> bool:
        """Run PreEnqueue and record the outcome; return whether the pod is gated now.

        The caller moves the pod.
        """
        rejection = self.pre_enqueue.run(info)
        if rejection is None:
            if info.gating_plugin:
                info.gating_plugin = ""
                info.gate_openings += 1
                info.gate_errors = 0
                info.last_message = ""
            return False
        self._gate(info, *rejection)
        self.signals.on_gated(info, rejection[1])
        return True

    def refresh(self, info: QueuedPodInfo) -> None:
        """Reorder a queued pod after its object or its times changed."""
        try:
            self.sub_queues.refresh(info)
        except Exception as cause:  # noqa: BLE001 - boundary: plugin call (QueueSort)
            self._gate_unsortable(info, QUEUE_SORT, cause)
            return
        if self.policy.aligned and self.sub_queues.state(info.uid) is QueueState.BACKOFF:
            # The change ends a suppression of the pod's early retry, so a pod may be ready now.
            self.signals.ready()

    def sort_by(self, sort_key: SortKey, event: str) -> None:
        """Sort active pods, and those in backoff, by another key. O(n log n)."""
        active, backoff = self.sub_queues.sort_by(sort_key)
        for infos, put in (
            (active, self.sub_queues.to_active),
            (backoff, self.sub_queues.to_backoff),
        ):
            for info in infos:
                try:
                    put(info, event)
                except Exception as cause:  # noqa: BLE001 - boundary: plugin call (QueueSort)
                    self._gate_unsortable(info, event, cause)

    def _move_to_backoff(self, info: QueuedPodInfo, event: str, hint: str) -> QueueState:
        info.last_event, info.last_hint = event, hint
        if not self.policy.aligned:
            # PreEnqueue runs when the pod leaves backoff; until then no plugin gates it.
            info.gate_openings += info.gated
            info.gating_plugin = ""
        elif self.run_pre_enqueue(info):
            return self.move_to_unschedulable(info, event)
        try:
            self.sub_queues.to_backoff(info, event)
        except Exception as cause:  # noqa: BLE001 - boundary: plugin call (QueueSort)
            return self._gate_unsortable(info, event, cause)
        info.requeue_at = None
        self.signals.due(self.policy.release(self.policy.expiry(info)))
        if self.policy.aligned and self.sub_queues.backoff.poppable:
            self.signals.ready()
        return QueueState.BACKOFF

    def _gate(self, info: QueuedPodInfo, plugin: str, status: Status) -> None:
        if plugin not in info.unschedulable_plugins:
            if plugin not in info.pending_plugins:
                self.sub_queues.count_rejectors(info, 1, (plugin,))
            # A new set, because the old one may be shared.
            info.unschedulable_plugins = info.unschedulable_plugins | {plugin}
        info.gating_plugin = plugin
        now = self.clock.now()
        retry: float | None = None
        if status.code is Code.ERROR:
            info.gate_errors += 1
            info.last_message = f"running PreEnqueue plugin {plugin!r}: {status.message}"
            retry = now + max(self.policy.duration(info.gate_errors), MIN_ERROR_RETRY)
        else:
            info.gate_errors = 0
            info.last_message = status.message
            if status.requeue_after is not None:
                retry = now + max(status.requeue_after, MIN_RETRY)
        requested = info.requeue_at
        if requested is None or requested <= now or (retry is not None and retry < requested):
            info.requeue_at = retry

    def _gate_unsortable(self, info: QueuedPodInfo, event: str, cause: Exception) -> QueueState:
        # Without a sort key the pod can be in no ordered queue, but it must not be lost.
        self.pre_enqueue.report(QUEUE_SORT, QUEUE_SORT, info.pod, cause)
        self._gate(info, QUEUE_SORT, error(cause))
        info.last_message = f"sorting the pod: {type(cause).__name__}: {error_text(cause)}"
        return self.move_to_unschedulable(info, event)
