"""Spans of an attempt, as the exporter gets them."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from scheduler.api import Pod
from scheduler.engine.errors import AttemptError, failed
from scheduler.engine.failure import Failure
from scheduler.engine.metrics import NoMetrics
from scheduler.framework import NominatingInfo, QueuedPodInfo
from tests.otlp_receiver import MISSING

pytest.importorskip("opentelemetry.sdk", reason=MISSING)

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from scheduler.tracing.attempts import AttemptTraces, trace_headers


class Recorded:
    """Traces whose spans stay in memory."""

    def __init__(self, ratio: float = 1.0, chance: Callable[[], float] = lambda: 0.5) -> None:
        self._memory = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._memory))
        self.traces = AttemptTraces(provider.get_tracer("test"), ratio=ratio, random=chance)

    def spans(self) -> list[ReadableSpan]:
        return list(self._memory.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans() if span.name == name]
        return found


POD = msgspec.convert(
    {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {"schedulerName": "kubestow"},
    },
    Pod,
)


def queued(**fields: Any) -> QueuedPodInfo:
    return QueuedPodInfo(POD, timestamp=100.0, **fields)


def attempt_on(node_name: str) -> Any:
    """Return what the spans of a binding cycle need of an attempt."""
    return SimpleNamespace(pod=POD, node_name=node_name)


def test_the_root_names_the_pod_its_wait_and_its_attempt() -> None:
    recorded = Recorded()
    trace = recorded.traces.begin(queued(attempts=3, last_event="NodeAdd"), now=102.5)
    assert trace is not None
    trace.bound()
    attributes = dict(recorded.named("Scheduling").attributes or {})
    assert attributes == {
        "k8s.pod.name": "web",
        "k8s.namespace.name": "shop",
        "k8s.pod.uid": "u1",
        "kubestow.profile": "kubestow",
        "kubestow.attempt": 3,
        "kubestow.queue.wait": 2.5,
        "kubestow.queue.event": "NodeAdd",
        "kubestow.result": "scheduled",
    }
    assert recorded.named("Scheduling").status.is_ok


def test_only_the_sampled_share_of_attempts_is_traced() -> None:
    recorded = Recorded(ratio=0.1, chance=random.Random(1).random)
    begun = [recorded.traces.begin(queued(), 100.0) for _ in range(1000)]
    assert 60 < len([each for each in begun if each is not None]) < 140
    none = Recorded(ratio=0.0, chance=lambda: 0.0)
    assert none.traces.begin(queued(), 100.0) is None


def test_a_measured_extension_point_is_a_span_of_the_same_length() -> None:
    recorded = Recorded()
    trace = recorded.traces.begin(queued(), 100.0)
    assert trace is not None
    measured = recorded.traces.measure(NoMetrics())
    with recorded.traces.in_cycle(trace):
        measured.extension_point("Filter", "Unschedulable", "kubestow", 0.25)
        measured.extension_point("Score", "Error", "kubestow", 0.0)
        recorded.traces.preempted(2)
    trace.bound()
    root, point = recorded.named("Scheduling"), recorded.named("Filter")
    assert root.context is not None
    assert point.parent == root.context
    assert point.start_time is not None
    assert point.end_time is not None
    assert point.end_time - point.start_time == 250_000_000
    assert point.attributes == {"kubestow.status": "Unschedulable"}
    assert point.status.is_unset
    assert not recorded.named("Score").status.is_ok
    assert (root.attributes or {})["kubestow.preemption.victims"] == 2


def test_measurements_pass_through_untouched_outside_a_traced_cycle() -> None:
    recorded, inner = Recorded(), NoMetrics()
    measured = recorded.traces.measure(inner)

    def passes_directly() -> bool:
        names = (name for name in vars(type(inner).__mro__[1]) if not name.startswith("_"))
        return all(getattr(measured, name) == getattr(inner, name) for name in names)

    assert passes_directly()
    trace = recorded.traces.begin(queued(), 100.0)
    assert trace is not None
    with recorded.traces.in_cycle(trace):
        assert not passes_directly()
    assert passes_directly()
    recorded.traces.point("Filter", "Success", 0.1)
    assert recorded.spans() == []


def test_a_failure_has_the_reasons_and_is_not_endless() -> None:
    recorded = Recorded()
    trace = recorded.traces.begin(queued(), 100.0)
    assert trace is not None
    message = "0/3 nodes are available: " + "x" * 5000
    trace.failed(
        Failure(
            reason="Unschedulable",
            message=message,
            nominating=NominatingInfo("n1"),
            unschedulable_plugins=frozenset({"NodePorts", "NodeAffinity"}),
        )
    )
    root = recorded.named("Scheduling")
    assert root.attributes is not None
    assert root.attributes["kubestow.result"] == "unschedulable"
    assert root.attributes["kubestow.unschedulable_plugins"] == ("NodeAffinity", "NodePorts")
    assert root.attributes["kubestow.nominated_node"] == "n1"
    text = root.status.description or ""
    assert text.startswith("0/3 nodes are available: x")
    assert len(text) == 1024


def test_requests_refer_to_the_span_of_the_task_that_sends_them() -> None:
    recorded = Recorded()
    assert trace_headers() == {}
    trace = recorded.traces.begin(queued(), 100.0)
    assert trace is not None
    with trace.current(), recorded.traces.step(attempt_on("n1"), "Bind") as step:
        headers = trace_headers()
        step.failed("refused")
    assert trace_headers() == {}
    span = recorded.named("Bind")
    assert span.context is not None
    ids = f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-"
    # The last field has the flags; the lowest bit is "sampled".
    assert set(headers) == {"traceparent"}
    assert headers["traceparent"].startswith(ids)
    assert int(headers["traceparent"].removeprefix(ids)) & 1
    assert span.parent == trace.span.get_span_context()
    assert (span.attributes or {})["k8s.node.name"] == "n1"
    assert span.status.description == "refused"


def test_a_step_that_a_plugin_aborts_is_marked_as_failed() -> None:
    recorded = Recorded()
    with pytest.raises(AttemptError), recorded.traces.step(attempt_on("n1"), "Bind"):
        raise failed("disk password=hunter2 is gone")
    status = recorded.named("Bind").status
    assert not status.is_ok
    assert status.description == "disk password=[redacted] is gone"
