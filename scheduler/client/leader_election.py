"""Leader election on a Lease, and the fence: a process that may have lost the Lease does not write.

The rules are client-go's: the holder of the Lease renews it; others take it over when they have not
*seen it change* for its duration by their local monotonic clock, so that clock skew between
machines does not matter. Writes to the Lease carry its resourceVersion, so only one of two
contenders succeeds. A candidate reads the Lease every retry period and once more at the moment at
which the observed renewal expires, so it takes over at the latest a lease duration and
`POLL_JITTER` retry periods after the last renewal, and no sooner than a lease duration after it.

No split brain: leadership ends, here, when the last successful renewal is older than the renew
deadline, counted from *before* that renewal was sent. Until others may take over, lease duration
minus renew deadline is left, and a write that was allowed at the last moment must end within that
time (`check_timing`). Connection errors and hangs can only end leadership earlier.

A leader that makes no progress gives the Lease up: it stops renewing when the heartbeat is older
than the watchdog timeout. It does not release the Lease then, since its last write may still be in
progress; others wait until the lease duration has passed.

Everything here belongs to one event loop. Other threads may read `fence` and `leading`.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol
from uuid import uuid4

import msgspec
import structlog

from scheduler.api.policy import LeaseSpec
from scheduler.client.clock import Clock, micro_time
from scheduler.client.errors import ApiError, RequestError
from scheduler.client.fence import Heartbeat, LeaderFence
from scheduler.client.metrics import ClientMetrics, NullMetrics
from scheduler.client.structs import complete

complete(LeaseSpec)

_log = structlog.get_logger(__name__)

ACQUIRE_JITTER: Final = 1.2
"""After an error candidates retry after `retry_period * [1, 2.2)`, as client-go's always do."""

POLL_JITTER: Final = 0.2
"""A candidate reads a Lease that another process holds every `retry_period * [1, 1.2)`: reads do
not conflict, and a renewal that is seen sooner expires sooner."""

SUCCESSION: Final = "another replica may schedule now"

MIN_PAUSE_SECONDS: Final = 0.01
"""Minimum before another read: a timer that fires a little early must not lead to a busy loop."""


class LeadershipLostError(Exception):
    """The Lease could not be renewed in time, or another process holds it."""


@dataclass(frozen=True, slots=True)
class LeaderElectionOptions:
    """Names and times (seconds)."""

    name: str = "kubestow"
    namespace: str = "kubestow-system"
    identity: str = ""
    """Must be unique among all replicas ever; by default `<hostname>_<uuid>`."""
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    watchdog_timeout: float = 60.0
    """Age of the heartbeat beyond which a leader stops renewing."""


def _says_no_namespace(error: Exception) -> bool:
    """Whether there is no namespace for the Lease; the Lease alone would be created again."""
    if not isinstance(error, ApiError):
        return False
    causes = error.details.causes if error.details else ()
    terminating = any(each.reason == "NamespaceTerminating" for each in causes)
    return terminating or error.status == 404


def new_identity() -> str:
    """Return `<hostname>_<uuid>`, as upstream (options.go: makeLeaderElectionConfig)."""
    return f"{socket.gethostname()}_{uuid4()}"


def check_timing(options: LeaderElectionOptions, bind_timeout: float) -> list[str]:
    """Return the errors in the times, as sentences; empty when they are valid."""
    problems = []
    if options.lease_duration <= options.renew_deadline:
        problems.append(
            f"leaderElection.leaseDuration ({options.lease_duration:g}s) must be greater than "
            f"renewDeadline ({options.renew_deadline:g}s)"
        )
    if options.renew_deadline <= options.retry_period * ACQUIRE_JITTER:
        problems.append(
            f"leaderElection.renewDeadline ({options.renew_deadline:g}s) must be greater than "
            f"retryPeriod ({options.retry_period:g}s) * {ACQUIRE_JITTER}"
        )
    if options.lease_duration < 1 or options.retry_period <= 0:
        problems.append("leaderElection: leaseDuration must be 1s or more, retryPeriod positive")
    if bind_timeout + options.renew_deadline >= options.lease_duration:
        problems.append(
            f"bind timeout ({bind_timeout:g}s) plus leaderElection.renewDeadline "
            f"({options.renew_deadline:g}s) must be less than leaseDuration "
            f"({options.lease_duration:g}s): a bind sent just before the lease is lost could "
            "otherwise land after another replica has taken over"
        )
    return problems


