"""Metrics that the queue reports; the service implements them with Prometheus.

Names follow upstream's metrics. Counts are always reported, durations only if the queue was given a
timer, because measuring costs more than most of the measured calls.
"""

from __future__ import annotations

from typing import ClassVar

from scheduler.framework.events import QueueingHint


class QueueMetrics:
    """Discards everything; a recorder overrides each method.

    Methods must be quick and must not raise. Each docstring names the upstream metric.
    """

    __slots__ = ()

    #: Whether durations are recorded; if not, the queue should get no timer.
    measures: ClassVar[bool] = False

    def incoming_pods(self, queue: str, event: str) -> None:
        """`queue_incoming_pods_total` +1; queue is `active`, `backoff` or `unschedulable`."""

    def pending_pods(self, queue: str, delta: int) -> None:
        """`pending_pods` gauge; queue is `active`, `backoff`, `unschedulable` or `gated`."""

    def unschedulable_pods(self, plugin: str, profile: str, delta: int) -> None:
        """`unschedulable_pods` gauge: queued pods that the plugin rejected last."""

    def inflight_events(self, event: str, delta: int) -> None:
        """`inflight_events` gauge; popped pods count under `PodPopped`."""

    def hint_error(self, plugin: str, event: str) -> None:
        """Kubestow's own: a hint function raised, and the pod was queued."""

    def hint_duration(
        self, plugin: str, event: str, hint: QueueingHint | None, seconds: float
    ) -> None:
        """`queueing_hint_execution_duration_seconds`; a `hint` of None: the function raised."""

    def pre_enqueue_duration(self, profile: str, status: str, seconds: float) -> None:
        """`framework_extension_point_duration_seconds`, extension point PreEnqueue; every run."""

    def plugin_duration(self, plugin: str, status: str, seconds: float) -> None:
        """`plugin_execution_duration_seconds`, extension point PreEnqueue; a sample of runs."""
