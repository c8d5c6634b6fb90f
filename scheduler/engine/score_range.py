"""Checks that final scores are within the allowed range, 0 to 100."""

from __future__ import annotations

from scheduler.engine.errors import failed
from scheduler.framework import MAX_NODE_SCORE, MIN_NODE_SCORE, Int64Column


def are_final(scores: Int64Column) -> bool:
    """Whether all scores are within the range."""
    if not len(scores):
        return True
    return bool(
        scores[scores.argmin()] >= MIN_NODE_SCORE and scores[scores.argmax()] <= MAX_NODE_SCORE
    )


def highest_score(plugin: str, scores: Int64Column) -> int:
    """Return the highest of the final scores; 0 if there are none.

    Raises AttemptError if a score is outside 0 to 100.
    """
    if not len(scores):
        return 0
    lowest, highest = _range(scores)
    if lowest < MIN_NODE_SCORE or highest > MAX_NODE_SCORE:
        invalid = lowest if lowest < MIN_NODE_SCORE else highest
        raise failed(
            f'applying score defaultWeights on Score plugins: plugin "{plugin}" '
            f"returns an invalid score {invalid}, it should in the range of "
            f"[{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
        )
    return highest


def _range(scores: Int64Column) -> tuple[int, int]:
    """Return the lowest and the highest score; much faster than `min` and `max` of NumPy."""
    return scores.item(scores.argmin()), scores.item(scores.argmax())
