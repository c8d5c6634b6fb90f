"""Growing, jittered delays. Pure: the caller sleeps."""

from __future__ import annotations

from random import Random


class Backoff:
    """Delays `initial * factor**n`, capped, each spread by `jitter`.

    A delay lies in `[base, base * (1 + jitter))`, as in client-go, so `initial` is a true lower
    bound.
    """

    __slots__ = ("_cap", "_factor", "_initial", "_jitter", "_random", "attempts")

    def __init__(
        self,
        random: Random,
        *,
        initial: float,
        cap: float,
        factor: float = 2.0,
        jitter: float = 0.5,
    ) -> None:
        self._random = random
        self._initial = initial
        self._cap = cap
        self._factor = factor
        self._jitter = jitter
        self.attempts = 0

    def next(self) -> float:
        """Return the delay before the next attempt, seconds."""
        # The exponent is bounded so that a long outage cannot overflow a float.
        base = min(self._cap, self._initial * self._factor ** min(self.attempts, 64))
        self.attempts += 1
        return base * (1.0 + self._jitter * self._random.random())

    def reset(self) -> None:
        """Restart from `initial`; call it after progress, not after a mere connection."""
        self.attempts = 0
