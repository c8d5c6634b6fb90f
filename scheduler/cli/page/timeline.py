"""The time line of a finished run: how many pods waited, and what was decided, moment by moment."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import Final

from scheduler.explain.records import Moment
from scheduler.history import DecisionResult
from scheduler.history.run import FOREVER, RecordedRun

MOMENTS: Final = 60


def timeline(run: RecordedRun, until: float) -> list[Moment]:
    """Return moments at equal distances from the begin of a run until a time."""
    length = until - run.begin
    if length <= 0:
        return []
    decided = run.until(until)
    placed = {each.pod: each.time for each in decided if each.result is DecisionResult.PLACED}
    pending = [pod for pod in run.pods if not pod.node]
    came = sorted(pod.created for pod in pending)
    left = sorted(
        min(FOREVER if pod.deleted is None else pod.deleted, placed.get(pod.key, FOREVER))
        for pod in pending
    )
    found, seen = [], 0
    for number in range(1, MOMENTS + 1):
        time = run.begin + length * number / MOMENTS
        upto = bisect_right(decided, time, key=lambda each: each.time)
        results = Counter(each.result for each in decided[seen:upto])
        waiting = bisect_right(came, time) - bisect_right(left, time)
        failed = results[DecisionResult.UNSCHEDULABLE] + results[DecisionResult.ERROR]
        found.append(Moment(time, max(0, waiting), results[DecisionResult.PLACED], failed))
        seen = upto
    return found
