"""The verdict of a replay about one decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler.recording.outcomes import Outcome

SAME: Final = "reproduced"
DIFFERENT: Final = "different"
UNJUDGED: Final = "unjudged"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One recorded attempt, and what became of it here."""

    seq: int
    time: float
    """Wall clock seconds."""
    pod: str
    result: str
    """`reproduced`, `different` or `unjudged`."""
    why: str
    """Of one that is not reproduced: what differs, or why it cannot be judged."""
    recorded: Outcome
    replayed: Outcome | None = None
