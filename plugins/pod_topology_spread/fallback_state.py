"""What the fallback remembers of one pending pod, beyond what the pod's status says.

It hangs on the pod's queue record, so it is keyed by UID and goes when the record goes: with the
pod, or with the process (then the pod's condition says the rest; `fallback_condition`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.framework import QueuedPodInfo, plugin_names


@dataclass(slots=True)
class FallbackState:
    """One pod's. Times named `_wall` are seconds since the epoch, `_monotonic` of that clock."""

    #: Number of the last attempt in which the plugin's PreFilter ran; 0 for none that counts.
    attempt: int = 0
    #: `QueuedPodInfo.gate_openings` at that attempt.
    gate_openings: int = 0
    #: Keys of the constraints that were soft in the last attempt, and why, for people.
    soft: Mapping[str, str] = field(default_factory=dict)
    #: The keys of the attempt before that one.
    before: frozenset[str] = frozenset()
    #: Rule S11: soft for as long as the pod stays nominated to this node.
    latch: frozenset[str] = frozenset()
    latch_node: str = ""
    #: Rule S5: T0.
    since_wall: float | None = None
    since_monotonic: float = 0.0
    #: What is wrong with the annotation; empty for nothing.
    invalid: str = ""
    #: Warnings given already, as texts.
    warned: set[str] = field(default_factory=set)
    #: The attempt's placement, if it succeeds, is one that the fallback allowed.
    applied: bool = False

    def begin_wait(self, wall: float, *, now_wall: float, now_monotonic: float) -> None:
        """Set T0, if it is not known yet; a time to come, of another clock, is now."""
        if self.since_wall is None:
            wall = min(wall, now_wall)
            self.since_wall = wall
            self.since_monotonic = now_monotonic - (now_wall - wall)


def memory_of(info: QueuedPodInfo) -> FallbackState | None:
    """The pod's memory; None before its first attempt, or when it is not spread strictly."""
    if info.plugin_memory is None:
        return None
    found = info.plugin_memory.get(plugin_names.POD_TOPOLOGY_SPREAD)
    return found if isinstance(found, FallbackState) else None


def make_memory(info: QueuedPodInfo) -> FallbackState:
    """The pod's memory, made if need be."""
    known = memory_of(info)
    if known is not None:
        return known
    if info.plugin_memory is None:
        info.plugin_memory = {}
    made = FallbackState()
    info.plugin_memory[plugin_names.POD_TOPOLOGY_SPREAD] = made
    return made
