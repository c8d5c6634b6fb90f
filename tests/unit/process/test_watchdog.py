"""The watchdog names the plugin that blocks the event loop, while it does and afterwards."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from devtools.loop_time import pass_time
from scheduler.metrics import SchedulerMetrics
from scheduler.process.watchdog import BlockObserver, LoopHeartbeat, watch_loop
from scheduler.service.plugin_frames import PluginCall, find_call, frame_of
from scheduler.service.plugin_overruns import PluginOverruns
from tests.unit.client.virtual_clock import ManualClock

WAIT_SECONDS = 60.0


class Call:
    """A call that stops inside, until it is released."""

    def __init__(self) -> None:
        self.inside, self.release = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.inside.set()
        assert self.release.wait(WAIT_SECONDS)


class Base:
    def reserve(self, call: Call) -> None:
        call.wait()


def wrapped(method: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(method)
    def wrapper(*args: object) -> None:
        method(*args)

    return wrapper


class Gpu(Base):
    name = "example.com/Gpu"

    def filter(self, call: Call) -> None:
        self._look_up(call)

    def filter_rows(self, call: Call) -> None:
        list(map(Call.wait, [call]))

    @wrapped
    def score(self, call: Call) -> None:
        call.wait()

    @staticmethod
    def hint(call: Call) -> None:
        call.wait()

    def _look_up(self, call: Call) -> None:
        call.wait()

    def post_filter(self, call: Call) -> None:
        Other().filter(call)


class Other(Base):
    name = "example.com/Other"

    def filter(self, call: Call) -> None:
        call.wait()


def where_blocked(work: Callable[[Call], None], plugins: list[Any]) -> PluginCall | None:
    """Return what is found while `work` is stuck in another thread."""
    call = Call()
    thread = threading.Thread(target=work, args=(call,))
    thread.start()
    try:
        assert call.inside.wait(WAIT_SECONDS)
        return find_call(frame_of(thread.ident), plugins)
    finally:
        call.release.set()
        thread.join()


GPU, OTHER = Gpu(), Other()


@pytest.mark.parametrize(
    ("work", "plugin", "point"),
    [
        # Through a method that the framework does not call.
        (GPU.filter, GPU.name, "Filter"),
        (GPU.filter_rows, GPU.name, "Filter"),
        (GPU.score, GPU.name, "Score"),
        (GPU.hint, GPU.name, "hint"),
        # Preemption, for instance, runs the filters of other plugins.
        (GPU.post_filter, OTHER.name, "Filter"),
        (GPU.reserve, f"{GPU.name}, {OTHER.name}", "Reserve"),
    ],
)
def test_the_stack_names_plugin_point_and_place(
    work: Callable[[Call], None], plugin: str, point: str
) -> None:
    found = where_blocked(work, [GPU, OTHER])
    assert found is not None
    assert (found.plugin, found.point) == (plugin, point)
    # The innermost frame in the file of the plugin.
    assert found.where.startswith(f"{__file__}:")
    assert found.where.endswith(" in wait")


def test_a_stack_without_plugins_names_none() -> None:
    assert where_blocked(GPU.filter, [SimpleNamespace(name="elsewhere")]) is None
    assert find_call(frame_of(None), [GPU]) is None


def blocked_heartbeat(clock: ManualClock, call: Call) -> tuple[LoopHeartbeat, threading.Thread]:
    """Return the heartbeat of a loop, here another thread, that a filter blocks."""
    heartbeat = LoopHeartbeat(clock, lambda: [GPU])

    def loop() -> None:
        heartbeat.beat()
        GPU.filter(call)
        heartbeat.beat()

    thread = threading.Thread(target=loop)
    thread.start()
    assert call.inside.wait(WAIT_SECONDS)
    return heartbeat, thread


def test_a_block_is_logged_once_while_it_lasts_and_remembered_for_afterwards() -> None:
    clock, call = ManualClock(), Call()
    heartbeat, thread = blocked_heartbeat(clock, call)
    observer = BlockObserver(heartbeat)
    try:
        with capture_logs() as logs:
            observer.look()
            assert not logs, "blocked, but not for a second yet"
            clock.jump(1.5)
            observer.look()
            clock.jump(1.0)
            observer.look()
        where = heartbeat.where()
    finally:
        call.release.set()
        thread.join()
    (line,) = logs
    assert line["event"] == "event loop is blocked"
    assert (line["plugin"], line["where"], line["seconds"]) == (GPU.name, "Filter", 1.5)
    assert line["at"].startswith(f"{__file__}:")
    assert where.startswith(f"plugin {GPU.name} at Filter ({__file__}:")
    seen = observer.take()
    assert seen is not None
    assert (seen.plugin, seen.point) == (GPU.name, "Filter")
    assert observer.take() is None


def test_the_thread_looks_by_itself_and_ends() -> None:
    clock, call = ManualClock(), Call()
    heartbeat, thread = blocked_heartbeat(clock, call)
    clock.jump(2.0)
    looked = threading.Event()

    class Observer(BlockObserver):
        def look(self) -> None:
            super().look()
            looked.set()

    with capture_logs(), Observer(heartbeat) as observer:
        assert looked.wait(WAIT_SECONDS)
        call.release.set()
        thread.join()
    assert observer.take() is not None
    assert "watchdog" not in {each.name for each in threading.enumerate()}


async def test_the_loop_reports_the_plugin_after_it_was_blocked() -> None:
    class Observer(BlockObserver):
        def take(self) -> PluginCall | None:
            return PluginCall(GPU.name, "Filter", "gpu.py:3 in filter")

    metrics, heartbeat = SchedulerMetrics(), LoopHeartbeat(ManualClock())
    overruns = PluginOverruns(metrics.plugin_faults, ManualClock(), dict)
    reported = asyncio.Event()

    def on_block(call: PluginCall, seconds: float) -> None:
        overruns.blocked(call, seconds)
        reported.set()

    watching = asyncio.create_task(watch_loop(metrics, heartbeat, Observer(heartbeat), on_block))
    with capture_logs() as logs:
        await asyncio.sleep(0)
        pass_time(3.0)
        await reported.wait()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    (line,) = logs
    assert (line["event"], line["plugin"], line["where"]) == (
        "event loop was blocked",
        GPU.name,
        "Filter",
    )
    lines = metrics.exposition()[0].decode().splitlines()
    (sample,) = (
        each for each in lines if each.startswith("kubestow_plugin_blocking_seconds_total")
    )
    assert 'plugin="example.com/Gpu"' in sample
    assert float(sample.split()[-1]) >= 1.0
    (text,) = overruns.of_profile("kubestow", {GPU.name})[GPU.name]
    assert text.startswith("blocked all scheduling once in Filter since the start, for up to ")
    overruns.forget()
    assert not overruns.of_profile("kubestow", {GPU.name})