class Lock(Protocol):
    """Storage of the Lease, as JSON of the whole object, so that unknown fields survive."""

    async def get(self, timeout: float) -> dict[str, Any] | None:
        """Return the object, or None if it does not exist."""
        ...

    async def create(self, spec: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """Create it; raises ApiError 409 if it exists."""
        ...

    async def replace(self, lease: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """Replace it; raises ApiError 409 if it changed since it was read."""
        ...


STANDS_BY: Final = "stands by, and schedules nothing: another replica holds the Lease"


class LeaderElector:
    """One candidate, for one term: a process that lost the Lease exits.

    `run` does everything; or call `acquire`, `hold` and `release` in this order.
    """

    def __init__(
        self,
        lock: Lock,
        options: LeaderElectionOptions,
        clock: Clock,
        heartbeat: Heartbeat,
        *,
        random: Random | None = None,
        metrics: ClientMetrics | None = None,
    ) -> None:
        self.identity = options.identity or new_identity()
        self.fence = LeaderFence(clock, options.renew_deadline)
        self._lock = lock
        self._options = options
        self._name = f"{options.namespace}/{options.name}"
        self._clock = clock
        self._random = random or Random()
        self._metrics = metrics or NullMetrics()
        self._heartbeat = heartbeat
        self._lease: dict[str, Any] | None = None
        self._spec = LeaseSpec()
        # Monotonic time of the last observed change of the Lease.
        self._observed = clock.monotonic()
        self._leading = False
        self._last_error = ""
        #: Status of the error of the last round, 0 without a response; None: there was no error.
        self._last_status: int | None = None
        # Whether the last error says that the Lease has no namespace, or soon will not.
        self._nowhere = False
        self._call_timeout = max(1.0, options.renew_deadline / 2)

    @property
    def leading(self) -> bool:
        """Whether this process leads and may write."""
        return self._leading and self.fence.allowed()

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Acquire, run `lead` while renewing, and release when it returns.

        Raises:
            LeadershipLostError: the Lease was lost; `lead` has been cancelled and has ended.
        """
        await self.acquire()
        try:
            await run_while(lead, self.hold)
        finally:
            await self.release()

    async def acquire(self) -> None:
        """Wait until this process leads."""
        started, told, namespace_told = self._clock.monotonic(), False, False
        holder = ""
        while not await self._try_acquire_or_renew():
            seen = self._spec.holder_identity
            if self._last_status is None and seen and seen != holder:
                holder = seen
                _log.info(STANDS_BY, lease=self._name, holder=holder)
            waited = self._clock.monotonic() - started
            status = self._last_status
            if status == 404:
                # A namespace does not come by itself; whatever else fails may pass.
                if not namespace_told:
                    namespace_told = True
                    text = f"cannot lead: {self._last_error}; {self._advice()}"
                    _log.error(text, lease=self._name)
            elif status is not None and not told and waited >= self._options.lease_duration:
                told = True
                _log.error(
                    f"does not lead after {waited:.0f} s: {self._last_error}; {self._advice()}",
                    lease=self._name,
                )
            await self._clock.sleep(self._until_next_read())
        self._leading = True
        self._metrics.leader(self._options.name, True)
        _log.info("leading", lease=self._name, identity=self.identity)

    def _advice(self) -> str:
        """Return what may be missing, and how to get it."""
        namespace = self._options.namespace
        if self._nowhere:
            return (
                f"create the namespace with kubectl create namespace {namespace}, or give "
                "--leader-elect-resource-namespace, or --leader-elect=false if no other "
                "replica will run"
            )
        match self._last_status:
            case 401 | 403:
                return (
                    "the user may not write the Lease: kubestow config rbac prints the roles, and "
                    "kubestow check, with the same kubeconfig, what else is missing"
                )
            case 0:
                return (
                    "does the API server answer? kubestow check, with the same kubeconfig, asks it"
                )
        return "see the log of the API server"

    def _until_next_read(self) -> float:
        period = self._options.retry_period
        if self._lease is None:
            return period * (1.0 + ACQUIRE_JITTER * self._random.random())
        pause = period * (1.0 + POLL_JITTER * self._random.random())
        left = self._expires() - self._clock.monotonic()
        if left > 0.0:
            pause = min(pause, left)
        return max(pause, MIN_PAUSE_SECONDS)

    async def hold(self) -> None:
        """Renew until the Lease is lost.

        Raises:
            LeadershipLostError: always, in the end.
        """
        pause = self._options.retry_period
        while self.fence.allowed():
            await self._clock.sleep(min(pause, self.fence.remaining()))
            if not self.fence.allowed():
                break
            if self._heartbeat.age() > self._options.watchdog_timeout:
                self._step_down()
            renewed = await self._try_acquire_or_renew()
            # A failure uses up the deadline, so the next attempt comes sooner than usual.
            pause = self._options.retry_period / (1 if renewed else 2)
            if self._spec.holder_identity != self.identity:
                break
        self._lose()
        lost = f"leadership of Lease {self._name} lost: "
        if self._nowhere:
            text = f"{lost}its namespace is gone ({self._last_error}); {self._advice()}"
            raise LeadershipLostError(text)
        holder = self._spec.holder_identity or "no process"
        raise LeadershipLostError(
            f"{lost}not renewed within {self._options.renew_deadline:g}s, held by {holder}"
            + (f" (last error: {self._last_error})" if self._last_error else "")
            + f"; {SUCCESSION}"
        )

    def _step_down(self) -> None:
        self._lose()
        msg = (
            f"leadership of Lease {self._name} given up: the event loop has made no "
            f"progress for {self._heartbeat.age():.0f}s, it executes {self._heartbeat.where()}; "
            f"{SUCCESSION}"
        )
        _log.error(msg)
        raise LeadershipLostError(msg)

    def _lose(self) -> None:
        self.fence.shut()
        if self._leading:
            self._leading = False
            self._metrics.leader(self._options.name, False)

    async def release(self) -> None:
        """Stop leading and release the Lease if it is still ours. Errors are only logged."""
        held = self._leading and self._spec.holder_identity == self.identity
        self._lose()
        if not held or self._lease is None:
            return
        now = micro_time(self._clock.now())
        spec = {
            "holderIdentity": "",
            # The API demands a positive duration; one second lets the next candidate in.
            "leaseDurationSeconds": 1,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": self._spec.lease_transitions or 0,
        }
        try:
            released = await self._write_released(self._lease, spec)
        except (RequestError, ValueError) as error:
            _log.warning("lease not released", lease=self._name, error=str(error))
        else:
            text = "lease released" if released else "lease is held by another process already"
            _log.info(text, lease=self._name)

    async def _write_released(self, lease: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
        """Write `spec` if the Lease is ours; return whether it was."""
        try:
            await self._lock.replace(self._with_spec(lease, spec), self._call_timeout)
        except ApiError as error:
            if error.status != 409:
                raise
            # A renewal that was cancelled at the end may have been executed all the same.
            newest = await self._lock.get(self._call_timeout)
            if newest is None:
                return False
            self._observe(newest)
            if self._spec.holder_identity != self.identity:
                return False
            await self._lock.replace(self._with_spec(newest, spec), self._call_timeout)
        return True

    # ------------------------------------------------------------------------------------ one round

    async def _try_acquire_or_renew(self) -> bool:
        """Do one round; return True if the Lease is ours and was written just now."""
        try:
            done = await self._round()
        except (RequestError, ValueError) as error:
            self._last_error = str(error)
            self._last_status = error.status if isinstance(error, ApiError) else 0
            self._nowhere = _says_no_namespace(error)
            # The known state may be outdated: the next round reads first.
            self._lease = None
            if self._leading or self._last_status != 404:
                # `acquire` says once that there is no namespace.
                _log.warning("lease not acquired or renewed", lease=self._name, error=str(error))
            return False
        self._last_status, self._nowhere = None, False
        return done

    async def _round(self) -> bool:
        if self._leading and self._lease is not None:
            # No other process writes while we hold it: only after an error it must be read first.
            return await self._write(self._lease)
        lease = await self._lock.get(self._timeout())
        if lease is not None:
            self._observe(lease)
            if self._held_by_other():
                return False
        if not self._leading and self._heartbeat.age() > self._options.retry_period:
            # A process that cannot lead now leaves the Lease to one that can.
            return False
        if lease is None:
            started = self._clock.monotonic()
            self._written(await self._lock.create(self._new_spec(), self._timeout()), started)
            return True
        return await self._write(lease)

    async def _write(self, lease: Mapping[str, Any]) -> bool:
        started = self._clock.monotonic()
        body = self._with_spec(lease, self._new_spec())
        self._written(await self._lock.replace(body, self._timeout()), started)
        return True

    def _written(self, lease: dict[str, Any], started: float) -> None:
        self._observe(lease)
        if self._spec.holder_identity == self.identity:
            self._last_error = ""
            self.fence.renewed(started)

    def _timeout(self) -> float:
        """Return the timeout of one call, never beyond the end of our own lease."""
        if not self._leading:
            return self._call_timeout
        return max(0.01, min(self._call_timeout, self.fence.remaining()))

    def _held_by_other(self) -> bool:
        holder = self._spec.holder_identity
        if not holder or holder == self.identity:
            return False
        return self._clock.monotonic() < self._expires()

    def _expires(self) -> float:
        # The duration in the Lease counts, not our own, as in client-go.
        duration = self._spec.lease_duration_seconds or self._options.lease_duration
        return self._observed + duration

    def _observe(self, lease: dict[str, Any]) -> None:
        spec = msgspec.convert(lease.get("spec") or {}, LeaseSpec)
        if spec != self._spec:
            self._observed = self._clock.monotonic()
        self._lease = lease
        self._spec = spec

    def _new_spec(self) -> dict[str, Any]:
        now = micro_time(self._clock.now())
        ours = self._spec.holder_identity == self.identity
        transitions = self._spec.lease_transitions or 0
        # Taking the Lease over counts as a transition; creating it does not.
        if not ours and self._lease is not None:
            transitions += 1
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._options.lease_duration),
            "acquireTime": (self._spec.acquire_time if ours else None) or now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    @staticmethod
    def _with_spec(lease: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
        return {**lease, "spec": {**(lease.get("spec") or {}), **spec}}


async def run_while(
    lead: Callable[[], Coroutine[Any, Any, None]], hold: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Run `lead` while `hold` runs; an error of `hold` is raised when `lead` has ended."""
    leading = asyncio.create_task(lead(), name="leading")
    holding = asyncio.create_task(hold(), name="lease renewal")
    try:
        await asyncio.wait({leading, holding}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # In this order: `lead` may need a while to stop, and must not lose the Lease meanwhile.
        leading.cancel()
        await asyncio.wait({leading})
        lost = holding.exception() if holding.done() else None
        holding.cancel()
        await asyncio.wait({holding})
    if not leading.cancelled():
        leading.result()
    if lost is not None:
        raise lost
