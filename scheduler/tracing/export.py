"""Export of spans by OTLP over HTTP, from a thread of its own that nothing waits for.

Invariant: at most `max_queue` ended spans wait; another one is dropped and counted, so a collector
that is slow, hangs or refuses delays nothing and fills no memory. Each request has the exporter's
own timeout (OTEL_EXPORTER_OTLP_TIMEOUT, 10 s).
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from scheduler.build_info import build_info
from scheduler.service.limited_log import LimitedLog
from scheduler.service.options import own_namespace

DEFAULT_QUEUE: Final = 2048
"""Spans that wait for the exporter, unless OTEL_BSP_MAX_QUEUE_SIZE is set: the SDK's default."""

LIBRARY: Final = "opentelemetry"
"""Root of the names of the libraries' loggers."""

HEADER_PARSER: Final = "opentelemetry.util.re"
"""The logger of what reads OTEL_EXPORTER_OTLP_HEADERS."""


class CountingExporter(SpanExporter):
    """Counts what another exporter sent and could not send. Called by the exporting thread only."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        #: Spans handed over by the queue.
        self.taken = 0
        self.exported = 0
        self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; waits at most for the timeout of the exporter behind."""
        self.taken += len(spans)
        result = SpanExportResult.FAILURE
        try:
            result = self._inner.export(spans)
        finally:
            if result is SpanExportResult.SUCCESS:
                self.exported += len(spans)
            else:
                self.failed += len(spans)
        return result

    def shutdown(self) -> None:
        """Give up what is being sent."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Return True: nothing is kept here."""
        return True


class BoundedProcessor(SpanProcessor):
    """Passes ended spans on to a batch processor, or drops and counts them while it is full."""

    def __init__(self, exporter: CountingExporter, max_queue: int) -> None:
        self._exporter = exporter
        self._max_queue = max_queue
        self._queued = 0
        self.dropped = 0
        self._batches = BatchSpanProcessor(exporter, max_queue_size=max_queue)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Do nothing."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span; never blocks."""
        if self._queued - self._exporter.taken >= self._max_queue:
            self.dropped += 1
            return
        self._queued += 1
        self._batches.on_end(span)

    def shutdown(self) -> None:
        """Send what is queued and end the thread; may take as long as the exporter's timeout."""
        self._batches.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what is queued."""
        return bool(self._batches.force_flush(timeout_millis))


def max_queue(environ: Mapping[str, str] = os.environ) -> int:
    """Return how many spans may wait (OTEL_BSP_MAX_QUEUE_SIZE)."""
    try:
        return int(environ["OTEL_BSP_MAX_QUEUE_SIZE"])
    except (KeyError, ValueError):
        return DEFAULT_QUEUE


def exporter(url: str | None) -> SpanExporter:
    """Return the exporter to a URL; None: to the one in the environment."""
    return OTLPSpanExporter(endpoint=url)


def provider(processor: SpanProcessor, *, sampler_from_environment: bool) -> TracerProvider:
    """Return the source of tracers, which takes every span unless OTEL_TRACES_SAMPLER decides."""
    # shutdown_on_exit: Tracing.close ends it, in bounded time.
    made = TracerProvider(
        sampler=None if sampler_from_environment else ALWAYS_ON,
        resource=resource(),
        shutdown_on_exit=False,
    )
    made.add_span_processor(processor)
    return made


def resource(environ: Mapping[str, str] = os.environ) -> Resource:
    """Describe this process; OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME take precedence."""
    own = {"service.name": "kubestow", "service.version": build_info().version}
    if "KUBERNETES_SERVICE_HOST" in environ:
        own["k8s.namespace.name"] = own_namespace(environ)
        own["k8s.pod.name"] = environ.get("POD_NAME") or socket.gethostname()
    return Resource.create({**own, **OTELResourceDetector().detect().attributes})


def log_library_messages() -> None:
    """Write what the libraries log, such as a failed export, each format once a minute at most."""
    logger = logging.getLogger(LIBRARY)
    logger.handlers[:] = [_LimitedHandler(LimitedLog(__name__))]
    logger.propagate = False


class _LimitedHandler(logging.Handler):
    """Writes warnings of a library to our log."""

    def __init__(self, log: LimitedLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line for each format in a minute; the exporting thread alone logs often."""
        if record.name == HEADER_PARSER:
            # Its argument is a header, most likely a credential.
            self._log.warning(
                "tracing: a malformed header in OTEL_EXPORTER_OTLP_HEADERS is ignored; write "
                "NAME=VALUE, with a comma between headers"
            )
            return
        # The format, not the text: there are as many texts as errors.
        fields = {"message": record.getMessage()}
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = repr(record.exc_info[1])
        self._log.warning(f"tracing: {record.msg}", **fields)
