"""Victim order, and the choice of the candidate node.

Follows preemption.go: pickOneNodeForPreemption, and utils.go: MoreImportantPod for the order.
Remaining ties are broken at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.api.pod import Pod
from scheduler.framework import RandomSource
from scheduler.framework.preemption import Candidate

# Added to each priority, which may be negative, so that more victims never make a smaller sum.
_SUM_OFFSET: Final = 1 << 31

CandidateRank = tuple[int, int, int, int]
"""Number of violated budgets, then highest priority, sum of priorities and number of victims."""
LatestStart = tuple[bool, str]
"""For the victims of highest priority: whether one has not started, and the earliest start."""


@dataclass(frozen=True, slots=True)
class RankedCandidate(Candidate):
    """A candidate with its rank, which is cached since bursts compare the same ones many times."""

    rank: CandidateRank
    latest_start: LatestStart


def ranked(candidate: Candidate) -> RankedCandidate:
    """Return the candidate with its rank; it must have victims."""
    if isinstance(candidate, RankedCandidate):
        return candidate
    victims = candidate.victims
    highest = victims[0].priority
    starts = [pod.status.start_time for pod in victims if pod.priority == highest]
    return RankedCandidate(
        candidate.node_name,
        victims,
        candidate.pdb_violations,
        rank=(
            candidate.pdb_violations,
            highest,
            sum(pod.priority + _SUM_OFFSET for pod in victims),
            len(victims),
        ),
        latest_start=min((start is None, start or "") for start in starts),
    )


def pick_one_node(candidates: Sequence[Candidate], random: RandomSource) -> Candidate:
    """Return the candidate with the lowest rank; there must be at least one candidate."""
    finalists = [ranked(each) for each in candidates]
    least = min([each.rank for each in finalists])
    finalists = [each for each in finalists if each.rank == least]
    latest = max([each.latest_start for each in finalists])
    finalists = [each for each in finalists if each.latest_start == latest]
    if len(finalists) == 1:
        return finalists[0]
    return finalists[random.randrange(len(finalists))]


def importance(pod: Pod) -> tuple[int, bool, str]:
    """Return a sort key that puts the most important pod first: by priority, then start time."""
    start = pod.status.start_time
    return -pod.priority, start is None, start or ""
