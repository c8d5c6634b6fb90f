"""Growing, jittered delays. Pure: the caller sleeps."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

MAX_ATTEMPTS: Final = 4
"""Of a write of the scheduler that failed with an error that may be gone soon."""


@dataclass(slots=True)
class Backoff:
    """Delays `initial * factor**n`, capped, each spread by `jitter`.

    A delay lies in `[base, base * (1 + jitter))`, as in client-go, so `initial` is a true lower
    bound.
    """

    random: Random
    initial: float
    cap: float
    factor: float = 2.0
    jitter: float = 0.5
    #: Delays since the start or the last `reset`.
    attempts: int = 0

    def next(self) -> float:
        """Return the delay before the next attempt, seconds."""
        # The exponent is bounded so that a long outage cannot overflow a float.
        base = min(self.cap, self.initial * self.factor ** min(self.attempts, 64))
        self.attempts += 1
        return base * (1.0 + self.jitter * self.random.random())

    def reset(self) -> None:
        """Restart from `initial`; call it after progress, not after a mere connection."""
        self.attempts = 0


def of_writes(random: Random) -> Backoff:
    """Return the delays between these attempts (`util.go: DefaultBackoff` of client-go)."""
    return Backoff(random, initial=0.01, cap=10.0, factor=5.0, jitter=0.1)
