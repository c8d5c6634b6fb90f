"""Kubernetes Events (events.k8s.io/v1), recorded without delaying scheduling.

`EventRecorder.event` only queues an event; a few workers build and send it later, through the
lowest lane of the dispatcher. Equal events (same type, action, reason, controller,
instance, regarding and related; the note does not count) become one object with a series, as in
client-go (tools/events/event_broadcaster.go: eventBroadcasterImpl): the second occurrence starts
the series, more are counted here and written every 30 minutes, and when the series ends, 6 minutes
after its last event.

Everything is bounded: when the queue is full the oldest waiting event is dropped and counted.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NoReturn, Protocol, TypeVar

import structlog

from scheduler.api.meta import ObjectMeta
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.policy import Event, EventSeries
from scheduler.api.storage import ObjectReference
from scheduler.client.clock import micro_time
from scheduler.client.dispatcher import DispatcherClosedError, Lane
from scheduler.client.errors import ApiError, NotLeader, RequestError, describe
from scheduler.client.rate_limit import RateLimiter
from scheduler.client.request_sender import MERGE_PATCH
from scheduler.client.resources import EVENTS
from scheduler.client.rest import ApiClient

_log = structlog.get_logger(__name__)

NOTE_BYTES: Final = 1024
"""Limit of the API for notes."""

NAME_BYTES: Final = 253
SERIES_REFRESH_SECONDS: Final = 30 * 60.0
SERIES_END_SECONDS: Final = 6 * 60.0
SWEEP_SECONDS: Final = 60.0

R = TypeVar("R")


class EventWriter(Protocol):
    """The part of the dispatcher that is used here."""

    async def call(self, lane: Lane, send: Callable[[], Awaitable[R]]) -> R:
        """Run `send` in a slot of `lane`."""
        ...


@dataclass(frozen=True, slots=True)
class EventRecorderOptions:
    """Limits of the recorder."""

    queue_size: int = 50_000
    """Events waiting to be sent, about a kilobyte each. Far more than upstream: binds go first, so
    the events of a burst wait until it is over."""
    series_size: int = 16384
    """Events remembered for aggregation. A repeat of a forgotten one becomes a new object."""
    workers: int = 32
    """The limit of the dispatcher when nothing else is sent."""
    qps: float = 1000.0
    """Events sent per second, in addition to the client's limit; negative for no limit."""
    burst: int = 2000
    max_attempts: int = 12
    """For one event while the API server cannot accept it, as upstream."""
    retry_seconds: float = 10.0
    """Mean delay between attempts; each is random between half and one and a half of it."""


@dataclass(frozen=True, slots=True)
class EventRecorderStatistics:
    """Counters since the start, and sizes now."""

    recorded: int
    aggregated: int
    sent: int
    dropped: int
    failed: int
    waiting: int
    remembered: int


Key = tuple[str, str, str, str, str, str]


@dataclass(eq=False, slots=True)
class _Entry:
    """One event object, and the occurrences that the API server does not know yet."""

    key: Key
    #: The arguments of `_build`, as a plain tuple because most events are recorded in the hot path.
    #: Once sent, it holds references instead of the objects.
    event: tuple[Any, ...]
    last_observed: float
    count: int = 1
    sent_count: int = 0
    sent_at: float = 0.0
    queued: bool = False
    busy: bool = False


