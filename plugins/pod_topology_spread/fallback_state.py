"""Per-pod state of the fallback, kept in the pod's queue record and so dropped with it.

After a restart the pod's condition supplies T0 and the latch (`fallback_condition.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from plugins.pod_topology_spread.fallback_condition import (
    CONDITION,
    condition_of,
    persisted_since,
    persisted_soft_keys,
)
from scheduler.api.pod import Pod
from scheduler.framework import Clock, PostFilterOutcome, QueuedPodInfo, plugin_names


@dataclass(slots=True)
class FallbackState:
    """State of one pod."""

    #: Number of the last attempt in which the plugin's PreFilter ran; 0 for none that counts.
    attempt: int = 0
    #: `QueuedPodInfo.gate_openings` at that attempt.
    gate_openings: int = 0
    #: Keys of the constraints that were soft in the last attempt, with the reason.
    soft: Mapping[str, str] = field(default_factory=dict)
    #: The soft keys of the attempt before that one.
    previously_soft: frozenset[str] = frozenset()
    #: Rule S11: soft for as long as the pod stays nominated to `latch_node`.
    latch: frozenset[str] = frozenset()
    latch_node: str = ""
    #: Rule S5: T0 in seconds since the epoch, and on the monotonic clock.
    since_wall: float | None = None
    since_monotonic: float = 0.0
    #: Why the annotation is ignored; empty when it is valid.
    invalid: str = ""
    #: Texts of the warning events recorded so far.
    warned: set[str] = field(default_factory=set)
    #: Whether the current attempt relies on the fallback.
    applied: bool = False

    def start_attempt(
        self, pod: Pod, info: QueuedPodInfo, keys: Sequence[str], node: str, clock: Clock
    ) -> None:
        """Update the state by what happened since the last attempt.

        Args:
            pod: its status restores T0 and latch in the first attempt of this process.
            info: the pod's queue record; its `attempts` include the attempt that starts.
            keys: topology keys of the constraints with criteria.
            node: the pod's nominated node; empty for none.
            clock: for T0.
        """
        self.observe(info, clock)
        if info.attempts <= 1 and not self.attempt:
            self._restore(pod, info, keys, clock)
        if self.gate_openings != info.gate_openings:
            # Attempts before a gate held the pod again do not count any more.
            self.gate_openings, self.attempt = info.gate_openings, 0
        self.latch = self.latched_keys(node, info.post_filter)
        self.latch_node = node if self.latch else ""

    def latched_keys(self, node: str, outcome: PostFilterOutcome) -> frozenset[str]:
        """Return the keys that stay soft while the pod is nominated to `node` (rule S11)."""
        if self.latch_node and self.latch_node == node:
            return self.latch
        if node and outcome is PostFilterOutcome.NOMINATED:
            return frozenset(self.soft)
        return frozenset()

    def observe(self, info: QueuedPodInfo, clock: Clock) -> None:
        """Set T0 after the first rejection; clear it after a gate held the pod again (rule S5)."""
        if info.gate_openings != self.gate_openings and self.attempt:
            self.since_wall = None
        elif (
            plugin_names.POD_TOPOLOGY_SPREAD in info.unschedulable_plugins
            and not info.gated
            and self.attempt
        ):
            self._start_wait(info.timestamp, clock)

    def waited(self, clock: Clock) -> float | None:
        """Return the seconds since T0; None while T0 is unset."""
        return None if self.since_wall is None else clock.monotonic() - self.since_monotonic

    def _restore(self, pod: Pod, info: QueuedPodInfo, keys: Sequence[str], clock: Clock) -> None:
        """Restore T0 and the latch from the pod's condition (rules S5, S11 and S15)."""
        condition = condition_of(pod, CONDITION)
        since = persisted_since(condition)
        if since is not None and not info.gate_openings:
            self._start_wait(since, clock)
        nominated = pod.status.nominated_node_name
        if nominated:
            self.latch = persisted_soft_keys(condition, keys)
            self.latch_node = nominated if self.latch else ""

    def _start_wait(self, wall: float, clock: Clock) -> None:
        if self.since_wall is None:
            now = clock.now()
            # A T0 in the future, written by another clock, counts as now.
            self.since_wall = min(wall, now)
            self.since_monotonic = clock.monotonic() - (now - self.since_wall)


def state_of(info: QueuedPodInfo) -> FallbackState | None:
    """Return the pod's state; None before its first attempt or without hard constraints."""
    if info.plugin_memory is None:
        return None
    found = info.plugin_memory.get(plugin_names.POD_TOPOLOGY_SPREAD)
    return found if isinstance(found, FallbackState) else None


def ensure_state(info: QueuedPodInfo) -> FallbackState:
    """Return the pod's state, creating it if necessary."""
    known = state_of(info)
    if known is None:
        known = FallbackState()
        info.memory()[plugin_names.POD_TOPOLOGY_SPREAD] = known
    return known
