"""The end of the process in spite of threads that plugins have left behind.

The interpreter waits for every thread that is not a daemon, and the event loop for the workers of
its executor. One that is busy for ever would keep a process that has been asked to end, until
somebody kills it; by then nothing is left to do for it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import structlog

_log = structlog.get_logger(__name__)

GRACE_SECONDS: Final = 1.0
"""How long other threads may take to end."""


async def run_and_leave(serve: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Return what `serve` returns, or end the process with it if other threads go on."""
    executor = ThreadPoolExecutor(thread_name_prefix="executor")
    asyncio.get_running_loop().set_default_executor(executor)
    code = await serve()
    # Its idle workers end; the event loop would wait for the others.
    executor.shutdown(wait=False, cancel_futures=True)
    leave(code)
    return code


def leave(code: int) -> None:
    """Return if no other thread keeps the process from ending; otherwise end it."""
    end = time.monotonic() + GRACE_SECONDS
    others = [
        each
        for each in threading.enumerate()
        if not each.daemon and each is not threading.main_thread()
    ]
    for each in others:
        each.join(max(0.0, end - time.monotonic()))
    busy = sorted(each.name for each in others if each.is_alive())
    if busy:
        _log.warning("ending without waiting for threads, such as those of plugins", threads=busy)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
