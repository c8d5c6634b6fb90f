"""Starting and ending of tracing, as `kubestow.tracing` asks for it."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from config import MILLION, TracingConfiguration, tracing_url
from scheduler.framework import ConfigurationError
from scheduler.metrics import SchedulerMetrics
from scheduler.service.binding_cycle import BindingCycle
from scheduler.service.scheduling_loop import SchedulingLoop
from scheduler.tracing.traced import TracedBindingCycle, TracedSchedulingLoop

if TYPE_CHECKING:
    from scheduler.tracing.attempts import AttemptTraces
    from scheduler.tracing.export import BoundedProcessor, CountingExporter

_log = structlog.get_logger(__name__)

PACKAGES: Final = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
"""The extra `otel`, by packages: `kubestow[otel]` works only where a release was published."""

SAMPLER_VARIABLE: Final = "OTEL_TRACES_SAMPLER"
PROTOCOL_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
"""The first one that is set counts."""

PROTOCOL: Final = "http/protobuf"

CLOSE_SECONDS: Final = 2.0
"""For the spans that are queued when the process ends; a collector takes milliseconds."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """Traces of attempts, and the thread that exports them."""

    attempts: AttemptTraces
    processor: BoundedProcessor
    exporter: CountingExporter
    #: The headers of a request of the present task.
    headers: Callable[[], Mapping[str, str]]

    @property
    def scheduling_loop(self) -> type[SchedulingLoop]:
        """The scheduling loop that begins these traces."""
        attempts = self.attempts

        class Traced(TracedSchedulingLoop):
            traces = attempts

        return Traced

    @property
    def binding_cycle(self) -> type[BindingCycle]:
        """The binding cycle that ends them."""
        attempts = self.attempts

        class Traced(TracedBindingCycle):
            traces = attempts

        return Traced

    def observed_preemption(self, observe: Callable[[int], None]) -> Callable[[int], None]:
        """Return `observe`, which also adds the number of victims to the trace."""

        def both(victims: int = 0) -> None:
            observe(victims)
            self.attempts.preempted(victims)

        return both

    def report(self, metrics: SchedulerMetrics) -> None:
        """Set the metrics."""
        metrics.trace_spans(
            exported=self.exporter.exported,
            failed=self.exporter.failed,
            dropped=self.processor.dropped,
        )

    async def close(self) -> None:
        """Send the spans that are queued, for at most `CLOSE_SECONDS`."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def work() -> None:
            self.processor.shutdown()
            try:
                loop.call_soon_threadsafe(ended.set)
            except RuntimeError:
                # The loop was closed meanwhile: nobody waits any more.
                return

        # A daemon: the interpreter waits for others, and a request may take until its timeout.
        threading.Thread(target=work, name="trace export end", daemon=True).start()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await ended.wait()
        except TimeoutError:
            _log.warning("traces: the collector did not take the last spans in time")


def start(
    settings: TracingConfiguration | None, environ: Mapping[str, str] = os.environ
) -> Tracing | None:
    """Start what the configuration asks for; None if nothing is to be traced.

    Raises:
        ConfigurationError: the libraries are not installed, or refuse a variable OTEL_*.
    """
    if settings is None:
        return None
    try:
        # Only here: they take memory and start-up time.
        from scheduler.tracing import attempts, export  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            f"kubestow.tracing is set, but a library for it is missing ({error}); install it with "
            f"pip install {PACKAGES}, or remove kubestow.tracing from the configuration"
        ) from error
    except ValueError as error:
        # The propagators are read when the library is imported.
        raise _wrong_environment(error) from error
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        _log.info("nothing is traced: OTEL_SDK_DISABLED is true")
        return None
    rate = settings.sampling_rate_per_million
    from_environment = rate is None and bool(environ.get(SAMPLER_VARIABLE))
    if not rate and not from_environment:
        _log.warning("nothing is traced: kubestow.tracing.samplingRatePerMillion is 0 or not set")
        return None
    _warn_of_protocol(environ)
    export.log_library_messages()
    url = None if settings.endpoint is None else tracing_url(settings.endpoint)
    try:
        exporter = export.CountingExporter(export.exporter(url))
        processor = export.BoundedProcessor(exporter, export.max_queue(environ))
        provider = export.provider(processor, sampler_from_environment=from_environment)
    except ValueError as error:
        raise _wrong_environment(error) from error
    traces = attempts.AttemptTraces(
        provider.get_tracer("kubestow"),
        ratio=1.0 if rate is None else rate / MILLION,
        random=random.Random().random,
    )
    return Tracing(traces, processor, exporter, attempts.trace_headers)


def _wrong_environment(error: ValueError) -> ConfigurationError:
    return ConfigurationError(f"kubestow.tracing: {error}; check the environment variables OTEL_*")


def _warn_of_protocol(environ: Mapping[str, str]) -> None:
    name = next((each for each in PROTOCOL_VARIABLES if environ.get(each)), None)
    if name is not None and environ[name] != PROTOCOL:
        _log.warning(
            "traces are exported by OTLP over HTTP only; the collector's port for it is usually "
            "4318",
            variable=name,
            value=environ[name],
        )
