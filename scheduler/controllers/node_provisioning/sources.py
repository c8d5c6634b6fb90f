"""What each autoscaler said last about each pod, and what that amounts to at a moment.

Pure, and independent of the order in which events arrive: the newest event per pod and autoscaler
counts, and at equal times the one that says nodes are coming. Failures of node groups and claims
are kept apart from pods and joined when asked, for they come from another watch.

Both autoscalers leave out repeated events about a pod, so a promise that was broken may have been
renewed without a word. A verdict therefore waits for longer than an autoscaler may be silent, and
for longer still while anything else shows that nodes are coming (`ScaleUps`).

Two clocks: events are ordered by the autoscaler's; durations run on ours, monotonic, from `since`:
the event's age when we heard of it before that moment, and never after it. So a clock that is ahead
only delays a verdict.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.controllers.node_provisioning.signals import (
    CLUSTER_AUTOSCALER,
    KARPENTER,
    PROVISIONING_FAILED,
    PROVISIONING_TIMED_OUT,
    PodSignal,
    ScaleUp,
    TargetFailure,
)

MAX_FAILURES: Final = 256
"""Failures remembered per node group. Losing the oldest only delays a verdict."""


SUSPECT_WINDOWS: Final = {CLUSTER_AUTOSCALER: 330.0, KARPENTER: 180.0}
"""Seconds: more than an autoscaler waits before it repeats an event about a pod, and a few of its
loops. cluster-autoscaler's event recorder lets one event per pod and reason pass in 5 minutes
(client-go: `EventSourceObjectSpamFilter`), Karpenter's one `Nominated` per pod in 2 minutes."""

SCALE_UP_SECONDS: Final = 1.0
"""Scale-ups closer to each other are remembered as one."""

PROVISION_SECONDS: Final = 900.0
"""How long a node group or node claim may take to bring a node: the default of cluster-autoscaler's
`--max-node-provision-time`, and the time after which Karpenter deletes a claim without a node."""

MAX_SCALE_UPS: Final = 10_000

MAX_PROMISES: Final = 32
"""Promises about one pod remembered for each autoscaler; losing some only delays a verdict."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds after which a promise of nodes is broken."""

    #: After the failure of all targets; None: `SUSPECT_WINDOWS`.
    suspect_window: float | None = None
    #: After the first promise of an unbroken run.
    provisioning_deadline: float = 1200.0

    def window(self, source: str) -> float:
        """How long after the failure of all its targets an autoscaler may still try again."""
        return SUSPECT_WINDOWS[source] if self.suspect_window is None else self.suspect_window


@dataclass(frozen=True, slots=True)
class DesiredCondition:
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


class ObservedSignal:
    """What one autoscaler said about one pod.

    `newest` is the event that counts, `since` the monotonic time from which it has been true.
    """

    __slots__ = ("_last_refusal", "_promises", "newest", "since")

    def __init__(self, first: PodSignal, since: float) -> None:
        self.newest = first
        self.since = since
        # The latest refusal, by the autoscaler's clock.
        self._last_refusal = -math.inf
        # First and latest time of each promise after it.
        self._promises: dict[object, tuple[float, float]] = {}
        self._note(first)

    def add(self, signal: PodSignal, since: float) -> bool:
        """Take in an event; returns whether it is the newest now. The order of calls is free."""
        self._note(signal)
        if _rank(signal) <= _rank(self.newest):
            return False
        self.newest, self.since = signal, since
        return True

    def _note(self, signal: PodSignal) -> None:
        if not signal.provisioning:
            self._last_refusal = max(self._last_refusal, signal.time)
            for key, (_, last) in tuple(self._promises.items()):
                if last < self._last_refusal:
                    del self._promises[key]
        elif signal.time >= self._last_refusal:
            # A node claim has a name of its own, so what names the same ones is a repeat.
            key = signal.targets if signal.source == KARPENTER and signal.targets else signal.time
            first, last = self._promises.get(key, (signal.first_time, signal.time))
            self._promises[key] = min(first, signal.first_time), max(last, signal.time)
            if len(self._promises) > MAX_PROMISES:
                del self._promises[sorted(self._promises, key=self._promises.__getitem__)[1]]

    def promised_since(self, deadline: float) -> float:
        """The monotonic time of the first promise of the run that `newest` belongs to.

        A refusal ends a run, and so does its deadline: only a promise made after that begins
        another.
        """
        starts = sorted(max(first, self._last_refusal) for first, _ in self._promises.values())
        run = starts[0] if starts else self.newest.time
        for start in starts:
            if start >= run + deadline:
                run = start
        return self.since - (self.newest.time - run)


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
            del known[:-MAX_FAILURES]

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


