"""List and watch of one resource, with a store that is correct again after every fault.

Invariant: applying the delivered deltas in order gives exactly the store (`store_writer`), and the
store converges to the server's state. An object that was deleted between two watches yields a
DELETED delta with its last known state.

A run lists page by page, then watches from the list's resourceVersion, and resumes from the last
seen one after every disconnection. After 410 (Expired) it lists again, and applies the difference
in batches. A watch without data for `idle_timeout` seconds is closed, since bookmarks arrive about
once a minute; where there are none (`bookmarks`), that long after the watch should have ended.
Every failure is followed by a growing jittered delay; progress, not a mere connection, resets it.
A resource that cannot be watched, such as those of metrics APIs, is listed every `poll_seconds`.

The task that runs `run` is the only writer. Handlers are synchronous, receive a batch of changes
from one page or chunk of bytes, and must not raise: an exception ends the reflector. Decoding and
handling last for a slice of time, then other tasks run: thousands of large objects that arrive at
once delay other tasks by one batch at most. Between two batches the store equals the sum of the
delivered deltas.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, Generic, NoReturn

import msgspec
import structlog

from scheduler.client.backoff import Backoff
from scheduler.client.deltas import Handler, ReflectorOptions, ReflectorStatistics
from scheduler.client.errors import (
    ApiError,
    RequestError,
    RequestTimeout,
    describe,
)
from scheduler.client.http.stream import ResponseStream
from scheduler.client.looks import Looks
from scheduler.client.outages import is_outage
from scheduler.client.resources import Resource, T
from scheduler.client.rest import ApiClient
from scheduler.client.store import KeepRaw, Store
from scheduler.client.store_writer import StoreWriter, Submit, at_once
from scheduler.client.watch_decoding import (
    Bookmark,
    Changed,
    DecodingFailure,
    LineSplitter,
    Malformed,
    WatchDecodeError,
    WatchDecoder,
    WatchType,
)
from scheduler.client.watch_end import EndCause, WatchEnded, cause_of, watch_ended

_log = structlog.get_logger(__name__)

DELETION_BATCH: Final = 20
"""Objects in a batch of deletions after a list. The cost of a deletion for handlers is unknown."""

MAX_QUIET_WATCHES: Final = 3
"""Watches without bookmarks and events after which a list follows. Resuming cannot distinguish a
quiet cluster from a resourceVersion that the server never had (etcd restored from a backup)."""

METHOD_NOT_ALLOWED: Final = 405

SHORT_WATCH_SECONDS: Final = 1.0
"""A watch without events that ends sooner is a failure, even if the server closed it in order."""


class Reflector(Generic[T]):
    """Follows one resource. Run `run()` in a task; read `store`; wait for `synced`."""

    def __init__(  # noqa: PLR0913 - what it is wired to
        self,
        client: ApiClient,
        resource: Resource[T],
        handler: Handler[T],
        *,
        options: ReflectorOptions | None = None,
        random: Random | None = None,
        on_decode: Callable[[T], T] | None = None,
        on_relist: Callable[[bool], None] | None = None,
        on_contact: Callable[[RequestError | None], bool | None] | None = None,
        keep_raw: KeepRaw[T] | None = None,
        submit: Submit = at_once,
    ) -> None:
        """Prepare; nothing is sent before `run`.

        Args:
            client: its clock and metrics are used; its rate limit applies to lists, not watches.
            resource: what to follow.
            handler: receives every change.
            options: how to follow it.
            random: for jitter; seed it for reproducible runs.
            on_decode: returns what is stored (interning); an object is malformed if it raises.
            on_relist: called with True before a list is applied and with False after it.
            on_contact: called with the error of each failed list or watch, and with None when a
                watch is open. If it returns True, `synced` is set: the owner continues without. If
                it returns a bool, the owner reports a list or watch that is forbidden.
            keep_raw: returns whether the store keeps the JSON of an object.
            submit: applies a batch to the store and the handler, at once or later.
        """
        self.resource = resource
        self._writer = StoreWriter(resource, handler, client.metrics, on_decode, keep_raw, submit)
        self.store: Store[T] = self._writer.store
        #: Set when a complete list has been delivered once, or `on_contact` continues without.
        self.synced = asyncio.Event()
        self._client, self._metrics = client, client.metrics
        self._options = options or ReflectorOptions()
        self._clock, self._looks = client.clock, Looks(client.clock)
        self._random = random or Random()
        self._on_relist = on_relist
        self._on_contact = on_contact
        self._decoder = WatchDecoder(resource)
        self._backoff = Backoff(
            self._random, initial=self._options.backoff_initial, cap=self._options.backoff_cap
        )
        self._resource_version = ""
        self._undecodable_after = ""
        # Monotonic time at which other tasks run.
        self._slice_end = 0.0
        # Whether the current watch delivered anything.
        self._progressed = False
        self._quiet_watches = 0
        self._polling = False
        # Whether `on_relist(True)` was called for the current list.
        self._relisting = False
        self._lists = self._watches = self._bookmarks = 0
        self._ends: dict[str, int] = {}
        self._last_error = ""
        # The rejection that was logged last; empty once a watch is open.
        self._rejection = ""
        self._contact = self._clock.monotonic()

    def statistics(self) -> ReflectorStatistics:
        """Return the state, and the counters since the start."""
        return ReflectorStatistics(
            plural=self.resource.plural,
            objects=len(self.store),
            synced=self.synced.is_set(),
            resource_version=self._resource_version,
            lists=self._lists,
            watches=self._watches,
            events=self._writer.events,
            bookmarks=self._bookmarks,
            malformed=self._writer.malformed,
            ends=dict(self._ends),
            last_error=self._last_error,
            seconds_since_contact=self._clock.monotonic() - self._contact,
        )

    # ------------------------------------------------------------------------------------ main loop

    async def run(self) -> NoReturn:
        """Follow the resource until cancelled."""
        while True:
            self._looks.begin()
            try:
                if self._polling or not self._resource_version:
                    await self._list()
                if not self._polling:
                    await self._watch()
                if not self._polling:
                    self._count_end(EndCause.CLOSED)
                    continue
                delay = self._options.poll_seconds * self._random.uniform(0.9, 1.1)
            except WatchEnded as error:
                delay = self._after_end(error)
            except RequestError as error:
                delay = self._after_failure(error)
            # An overloaded server is left in peace.
            await (self._looks if self._rejection else self._clock).sleep(delay)

    async def look_again(self) -> RequestError | None:
        """Send a request soon if the last one failed; return its error.

        None: the server has the resource, and the store its objects. The response is newer than the
        call. Returns without a request while the resource is being watched.
        """
        return await self._looks.wait()

    def _contacted(self, error: RequestError | None) -> bool | None:
        """Report a response, or an open watch; return what `on_contact` does."""
        answer = None if self._on_contact is None else self._on_contact(error)
        self._looks.end(error)
        return answer

    def _count_end(self, cause: EndCause) -> None:
        self._ends[cause] = self._ends.get(cause, 0) + 1
        self._metrics.watch_ended(self.resource.plural, cause)

    def _after_end(self, error: WatchEnded) -> float:
        """Account for the end of a stream; return the delay before the next watch."""
        self._count_end(error.cause)
        self._last_error = str(error)
        if error.relist:
            self._resource_version = ""
        delay = max(self._backoff.next(), error.retry_after or 0.0)
        _log.info(
            "watch ended",
            resource=self.resource.plural,
            cause=str(error.cause),
            error=str(error),
            relist=error.relist,
            retry_in=round(delay, 3),
        )
        return delay

    def _after_failure(self, error: RequestError) -> float:
        """Account for a failed request; return the delay before the next one."""
        tolerated = self._contacted(error)
        if tolerated:
            self.synced.set()
        # What is absent now may be another resource when it comes back.
        self._polling = False
        cause = cause_of(error)
        delay = self._backoff.next()
        if isinstance(error, ApiError):
            delay = max(delay, error.retry_after or 0.0)
            if error.status not in (401, 429) and error.status < 500:
                # The server may reject the resourceVersion; a fresh list does not depend on it.
                self._resource_version = ""
        self._count_end(cause)
        self._last_error = str(error)
        if is_outage(error):
            # An outage ends by itself, and affects all clients of the server: log it once.
            self._client.outages.failed(self.resource.plural, error)
            return delay
        self._client.outages.recovered(self.resource.plural)
        # A rejection needs an operator, who need not read it with each retry.
        rejected = isinstance(error, ApiError) and error.status < 429
        known, self._rejection = self._rejection, str(error) if rejected else ""
        level = _log.error if rejected else _log.warning
        if rejected and known == self._rejection:
            level = _log.debug
        elif tolerated is not None and cause is EndCause.FORBIDDEN:
            # The owner reports all missing permissions at once.
            level = _log.debug
        elif rejected and tolerated:
            # Older API servers lack whole groups.
            level = _log.info
        level(
            "list or watch failed",
            resource=self.resource.plural,
            cause=str(cause),
            retry_in=round(delay, 3),
            **describe(error),
        )
        return delay

    def _progress(self) -> None:
        self._progressed = True
        self._contact = self._clock.monotonic()
        self._backoff.reset()

    # --------------------------------------------------------------------------------------- slices

    def _begin_slice(self) -> None:
        self._slice_end = self._clock.monotonic() + self._options.slice_seconds

    async def _yield_when_due(self) -> None:
        """Let other tasks run if the slice is over."""
        if self._clock.monotonic() >= self._slice_end:
            await asyncio.sleep(0)
            self._begin_slice()

    # ----------------------------------------------------------------------------------------- list

    async def _list(self) -> None:
        started = self._clock.monotonic()
        # A list that was rejected before will probably be so again: nothing waits for that.
        self._relisting = False
        if not self._rejection:
            self._begin_relist()
        try:
            self._resource_version, count = await self._list_pages()
        finally:
            if self._on_relist is not None and self._relisting:
                self._on_relist(False)
        self._lists += 1
        self._client.outages.recovered(self.resource.plural)
        self._contact = self._clock.monotonic()
        self._metrics.listed(self.resource.plural, count, self._contact - started)
        if not self._resource_version:
            self._begin_polling()
        if self._polling:
            self._contacted(None)
        self.synced.set()

    def _begin_relist(self) -> None:
        if self._on_relist is not None and not self._relisting:
            self._relisting = True
            self._on_relist(True)

    async def _list_pages(self) -> tuple[str, int]:
        options = self._options
        seen: set[str] = set()
        limit, token = options.page_size, ""
        while True:
            try:
                page = await self._client.list_page(
                    self.resource,
                    options.namespace,
                    field_selector=options.field_selector,
                    limit=limit,
                    continue_token=token,
                )
            except ApiError as error:
                if error.status != 410 or not token:
                    raise
                # The token has expired (compaction). One list without pages cannot expire.
                seen.clear()
                limit, token = 0, ""
                continue
            self._begin_relist()
            await self._apply_items(page.items or (), seen)
            token = page.metadata.continue_token
            if not token:
                await self._delete_unseen(seen)
                return page.metadata.resource_version, len(seen)

    async def _apply_items(self, items: Sequence[msgspec.Raw], seen: set[str]) -> None:
        self._begin_slice()
        start = 0
        while start < len(items):
            start = self._apply_batch(items, start, seen)
            await self._yield_when_due()

    def _apply_batch(self, items: Sequence[msgspec.Raw], start: int, seen: set[str]) -> int:
        """Deliver items from `start` on as one batch; return where the next one starts."""
        at, end = start, min(start + self._options.batch_size, len(items))
        room = self._options.batch_bytes
        while at < end and room > 0:
            self._apply_item(items[at], seen)
            room -= len(items[at])
            at += 1
        self._writer.deliver()
        return at

    def _apply_item(self, raw: msgspec.Raw, seen: set[str]) -> None:
        try:
            item = self.resource.decode(raw)
        except ValueError as error:
            named = self._decoder.named(raw)
            # It exists, so the object of this name in the store is not deleted.
            seen.add(self._writer.key_of(named))
            self._writer.skip(named, str(error))
            return
        key = self.resource.key(item)
        seen.add(key)
        self._writer.upsert(key, item, lambda: bytes(raw))

    async def _delete_unseen(self, seen: set[str]) -> None:
        unseen = [key for key in self._writer.known_keys() if key not in seen]
        self._begin_slice()
        for start in range(0, len(unseen), DELETION_BATCH):
            for key in unseen[start : start + DELETION_BATCH]:
                self._writer.delete(key)
            self._writer.deliver()
            await self._yield_when_due()

    # ---------------------------------------------------------------------------------------- watch

    def _watch_query(self, seconds: int) -> dict[str, str]:
        query = {
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
            "resourceVersion": self._resource_version,
        }
        if self._options.field_selector:
            query["fieldSelector"] = self._options.field_selector
        return query

    async def _watch(self) -> None:
        started = self._clock.monotonic()
        self._progressed = False
        seconds = int(self._random.uniform(*self._options.watch_seconds))
        try:
            async with self._client.open_watch(
                self.resource,
                self._options.namespace,
                self._watch_query(seconds),
                idle_timeout=self._options.idle_timeout
                + (0 if self._options.bookmarks else seconds),
            ) as stream:
                self._watches += 1
                self._rejection = ""
                self._contacted(None)
                self._client.outages.recovered(self.resource.plural)
                await self._read(stream)
        except ApiError as error:
            if error.status != METHOD_NOT_ALLOWED:
                raise
            self._begin_polling()
            return
        except RequestTimeout as error:
            if not error.sent or self._progressed:
                raise
            # No data from the start. If the server never had our resourceVersion (etcd restored
            # from a backup), it waits for it silently, and resuming would never end.
            raise WatchEnded(EndCause.IDLE_TIMEOUT, str(error), relist=True) from error
        if self._progressed or self._clock.monotonic() - started >= SHORT_WATCH_SECONDS:
            self._note_quiet_watch()
            self._progress()
            return
        raise WatchEnded(EndCause.DISCONNECTED, "the watch ended at once without events")

    def _begin_polling(self) -> None:
        """List from time to time from now on: the server cannot watch the resource."""
        if self._polling:
            return
        self._polling = True
        self._client.outages.recovered(self.resource.plural)
        _log.info(
            "watch is not supported, listing instead",
            resource=self.resource.plural,
            every_seconds=self._options.poll_seconds,
        )

    def _note_quiet_watch(self) -> None:
        if self._options.bookmarks:
            return
        self._quiet_watches = 0 if self._progressed else self._quiet_watches + 1
        if self._quiet_watches == MAX_QUIET_WATCHES:
            self._quiet_watches = 0
            self._resource_version = ""

    async def _read(self, stream: ResponseStream) -> None:
        """Read until the end of the stream."""
        splitter = LineSplitter()
        while chunk := await stream.read():
            try:
                lines = deque(splitter.feed(chunk))
                if not lines:
                    continue
                self._begin_slice()
                while lines:
                    self._apply_lines(lines)
                    await self._yield_when_due()
            except WatchDecodeError as error:
                raise self._undecodable(error) from error
            self._progress()
        # An unfinished last line means a lost connection: resuming repeats the event.

    def _undecodable(self, error: WatchDecodeError) -> WatchEnded:
        # Resuming requests the same event again. If it cannot be decoded twice, only a list
        # gets past it.
        again = self._undecodable_after == self._resource_version
        self._undecodable_after = "" if again else self._resource_version
        return WatchEnded(EndCause.DECODE_ERROR, str(error), relist=again)

    def _apply_lines(self, lines: deque[bytes]) -> None:
        """Deliver lines as one batch.

        Events before an undecodable line or an error event are delivered before it is raised.
        """
        room = self._options.batch_bytes
        try:
            while lines and room > 0:
                line = lines.popleft()
                room -= len(line)
                event = self._decoder.decode(line)
                if type(event) is Changed:
                    self._apply_change(event, line)
                elif type(event) is Bookmark:
                    self._bookmarks += 1
                    self._resource_version = event.resource_version
                elif type(event) is Malformed:
                    self._apply_malformed(event)
                elif type(event) is DecodingFailure:
                    raise watch_ended(event)
        finally:
            self._writer.deliver()

    def _apply_change(self, event: Changed[T], line: bytes) -> None:
        item = event.object
        key = self.resource.key(item)
        self._resource_version = item.metadata.resource_version
        if event.type is WatchType.DELETED:
            self._writer.delete(key, item)
        else:
            self._writer.upsert(key, item, lambda: self._decoder.object_bytes(line))

    def _apply_malformed(self, event: Malformed) -> None:
        self._writer.skip(event.named, event.error)
        if event.named.metadata.resource_version:
            self._resource_version = event.named.metadata.resource_version
        if event.type is WatchType.DELETED:
            self._writer.delete(self._writer.key_of(event.named))
