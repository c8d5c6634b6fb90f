"""The scores that a plugin without reuse gave for the last pod of a signature.

Such a plugin runs for every pod, but most of its scores are those of the pod before: then totals
are changed by single rows, instead of being summed up and searched again.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.framework import Int64Column

FEW_SCORES: Final = 32
"""Up to this number of scores may differ between two pods."""
Places = np.ndarray[tuple[int], np.dtype[np.intp]]


class FollowedScores:
    """One plugin's scores of each feasible row.

    Scores that differ for every pod are neither copied nor compared, which would take longer than
    to sum them up: only a change of their beginning is looked for.
    """

    __slots__ = ("_beginning", "_scores")

    def __init__(self) -> None:
        self._beginning = b""
        #: None until the beginning has been the same for two pods.
        self._scores: Int64Column | None = None

    def differing(self, scores: Int64Column) -> Places | None:
        """Return the places in which `scores` differ, None if they are many or not known."""
        known = self._scores
        if known is None or len(known) != len(scores):
            return None
        places: Places = (scores != known).nonzero()[0]
        return places if len(places) <= FEW_SCORES else None

    def replace(self, scores: Int64Column) -> None:
        """Follow other scores, as soon as they are worth it."""
        beginning = scores[:FEW_SCORES].tobytes()
        # A copy: the plugin may use its array again.
        self._scores = scores.copy() if beginning == self._beginning else None
        self._beginning = beginning

    def exchange(self, place: int, score: int) -> int:
        """Replace one score after `differing` returned its place; returns the one before."""
        assert self._scores is not None
        before = self._scores.item(place)
        self._scores[place] = score
        return before

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return 0 if self._scores is None else self._scores.nbytes
