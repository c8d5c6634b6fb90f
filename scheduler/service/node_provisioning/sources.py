"""What each autoscaler said last about each pod, and what that amounts to at a moment.

Pure, and independent of the order in which events arrive: the newest event per pod and autoscaler
counts, and at equal times the one that says nodes are coming. Failures of node groups and claims
are kept apart from pods and joined when asked, for they come from another watch.

Two clocks: events are ordered by the autoscaler's; durations run on ours, monotonic, from `since`:
the event's age when we heard of it before that moment, and never after it. So a clock that is ahead
only delays a verdict.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.service.node_provisioning.signals import (
    PROVISIONING_FAILED,
    PROVISIONING_TIMED_OUT,
    PodVerdict,
    TargetFailure,
)

MOST_FAILURES: Final = 256
"""Failures remembered per node group. Losing the oldest only delays a verdict."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds after which a promise of nodes is broken."""

    suspect_window: float = 60.0
    provisioning_deadline: float = 1200.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the condition should say; `message` names the autoscaler's words."""

    provisioning: bool
    reason: str
    message: str
    source: str
    #: Event time of what it rests on.
    time: float

    @property
    def status(self) -> str:
        """As in the condition."""
        return "True" if self.provisioning else "False"


@dataclass(frozen=True, slots=True)
class Heard:
    """A signal, and since when it has been true by our monotonic clock."""

    verdict: PodVerdict
    since: float


class Failures:
    """When which node group or node claim failed. One instance for all autoscalers."""

    def __init__(self) -> None:
        self._by_target: dict[tuple[str, str], list[tuple[float, float, str]]] = {}

    def __len__(self) -> int:
        return len(self._by_target)

    def add(self, failure: TargetFailure, since: float) -> None:
        """Remember one; the same event again changes nothing."""
        known = self._by_target.setdefault((failure.source, failure.target), [])
        if not any(time == failure.time for time, _, _ in known):
            insort(known, (failure.time, since, failure.message))
            del known[:-MOST_FAILURES]

    def first_after(self, source: str, target: str, time: float) -> tuple[float, str] | None:
        """Since when, and with which words, `target` failed at or after `time`; None: not."""
        known = self._by_target.get((source, target), [])
        index = bisect_left(known, (time,))
        return known[index][1:] if index < len(known) else None

    def forget_before(self, time: float) -> None:
        """Drop what we heard of before `time`."""
        for key, known in tuple(self._by_target.items()):
            known[:] = [each for each in known if each[1] >= time]
            if not known:
                del self._by_target[key]


def newer(old: Heard | None, new: PodVerdict) -> bool:
    """Whether `new` replaces what the same autoscaler said before; the order is total."""
    return old is None or _rank(new) > _rank(old.verdict)


def _rank(said: PodVerdict) -> tuple[float, bool, str, str, list[str]]:
    return said.time, said.provisioning, said.reason, said.message, sorted(said.targets)


def judge(heard: Heard, failures: Failures, limits: Limits, now: float) -> tuple[Verdict, float]:
    """What one autoscaler's newest word amounts to now, and when that may change by itself."""
    said = heard.verdict
    plain = Verdict(said.provisioning, said.reason, said.message, said.source, said.time)
    if not said.provisioning:
        return plain, float("inf")
    deadline = heard.since + limits.provisioning_deadline
    broken = _all_failed(said, failures)
    suspect = float("inf") if broken is None else broken[0] + limits.suspect_window
    if now >= suspect and broken is not None:
        return _false(said, PROVISIONING_FAILED, broken[1]), float("inf")
    if now >= deadline:
        waited = f"no node within {limits.provisioning_deadline:g} s of {said.message}"
        return _false(said, PROVISIONING_TIMED_OUT, waited), float("inf")
    return plain, min(suspect, deadline)


def merge(verdicts: Iterable[Verdict]) -> Verdict | None:
    """True if any autoscaler promises nodes; else False if one says no; else nothing."""
    return max(verdicts, key=lambda each: (each.provisioning, each.time), default=None)


def judge_all(
    heard: Mapping[str, Heard], failures: Failures, limits: Limits, now: float
) -> tuple[Verdict | None, float]:
    """The verdict over all autoscalers, and when it may change by itself."""
    judged = [judge(each, failures, limits, now) for each in heard.values()]
    return merge(each for each, _ in judged), min((at for _, at in judged), default=float("inf"))


def _all_failed(said: PodVerdict, failures: Failures) -> tuple[float, str] | None:
    """Since when everything asked to grow for the pod has failed, and the last such words."""
    last: tuple[float, str] | None = None
    for target in said.targets:
        failed = failures.first_after(said.source, target, said.time)
        if failed is None:
            return None
        last = failed if last is None else max(last, failed)
    return last


def _false(said: PodVerdict, reason: str, message: str) -> Verdict:
    return Verdict(False, reason, message, said.source, said.time)
