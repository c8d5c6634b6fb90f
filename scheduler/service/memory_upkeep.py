"""Periodic return of unused memory to the operating system.

glibc returns free memory at the end of its heap only. A pod of 1 MB is decoded from buffers and
into tuples of some 100 KiB; these are freed while smaller blocks between them stay, and the holes
stay resident: 82 of 111 MB after 100 such pods were created and deleted. Python's own allocator,
which has all small objects, is not affected.

Garbage in cycles, such as an exception and its frames, may hold pods of 1 MB as well. The collector
counts objects, not bytes, and thousands of such pods are few objects.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Final

from scheduler.client.clock import Clock

PERIOD_SECONDS: Final = 10.0
"""Trimming costs 10 us when there is nothing to return, and otherwise some 0.1 to 0.5 ms a MB;
collecting the youngest generation looks at 50,000 objects at the most. Short enough that no period
leaves very much to do."""


async def return_memory(clock: Clock, trim: Callable[[], object] | None) -> None:
    """Collect the youngest garbage and `trim` the heap, once a period, forever."""
    while True:
        await clock.sleep(PERIOD_SECONDS)
        gc.collect(0)
        if trim is not None:
            # On the loop: a thread would hold the heap's lock just as long, and the loop wait.
            trim()


def malloc_trim() -> Callable[[], object] | None:
    """`malloc_trim(0)` of glibc: of all arenas, holes as well as the end. None elsewhere."""
    try:
        function = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        return None
    function.argtypes, function.restype = (ctypes.c_size_t,), ctypes.c_int
    return lambda: function(0)
