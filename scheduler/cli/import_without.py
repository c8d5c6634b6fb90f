"""Imports of many modules at a time, without what they would pull in or set off for nothing."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def import_without(*left_out: str) -> Iterator[None]:
    """Import within, with the garbage collector at rest.

    Modules are made to stay: looking for garbage among them is a twentieth of the start.

    Args:
        left_out: packages that something imports if it can and that will not be used. They are as
            if they were not installed, unless they are imported already.
    """
    absent = [name for name in left_out if name not in sys.modules]
    for name in absent:
        # So the import system has it: what is None here cannot be imported.
        sys.modules[name] = None  # type: ignore[assignment]
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
        for name in absent:
            del sys.modules[name]
