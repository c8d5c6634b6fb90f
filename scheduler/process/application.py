"""The process: start, run, stop.

Phases: read the configuration; connect; start reflectors and endpoints; wait for the first lists;
lead (after election, if configured) until a stop is requested; let binds under way finish; release
the Lease; end. A second signal ends the process at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

# NumPy imports it on the first use of `isin` and others, which would delay a cycle by 15 ms.
import numpy.ma  # noqa: F401
import structlog
import uvloop

from config import Configuration
from scheduler import cel
from scheduler.client.clock import LeaseClock, SystemClock
from scheduler.client.configuration import ClientConfiguration, load_configuration
from scheduler.client.errors import ConfigurationError as ClientConfigurationError
from scheduler.client.fence import OpenFence
from scheduler.client.leader_election import (
    LeaderElectionOptions,
    LeaderElector,
    LeadershipLostError,
    check_timing,
)
from scheduler.client.lease_lock import LeaseLock
from scheduler.client.rest import ApiClient
from scheduler.client.transport import Transport
from scheduler.framework import ConfigurationError, Registry
from scheduler.metrics import SchedulerMetrics
from scheduler.process import logs
from scheduler.process.endpoints import Endpoints
from scheduler.process.garbage_collection import collect_seldom, keep_what_exists
from scheduler.process.leader_beside import warn_of_leader
from scheduler.process.lease_thread import LeaseThread, PostedMetrics
from scheduler.process.leaving import run_and_leave
from scheduler.process.memory_upkeep import malloc_trim, return_memory
from scheduler.process.own_address import OwnAddress
from scheduler.process.start_observer import StartObserver
from scheduler.process.watchdog import BlockObserver, LoopHeartbeat, watch_loop
from scheduler.reload.fingerprints import Seen, look
from scheduler.reload.reloader import Reloader
from scheduler.service.forks import end_forked_copies
from scheduler.service.options import (
    RunOptions,
    available_plugins,
    read_configuration,
    seconds,
)
from scheduler.service.serving.descriptors import raise_soft_limit
from scheduler.service.supervision import CancelledFromWithinError, Run, Supervisor
from scheduler.stages.wiring import Wiring, wire

_log = structlog.get_logger(__name__)

T = TypeVar("T")

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_FORCED: Final = 130

DRAIN_SECONDS: Final = 5.0
"""Maximum time for pending writes after the signal, like upstream's grace period."""

SLOW_START_SECONDS: Final = 10.0
"""Time for the first lists after which a line says that they are missing. A request to a server
that accepts connections and never answers fails much later."""

EVENT_FLUSH_TIMEOUT: Final = 1.0
"""Time allowed for sending events, however long the binds took."""


