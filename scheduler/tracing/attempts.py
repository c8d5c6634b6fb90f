"""AttemptTraces: one trace for each sampled scheduling attempt, from the pop to its outcome.

The root span `Scheduling` has a child for each extension point that ran. Those of the scheduling
cycle are made afterwards from the durations that the engine measures for its metrics; those of the
binding cycle are open while it runs, so that requests to the API server can refer to them.

Used from the event loop only. An attempt that is not sampled costs one random number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from scheduler.api.pod import Pod
from scheduler.engine import Attempt, Failure
from scheduler.engine.errors import AttemptError
from scheduler.engine.metrics import EngineMetrics
from scheduler.framework import QueuedPodInfo

ROOT: Final = "Scheduling"
"""Name of the root span, as of upstream's own trace (`schedule_one.go: schedulePod`)."""

MAX_TEXT: Final = 1024
"""Characters of a message: as the note of an Event. Some collectors refuse long attributes."""

# Semantic conventions of OpenTelemetry, "Kubernetes" attributes, and our own.
POD: Final = "k8s.pod.name"
POD_UID: Final = "k8s.pod.uid"
NAMESPACE: Final = "k8s.namespace.name"
NODE: Final = "k8s.node.name"
PROFILE: Final = "kubestow.profile"
ATTEMPT: Final = "kubestow.attempt"
QUEUE_WAIT: Final = "kubestow.queue.wait"
QUEUE_EVENT: Final = "kubestow.queue.event"
RESULT: Final = "kubestow.result"
EVALUATED: Final = "kubestow.nodes.evaluated"
FEASIBLE: Final = "kubestow.nodes.feasible"
REJECTED_BY: Final = "kubestow.unschedulable_plugins"
NOMINATED: Final = "kubestow.nominated_node"
VICTIMS: Final = "kubestow.preemption.victims"
STATUS: Final = "kubestow.status"
PLUGIN: Final = "kubestow.plugin"

_SECOND: Final = 1_000_000_000


class AttemptTrace:
    """The trace of one attempt."""

    __slots__ = ("context", "span")

    def __init__(self, span: Span) -> None:
        self.span = span
        #: That of the spans below the root.
        self.context: Context = trace.set_span_in_context(span)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make requests and tasks that begin meanwhile part of the trace."""
        token = context.attach(self.context)
        try:
            yield
        finally:
            context.detach(token)

    def chosen(self, attempt: Attempt) -> None:
        """Record the node that the scheduling cycle chose."""
        assert attempt.result is not None
        self.span.set_attributes(
            {
                NODE: attempt.result.node_name,
                EVALUATED: attempt.result.evaluated_nodes,
                FEASIBLE: attempt.result.feasible_nodes,
            }
        )

    def bound(self) -> None:
        """End the trace of a pod that is bound."""
        self.span.set_attribute(RESULT, "scheduled")
        self.span.set_status(StatusCode.OK)
        self.span.end()

    def failed(self, failure: Failure) -> None:
        """End the trace of a failed attempt."""
        span = self.span
        span.set_attribute(RESULT, failure.result)
        if failure.unschedulable_plugins:
            span.set_attribute(REJECTED_BY, sorted(failure.unschedulable_plugins))
        if failure.nominating is not None and failure.nominating.node_name:
            span.set_attribute(NOMINATED, failure.nominating.node_name)
        span.set_status(error_status(failure.message))
        span.end()

    def dropped(self, why: str) -> None:
        """End the trace of an attempt without an outcome."""
        self.span.set_attribute(RESULT, "dropped")
        self.span.set_status(error_status(why))
        self.span.end()


class TraceStep:
    """An open span of a binding cycle."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def failed(self, message: str) -> None:
        """Mark the span as failed."""
        self._span.set_status(error_status(message))


