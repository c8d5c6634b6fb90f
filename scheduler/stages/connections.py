"""First stage: clients and writers that talk to the API server."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from config import Configuration
from scheduler.client.clock import Clock, SystemClock
from scheduler.client.dispatcher import Dispatcher, DispatcherOptions
from scheduler.client.events import EventRecorder, EventRecorderOptions
from scheduler.client.fence import Fence
from scheduler.client.rate_limit import RateLimiter
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from scheduler.framework import ApiWriter, Listers
from scheduler.metrics import SchedulerMetrics
from scheduler.service.api_writer import ProfileEvents, ServiceApiWriter
from scheduler.service.binding_cycle import BindingCycle
from scheduler.service.node_recheck import NodeRecheck
from scheduler.service.object_waits import ObjectWaits
from scheduler.service.options import seconds

if TYPE_CHECKING:
    from scheduler.tracing.start import Tracing


@dataclass(frozen=True, slots=True)
class Connections:
    """Clients, the dispatcher of writes, the recorder of events, and the objects they share."""

    configuration: Configuration
    clock: Clock
    #: The only source of randomness; a seed makes tie-breaking and jitter reproducible.
    random: random.Random
    metrics: SchedulerMetrics
    fence: Fence
    client: ApiClient
    dispatcher: Dispatcher
    recorder: EventRecorder
    #: The recorder as plugins see it.
    events: ProfileEvents
    #: None while `kubestow.tracing` is not set.
    tracing: Tracing | None

    def derive(self, purpose: str, *, fence: Fence | None = None) -> ApiClient:
        """Return a client with a separate rate limit, so that its requests do not delay binds."""
        return self.client.derive(
            purpose, limiter=limiter(self.configuration, self.clock), fence=fence
        )

    @property
    def binding_cycle(self) -> type[BindingCycle]:
        """The class of what an assumed pod goes through."""
        return BindingCycle if self.tracing is None else self.tracing.binding_cycle

    def plugin_writer(
        self, waits: ObjectWaits, recheck: NodeRecheck | None, _known: Listers, /
    ) -> ApiWriter:
        """Return the writer for the plugins of a profile."""
        return ServiceApiWriter(
            self.client,
            self.dispatcher,
            self.metrics,
            waits,
            self.random,
            precondition=None if recheck is None else recheck.precondition,
        )


def connect(
    configuration: Configuration,
    transport: Transport,
    *,
    fence: Fence,
    metrics: SchedulerMetrics,
    clock: Clock | None,
) -> Connections:
    """Build the stage; nothing is sent. `clock` None: the machine's.

    Raises:
        ConfigurationError: the libraries for traces are missing.
    """
    settings = configuration.options
    tracing = _tracing(configuration)
    if tracing is not None:
        metrics.add_source(tracing.report)
    clock = clock or SystemClock()
    source = random.Random(settings.seed)
    client = ApiClient(
        transport,
        user_agent="kubestow/scheduler",
        limiter=limiter(configuration, clock),
        fence=fence,
        bind_timeout=seconds(settings.bind_timeout),
        clock=clock,
        metrics=metrics.client_recorder(transport.host),
        trace_headers=None if tracing is None else tracing.headers,
    )
    dispatcher = Dispatcher(
        client,
        fence=fence,
        options=DispatcherOptions(binds=settings.bind_concurrency),
        random=source,
    )
    recorder = EventRecorder(
        # Events have a separate rate limit, as upstream: they must not use up that of binds.
        client.derive("events", limiter=limiter(configuration, clock), fence=fence),
        dispatcher,
        options=_event_options(settings.events_per_second),
        random=source,
    )
    events = ProfileEvents(recorder, configuration.profiles[0].scheduler_name)
    return Connections(
        configuration, clock, source, metrics, fence, client, dispatcher, recorder, events, tracing
    )


def _tracing(configuration: Configuration) -> Tracing | None:
    if configuration.options.tracing is None:
        return None
    from scheduler.tracing.start import start  # noqa: PLC0415 - not loaded by who traces nothing

    return start(configuration.options.tracing)


def limiter(configuration: Configuration, clock: Clock) -> RateLimiter:
    """Return a new rate limit as configured."""
    limits = configuration.effective.client_connection
    return RateLimiter(clock, qps=limits.qps, burst=limits.burst)


def _event_options(per_second: float | None) -> EventRecorderOptions:
    """Return the recorder's limits; without `per_second` only the client's rate limit applies."""
    if per_second is None:
        return EventRecorderOptions(qps=-1.0)
    return EventRecorderOptions(qps=per_second, burst=max(1, int(2 * per_second)))
