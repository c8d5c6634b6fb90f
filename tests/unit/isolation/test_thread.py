"""A plugin's thread is free for the next call as soon as a call has ended."""

from __future__ import annotations

import asyncio
import threading

import pytest

from scheduler.isolation.thread import PluginThread


async def test_a_thread_that_has_delivered_its_result_is_not_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, leave = asyncio.get_running_loop(), threading.Event()
    call_soon = loop.call_soon_threadsafe
    lingering: list[threading.Thread] = []

    def linger(*arguments: object) -> None:
        lingering.append(threading.current_thread())
        call_soon(*arguments)  # type: ignore[arg-type]
        leave.wait()

    thread = PluginThread()
    with monkeypatch.context() as patched:
        patched.setattr(loop, "call_soon_threadsafe", linger)
        try:
            assert await thread.run("X", lambda: 5, seconds=60) == 5
            assert thread.ident is None
        finally:
            leave.set()
            for each in lingering:
                each.join()


async def test_a_thread_that_is_left_behind_is_busy_until_its_call_ends() -> None:
    thread, leave = PluginThread(), threading.Event()
    with pytest.raises(TimeoutError):
        await thread.run("X", leave.wait, seconds=0)
    assert thread.ident is not None
    leave.set()
    (left,) = [each for each in threading.enumerate() if each.name == "plugin X"]
    left.join()
    await asyncio.sleep(0)
    assert thread.ident is None