class AttemptTraces:
    """Begins and ends the traces of attempts; all that are open, by the UID of the pod."""

    def __init__(self, tracer: Tracer, *, ratio: float, random: Callable[[], float]) -> None:
        """Trace this share of the attempts; of those, what the sampler of `tracer` takes.

        `random` returns a number below 1. It is not the scheduler's own source, whose choices
        must not depend on tracing.
        """
        self.tracer = tracer
        self._ratio = ratio
        self._random = random
        #: Of pods whose scheduling cycle succeeded, until the binding cycle has ended.
        self.binding: dict[str, AttemptTrace] = {}
        #: Of the scheduling cycle that runs.
        self.cycle: AttemptTrace | None = None
        self._measurements: list[CycleMeasurements] = []

    def begin(self, info: QueuedPodInfo, now: float) -> AttemptTrace | None:
        """Begin the trace of a popped pod unless the attempt is not sampled.

        `now` is wall time, seconds.
        """
        if self._random() >= self._ratio:
            return None
        attributes = {
            **of_pod(info.pod),
            PROFILE: info.pod.spec.scheduler_name,
            ATTEMPT: info.attempts,
            QUEUE_WAIT: max(0.0, now - info.timestamp),
        }
        if info.last_event:
            attributes[QUEUE_EVENT] = info.last_event
        # Without a parent, whatever the task that pops may belong to.
        span = self.tracer.start_span(ROOT, Context(), SpanKind.INTERNAL, attributes)
        return AttemptTrace(span) if span.is_recording() else None

    @contextmanager
    def in_cycle(self, trace: AttemptTrace) -> Iterator[None]:
        """Make spans of the extension points that run meanwhile."""
        self.cycle = trace
        for each in self._measurements:
            each.extension_point = each.traced_point
        try:
            with trace.current():
                yield
        finally:
            for each in self._measurements:
                each.extension_point = each.plain_point
            self.cycle = None

    def measure(self, inner: EngineMetrics) -> EngineMetrics:
        """Return a receiver for the engine's measurements that passes all on to `inner`."""
        measurements = CycleMeasurements(inner, self)
        self._measurements.append(measurements)
        return measurements

    def point(self, name: str, status: str, seconds: float) -> None:
        """Add a span for a run of an extension point that ended now."""
        if self.cycle is None:
            return
        ended = time.time_ns()
        span = self.tracer.start_span(
            name,
            self.cycle.context,
            attributes={STATUS: status},
            start_time=ended - int(seconds * _SECOND),
        )
        if status == "Error":
            span.set_status(StatusCode.ERROR)
        span.end(ended)

    def preempted(self, victims: int) -> None:
        """Record the number of victims that preemption chose."""
        if self.cycle is not None:
            self.cycle.span.set_attribute(VICTIMS, victims)

    @contextmanager
    def step(self, attempt: Attempt, name: str, plugin: str = "") -> Iterator[TraceStep]:
        """Open a span of the binding cycle, to which requests to the API server refer meanwhile.

        An AttemptError, which passes, marks it as failed.
        """
        attributes = {**of_pod(attempt.pod), NODE: attempt.node_name}
        if plugin:
            attributes[PLUGIN] = plugin
        with self.tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            step = TraceStep(span)
            try:
                yield step
            except AttemptError as error:
                step.failed(error.status.message)
                raise


def of_pod(pod: Pod) -> dict[str, str | int | float]:
    """Return the attributes that name a pod."""
    metadata = pod.metadata
    return {POD: metadata.name, NAMESPACE: metadata.namespace, POD_UID: metadata.uid}


def error_status(message: str) -> Status:
    """Return the status of a span that failed, with the beginning of the message."""
    return Status(StatusCode.ERROR, message[:MAX_TEXT])


def trace_headers() -> Mapping[str, str]:
    """Return the headers for the present span, by the propagators in OTEL_PROPAGATORS."""
    headers: dict[str, str] = {}
    if trace.get_current_span().get_span_context().is_valid:
        propagate.inject(headers)
    return headers


class CycleMeasurements:
    """Implements `scheduler.engine.metrics.EngineMetrics` over another receiver.

    Its methods are those of the other, so that it costs nothing unless a cycle is traced.
    """

    def __init__(self, inner: EngineMetrics, traces: AttemptTraces) -> None:
        self.plain_point = inner.extension_point
        self.extension_point = inner.extension_point
        self.plugin = inner.plugin
        self.algorithm = inner.algorithm
        self.evaluated = inner.evaluated
        self.over_budget = inner.over_budget
        self.cycle_over_budget = inner.cycle_over_budget
        self._traces = traces

    def traced_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """Report one run of an extension point, and make a span of it."""
        self._traces.point(point, status, seconds)
        self.plain_point(point, status, profile, seconds)
