"""Garbage collection of a process that runs for long: seldom, and not among what stays."""

from __future__ import annotations

import gc
from typing import Final

THRESHOLDS: Final = (50_000, 20, 50)
"""Decoded objects are untracked and requests create few reference cycles, so Python's default of
700 would only cause pauses."""


def collect_seldom() -> None:
    """Set the thresholds, at the start of the process."""
    gc.set_threshold(*THRESHOLDS)


def keep_what_exists() -> None:
    """Leave out of later collections what lives as long as the process, after the first lists."""
    gc.collect()
    gc.freeze()
