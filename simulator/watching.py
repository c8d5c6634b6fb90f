"""Watch streams: from a resourceVersion on, in order, until time, client or a fault ends them.

Invariant: a stream subscribes before it looks back into history, with no await between, so no
change is missed or sent twice. A client that reads too slowly is dropped once `QUEUE_LIMIT` changes
wait for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from simulator import errors, printing
from simulator.clock import SimClock
from simulator.errors import ApiError
from simulator.faults import FaultRule, Faults
from simulator.listing import encoded
from simulator.objects import JsonObject, dig, encode_json
from simulator.routing import Query, Target, resource_version
from simulator.selectors import Predicate
from simulator.store import CompactedError, Store, StoreChange, Version

QUEUE_LIMIT: Final = 100_000
_BATCH: Final = 512
"""Changes written at once, so that one busy stream does not hold the loop for long."""
_PREFIX: Final = {
    name: b'{"type":"' + name.encode() + b'","object":'
    for name in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
}
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class Sink(Protocol):
    """Output of a stream."""

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the client reads slowly."""

    def abort(self) -> None:
        """Close the connection without ending the response."""


class WatchStream:
    """One watch. `run` writes until it ends; everything else is called from the same event loop."""

    def __init__(
        self,
        store: Store,
        faults: Faults,
        clock: SimClock,
        target: Target,
        query: Query,
        predicate: Predicate | None,
        *,
        as_table: bool,
        bookmark_seconds: float,
    ) -> None:
        self._store = store
        self._faults = faults
        self._clock = clock
        self._target = target
        self._predicate = predicate
        self._as_table = as_table
        self._include = query.get("includeObject", "Metadata")
        self._columns_sent = False
        allowed = query.get("allowWatchBookmarks") in ("true", "1")
        # The API server keeps no watch cache of Events, and it is that which sends bookmarks.
        uncached = target.resource.plural == "events"
        self._bookmarks = allowed
        self._bookmark_seconds = bookmark_seconds if allowed and not uncached else None
        self._queue: deque[StoreChange] = deque()
        self._limit = QUEUE_LIMIT
        self._overflow = False
        self._bookmark_due = False
        self._initial_end = False
        self._wake = asyncio.Event()
        self._failed: ApiError | None = None
        self._undo: list[Callable[[], None]] = []
        self._sent_rv = 0
        self._open(query)

    def _open(self, query: Query) -> None:
        """Subscribe and fill the queue with the changes since the client's resourceVersion."""
        store, target = self._store, self._target
        requested = resource_version(query)
        initial = query.get("sendInitialEvents")
        self._undo.append(store.subscribe(target.resource.table, self._take))
        self._undo.append(self._faults.on_change.subscribe(self._wake.set))
        self._sent_rv = store.rv
        if initial == "true" or (initial is None and not requested):
            for version in store.items(target.resource.table, target.namespace):
                self._queue.append(StoreChange("ADDED", version, None, version.rv))
            # Upstream announces the end of the initial events only to clients that requested them.
            self._initial_end = initial == "true" and self._bookmarks
        elif requested:
            try:
                self._queue.extend(
                    change
                    for change in store.changes_since(target.resource.table, requested)
                    if not target.namespace or change.version.namespace == target.namespace
                )
            except CompactedError as error:
                self._failed = errors.expired(str(error))
        self._limit = len(self._queue) + QUEUE_LIMIT

    def bookmark(self) -> None:
        """Send a bookmark soon, if the client allows them."""
        self._bookmark_due = self._bookmark_seconds is not None
        self._wake.set()

    def close(self) -> None:
        """Stop listening. Must be called once `run` is over."""
        for undo in self._undo:
            undo()
        self._undo = []

    async def run(self, sink: Sink, timeout_seconds: float) -> None:
        """Write events until `timeout_seconds` have passed or something ends the stream."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_seconds
        next_bookmark = end
        if self._bookmark_seconds is not None:
            next_bookmark = loop.time() + self._bookmark_seconds
        while True:
            if self._failed is not None:
                await self._write_error(sink, self._failed)
                return
            standing = self._faults.standing("watch", self._target.label, self._target.namespace)
            if standing is not None and await self._suffer(sink, standing):
                return
            if standing is None:
                if not await self._drain(sink):
                    return
                if self._overflow:
                    return
                if self._bookmark_due or loop.time() >= next_bookmark:
                    await self._write_bookmark(sink)
                    next_bookmark = loop.time() + (self._bookmark_seconds or timeout_seconds)
            if loop.time() >= end:
                return
            if self._queue and standing is None:
                await asyncio.sleep(0)
                continue
            await self._wait(min(end, next_bookmark) - loop.time())

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    def _take(self, _table: str, change: StoreChange) -> None:
        namespace = self._target.namespace
        if self._overflow or (namespace and change.version.namespace != namespace):
            return
        if len(self._queue) >= self._limit:
            self._overflow = True
            self._queue.clear()
        else:
            self._queue.append(change)
        self._wake.set()

    async def _drain(self, sink: Sink) -> bool:
        """Write one batch of what waits; False when a fault ended the stream."""
        lines: list[bytes] = []
        for _ in range(min(len(self._queue), _BATCH)):
            change = self._queue.popleft()
            self._sent_rv = max(self._sent_rv, change.rv)
            line = self._line(change)
            if line is None:
                continue
            rule = self._faults.take(
                "watch", self._target.label, change.version.namespace, change.version.name
            )
            if rule is None:
                lines.append(line)
            elif not await self._spoil(sink, rule, change, line, lines):
                return False
        if not self._queue and self._initial_end:
            self._initial_end = False
            lines.append(self._bookmark_line({INITIAL_EVENTS_END: "true"}))
        if lines:
            await sink.write(b"".join(lines))
        return True

    async def _spoil(
        self, sink: Sink, rule: FaultRule, change: StoreChange, line: bytes, lines: list[bytes]
    ) -> bool:
        """Apply a rule to one event; False when the stream is over."""
        match rule.action:
            case "duplicate":
                lines += [line, line]
            case "no-op":
                again = self._event("MODIFIED", change.version)
                lines += [line] if change.type == "DELETED" else [line, again]
            case "hide":
                pass
            case "delay":
                await sink.write(b"".join(lines))
                lines.clear()
                await self._clock.sleep(rule.seconds)
                lines.append(line)
            case "silence":
                await sink.write(b"".join(lines))
                lines.clear()
                await self._until_removed(rule)
                lines.append(line)
            case "error":
                await sink.write(b"".join(lines))
                await self._write_error(sink, fault_error(rule))
                return False
            case "cut" | "drop-answer":
                await sink.write(b"".join(lines))
                sink.abort()
                return False
        return True

    async def _suffer(self, sink: Sink, rule: FaultRule) -> bool:
        """Apply a rule to the stream as a whole; True when the stream is over."""
        if rule.action == "silence":
            return False
        self._faults.count_standing(rule)
        if rule.action == "cut":
            sink.abort()
        else:
            await self._write_error(sink, fault_error(rule))
        return True

    async def _until_removed(self, rule: FaultRule) -> None:
        while self._faults.holds(rule):
            self._wake.clear()
            await self._wake.wait()

    def _line(self, change: StoreChange) -> bytes | None:
        """Return the event of a change for this watch's selectors; None if there is none."""
        matches, version, previous = self._predicate, change.version, change.previous
        if matches is None:
            return self._event(change.type, version)
        was = previous is not None and matches(previous.obj)
        now = change.type != "DELETED" and matches(version.obj)
        if change.type == "DELETED":
            return self._event("DELETED", version) if was else None
        if now:
            return self._event("MODIFIED" if was else "ADDED", version)
        if was and previous is not None:
            # What left the selection is shown as it was, at the version at which it left.
            return self._event("DELETED", _moved(previous, change.rv))
        return None

    def _event(self, kind: str, version: Version) -> bytes:
        if self._as_table:
            made = printing.table(
                self._target.resource.table,
                [version.obj],
                self._clock.now(),
                metadata={"resourceVersion": str(version.rv)},
                include=self._include,
                with_columns=not self._columns_sent,
                columns=self._target.resource.columns,
            )
            self._columns_sent = True
            return _PREFIX[kind] + encode_json(made) + b"}\n"
        return _PREFIX[kind] + encoded(self._target.resource, version) + b"}\n"

    def _bookmark_line(self, annotations: JsonObject | None = None) -> bytes:
        meta: JsonObject = {"resourceVersion": str(self._sent_rv)}
        if annotations:
            meta["annotations"] = annotations
        row = self._target.resource
        obj = {"kind": row.kind, "apiVersion": row.group_version, "metadata": meta}
        return _PREFIX["BOOKMARK"] + encode_json(obj) + b"}\n"

    async def _write_bookmark(self, sink: Sink) -> None:
        self._bookmark_due = False
        if self._bookmark_seconds is not None and not self._queue:
            self._sent_rv = self._store.rv
            await sink.write(self._bookmark_line())

    @staticmethod
    async def _write_error(sink: Sink, error: ApiError) -> None:
        await sink.write(_PREFIX["ERROR"] + encode_json(error.status) + b"}\n")


def fault_error(rule: FaultRule) -> ApiError:
    """Build the error response of an `error` rule."""
    message = rule.message or f"injected fault: {rule.code}"
    reason = errors.FAULT_REASONS.get(rule.code, "InternalError")
    details: JsonObject = {}
    if rule.code in (429, 503):
        details["retryAfterSeconds"] = rule.retry_after
    return ApiError(rule.code, reason, message, details)


def _moved(version: Version, rv: int) -> Version:
    meta = {**(dig(version.obj, "metadata") or {}), "resourceVersion": str(rv)}
    return Version(version.namespace, version.name, {**version.obj, "metadata": meta}, rv)
