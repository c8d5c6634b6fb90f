"""Time that is skipped only while nothing else is left to do."""

from __future__ import annotations

import asyncio
import socket
import time

from devtools.loop_time import MAX_SKIP_SECONDS, LoopClock, skip_idle_time
from simulator import EmbeddedCluster


async def sleep_virtually(clock: LoopClock, seconds: float) -> None:
    sleeping = asyncio.ensure_future(clock.sleep(seconds))
    while not sleeping.done():
        skip_idle_time()
        await asyncio.sleep(0)


def ahead(clock: LoopClock) -> float:
    """Return the seconds that were skipped, plus a constant."""
    # The largest is the one that no pause of the machine falsified.
    return max(clock.monotonic() - time.monotonic() for _ in range(10))


async def test_an_hour_of_waiting_takes_no_hour() -> None:
    clock = LoopClock(EmbeddedCluster())
    begin, before = clock.monotonic(), ahead(clock)
    await sleep_virtually(clock, 3600.0)
    assert clock.monotonic() >= begin + 3600.0
    assert ahead(clock) > before + 3000.0, "most of it was skipped"


async def test_wall_clock_and_cluster_pass_the_same_time() -> None:
    cluster = EmbeddedCluster()
    clock = LoopClock(cluster)
    wall, simulated = clock.now(), cluster.clock.now()
    await sleep_virtually(clock, 60.0)
    assert clock.now() >= wall + 60.0
    assert cluster.clock.now() >= simulated + 60.0


async def test_no_time_is_skipped_while_there_is_work() -> None:
    clock = LoopClock(EmbeddedCluster())
    loop = asyncio.get_running_loop()
    sender, receiver = socket.socketpair()
    timer = loop.call_later(3600.0, int)
    with sender, receiver:
        loop.add_reader(receiver, receiver.recv, 1)
        before = ahead(clock)
        loop.call_soon(int)
        skip_idle_time()
        assert ahead(clock) < before + MAX_SKIP_SECONDS / 2, "a callback is due"
        await asyncio.sleep(0)
        sender.send(b"x")
        skip_idle_time()
        assert ahead(clock) < before + MAX_SKIP_SECONDS / 2, "a socket can be read"
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        skip_idle_time()
        assert ahead(clock) > before + MAX_SKIP_SECONDS / 2
        loop.remove_reader(receiver)
    timer.cancel()


async def test_time_is_that_of_the_machine_without_such_a_clock() -> None:
    assert not skip_idle_time()
