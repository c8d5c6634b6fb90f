"""Monitoring of the event loop: its lag, and whether it runs at all.

A short block of the loop appears as lag in a metric. During a longer one a separate thread examines
the stack to find the plugin that is being executed. A permanent one is detected from the heartbeat
by the thread that renews the Lease.

Both threads need the GIL: a call of C code that holds it is noticed only when it returns.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn, Self

import structlog

from scheduler.client.clock import Clock
from scheduler.metrics import SchedulerMetrics
from scheduler.service.plugin_frames import PluginCall, find_call, frame_of

_log = structlog.get_logger(__name__)

PERIOD_SECONDS: Final = 0.1
WORTH_A_LINE_SECONDS: Final = 1.0
"""Minimum lag that is logged; shorter lags appear in the metric only."""
LOOK_SECONDS: Final = 0.25
"""Period of checking the heartbeat; a block that is logged is checked three times."""

DEEPEST_FRAMES: Final = 4
"""Number of innermost frames to report; enough to see which plugin called what."""


class LoopHeartbeat:
    """Heartbeat of the event loop. Call `beat` on the loop, the other methods in any thread."""

    __slots__ = ("_clock", "_last", "_plugins", "_thread")

    def __init__(self, clock: Clock, plugins: Callable[[], Iterable[Any]] = tuple) -> None:
        """Start with a beat now; `clock` is the clock of the leader fence.

        `plugins()` returns the plugins whose code may be executed.
        """
        self._clock = clock
        self._last = clock.monotonic()
        self._thread = threading.get_ident()
        self._plugins = plugins

    def beat(self) -> None:
        """Record that the event loop runs, in the calling thread."""
        self._thread = threading.get_ident()
        self._last = self._clock.monotonic()

    def age(self) -> float:
        """Return the seconds since the last beat."""
        return self._clock.monotonic() - self._last

    def where(self) -> str:
        """Return the plugin that the loop's thread executes, if any, and its innermost frames.

        The innermost frame is the first. Values are not shown.
        """
        frame = frame_of(self._thread)
        stack = traceback.StackSummary.extract(
            traceback.walk_stack(frame), limit=DEEPEST_FRAMES, lookup_lines=False
        )
        if frame is None or not stack:
            return "nothing"
        call = find_call(frame, self._plugins())
        return (f"{call}: " if call else "") + ", called by ".join(
            f"{each.name} ({each.filename}:{each.lineno})" for each in stack
        )

    def plugin_call(self) -> PluginCall | None:
        """Return the call of a plugin that the loop's thread executes, None for none."""
        return find_call(frame_of(self._thread), self._plugins())


class BlockObserver:
    """Watches the heartbeat from a thread, and names the plugin that blocks the event loop."""

    def __init__(self, heartbeat: LoopHeartbeat) -> None:
        self._heartbeat = heartbeat
        self._stop = threading.Event()
        # A daemon, so that it cannot keep an ending process alive.
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        #: Guards the next two attributes, which both threads use.
        self._lock = threading.Lock()
        self._seen: Counter[PluginCall | None] = Counter()
        self._reported: PluginCall | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def look(self) -> None:
        """Find out what blocks the event loop, if anything. Callable from any thread."""
        age = self._heartbeat.age()
        if age < WORTH_A_LINE_SECONDS:
            return
        call = self._heartbeat.plugin_call()
        with self._lock:
            first = not self._seen or (call is not None and call.plugin != self._blamed())
            self._seen[call] += 1
            if call is not None:
                self._reported = call
        if first:
            _log.error(
                "event loop is blocked",
                seconds=round(age, 3),
                executes=self._heartbeat.where(),
                **_named(call),
            )

    def _blamed(self) -> str:
        return "" if self._reported is None else self._reported.plugin

    def take(self) -> PluginCall | None:
        """Return the plugin call that was seen most often in the block that ended, and forget it.

        None: no plugin was being executed.
        """
        with self._lock:
            seen, self._seen, self._reported = self._seen, Counter(), None
        calls = Counter({each: count for each, count in seen.items() if each is not None})
        most = calls.most_common(1)
        return most[0][0] if most else None

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                self.look()
            # Boundary: plugins' classes are inspected, and the thread must survive an error.
            except Exception:  # noqa: BLE001
                _log.exception("the blocked event loop cannot be looked at")


async def watch_loop(
    metrics: SchedulerMetrics,
    heartbeat: LoopHeartbeat,
    observer: BlockObserver,
    on_block: Callable[[PluginCall, float], None],
) -> NoReturn:
    """Beat periodically and measure the loop's lag, until cancelled.

    `on_block(call, seconds)` is called after a plugin has blocked the event loop for a second or
    more.
    """
    loop = asyncio.get_running_loop()
    while True:
        before = loop.time()
        await asyncio.sleep(PERIOD_SECONDS)
        heartbeat.beat()
        lag = max(0.0, loop.time() - before - PERIOD_SECONDS)
        metrics.loop_lag(lag)
        if lag >= WORTH_A_LINE_SECONDS:
            call = observer.take()
            _log.warning("event loop was blocked", seconds=round(lag, 3), **_named(call))
            if call is not None:
                on_block(call, lag)


def _named(call: PluginCall | None) -> dict[str, str]:
    if call is None:
        return {}
    return {"plugin": call.plugin, "where": call.point, "at": call.where}