@dataclass(frozen=True, slots=True)
class Window:
    """The time that an autoscaler has for another try after all targets of a promise failed."""

    source: str
    #: Monotonic times of the promise and of the last failure, and the latest end.
    promised: float
    begin: float
    last: float
    #: Seconds.
    length: float


class ScaleUps:
    """When nodes were asked for, or came, without an event about a pod. One for all autoscalers."""

    def __init__(self) -> None:
        #: By autoscaler: monotonic time, target ("" for a node that came), autoscaler's time.
        self._known: dict[str, list[tuple[float, str, float]]] = {
            source: [] for source in SUSPECT_WINDOWS
        }

    def add(self, scale_up: ScaleUp, since: float, keep: float) -> None:
        """Remember one, and forget those that are `keep` seconds older."""
        known = self._known[scale_up.source]
        entry = since, scale_up.target, scale_up.time
        index = bisect_left(known, (since - SCALE_UP_SECONDS,))
        near = known[index : bisect_left(known, (since + SCALE_UP_SECONDS,))]
        if any(target == scale_up.target for _, target, _ in near):
            return
        insort(known, entry)
        del known[: max(bisect_left(known, (known[-1][0] - keep,)), len(known) - MAX_SCALE_UPS)]

    def extend(self, window: Window, failures: Failures) -> float:
        """The end of a window that is as long as nodes may be coming, `window.last` at most.

        A target that was asked for nodes may bring them until it fails, or for `PROVISION_SECONDS`;
        after each failure the autoscaler has the length of the window to try another.
        """
        known = self._known[window.source]
        end = window.begin + window.length
        for since, target, time in known[bisect_left(known, (window.promised,)) :]:
            if since >= end or end >= window.last:
                break
            over = since
            if target:
                failed = failures.first_after(window.source, target, time)
                over = since + PROVISION_SECONDS if failed is None else failed[0]
            end = max(end, over + window.length)
        return min(end, window.last)


def _rank(signal: PodSignal) -> tuple[float, bool, str, str, list[str]]:
    return signal.time, signal.provisioning, signal.reason, signal.message, sorted(signal.targets)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known beside the events about pods."""

    failures: Failures
    scale_ups: ScaleUps


def evaluate(
    observed: ObservedSignal, evidence: Evidence, limits: Limits, now: float
) -> tuple[DesiredCondition, float]:
    """What one autoscaler's newest word amounts to now, and when that may change by itself."""
    signal = observed.newest
    plain = DesiredCondition(
        signal.provisioning, signal.reason, signal.message, signal.source, signal.time
    )
    if not signal.provisioning:
        return plain, math.inf
    deadline = limits.provisioning_deadline
    end = observed.promised_since(deadline) + deadline
    broken = _all_failed(signal, evidence.failures)
    suspect = math.inf
    if broken is not None:
        length = limits.window(signal.source)
        window = Window(signal.source, observed.since, broken[0], max(end, broken[0]), length)
        suspect = evidence.scale_ups.extend(window, evidence.failures)
    if now >= suspect and broken is not None:
        return _refusal(signal, PROVISIONING_FAILED, broken[1]), math.inf
    if now >= end:
        waited = f"no node within {deadline:g} s of {signal.message}"
        return _refusal(signal, PROVISIONING_TIMED_OUT, waited), math.inf
    return plain, min(suspect, end)


def merge(desired: Iterable[DesiredCondition]) -> DesiredCondition | None:
    """True if any autoscaler promises nodes; else False if one says no; else nothing."""
    return max(desired, key=lambda each: (each.provisioning, each.time), default=None)


def evaluate_all(
    by_source: Mapping[str, ObservedSignal], evidence: Evidence, limits: Limits, now: float
) -> tuple[DesiredCondition | None, float]:
    """The verdict over all autoscalers, and when it may change by itself."""
    judged = [evaluate(each, evidence, limits, now) for each in by_source.values()]
    return merge(each for each, _ in judged), min((at for _, at in judged), default=math.inf)


def _all_failed(signal: PodSignal, failures: Failures) -> tuple[float, str] | None:
    """Since when everything asked to grow for the pod has failed, and the last such words."""
    last: tuple[float, str] | None = None
    for target in signal.targets:
        failed = failures.first_after(signal.source, target, signal.time)
        if failed is None:
            return None
        last = failed if last is None else max(last, failed)
    return last


def _refusal(signal: PodSignal, reason: str, message: str) -> DesiredCondition:
    return DesiredCondition(False, reason, message, signal.source, signal.time)
