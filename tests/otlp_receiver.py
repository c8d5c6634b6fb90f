"""A collector for tests: receives traces by OTLP over HTTP, as protobuf, on a socket of 127.0.0.1.

It runs in a thread with an event loop of its own, so that a test whose event loop stands still, or
that has none, can read what arrived.

Tests with it need the packages of the extra `otel` and are skipped without; with
`KUBESTOW_REQUIRE_OTEL=1` pytest refuses to start instead, so that CI cannot pass by skipping.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Literal

import pytest
from aiohttp import web

Behaviour = Literal["accept", "refuse", "hang"]

Json = dict[str, Any]

PACKAGE = "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
MISSING = "needs the extra otel: pip install '.[otel]'"
REQUIRE_VARIABLE: Final = "KUBESTOW_REQUIRE_OTEL"
DISTRIBUTIONS: Final = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")


def require_opentelemetry() -> None:
    """Refuse the session if the libraries are required and missing."""
    try:
        for each in DISTRIBUTIONS if os.environ.get(REQUIRE_VARIABLE) == "1" else ():
            version(each)
    except PackageNotFoundError:
        text = f"{MISSING} ({REQUIRE_VARIABLE}=1 makes this an error)"
        raise pytest.UsageError(text) from None


class Receiver:
    """Keeps the spans it received, as dictionaries."""

    def __init__(self, behaviour: Behaviour = "accept") -> None:
        self.behaviour: Behaviour = behaviour
        self.url = ""
        self.requests = 0
        #: Headers of the last request.
        self.headers: dict[str, str] = {}
        self.resource: Json = {}
        self.spans: list[Json] = []
        self._trace_service: Any = pytest.importorskip(PACKAGE, reason=MISSING)
        self._stop = asyncio.Event()

    def named(self, name: str) -> list[Json]:
        """Return the spans of this name."""
        return [span for span in self.spans if span["name"] == name]

    def trace_of(self, pod: str) -> list[Json]:
        """Return the spans of the last trace of a pod, the root first; empty before its end."""
        roots = [
            span for span in self.named("Scheduling") if span["attributes"]["k8s.pod.name"] == pod
        ]
        if not roots:
            return []
        root = roots[-1]
        rest = [span for span in self.spans if span["trace"] == root["trace"] and span is not root]
        return [root, *sorted(rest, key=lambda span: int(span["start"]))]

    async def receive(self, request: web.Request) -> web.Response:
        """Process one export."""
        self.requests += 1
        self.headers = dict(request.headers)
        if self.behaviour == "refuse":
            return web.Response(status=400, text="not today")
        if self.behaviour == "hang":
            await self._stop.wait()
        message = self._trace_service.ExportTraceServiceRequest.FromString(await request.read())
        for resource_spans in message.resource_spans:
            self.resource = _attributes(resource_spans.resource.attributes)
            for scope_spans in resource_spans.scope_spans:
                self.spans += [_span(span) for span in scope_spans.spans]
        body = self._trace_service.ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=body, content_type="application/x-protobuf")

    async def serve(self, started: threading.Event) -> None:
        """Serve until `stop`."""
        application = web.Application()
        application.router.add_post("/v1/traces", self.receive)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        self._loop = asyncio.get_running_loop()
        started.set()
        await self._stop.wait()
        await runner.cleanup()

    def stop(self) -> None:
        """End `serve`."""
        self._loop.call_soon_threadsafe(self._stop.set)


@contextmanager
def otlp_receiver(behaviour: Behaviour = "accept") -> Iterator[Receiver]:
    """Run a receiver; the test is skipped where the packages are missing."""
    receiver = Receiver(behaviour)
    started = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(receiver.serve(started)))
    thread.start()
    started.wait()
    try:
        yield receiver
    finally:
        receiver.stop()
        thread.join()


def _span(span: Any) -> Json:
    return {
        "name": span.name,
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "start": span.start_time_unix_nano,
        "end": span.end_time_unix_nano,
        "attributes": _attributes(span.attributes),
        "failed": span.status.code == span.status.STATUS_CODE_ERROR,
        "message": span.status.message,
    }


def _attributes(attributes: Any) -> Json:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)
