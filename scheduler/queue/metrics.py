"""What the queue reports for metrics, as a Protocol. The service implements it with Prometheus.

Names follow upstream's metrics (queue-and-events.md 6.6). Counts are reported always; durations
only when the queue was given a timer, because measuring costs more than much of what is measured.
"""

from __future__ import annotations

from typing import Protocol

from scheduler.framework.events import QueueingHint


class QueueMetrics(Protocol):
    """Calls made by the queue. They must be quick and must not raise."""

    def incoming_pods(self, queue: str, event: str) -> None:
        """`queue_incoming_pods_total` +1; queue is `active`, `backoff` or `unschedulable`."""
        ...

    def pending_pods(self, queue: str, delta: int) -> None:
        """`pending_pods` gauge; queue is `active`, `backoff`, `unschedulable` or `gated`."""
        ...

    def unschedulable_pods(self, plugin: str, profile: str, delta: int) -> None:
        """`unschedulable_pods` gauge: queued pods that the plugin rejected last."""
        ...

    def inflight_events(self, event: str, delta: int) -> None:
        """`inflight_events` gauge; popped pods count under `PodPopped`."""
        ...

    def hint_error(self, plugin: str, event: str) -> None:
        """A hint function raised; the pod was queued."""
        ...

    def hint_duration(
        self, plugin: str, event: str, hint: QueueingHint | None, seconds: float
    ) -> None:
        """`queueing_hint_execution_duration_seconds`; None: the function raised."""
        ...

    def pre_enqueue_duration(self, profile: str, status: str, seconds: float) -> None:
        """`framework_extension_point_duration_seconds`, extension point PreEnqueue; each run."""
        ...

    def plugin_duration(self, plugin: str, status: str, seconds: float) -> None:
        """`plugin_execution_duration_seconds`, extension point PreEnqueue; a sample of runs."""
        ...


class NoMetrics:
    """Reports to nobody."""

    def incoming_pods(self, queue: str, event: str) -> None:
        """See `QueueMetrics`."""

    def pending_pods(self, queue: str, delta: int) -> None:
        """See `QueueMetrics`."""

    def unschedulable_pods(self, plugin: str, profile: str, delta: int) -> None:
        """See `QueueMetrics`."""

    def inflight_events(self, event: str, delta: int) -> None:
        """See `QueueMetrics`."""

    def hint_error(self, plugin: str, event: str) -> None:
        """See `QueueMetrics`."""

    def hint_duration(
        self, plugin: str, event: str, hint: QueueingHint | None, seconds: float
    ) -> None:
        """See `QueueMetrics`."""

    def pre_enqueue_duration(self, profile: str, status: str, seconds: float) -> None:
        """See `QueueMetrics`."""

    def plugin_duration(self, plugin: str, status: str, seconds: float) -> None:
        """See `QueueMetrics`."""
