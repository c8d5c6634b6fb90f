"""Default normalization, as upstream's `normalize_score.go`."""

from __future__ import annotations

import numpy as np
import pytest

from plugins.normalization import default_normalize


@pytest.mark.parametrize(
    ("raw", "plain", "reverse"),
    [
        ([1, 2, 3, 4], [25, 50, 75, 100], [75, 50, 25, 0]),
        ([1000, 10, 20, 30], [100, 1, 2, 3], [0, 99, 98, 97]),
        ([1000, 1, 1, 1], [100, 0, 0, 0], [0, 100, 100, 100]),
        ([0, 1, 1, 1], [0, 100, 100, 100], [100, 0, 0, 0]),
        ([0, 0, 0, 0], [0, 0, 0, 0], [100, 100, 100, 100]),
        ([1, 2, 3, 0, 1, 2, 3], [33, 66, 100, 0, 33, 66, 100], [67, 34, 0, 100, 67, 34, 0]),
        ([3, -2], [100, -66], [0, 166]),  # truncated towards zero; the framework refuses the range
        ([-3, -2], [-3, -2], [100, 100]),
        ([], [], []),
    ],
)
def test_default_normalize(raw: list[int], plain: list[int], reverse: list[int]) -> None:
    scores = np.array(raw, dtype=np.int64)

    assert default_normalize(scores).tolist() == plain
    assert default_normalize(scores, reverse=True).tolist() == reverse
    assert scores.tolist() == raw
