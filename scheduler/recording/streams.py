"""`/debug/bundle` and `/debug/record`: bundles as they are written, in slices of the event loop.

Nothing here makes the scheduler wait, except that it is held while the records of its queue are
copied. A reader that does not read costs a bounded journal (`journal.MAX_PENDING`).
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from scheduler.build_info import build_info
from scheduler.recording.format import API_VERSION, COMPLETE, METRICS, Header
from scheduler.recording.journal import REASONS, Journal, encoded
from scheduler.recording.objects import ANNOTATIONS_LEFT_OUT
from scheduler.recording.snapshot import Snapshot
from scheduler.recording.writing import BundleWriter
from scheduler.service.limited_log import LimitedLog
from scheduler.service.questions import TooManyQuestionsError
from scheduler.stages.wiring import Wiring

SLICE_SECONDS: Final = 0.005
"""Of encoding and compression before other tasks run; half of what a page may take."""

CHUNK_BYTES: Final = 64 * 1024

DEFAULT_SECONDS: Final = 60.0
MAX_SECONDS: Final = 3600.0
DEFAULT_SIZE: Final = 256 << 20
MAX_SIZE: Final = 2 << 30

TIME_LIMIT: Final = "time-limit"
SIZE_LIMIT: Final = "size-limit"
_ENDS: Final = {
    **REASONS,
    TIME_LIMIT: "the time that was asked for is over",
    SIZE_LIMIT: "the size that was asked for is reached",
}

_log: Final = LimitedLog(__name__)

_HEARTBEAT: Final = 5.0
"""Seconds after which something is written even if nothing happened, for readers with timeouts."""

MAX_ANNOTATIONS: Final = 32

BUSY: Final = "another bundle or recording is being written; try again later"


class BundleStreams:
    """Both streams of one process; one of them at a time."""

    def __init__(self, wiring: Wiring, leading: Callable[[], bool]) -> None:
        self._wiring = wiring
        self._leading = leading
        self._busy = False

    async def bundle(self, query: Mapping[str, str]) -> AsyncGenerator[bytes]:
        """Yield a bundle; `?annotation=` names annotations to keep, separated by commas.

        Raises:
            ValueError: the query is malformed.
            TooManyQuestionsError: another bundle is being written.
        """
        kept = _annotations(query)
        with self._turn():
            snapshot = Snapshot(self._wiring, kept, self._leading(), self._failed)
            await self._hold(snapshot)
            writer = BundleWriter(self._header("Bundle", snapshot))
            async for chunk in self._written(writer, self._lines(snapshot)):
                yield chunk
            yield writer.add(METRICS, {"text": await self._metrics()}) + writer.end(COMPLETE)

    async def record(self, query: Mapping[str, str]) -> AsyncGenerator[bytes]:
        """Yield a recording: `?seconds=`, `?bytes=` (compressed), `?annotation=`.

        Raises:
            ValueError: the query is malformed, or this replica does not lead.
            TooManyQuestionsError: another bundle is being written.
        """
        kept = _annotations(query)
        duration = _number(query, "seconds", DEFAULT_SECONDS, MAX_SECONDS)
        size = _number(query, "bytes", DEFAULT_SIZE, MAX_SIZE)
        if not self._leading():
            raise ValueError("this replica does not lead: it decides nothing to be recorded")
        with self._turn():
            journal = self._journal()
            snapshot = Snapshot(self._wiring, kept, leading=True, on_error=self._failed)
            try:
                await self._hold(snapshot, journal)
                writer = BundleWriter(self._header("Recording", snapshot))
                async for chunk in self._written(writer, self._lines(snapshot)):
                    yield chunk
                async for chunk in self._recorded(writer, journal, kept, duration, size):
                    yield chunk
            finally:
                journal.end(COMPLETE)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Take the one turn, so that many readers do not cost many snapshots.

        Raises:
            TooManyQuestionsError: it is taken.
        """
        if self._busy:
            raise TooManyQuestionsError(BUSY)
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    # -- the snapshot ----------------------------------------------------------------------------

    async def _hold(self, snapshot: Snapshot, journal: Journal | None = None) -> None:
        """Collect the snapshot; the journal begins where it ends."""
        monotonic = self._wiring.connections.clock.monotonic
        async with self._wiring.scheduling.loop.held():
            steps, left = snapshot.hold(), True
            while left:
                end = monotonic() + SLICE_SECONDS
                while (left := next(steps, steps) is None) and monotonic() < end:
                    pass
                if left:
                    await asyncio.sleep(0)
            if journal is not None:
                self._wiring.state.reports.attach(journal)

    def _lines(self, snapshot: Snapshot) -> Iterator[tuple[str, Any]]:
        return snapshot.lines(dict(self._wiring.connections.configuration.feature_gates))

    def _header(self, kind: str, snapshot: Snapshot) -> Header:
        left_out = [ANNOTATIONS_LEFT_OUT, *snapshot.left_out]
        if self._wiring.state.extenders:
            left_out.append("extenders are not in a bundle: attempts that asked one are not judged")
        return Header(
            api_version=API_VERSION,
            kind=kind,
            version=build_info().version,
            python=platform.python_version(),
            created=snapshot.time,
            left_out=tuple(left_out),
        )

    async def _metrics(self) -> str:
        metrics = self._wiring.connections.metrics
        metrics.refresh()
        body, _ = await asyncio.to_thread(metrics.exposition, "")
        return body.decode("utf-8", "replace")

    async def _written(
        self, writer: BundleWriter, lines: Iterator[tuple[str, Any]]
    ) -> AsyncGenerator[bytes]:
        """Write lines in slices, and yield what is ready."""
        monotonic = self._wiring.connections.clock.monotonic
        ready = [writer.begin()]
        end = monotonic() + SLICE_SECONDS
        for section, data in lines:
            ready.append(
                writer.add_raw(section, data)
                if isinstance(data, bytes)
                else writer.add(section, data)
            )
            if monotonic() >= end:
                if sum(map(len, ready)) >= CHUNK_BYTES:
                    yield b"".join(ready)
                    ready = []
                await asyncio.sleep(0)
                end = monotonic() + SLICE_SECONDS
        yield b"".join(ready)

    # -- the stream ------------------------------------------------------------------------------

    def _journal(self) -> Journal:
        connections, scheduling = self._wiring.connections, self._wiring.scheduling
        return Journal(
            scheduling.engine,
            scheduling.queue,
            clock=connections.clock,
            random=connections.random,
            on_end=lambda: self._wiring.state.reports.attach(None),
            on_error=self._failed,
        )

    def _failed(self, error: Exception) -> None:
        """Report a fault of the recording, which costs the recording and nothing else."""
        self._wiring.connections.metrics.recording_failed("bundles")
        _log.exception("recording failed", error)

    async def _recorded(
        self,
        writer: BundleWriter,
        journal: Journal,
        kept: Sequence[str],
        duration: float,
        size: float,
    ) -> AsyncGenerator[bytes]:
        """Yield the journal up to its end, then the end of the file."""
        monotonic = self._wiring.connections.clock.monotonic
        until, written = monotonic() + duration, monotonic()
        resources = {each.resource.plural: each.resource for each in self._wiring.reflectors}
        while True:
            end = monotonic() + SLICE_SECONDS
            ready: list[bytes] = []
            while monotonic() < end and (entry := journal.take()) is not None:
                try:
                    ready.append(writer.add(*encoded(entry, resources, kept)))
                except Exception as error:  # noqa: BLE001 - the file ends in order before it
                    journal.fail(error)
                    journal.clear()
            now = monotonic()
            if now >= until:
                journal.end(TIME_LIMIT)
            elif writer.compressed >= size:
                journal.end(SIZE_LIMIT)
            elif now - written >= _HEARTBEAT:
                journal.tick()
            if not len(journal):
                if journal.ended:
                    break
                ready.append(writer.flush())
            if any(ready):
                yield b"".join(ready)
                written = monotonic()
            if len(journal):
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(max(0.0, min(_HEARTBEAT, until - monotonic()))):
                    await journal.wake.wait()
            except TimeoutError:
                pass
        yield b"".join(ready) + writer.end(journal.ended, _ENDS.get(journal.ended, ""))


def _annotations(query: Mapping[str, str]) -> tuple[str, ...]:
    named = tuple(filter(None, query.get("annotation", "").split(",")))
    if len(named) > MAX_ANNOTATIONS:
        raise ValueError(f"annotation: at most {MAX_ANNOTATIONS} can be named")
    return named


def _number(query: Mapping[str, str], key: str, default: float, largest: float) -> float:
    text = query.get(key)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 12 and 0 < int(text) <= largest):
        raise ValueError(f"{key}={text[:40]}: give a whole number from 1 to {largest:.0f}")
    return float(int(text))
