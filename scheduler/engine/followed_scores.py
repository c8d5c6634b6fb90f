"""The scores that a plugin without reuse returned for the last pod of a signature.

Such a plugin runs for every pod, but most of its scores often equal those for the previous pod.
Totals are then updated for single rows, instead of being recomputed and searched for the maximum.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.framework import Int64Column

FEW_SCORES: Final = 32
"""Maximum number of scores that may differ between two pods."""
Places = np.ndarray[tuple[int], np.dtype[np.intp]]


class FollowedScores:
    """One plugin's scores for each feasible row.

    Copying and comparing scores that differ for every pod would take longer than summing them, so
    the scores are kept only after their first `FEW_SCORES` have been the same for two pods.
    """

    __slots__ = ("_beginning", "_scores")

    def __init__(self) -> None:
        self._beginning = b""
        #: None until the beginning has been the same for two pods.
        self._scores: Int64Column | None = None

    def differing(self, scores: Int64Column) -> Places | None:
        """Return the indices at which `scores` differ; None if they are many or unknown."""
        known = self._scores
        if known is None or len(known) != len(scores):
            return None
        places: Places = (scores != known).nonzero()[0]
        return places if len(places) <= FEW_SCORES else None

    def replace(self, scores: Int64Column) -> None:
        """Replace all scores; they are kept if their beginning is the same as last time."""
        beginning = scores[:FEW_SCORES].tobytes()
        # Copied, since the plugin may reuse its array.
        self._scores = scores.copy() if beginning == self._beginning else None
        self._beginning = beginning

    def exchange(self, place: int, score: int) -> int:
        """Replace the score at an index that `differing` returned; return the old score."""
        assert self._scores is not None
        before = self._scores.item(place)
        self._scores[place] = score
        return before

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return 0 if self._scores is None else self._scores.nbytes
