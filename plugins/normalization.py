"""Default normalization of raw scores to 0..100 (`normalize_score.go: DefaultNormalizeScore`).

Division truncates towards zero as upstream's does; NumPy's `//` floors, which differs for negative
scores.
"""

from __future__ import annotations

import numpy as np

from scheduler.framework import MAX_NODE_SCORE, Int64Column


def default_normalize(scores: Int64Column, *, reverse: bool = False) -> Int64Column:
    """Scale int64 `scores` so that the largest becomes 100; `reverse` inverts the order.

    When no score is above 0 nothing is scaled: plain returns the input, reverse gives 100 to all.

    >>> default_normalize(np.array([1, 2, 3, 4])).tolist()
    [25, 50, 75, 100]
    >>> default_normalize(np.array([0, 1, 2]), reverse=True).tolist()
    [100, 50, 0]
    """
    largest = int(scores.max()) if scores.size else 0
    if largest <= 0:
        if not reverse:
            return scores
        return np.full(scores.shape, MAX_NODE_SCORE, dtype=np.int64)
    scaled = _scale(scores, largest)
    return MAX_NODE_SCORE - scaled if reverse else scaled


def _scale(scores: Int64Column, largest: int) -> Int64Column:
    if largest < scores.size and int(scores.min()) >= 0:
        # Division of int64 columns is slow (40 µs for 5000), a look-up is not; most scores are
        # small.
        table: Int64Column = MAX_NODE_SCORE * np.arange(largest + 1, dtype=np.int64) // largest
        return table[scores]
    product = MAX_NODE_SCORE * scores
    scaled: Int64Column = np.sign(product) * (np.abs(product) // largest)
    return scaled
