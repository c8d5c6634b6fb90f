"""Periodic return of unused memory to the operating system.

glibc returns free memory only from the end of its heap. Decoding a pod of 1 MB takes buffers and
tuples of some 100 KiB; they are freed while smaller blocks between them remain, and the holes stay
resident: 82 of 111 MB after 100 such pods were created and deleted. Python's own allocator, which
holds all small objects, is not affected.

Reference cycles, such as an exception and its frames, may keep pods of 1 MB alive as well. The
collector counts objects, not bytes, and thousands of such pods are few objects.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Final

from scheduler.client.clock import Clock

PERIOD_SECONDS: Final = 10.0
"""Trimming takes 10 us if there is nothing to return, otherwise some 0.1 to 0.5 ms per MB, and
collecting the youngest generation visits at most 50,000 objects. The period is short so that little
accumulates in it."""


async def return_memory(clock: Clock, trim: Callable[[], object] | None) -> None:
    """Collect the youngest generation and `trim` the heap once per period, forever."""
    while True:
        await clock.sleep(PERIOD_SECONDS)
        gc.collect(0)
        if trim is not None:
            # Not in a thread: it would hold the heap's lock as long, and the loop would wait.
            trim()


def malloc_trim() -> Callable[[], object] | None:
    """Return glibc's `malloc_trim(0)`, which trims all arenas, holes included; None elsewhere."""
    try:
        function = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        return None
    function.argtypes, function.restype = (ctypes.c_size_t,), ctypes.c_int
    return lambda: function(0)
