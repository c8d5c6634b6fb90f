"""The scheduler of a world: the stages of the service, over tables instead of an API server.

Nothing of the scheduler is written again here. Left out are the parts that talk to others: the
Lease, reflectors, extenders, metrics endpoints, and the controllers of quota usage and of
node provisioning.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from config import Configuration, FeatureGates
from scheduler.api.pod import Pod
from scheduler.client.binding import BOUND, BindResult, attempt_bind
from scheduler.client.custom_resources import is_reference
from scheduler.client.dispatcher import BindRequest, Dispatcher, DispatcherOptions
from scheduler.client.errors import RequestError
from scheduler.client.fence import OpenFence
from scheduler.client.request_sender import PreSendCheck
from scheduler.client.status_patch import PodStatusPatch
from scheduler.engine.metrics import NoMetrics
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.explain.what_if.trial import TrialParts
from scheduler.framework import Registry
from scheduler.metrics import SchedulerMetrics
from scheduler.offline.direct_loop import DirectLoop, Wake, suits
from scheduler.offline.editing import refuse_negative_amounts
from scheduler.offline.event_log import EventLog
from scheduler.offline.server import OfflineServer
from scheduler.offline.tables import Handlers, Tables
from scheduler.offline.virtual_time import Step, VirtualClock, VirtualLoop
from scheduler.service.api_writer import ProfileEvents
from scheduler.service.background import BackgroundTasks
from scheduler.service.decision_log import DecisionLog
from scheduler.service.event_handlers import EventHandlers
from scheduler.service.manifests import Manifests, StoredObjects
from scheduler.service.options import RunOptions, available_plugins, read_configuration
from scheduler.service.resources import event_name, watched_resource
from scheduler.stages.connections import Connections
from scheduler.stages.profiles import Profiles, build_profiles
from scheduler.stages.reflectors import build_handlers, needed_plurals
from scheduler.stages.scheduling import Scheduling, build_scheduling
from scheduler.stages.state import State, build_state

ENDLESS_BINDS = 1_000_000
"""Slots of the dispatcher: nothing is sent, so that nothing need be held back."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts of one world."""

    configuration: Configuration
    loop: VirtualLoop
    clock: VirtualClock
    random: random.Random
    tables: Tables
    server: OfflineServer
    dispatcher: Dispatcher
    state: State
    background: OfflineBackground
    profiles: Profiles
    scheduling: Scheduling
    event_handlers: EventHandlers
    #: Where the tables deliver their changes.
    handlers: Handlers
    #: Resources that the profiles read.
    needed: tuple[str, ...]
    #: What of the configuration has no effect here.
    notes: tuple[str, ...]
    metrics: SchedulerMetrics
    #: The Events that were recorded, if they are kept.
    events: EventLog
    #: None where scheduling cycles may be suspended: a task of the service's loop schedules then.
    direct: DirectLoop | None
    #: What is known of the objects that decide how another one is stored.
    existing: StoredObjects
    #: Decodes what is added.
    manifests: Manifests

    def trial_parts(self) -> TrialParts:
        """Return what trials work on (`scheduler.explain.what_if`)."""
        return TrialParts(
            cache=self.state.cache,
            engine=self.scheduling.engine,
            stores=self.tables.stores,
            kinds=self.tables.kinds,
            signatures=self.state.signatures,
            subscriptions=self.state.subscriptions,
            random=self.random,
            clock=self.clock,
            features=self.scheduling.features,
            registered=self.scheduling.registered,
            existing=self.existing,
        )

    def end_on_exception(self) -> None:
        """Let a plugin that raises end what runs, before the next pod is attempted."""

        def end(_plugin: str) -> None:
            self.loop.stop()
            if self.direct is not None:
                self.direct.stop()
            else:
                self.scheduling.loop.stop()

        self.scheduling.exceptions.on_raised.subscribe(end)

    def plugin_errors(self) -> str:
        """Return which plugins raised, where and what; empty if none did."""
        names = {name for each in self.profiles.frameworks.values() for name in each.plugins}
        places = sorted(self.scheduling.exceptions.places(names), key=lambda each: each.plugin)
        return "; ".join(
            f"plugin {each.plugin} {each}" + (f": {each.text}" if each.text else "")
            for each in places
        )

    def tasks(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """Yield a name and a coroutine for everything that runs as long as the world."""
        if self.direct is None:
            yield "scheduling loop", self.scheduling.loop.run()
        yield "dispatcher", self.dispatcher.run()


class OfflineDispatcher(Dispatcher):
    """Sends a Binding without a slot, since nothing is limited in a world and no Lease is lost.

    A status patch has no task, since nothing suspends it, and takes as many turns of the loop as
    with one, so that everything happens in the same order.
    """

    def __init__(self, server: OfflineServer, loop: VirtualLoop, random: random.Random) -> None:
        options = DispatcherOptions(binds=ENDLESS_BINDS)
        super().__init__(cast("Any", server), options=options, random=random)
        self._server, self._loop = server, loop
        self._wake = self._patching = Wake()
        self._planned = False
        self._next = Step(self._send_next)

    async def run(self) -> None:
        """Send status patches until it is cancelled."""
        self._patching.divert(self._plan)
        self._send_next()
        await asyncio.Event().wait()

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            self._loop.add_step(self._next)

    def _send_next(self) -> None:
        self._planned = False
        while (patch := self._next_patch()) is not None:
            self._loop.add_step(Step(partial(self._send, patch)))

    def _send(self, patch: PodStatusPatch) -> None:
        run_synchronously(self._send_status(patch))

    async def _write_status(self, patch: PodStatusPatch) -> str:
        return self._server.write_status(patch)

    async def bind(
        self,
        pod: Pod,
        node_name: str,
        annotations: dict[str, str] | None = None,
        precondition: PreSendCheck | None = None,
        *,
        send: BindRequest | None = None,
    ) -> BindResult:
        """Bind at once; only what fails, or must wait, goes the way of the service."""
        if send is None and not (
            self._closed or self._pending or self._blocked or self._in_flight or self._patched
        ):
            result = await attempt_bind(self._client, pod, node_name, annotations, precondition)
            if result is BOUND:
                return BOUND

            async def send() -> BindResult | RequestError:
                return result

        return await super().bind(pod, node_name, annotations, precondition, send=send)


class OfflineBackground(BackgroundTasks):
    """Work that plugins start, such as evictions, on the loop of the world."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._world_loop = loop
        #: Drop the work instead: for decisions that nobody carries out.
        self.dropped = False

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` in a task of its own."""
        if self.dropped:
            work.close()
        else:
            super().start(work, name)

    def _loop(self) -> asyncio.AbstractEventLoop:
        # Objects may change before the loop of the world runs.
        return self._world_loop

    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """Return what has not ended."""
        return tuple(self._tasks)


def read(
    config: str | Path | None, plugin_dirs: tuple[str, ...], feature_gates: Mapping[str, bool]
) -> tuple[Configuration, Registry]:
    """Read a configuration file as the service does; `default-scheduler` is allowed.

    Raises:
        ConfigurationError: lists every problem.
    """
    registry = available_plugins()
    options = RunOptions(
        config_file="" if config is None else str(config),
        replace_default_scheduler=True,
        plugin_dirs=plugin_dirs,
        feature_gates=FeatureGates(feature_gates),
    )
    return read_configuration(options, registry), registry


def assemble(
    configuration: Configuration,
    registry: Registry,
    *,
    seed: int,
    start: float,
) -> Assembly:
    """Build the scheduler of a world. Raises ConfigurationError."""
    notes = tuple(_left_out(configuration))
    configuration = _for_virtual_time(configuration, seed)
    loop = VirtualLoop()
    clock = VirtualClock(loop, start)
    source = random.Random(seed)
    metrics = _Unmeasured()
    background = OfflineBackground(loop)
    tables = Tables()
    server = OfflineServer(tables, loop, clock)
    dispatcher = OfflineDispatcher(server, loop, source)
    events: Any = EventLog(clock)
    connections = Connections(
        configuration=configuration,
        clock=clock,
        random=source,
        metrics=metrics,
        fence=OpenFence(),
        client=cast("Any", server),
        dispatcher=dispatcher,
        recorder=events,
        events=ProfileEvents(events, configuration.profiles[0].scheduler_name),
        tracing=None,
    )
    wake = Wake()
    state = replace(
        build_state(connections, wake), background=background, signatures=tables.signatures
    )
    profiles = build_profiles(connections, state, registry)
    flush_after = RunOptions().pod_max_in_unschedulable_pods
    scheduling = build_scheduling(connections, state, profiles, flush_after)
    event_handlers = build_handlers(EventHandlers, connections, state, profiles, scheduling)
    needed = _listed(tables, state, profiles, scheduling)
    existing = StoredObjects(tables.stores, _gates(configuration, scheduling), complete=False)
    return Assembly(
        configuration, loop, clock, source, tables, server, dispatcher, state, background,
        profiles, scheduling, event_handlers, handlers_of(event_handlers, state, needed), needed,
        notes, metrics, events,
        _adapted(scheduling, loop, clock, wake, state), existing,
        Manifests(existing, next(iter(profiles.frameworks)), refuse_negative_amounts),
    )  # fmt: skip


def _gates(configuration: Configuration, scheduling: Scheduling) -> Mapping[str, bool]:
    """Return the gates of the API server, as far as they are known."""
    gates = configuration.feature_gates
    # A profile for groups is for clusters whose API server keeps `spec.schedulingGroup`.
    return {**gates, "GenericWorkload": True} if scheduling.engine.grouping else gates


def _listed(
    tables: Tables, state: State, profiles: Profiles, scheduling: Scheduling
) -> tuple[str, ...]:
    """Let plugins list what they need; return the plurals."""
    needed = needed_plurals(profiles.frameworks, scheduling.registered, state.subscriptions.plurals)
    plugins = [each for one in profiles.frameworks.values() for each in one.plugins.values()]
    for plural in ("nodes", "pods", *needed):
        if is_reference(plural):
            tables.know(watched_resource(plural, plugins))
        if plural in tables.stores:
            state.listers.add(plural, tables.stores[plural])
    return needed


def _adapted(
    scheduling: Scheduling, loop: VirtualLoop, clock: VirtualClock, wake: Wake, state: State
) -> DirectLoop | None:
    """Adapt the scheduling of the service to a world; return its direct loop if that suits it."""
    scheduling.failures.log = _NoLog(clock)
    scheduling.loop.max_sleep = float("inf")  # Wall time follows the time of the loop.
    return DirectLoop(loop, wake, state, scheduling) if suits(scheduling.engine) else None


class _Unmeasured(SchedulerMetrics):
    """Drops what every pod causes, since nobody reads the metrics of a world."""

    measures_events = False

    def __init__(self) -> None:
        super().__init__(process=False, queue=False)
        self.engine = cast("Any", NoMetrics())

    def attempt(self, *_: object) -> None:
        """Do nothing."""

    def bound(self, *_: object, **__: object) -> None:
        """Do nothing."""

    def binding_cycles(self, _: int) -> None:
        """Do nothing."""

    def bind_outcome(self, _: str) -> None:
        """Do nothing."""


class _NoLog(DecisionLog):
    """In place of the lines about decisions: they are results here."""

    def placed(self, *_: object) -> None:
        """Do nothing."""

    def rejected(self, *_: object) -> None:
        """Do nothing."""


def handlers_of(handlers: EventHandlers, state: State, needed: tuple[str, ...]) -> Handlers:
    """Return what receives the changes of each resource; those that nobody reads go nowhere."""

    def deferring(handler: Any) -> Any:
        return partial(state.inbox.submit, handler)

    found: dict[str, Any] = dict.fromkeys(Tables().stores, lambda _batch: None)
    for plural in needed:
        found[plural] = deferring(handlers.other(plural, event_name(plural)))
    found["nodes"], found["pods"] = deferring(handlers.nodes), deferring(handlers.pods)
    return found


def _left_out(configuration: Configuration) -> Iterator[str]:
    if configuration.effective.extenders:
        count = len(configuration.effective.extenders)
        yield f"extenders: {count} left out, since nothing outside of the world is called"
    if configuration.options.tracing is not None:
        yield "kubestow.tracing: left out, since nothing outside of the world is called"


def _for_virtual_time(configuration: Configuration, seed: int) -> Configuration:
    """Return the configuration without what depends on the machine or on others."""
    options = msgspec.structs.replace(
        configuration.options,
        seed=seed,
        tracing=None,
        # CPU time differs from run to run, and would decide.
        cycle_time_budget=timedelta(0),
    )
    effective = msgspec.structs.replace(configuration.effective, extenders=(), kubestow=options)
    return replace(configuration, effective=effective)


def quiet(assembly: Assembly) -> bool:
    """Whether no pod is on its way to a node or away from one."""
    counts = assembly.scheduling.queue.statistics()
    return not (
        counts.active
        or counts.backoff
        or counts.in_flight
        or assembly.scheduling.binding.under_way
        or assembly.server.terminating
        or len(assembly.background)
    )
