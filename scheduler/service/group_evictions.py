"""GroupEvictions: the evictions for groups that are under way.

While victims of a group leave, or until it has had enough time, nobody else is evicted for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.api.pod import Pod
from scheduler.cache import Cache
from scheduler.engine.group_preemption import EvictionPlan
from scheduler.framework import Clock

PATIENCE_SECONDS: Final = 60.0
"""Time at least before a group may evict again although victims of it are still there."""

GRACE_FACTOR: Final = 2
"""Of the longest grace period of a victim, if that is more."""

_DEFAULT_GRACE: Final = 30.0


@dataclass(frozen=True, slots=True)
class _UnderWay:
    victims: tuple[str, ...]
    #: Monotonic time.
    until: float


class GroupEvictions:
    """Starts evictions that a cycle has planned, and remembers them."""

    def __init__(self, cache: Cache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self._under_way: dict[str, _UnderWay] = {}

    def start(self, preemptor: str, group: str, plan: EvictionPlan) -> None:
        """Have the victims of a plan evicted; `preemptor` is a group, or one pod of it."""
        longest = max(
            each.spec.termination_grace_period_seconds or _DEFAULT_GRACE for each in plan.victims
        )
        until = self._clock.monotonic() + max(PATIENCE_SECONDS, GRACE_FACTOR * longest)
        self._forget_ended()
        self._under_way[preemptor] = _UnderWay(
            tuple(each.metadata.uid for each in plan.victims), until
        )
        plan.plugin.evict_for_group(plan.members, group, plan.victims)

    def under_way(self, preemptor: str) -> bool:
        """Whether victims of a group, or of one pod of it, are still leaving."""
        known = self._under_way.get(preemptor)
        if known is None:
            return False
        if self._is_over(known):
            del self._under_way[preemptor]
            return False
        return True

    def left(self, preemptor: str) -> tuple[Sequence[Pod], float]:
        """Return the victims that have not left yet, and until when nobody else is evicted."""
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