def run(options: RunOptions) -> int:
    """Run until a signal and return the exit code. Raises ConfigurationError with all problems."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # The first process of a container ignores signals for which it has no handler.
        signal.signal(number, _leave)
    collect_seldom()
    raise_soft_limit()
    logs.configure(options.logging.format, options.logging.verbosity)
    with StartObserver():
        application = read(options)
    for warning in options.warnings:
        _log.warning(warning)
    end_forked_copies(application.plugins)
    return uvloop.run(run_and_leave(application.serve))


def read(options: RunOptions) -> Application:
    """Return an application with these options. Raises ConfigurationError with all problems."""
    # Noted before the files are read, which may take seconds, so that a change meanwhile is seen.
    seen = look(options)
    registry = available_plugins()
    return Application(read_configuration(options, registry), registry, options, seen)


def _leave(*_: object) -> NoReturn:
    """End the process before there is anything to stop.

    An exception would be taken for one of the plugin whose module is being imported, and the
    interpreter would wait for threads that such a module has started.
    """
    with suppress(RuntimeError):  # a line that was being written
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(EXIT_OK)


class _Stopped(Exception):  # noqa: N818  (names the event)
    """A stop was requested during the start."""


class Application:
    """One run of the scheduler."""

    def __init__(
        self,
        configuration: Configuration,
        registry: Registry,
        options: RunOptions,
        seen: Seen | None = None,
    ) -> None:
        """Prepare a run; `seen` is the state of the files when they were read (default: now)."""
        self._configuration = configuration
        self._registry = registry
        self._options = options
        self._stop = asyncio.Event()
        self._signals = 0
        self._exit_code = EXIT_OK
        self._owns_process = True
        self.metrics = SchedulerMetrics(disabled=options.disabled_metrics)
        self._clock = SystemClock()
        self._seen = look(options) if seen is None else seen
        #: Takes over changes of the files; None before the parts are wired.
        self.reloader: Reloader | None = None
        self._heartbeat = LoopHeartbeat(LeaseClock(), self.plugins)
        #: Filled by the endpoints, published on the Lease by the leader and in a file of the user.
        self._address = OwnAddress(options.serving.bind_address)

    def plugins(self) -> Iterable[Any]:
        """Return the plugins in force."""
        return () if self.reloader is None else self.reloader.wiring.profiles.plugins()

    def request_stop(self) -> None:
        """Stop cleanly; a second call ends the process at once."""
        self._signals += 1
        if self._signals > 1:
            _log.error("second signal: ending at once")
            sys.stderr.flush()
            os._exit(EXIT_FORCED)
        self.stop()

    def stop(self) -> None:
        """Stop cleanly, for a host in this process; may be called again."""
        if not self._stop.is_set():
            _log.info("stopping")
            self._stop.set()

    async def serve(self, *, handle_signals: bool = True) -> int:
        """Run everything from connecting to the end.

        A host in the same process keeps its own signal handlers and garbage collection, and calls
        `stop`.
        """
        self._owns_process = handle_signals
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM) if handle_signals else ():
            loop.add_signal_handler(number, self.request_stop)
        try:
            async with AsyncExitStack() as stack:
                transport = await self._connect(stack)
                return await self._serve(transport, stack)
        except _Stopped:
            return EXIT_OK
        except ClientConfigurationError as error:
            raise ConfigurationError(str(error)) from error

    async def _unless_stopped(self, step: Coroutine[Any, Any, T]) -> T:
        """Await a step of the start that may take long, such as a credential plugin.

        Raises:
            _Stopped: a stop was requested first; the step has been cancelled and has ended.
        """
        starting = asyncio.create_task(step, name="start")
        stopping = asyncio.create_task(self._stop.wait(), name="stop signal")
        try:
            await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                raise _Stopped
            return starting.result()
        finally:
            stopping.cancel()
            starting.cancel()
            # A late error of the cancelled step has no consequence.
            await asyncio.gather(starting, return_exceptions=True)

    async def _load(self) -> ClientConfiguration:
        connection = self._configuration.effective.client_connection
        return await self._unless_stopped(
            load_configuration(
                kubeconfig=connection.kubeconfig or None, master=self._options.master
            )
        )

    async def _connect(self, stack: AsyncExitStack) -> Transport:
        found = await self._load()
        _log.info("connecting", server=found.server, configuration=found.source)
        if self._owns_process:
            election = self._configuration.effective.leader_election
            lease = f"{election.resource_namespace}/{election.resource_name}"
            self._address = OwnAddress(
                self._options.serving.bind_address,
                api_server=found.server,
                lease=lease if election.leader_elect else "",
                scheduler_names=tuple(each.scheduler_name for each in self._configuration.profiles),
            )
        return await stack.enter_async_context(Transport(found))

    async def _serve(self, transport: Transport, stack: AsyncExitStack) -> int:
        elector = await self._elector()
        with StartObserver():
            wiring = wire(
                self._configuration,
                self._registry,
                self._options,
                transport,
                fence=elector.fence if elector else OpenFence(),
                metrics=self.metrics,
            )
        stack.push_async_callback(wiring.close)
        self.reloader = reloader = Reloader(self._options, wiring, self._seen)
        endpoints = Endpoints(
            self._options,
            self._configuration,
            reloader,
            wiring,
            elector,
            # No leader fence: replicas that do not lead review requests as well.
            ApiClient(
                transport,
                user_agent="kubestow/access",
                metrics=self.metrics.client_recorder(transport.host),
            ),
            self._address,
        )
        await self._unless_stopped(stack.enter_async_context(endpoints))
        try:
            await self._run(wiring, elector, endpoints, reloader)
        except* LeadershipLostError as lost:
            _log.error("exiting: this process leads no more", error=str(lost.exceptions[0]))
            self._exit_code = EXIT_FAILED
        return self._exit_code

    async def _run(
        self,
        wiring: Wiring,
        elector: LeaseThread | None,
        endpoints: Endpoints,
        reloader: Reloader,
    ) -> None:
        with BlockObserver(self._heartbeat) as observer:
            await self._run_tasks(wiring, elector, endpoints, reloader, observer)

    async def _run_tasks(
        self,
        wiring: Wiring,
        elector: LeaseThread | None,
        endpoints: Endpoints,
        reloader: Reloader,
        observer: BlockObserver,
    ) -> None:
        on_block = wiring.scheduling.overruns.blocked
        supervisor = self._supervisor(wiring)
        async with asyncio.TaskGroup() as tasks:
            background: list[asyncio.Task[Any]] = []

            def start(run: Run, name: str) -> None:
                task = tasks.create_task(supervisor.keep(run, name), name=f"supervisor of {name}")
                background.append(task)

            start(wiring.connections.recorder.run, "events")
            watching = partial(watch_loop, self.metrics, self._heartbeat, observer, on_block)
            start(watching, "watchdog")
            start(wiring.connections.dispatcher.run, "dispatcher")
            start(wiring.reviewer.run, "permissions")
            start(reloader.run, "configuration reload")
            start(endpoints.run, "client authorities")
            if elector is None:
                lease = self._configuration.effective.leader_election
                client = wiring.connections.client.derive("leader-beside")
                place = (lease.resource_namespace, lease.resource_name)
                start(partial(warn_of_leader, client, *place), "look at the Lease")
            if self._owns_process:
                start(partial(return_memory, self._clock, malloc_trim()), "memory upkeep")

            async def fill() -> bool:
                for each in wiring.reflectors:
                    start(each.run, f"reflector {each.resource.plural}")
                return await self._synced(wiring)

            if elector is not None and self._configuration.effective.delay_cache_until_active:
                # Ready to take over; the caches are filled after the election.
                endpoints.mark_synced()
                await self._lead_until_stopped(wiring, elector, fill)
            elif await fill():
                endpoints.mark_synced()
                await self._lead_until_stopped(wiring, elector)
            endpoints.mark_stopping()
            for task in background:
                task.cancel()

    def _supervisor(self, wiring: Wiring) -> Supervisor:
        return Supervisor(self._clock, wiring.connections.random)

    async def _elector(self) -> LeaseThread | None:
        settings = self._configuration.effective.leader_election
        if not settings.leader_elect:
            return None
        options = LeaderElectionOptions(
            name=settings.resource_name,
            namespace=settings.resource_namespace,
            lease_duration=settings.lease_duration.total_seconds(),
            renew_deadline=settings.renew_deadline.total_seconds(),
            retry_period=settings.retry_period.total_seconds(),
            watchdog_timeout=seconds(self._configuration.options.watchdog_timeout),
        )
        problems = check_timing(options, seconds(self._configuration.options.bind_timeout))
        if problems:
            raise ConfigurationError(problems)
        # Credentials and connections of its own: they belong to another thread, and renewals must
        # not wait for connections that other requests hold.
        transport = Transport(await self._load())
        recorder = self.metrics.client_recorder(transport.host)
        metrics = PostedMetrics(recorder, asyncio.get_running_loop())
        client = ApiClient(transport, user_agent="kubestow/leader-election", metrics=metrics)
        lock = LeaseLock(client, options.name, options.namespace, self._address.on_lease)
        elector = LeaderElector(lock, options, LeaseClock(), self._heartbeat, metrics=metrics)
        return LeaseThread(elector, transport)

    async def _synced(self, wiring: Wiring) -> bool:
        """Wait for every first list; False when a stop was requested first."""
        started = self._clock.monotonic()
        slow = asyncio.get_running_loop().call_later(
            SLOW_START_SECONDS, _warn_of_slow_start, wiring
        )
        try:
            await self._unless_stopped(_all_synced(wiring))
        except _Stopped:
            return False
        finally:
            slow.cancel()
        if wiring.state.listers.by_keys("deviceclasses"):
            # In a thread, since it takes longer than the loop may be blocked by a pod with claims.
            await asyncio.to_thread(cel.prepare)
        wiring.state.subscriptions.publish_synced()
        if self._owns_process:
            keep_what_exists()
        statistics = wiring.state.cache.statistics()
        _log.info(
            "synced",
            seconds=round(self._clock.monotonic() - started, 3),
            nodes=statistics.nodes,
            pods=statistics.pods,
            pending=len(wiring.scheduling.queue),
            scheduler_names=sorted(wiring.profiles.frameworks),
        )
        return True

    async def _lead_until_stopped(
        self,
        wiring: Wiring,
        elector: LeaseThread | None,
        fill: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """Schedule while leading; `fill` fills the caches once elected, False if stopped."""

        async def lead() -> None:
            if fill is None or await fill():
                await self._schedule_until_stopped(wiring)

        if elector is None:
            await lead()
            return
        stopping = asyncio.create_task(self._stop.wait(), name="stop signal")
        leading = asyncio.create_task(elector.run(lead), name="leader election")
        done, _ = await asyncio.wait((stopping, leading), return_when=asyncio.FIRST_COMPLETED)
        if leading not in done and not elector.leading:
            leading.cancel()
            await asyncio.wait((leading,))
            return
        stopping.cancel()
        await leading

    async def _schedule_until_stopped(self, wiring: Wiring) -> None:
        scheduling = asyncio.create_task(wiring.scheduling.loop.run(), name="scheduling loop")
        stopping = asyncio.create_task(self._stop.wait(), name="stop signal")
        supervisor = self._supervisor(wiring)
        controllers = [
            asyncio.create_task(
                supervisor.keep(run, name, errors=True), name=f"supervisor of {name}"
            )
            for name, run in wiring.controllers.leaders_work()
        ]
        try:
            await asyncio.wait((scheduling, stopping), return_when=asyncio.FIRST_COMPLETED)
            if scheduling.cancelled():
                # It begins again with the process: what a cycle has changed is not known.
                raise CancelledFromWithinError(scheduling.get_name())
            if scheduling.done():
                scheduling.result()
            await self._drain(wiring)
        finally:
            stopping.cancel()
            scheduling.cancel()
            for task in controllers:
                task.cancel()
            await asyncio.wait((scheduling, *controllers))
            await wiring.state.background.cancel()

    async def _drain(self, wiring: Wiring) -> None:
        """Wait for the writes of decisions made: binds, their events, then all others."""
        wiring.scheduling.loop.stop()
        end = self._clock.monotonic() + DRAIN_SECONDS
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await wiring.scheduling.loop.drained()
                await wiring.state.background.finished()
        except TimeoutError:
            _log.warning("binds still under way are given up", count=wiring.state.slots.taken)
        # Before the dispatcher closes: events go through it.
        await wiring.connections.recorder.flush(
            max(EVENT_FLUSH_TIMEOUT, end - self._clock.monotonic())
        )
        abandoned = await wiring.connections.dispatcher.close(
            max(0.0, end - self._clock.monotonic())
        )
        if abandoned:
            _log.warning("writes abandoned", count=abandoned)


async def _all_synced(wiring: Wiring) -> None:
    for reflector in wiring.reflectors:
        await reflector.synced.wait()


def _warn_of_slow_start(wiring: Wiring) -> None:
    found = wiring.connections.client.transport.configuration
    _log.warning(
        "nothing is scheduled yet: the first lists of the API server are not complete",
        server=found.server,
        configuration=found.source,
        missing=[each.resource.plural for each in wiring.reflectors if not each.synced.is_set()],
    )
