"""Scores of plugins without reuse are followed once they stay, and not while all of them change."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.engine.followed_scores import FEW_SCORES, FollowedScores

COUNT = 3 * FEW_SCORES


def followed(*scores: np.ndarray) -> FollowedScores:
    """Return the state after the scores of some pods."""
    known = FollowedScores()
    for each in scores:
        if known.differing(each) is None:
            known.replace(each)
    return known


def test_scores_are_compared_after_their_beginning_was_the_same_for_two_pods() -> None:
    scores = np.arange(COUNT)
    assert followed(scores).differing(scores) is None
    places = followed(scores, scores).differing(scores)
    assert places is not None
    assert not len(places)


def test_scores_that_all_change_hold_no_copy() -> None:
    scores = np.arange(COUNT)
    known = followed(scores, scores + 1, scores + 2)
    assert known.differing(scores + 2) is None
    assert known.nbytes == 0
    assert followed(scores, scores, scores + 1).nbytes == 0


@pytest.mark.parametrize(("changes", "found"), [(FEW_SCORES, True), (FEW_SCORES + 1, False)])
def test_places_are_told_of_few_differences_only(changes: int, found: bool) -> None:
    scores = np.arange(COUNT)
    others = scores.copy()
    others[-changes:] += 1
    places = followed(scores, scores).differing(others)
    assert (places is not None) == found
    if places is not None:
        assert places.tolist() == list(range(COUNT - changes, COUNT))


def test_scores_of_another_number_of_nodes_are_not_compared() -> None:
    scores = np.arange(COUNT)
    assert followed(scores, scores).differing(scores[1:]) is None


def test_an_array_that_the_plugin_uses_again_is_copied() -> None:
    scores = np.arange(COUNT)
    known = followed(scores, scores)
    scores[5] = 70
    places = known.differing(scores)
    assert places is not None
    assert places.tolist() == [5]
    assert known.exchange(5, 70) == 5
    assert known.exchange(5, 71) == 70
