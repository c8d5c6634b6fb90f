"""Handling of a failed attempt: requeue, nomination, event, condition.

Follows `schedule_one.go: handleSchedulingFailure`.
"""

from __future__ import annotations

from typing import Final

import structlog

from scheduler.api.pod import Pod
from scheduler.engine import Attempt, Failure
from scheduler.framework import Clock, Events, QueuedPodInfo
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import AlreadyQueuedError, SchedulingQueue
from scheduler.sanitizing.redaction import redact_message
from scheduler.service.decision_log import DecisionLog
from scheduler.service.gate_reporter import GateReporter
from scheduler.service.listers import PodLister, pending_pod
from scheduler.service.plugin_conditions import ConditionSource
from scheduler.service.status_writer import StatusWriter

_log = structlog.get_logger(__name__)

EVENT_FAILED_SCHEDULING: Final = "FailedScheduling"
ACTION_SCHEDULING: Final = "Scheduling"


class FailureHandler:
    """Handles pods whose scheduling or binding cycle failed."""

    def __init__(
        self,
        queue: SchedulingQueue,
        newest: PodLister,
        *,
        events: Events,
        statuses: StatusWriter,
        clock: Clock,
        metrics: SchedulerMetrics,
        gates: GateReporter,
        conditions: ConditionSource,
    ) -> None:
        """Wire the handler.

        `gates` delays conditions that have a plugin's own reason. `conditions` returns plugins'
        conditions for the same write.
        """
        self._conditions = conditions
        #: Lines about placements and rejections.
        self.log = DecisionLog(clock)
        #: The queue of the pods that are handled.
        self.queue = queue
        self._newest = newest
        self._events = events
        self._statuses = statuses
        self._clock = clock
        self._metrics = metrics
        self._gates = gates

    def activate_pods_of(self, attempt: Attempt) -> None:
        """Activate the pods that plugins listed in `CycleState.pods_to_activate`, once.

        They are given as "namespace/name"; unknown and malformed names are ignored.
        """
        keys = attempt.state.pods_to_activate
        if not keys:
            return
        self.queue.activate([pod for pod in map(self.pod, keys) if pod is not None])
        keys.clear()

    def pod(self, key: str) -> Pod | None:
        """Return the newest state of a pod, `namespace/name`; None if it does not exist."""
        namespace, _, name = key.partition("/")
        return self._newest(namespace, name)

    def still_wanted(self, info: QueuedPodInfo) -> Pod | None:
        """Return the newest state of a pod; None if it is deleted, bound or replaced."""
        return pending_pod(self._newest, info.pod)

    def relabel(self, pod: Pod, reason: str, message: str) -> None:
        """Write another PodScheduled reason for a pending pod; see `Handle.relabel`."""
        newest = pending_pod(self._newest, pod)
        if newest is None:
            return
        self._gates.superseded(pod.metadata.uid)
        # Written in any case, since the known pod may not have the replaced condition yet.
        self._statuses.not_scheduled(newest, reason, redact_message(message), afresh=True)

    def handle(self, attempt: Attempt, failure: Failure) -> None:
        """Requeue the pod unless it is deleted, bound or replaced; then report why it failed."""
        info = attempt.info
        self._metrics.attempt(
            failure.result,
            attempt.framework.profile_name,
            self._clock.monotonic() - attempt.started,
        )
        failure.apply(info, self._clock.now())
        pod = info.pod
        newest = self._newest(pod.metadata.namespace, pod.metadata.name)
        if newest is None:
            self.queue.done(info.uid)
        elif newest.metadata.uid != info.uid or newest.spec.node_name:
            # The name belongs to another pod now, or the pod is bound after all: the condition
            # would be wrong. (Upstream writes it even to a bound pod.)
            self.queue.done(info.uid)
            return
        elif not self.queue.serves(newest):
            # Its profile disappeared from the configuration during the attempt.
            self.queue.done(info.uid)
            return
        else:
            info.pod = newest
            self._requeue(info)
            self.queue.nominator.add_nominated_pod(newest, failure.nominating)
        if not failure.message:
            return
        message = failure.message
        self.log.rejected(info, failure.reason, message)
        if not failure.silent:
            self._events.record(pod, "Warning", EVENT_FAILED_SCHEDULING, ACTION_SCHEDULING, message)
        if newest is not None:
            self._write_status(info, newest, failure, message)

    def _write_status(self, info: QueuedPodInfo, pod: Pod, failure: Failure, message: str) -> None:
        nominated = None if failure.nominating is None else failure.nominating.node_name
        if not failure.own_reason or self._statuses.nomination_differs(pod, nominated):
            self._statuses.not_scheduled(
                pod,
                failure.reason,
                message,
                self._conditions(pod, info),
                nominated=nominated,
                afresh=self._gates.superseded(pod.uid),
            )
        elif not info.gated:
            # Delayed, since a plugin may admit many pods at once and reject them again. (If a gate
            # holds the pod by now, the gate's condition is newer.)
            self._gates.rejected(info, failure.reason, message)

    def _requeue(self, info: QueuedPodInfo) -> None:
        try:
            self.queue.add_unschedulable_if_not_present(info)
        except AlreadyQueuedError as error:
            # An event requeued the pod during its binding cycle, after it was no longer assumed. It
            # is queued, which is what matters.
            _log.warning("pod is queued already", pod=info.key, error=str(error))