class EventRecorder:
    """Records events. Run `run()` in a task; to stop, `flush` it and cancel the task."""

    def __init__(
        self,
        client: ApiClient,
        writer: EventWriter,
        *,
        options: EventRecorderOptions | None = None,
        random: Random | None = None,
        hostname: str | None = None,
    ) -> None:
        """Prepare; nothing is sent before `run`. The client's clock and metrics are used."""
        self._client = client
        self._writer = writer
        self._options = options or EventRecorderOptions()
        self._clock = client.clock
        self._metrics = client.metrics
        self._random = random or Random()
        self._hostname = hostname or socket.gethostname()
        self._limiter = RateLimiter(self._clock, qps=self._options.qps, burst=self._options.burst)
        self._entries: dict[Key, _Entry] = {}
        self._queue: deque[_Entry] = deque()
        # Idle workers; bounded by their number. An asyncio.Event would wake all of them for each
        # event, of which one has work.
        self._asleep: deque[asyncio.Future[None]] = deque()
        self._sequence = self._busy = 0
        self._recorded = self._aggregated = self._sent = self._dropped = self._failed = 0

    def statistics(self) -> EventRecorderStatistics:
        """Return the counters since the start, and the sizes now."""
        return EventRecorderStatistics(
            recorded=self._recorded,
            aggregated=self._aggregated,
            sent=self._sent,
            dropped=self._dropped,
            failed=self._failed,
            waiting=len(self._queue),
            remembered=len(self._entries),
        )

    def event(
        self,
        regarding: Pod | Node | ObjectReference,
        related: Pod | Node | ObjectReference | None,
        type: str,  # noqa: A002  (the Event field's own name)
        reason: str,
        action: str,
        note: str,
        reporting_controller: str,
    ) -> None:
        """Queue an event without blocking or raising. `type` is Normal or Warning."""
        self._recorded += 1
        now = self._clock.now()
        key = (
            _identity(regarding),
            "" if related is None else _identity(related),
            reason,
            action,
            type,
            reporting_controller,
        )
        entry = self._entries.get(key)
        if entry is None:
            self._sequence += 1
            # Cut one character too long, so that `truncated` notices that it was longer.
            event = (regarding, related, note[: NOTE_BYTES + 1], now, self._sequence)
            entry = self._entries[key] = _Entry(key, event, now)
            if len(self._entries) > self._options.series_size:
                self._forget(self._entries[next(iter(self._entries))])
            self._enqueue(entry)
            return
        entry.count += 1
        entry.last_observed = now
        self._aggregated += 1
        self._metrics.kube_event("aggregated")
        if entry.sent_count <= 1:
            self._enqueue(entry)

    # ---------------------------------------------------------------------------------------- queue

    def _enqueue(self, entry: _Entry) -> None:
        if entry.queued or entry.busy:
            return
        if len(self._queue) >= self._options.queue_size:
            oldest = self._queue.popleft()
            oldest.queued = False
            self._dropped += 1
            self._metrics.kube_event("dropped")
            if oldest.sent_count == 0:
                self._drop(oldest)
        entry.queued = True
        self._queue.append(entry)
        self._wake_worker()

    def _wake_worker(self) -> None:
        while self._asleep:
            sleeper = self._asleep.pop()
            if not sleeper.done():
                sleeper.set_result(None)
                return

    async def _sleep(self) -> None:
        sleeper = asyncio.get_running_loop().create_future()
        self._asleep.append(sleeper)
        await sleeper

    def _drop(self, entry: _Entry) -> None:
        if self._entries.get(entry.key) is entry:
            del self._entries[entry.key]

    def _forget(self, entry: _Entry) -> None:
        """End an entry; occurrences that the server does not know yet are still sent."""
        self._drop(entry)
        if entry.count > max(entry.sent_count, 1):
            self._enqueue(entry)

    async def run(self) -> NoReturn:
        """Send events until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._options.workers):
                group.create_task(self._work(), name=f"event worker {number}")
            while True:
                await self._clock.sleep(SWEEP_SECONDS)
                self.sweep()

    def sweep(self) -> None:
        """Refresh series that are due, end those without new events; called every minute."""
        now = self._clock.now()
        for entry in list(self._entries.values()):
            if entry.queued or entry.busy:
                continue
            if now - entry.last_observed >= SERIES_END_SECONDS:
                self._forget(entry)
            elif entry.count > entry.sent_count and now - entry.sent_at >= SERIES_REFRESH_SECONDS:
                self._enqueue(entry)

    async def flush(self, deadline: float) -> int:
        """Wait up to `deadline` seconds until all events are sent; return how many are left."""
        try:
            async with asyncio.timeout(deadline):
                while self._queue or self._busy:
                    await self._clock.sleep(0.01)
        except TimeoutError:
            pass
        return len(self._queue)

    # -------------------------------------------------------------------------------------- sending

    async def _work(self) -> NoReturn:
        while True:
            while not self._queue:
                await self._sleep()
            entry = self._queue.popleft()
            entry.queued = False
            entry.busy = True
            self._busy += 1
            try:
                await self._limiter.acquire()
                sent = await self._deliver(entry)
            finally:
                entry.busy = False
                self._busy -= 1
            # Occurrences that arrived while the first was on its way start the series. After a
            # failure the entry is forgotten, or it would fail again and again.
            if sent and entry.sent_count == 1 and entry.count > 1:
                self._enqueue(entry)

    async def _deliver(self, entry: _Entry) -> bool:
        """Send, with retries where they may help; return whether it was sent."""
        for attempt in range(1, self._options.max_attempts + 1):
            try:
                await self._writer.call(Lane.EVENT, lambda: self._send(entry))
            except (NotLeader, DispatcherClosedError):
                break
            except RequestError as error:
                refused = isinstance(error, ApiError) and error.status < 500 and error.status != 429
                if refused or attempt == self._options.max_attempts:
                    _log.warning("event not recorded", event_reason=entry.key[2], **describe(error))
                    break
                spread = 0.5 + self._random.random()
                await self._clock.sleep(self._options.retry_seconds * spread)
            except Exception as error:  # noqa: BLE001 - boundary: one event, with texts of plugins
                _log.warning("event not recorded", event_reason=entry.key[2], error=repr(error))
                break
            else:
                self._sent += 1
                self._metrics.kube_event("sent")
                return True
        self._failed += 1
        self._metrics.kube_event("failed")
        # The next occurrence creates a new object instead of patching one that may not exist.
        self._drop(entry)
        return False

    async def _send(self, entry: _Entry) -> None:
        count = entry.count
        if entry.sent_count == 0:
            await self._create(entry, count)
        else:
            try:
                await self._patch_series(entry, count)
            except ApiError as error:
                if error.status != 404:
                    raise
                # Events expire on the server; the series continues in a new object.
                await self._create(entry, count)
        entry.sent_count = count
        entry.sent_at = self._clock.now()

    async def _create(self, entry: _Entry, count: int) -> None:
        item = self._build(entry, count)
        path = EVENTS.collection_path(item.metadata.namespace)
        try:
            await self._client.request("POST", path, body=EVENTS.encode(item))
        except ApiError as error:
            # Our own earlier attempt, whose response was lost; it contained one occurrence.
            if error.status != 409:
                raise
            if count > 1:
                await self._patch_series(entry, count)

    async def _patch_series(self, entry: _Entry, count: int) -> None:
        regarding, _, _, at, sequence = entry.event
        reference = _reference(regarding)
        path = EVENTS.path(_name(reference, at, sequence), reference.namespace or "default")
        body = {"series": {"count": count, "lastObservedTime": micro_time(entry.last_observed)}}
        await self._client.request("PATCH", path, body=body, content_type=MERGE_PATCH)

    def _build(self, entry: _Entry, count: int) -> Event:
        regarding, related, note, at, sequence = entry.event
        _, _, reason, action, kind, controller = entry.key
        reference = _reference(regarding)
        involved = None if related is None else _reference(related)
        # An entry is kept for minutes: it must not keep a deleted pod alive, which may be as large
        # as the API server accepts.
        entry.event = (reference, involved, note, at, sequence)
        series = None
        if count > 1:
            series = EventSeries(count=count, last_observed_time=micro_time(entry.last_observed))
        return Event(
            metadata=ObjectMeta(
                name=_name(reference, at, sequence), namespace=reference.namespace or "default"
            ),
            event_time=micro_time(at),
            series=series,
            reporting_controller=controller,
            reporting_instance=f"{controller}-{self._hostname}",
            action=action,
            reason=reason,
            regarding=reference,
            related=involved,
            note=truncated(note),
            type=kind,
        )


def _identity(item: Pod | Node | ObjectReference) -> str:
    if isinstance(item, ObjectReference):
        return item.uid or f"{item.kind}/{item.namespace}/{item.name}"
    metadata = item.metadata
    return metadata.uid or f"{type(item).__name__}/{metadata.namespace}/{metadata.name}"


def _reference(item: Pod | Node | ObjectReference) -> ObjectReference:
    if isinstance(item, ObjectReference):
        return item
    metadata = item.metadata
    return ObjectReference(
        kind=type(item).__name__,
        api_version="v1",
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def _name(reference: ObjectReference, at: float, sequence: int) -> str:
    """Return `<name>.<hex>`: microseconds, then a sequence number, so that names are unique."""
    stamp = (int(at * 1e6) << 10) + (sequence & 1023)
    suffix = f".{stamp:x}"
    return reference.name[: NAME_BYTES - len(suffix)] + suffix


def truncated(note: str) -> str:
    """Return `note` within the limit of the API: 1020 bytes and ` ...` if it is longer than 1024.

    Text that is not valid Unicode, such as half a surrogate pair from a plugin, is escaped.
    """
    data = note.encode("utf-8", "backslashreplace")
    if len(data) <= NOTE_BYTES:
        return data.decode()
    return data[: NOTE_BYTES - 4].decode(errors="ignore") + " ..."
