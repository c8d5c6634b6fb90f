"""Counts of the questions that needed trials, apart from the code that answers them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class AskerStatistics:
    """Counts since the start."""

    questions: int = 0
    refused: int = 0
    slices: int = 0
    longest_slice: float = 0.0
    """Seconds."""
    longest_slice_cpu: float = 0.0
    """Seconds of CPU time."""
    under_way: int = 0
