"""Spans that a collector does not take are dropped and counted, and the end is bounded."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence

import pytest
from structlog.testing import capture_logs

from tests.otlp_receiver import MISSING

pytest.importorskip("opentelemetry.sdk", reason=MISSING)

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from scheduler.metrics import SchedulerMetrics
from scheduler.tracing import export
from scheduler.tracing import start as starting
from scheduler.tracing.attempts import AttemptTraces, trace_headers
from scheduler.tracing.start import Tracing

QUEUE = 4


class Stuck(SpanExporter):
    """Sends nothing until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.called = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.called.set()
        self.released.wait()
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    exporter = Stuck()
    yield exporter
    exporter.released.set()


def tracing_to(exporter: SpanExporter, monkeypatch: pytest.MonkeyPatch) -> Tracing:
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", str(QUEUE))
    counting = export.CountingExporter(exporter)
    processor = export.BoundedProcessor(counting, QUEUE)
    provider = export.provider(processor, sampler_from_environment=False)
    traces = AttemptTraces(provider.get_tracer("test"), ratio=1.0, random=lambda: 0.0)
    return Tracing(traces, processor, counting, trace_headers)


def counted(tracing: Tracing) -> dict[str, float]:
    metrics = SchedulerMetrics(process=False)
    tracing.report(metrics)
    text = metrics.exposition()[0].decode()
    prefix = 'kubestow_trace_spans_total{result="'
    lines = [line.removeprefix(prefix) for line in text.splitlines() if line.startswith(prefix)]
    return {line.partition('"')[0]: float(line.split()[-1]) for line in lines}


def end_spans(tracing: Tracing, count: int) -> None:
    for _ in range(count):
        tracing.attempts.tracer.start_span("any").end()


async def test_spans_beyond_the_queue_are_dropped_and_counted(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracing = tracing_to(stuck, monkeypatch)
    end_spans(tracing, QUEUE)
    # The first batch is with the exporter, which does not return.
    assert stuck.called.wait(60)
    end_spans(tracing, QUEUE + 3)
    assert counted(tracing) == {"exported": 0, "failed": 0, "dropped": 3}
    stuck.released.set()
    await tracing.close()
    assert counted(tracing) == {"exported": 2 * QUEUE, "failed": 0, "dropped": 3}


async def test_the_end_does_not_wait_for_a_stuck_collector(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "CLOSE_SECONDS", 0.01)
    tracing = tracing_to(stuck, monkeypatch)
    end_spans(tracing, QUEUE)
    with capture_logs() as lines:
        await tracing.close()
    assert [line["event"] for line in lines] == [
        "traces: the collector did not take the last spans in time"
    ]
    # What it still sends cannot keep the process alive.
    mine = [each for each in threading.enumerate() if each.name == "trace export end"]
    assert all(each.daemon for each in mine)


async def test_an_exporter_that_fails_or_raises_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Failing(Stuck):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            if self.called.is_set():
                raise OSError("no")
            self.called.set()
            return SpanExportResult.FAILURE

    failing = Failing()
    tracing = tracing_to(failing, monkeypatch)
    end_spans(tracing, QUEUE)
    assert failing.called.wait(60)
    end_spans(tracing, 1)
    await tracing.close()
    assert counted(tracing) == {"exported": 0, "failed": QUEUE + 1, "dropped": 0}


@pytest.fixture
def library_logger() -> Iterator[logging.Logger]:
    """Restore the handlers of the libraries' logger."""
    logger = logging.getLogger(export.LIBRARY)
    before = logger.handlers[:], logger.propagate
    yield logger
    logger.handlers[:], logger.propagate = before


def test_what_the_libraries_log_is_written_once_a_minute(library_logger: logging.Logger) -> None:
    with capture_logs() as lines:
        export.log_library_messages()
        for number in range(3):
            library_logger.getChild("exporter").error("cannot send %d", number)
    assert [(line["event"], line["message"]) for line in lines] == [
        ("tracing: cannot send %d", "cannot send 0")
    ]


def test_a_message_of_the_libraries_has_the_exception(library_logger: logging.Logger) -> None:
    with capture_logs() as lines:
        export.log_library_messages()
        try:
            raise OSError("no route to the collector")
        except OSError:
            library_logger.getChild("sdk").exception("Exception while exporting")
    assert [line["error"] for line in lines] == ["OSError('no route to the collector')"]


def test_the_resource_is_this_process_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert export.resource({}).attributes["service.name"] == "kubestow"
    assert "k8s.pod.name" not in export.resource({}).attributes
    inside = {"KUBERNETES_SERVICE_HOST": "x", "POD_NAMESPACE": "shop", "POD_NAME": "kubestow-1"}
    found = export.resource(inside).attributes
    assert (found["k8s.namespace.name"], found["k8s.pod.name"]) == ("shop", "kubestow-1")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.node.name=n1,k8s.pod.name=other")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "batch")
    found = export.resource(inside).attributes
    assert (found["service.name"], found["k8s.node.name"]) == ("batch", "n1")
    assert found["k8s.pod.name"] == "other"


@pytest.mark.parametrize(("value", "spans"), [("", 2048), ("many", 2048), ("16", 16)])
def test_the_length_of_the_queue_can_be_set(value: str, spans: int) -> None:
    assert export.max_queue({"OTEL_BSP_MAX_QUEUE_SIZE": value}) == spans
