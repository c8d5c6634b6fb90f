"""The pods that wait at the end of a simulation: one by one, or by reason where they are many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from scheduler.cli.pod_format import first_sentence
from scheduler.cli.tables import FOLDED, NUMBER, listing, put, say

if TYPE_CHECKING:
    from rich.console import Console

MAX_SINGLE: Final = 20
"""Pods that are listed one by one."""
MAX_REASONS: Final = 100
EXAMPLES: Final = 3


def show_waiting(waiting: Iterable[tuple[str, str, str]], console: Console) -> None:
    """Print pods with their state and reason, or, where they are many, how many share both."""
    rows = [(pod, state, first_sentence(reason)) for pod, state, reason in waiting]
    if len(rows) <= MAX_SINGLE:
        say(console, "waiting:", "bold")
        put(console, listing(dict.fromkeys(("POD", "STATE", "REASON"), FOLDED), rows))
        return
    groups: dict[tuple[str, str], list[str]] = {}
    for pod, state, reason in rows:
        groups.setdefault((state, reason), []).append(pod)
    largest = sorted(groups.items(), key=lambda each: -len(each[1]))
    say(console, f"{len(rows)} pods wait, by reason; -o json has each:", "bold")
    headings = {"PODS": NUMBER, "STATE": FOLDED, "REASON": FOLDED, "FOR EXAMPLE": FOLDED}
    grouped = [
        (str(len(pods)), state, reason, ", ".join(pods[:EXAMPLES]))
        for (state, reason), pods in largest[:MAX_REASONS]
    ]
    put(console, listing(headings, grouped))
    if len(largest) > MAX_REASONS:
        say(console, f"and {len(largest) - MAX_REASONS} other reasons")
