"""GroupEvictions: evictions for groups that are under way.

No further pods are evicted for a group until its victims are gone, or a timeout has passed. If the
group is placed elsewhere before that, or none of its pods waits any more, the victims that are not
deleted yet stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.api.pod import Pod
from scheduler.cache import Cache
from scheduler.engine.group_result import EvictionPlan
from scheduler.framework import Clock

PATIENCE_SECONDS: Final = 60.0
"""Minimum seconds before a group may evict again while some of its victims still exist."""

GRACE_FACTOR: Final = 2
"""The timeout is this multiple of the victims' longest grace period, if that is longer."""

_DEFAULT_GRACE: Final = 30.0


@dataclass(frozen=True, slots=True)
class _UnderWay:
    victims: tuple[str, ...]
    #: Monotonic time.
    until: float


class GroupEvictions:
    """Starts the evictions that a cycle has planned, and tracks their victims."""

    def __init__(self, cache: Cache, clock: Clock, waits: Callable[[str], bool]) -> None:
        """`waits` is whether the pod with a UID waits for a node."""
        self._cache = cache
        self._waits = waits
        self._clock = clock
        self._under_way: dict[str, _UnderWay] = {}

    def start(self, preemptor: str, group: str, plan: EvictionPlan) -> None:
        """Start the evictions of a plan; `preemptor` is a group, or one pod of it."""
        longest = max(
            each.spec.termination_grace_period_seconds or _DEFAULT_GRACE for each in plan.victims
        )
        until = self._clock.monotonic() + max(PATIENCE_SECONDS, GRACE_FACTOR * longest)
        self._forget_ended()
        known = _UnderWay(tuple(each.metadata.uid for each in plan.victims), until)
        self._under_way[preemptor] = known

        def needed() -> bool:
            current = self._under_way.get(preemptor) is known
            return current and any(self._waits(each.uid) for each in plan.members)

        plan.plugin.evict_for_group(plan.members, group, plan.victims, needed)

    def forget(self, preemptor: str) -> None:
        """Drop a group, or one pod of it, that was placed."""
        self._under_way.pop(preemptor, None)

    def under_way(self, preemptor: str) -> bool:
        """Whether victims of a group, or of one pod of it, are still terminating."""
        known = self._under_way.get(preemptor)
        if known is None:
            return False
        if self._is_over(known):
            del self._under_way[preemptor]
            return False
        return True

    def left(self, preemptor: str) -> tuple[Sequence[Pod], float]:
        """Return the victims that still exist, and the time until which no others are evicted."""
        known = self._under_way.get(preemptor)
        if known is None or self._is_over(known):
            return (), 0.0
        pods = (self._cache.get_pod(uid) for uid in known.victims)
        return [each for each in pods if each is not None], known.until

    def _is_over(self, known: _UnderWay) -> bool:
        return self._clock.monotonic() >= known.until or not any(
            self._cache.get_pod(uid) for uid in known.victims
        )

    def _forget_ended(self) -> None:
        for group in [name for name, known in self._under_way.items() if self._is_over(known)]:
            del self._under_way[group]
