"""The newest signal of each autoscaler about a pod, and the condition that follows from it.

Pure, and independent of the order in which events arrive: the newest event per pod and autoscaler
counts, and at equal times the one that promises nodes. Failures of node groups and claims are kept
apart from pods and joined in `evaluate`, for they come from another watch.

A promise is a signal that nodes are coming; a refusal, that none will. Both autoscalers suppress
repeated events about a pod, so a broken promise may have been renewed without an event. Status
False is therefore delayed for longer than an autoscaler may be silent, and for longer still while
anything else shows that nodes are coming (`ScaleUps`).

Two clocks: events are ordered by the autoscaler's. Durations run on ours, monotonic, from `since`,
which lies the event's age before its arrival and never after it; so a clock of the autoscaler that
is ahead only delays status False.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.controllers.node_provisioning.signals import (
    CLUSTER_AUTOSCALER,
    KARPENTER,
    PodSignal,
    Reason,
    ScaleUp,
    TargetFailure,
)

MAX_FAILURES: Final = 256
"""Failures remembered per node group. Losing the oldest only delays status False."""


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
"""Promises about one pod remembered per autoscaler; losing some only delays status False."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds after which a promise of nodes is broken."""

    #: After the failure of all targets; None: `SUSPECT_WINDOWS`.
    suspect_window: float | None = None
    #: After the first promise of an unbroken run.
    provisioning_deadline: float = 1200.0

    def window(self, source: str) -> float:
        """Return how long after the failure of all targets an autoscaler may try again."""
        return SUSPECT_WINDOWS[source] if self.suspect_window is None else self.suspect_window


@dataclass(frozen=True, slots=True)
class DesiredCondition:
    """The condition that a pod should have; `message` quotes the autoscaler's event."""

    provisioning: bool
    reason: Reason
    message: str
    source: str
    #: Time of the event behind it, by the autoscaler's clock.
    time: float

    @property
    def status(self) -> str:
        """Return `status` of the condition."""
        return "True" if self.provisioning else "False"


class ObservedSignal:
    """The newest signal of one autoscaler about one pod, and the promises that led to it.

    `since` is the monotonic time from which `newest` has been true.
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
        """Add a signal; True if it is the newest now. The order of calls does not matter."""
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
            # Node claims have unique names, so a promise of the same ones is a repeat.
            key = signal.targets if signal.source == KARPENTER and signal.targets else signal.time
            first, last = self._promises.get(key, (signal.first_time, signal.time))
            self._promises[key] = min(first, signal.first_time), max(last, signal.time)
            if len(self._promises) > MAX_PROMISES:
                del self._promises[sorted(self._promises, key=self._promises.__getitem__)[1]]

    def promised_since(self, deadline: float) -> float:
        """Return the monotonic time of the first promise of the run that `newest` belongs to.

        A refusal ends a run, and so does its deadline; a promise made after that begins another.
        """
        starts = sorted(max(first, self._last_refusal) for first, _ in self._promises.values())
        run = starts[0] if starts else self.newest.time
        for start in starts:
            if start >= run + deadline:
                run = start
        return self.since - (self.newest.time - run)


class Failures:
    """Failures by node group and node claim. One instance for all autoscalers."""

    def __init__(self) -> None:
        self._by_target: dict[tuple[str, str], list[tuple[float, float, str]]] = {}

    def __len__(self) -> int:
        return len(self._by_target)

    def add(self, failure: TargetFailure, since: float) -> None:
        """Add a failure; the same event again has no effect."""
        known = self._by_target.setdefault((failure.source, failure.target), [])
        if not any(time == failure.time for time, _, _ in known):
            insort(known, (failure.time, since, failure.message))
            del known[:-MAX_FAILURES]

    def first_after(self, source: str, target: str, time: float) -> tuple[float, str] | None:
        """Return since when and with which message `target` failed at or after `time`, or None."""
        known = self._by_target.get((source, target), [])
        index = bisect_left(known, (time,))
        return known[index][1:] if index < len(known) else None

    def forget_before(self, time: float) -> None:
        """Drop failures that arrived before `time`."""
        for key, known in tuple(self._by_target.items()):
            known[:] = [each for each in known if each[1] >= time]
            if not known:
                del self._by_target[key]


@dataclass(frozen=True, slots=True)
class Window:
    """The time an autoscaler has for another try after all targets of a promise failed."""

    source: str
    #: Monotonic times of the promise and of the last failure, and the latest end.
    promised: float
    begin: float
    last: float
    #: Seconds.
    length: float


class ScaleUps:
    """Requests for nodes, and new nodes, without an event about a pod. One for all autoscalers."""

    def __init__(self) -> None:
        #: By autoscaler: monotonic time, target ("" for a node that came), autoscaler's time.
        self._known: dict[str, list[tuple[float, str, float]]] = {
            source: [] for source in SUSPECT_WINDOWS
        }

    def add(self, scale_up: ScaleUp, since: float, keep: float) -> None:
        """Add a scale-up, and drop those that are `keep` seconds older."""
        known = self._known[scale_up.source]
        entry = since, scale_up.target, scale_up.time
        index = bisect_left(known, (since - SCALE_UP_SECONDS,))
        near = known[index : bisect_left(known, (since + SCALE_UP_SECONDS,))]
        if any(target == scale_up.target for _, target, _ in near):
            return
        insort(known, entry)
        del known[: max(bisect_left(known, (known[-1][0] - keep,)), len(known) - MAX_SCALE_UPS)]

    def extend(self, window: Window, failures: Failures) -> float:
        """Return the end of the window, extended while nodes may be coming; at most `window.last`.

        A requested target may bring nodes until it fails, or for `PROVISION_SECONDS`; after each
        failure the autoscaler has the length of the window to try another.
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
    """Evidence other than events about pods."""

    failures: Failures
    scale_ups: ScaleUps


def evaluate(
    observed: ObservedSignal, evidence: Evidence, limits: Limits, now: float
) -> tuple[DesiredCondition, float]:
    """Return the condition that one autoscaler's signal implies, and when time may change it."""
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
        return _refusal(signal, Reason.PROVISIONING_FAILED, broken[1]), math.inf
    if now >= end:
        waited = f"no node within {deadline:g} s of {signal.message}"
        return _refusal(signal, Reason.PROVISIONING_TIMED_OUT, waited), math.inf
    return plain, min(suspect, end)


def evaluate_all(
    by_source: Mapping[str, ObservedSignal], evidence: Evidence, limits: Limits, now: float
) -> tuple[DesiredCondition | None, float]:
    """Return the condition that all autoscalers' signals imply, and when time may change it.

    The newest promise counts, without any the newest refusal; None without signals.
    """
    evaluated = [evaluate(each, evidence, limits, now) for each in by_source.values()]
    desired = max(
        (each for each, _ in evaluated),
        key=lambda each: (each.provisioning, each.time),
        default=None,
    )
    return desired, min((at for _, at in evaluated), default=math.inf)


def _all_failed(signal: PodSignal, failures: Failures) -> tuple[float, str] | None:
    """Return since when all targets of a promise have failed, and the last message; else None."""
    last: tuple[float, str] | None = None
    for target in signal.targets:
        failed = failures.first_after(signal.source, target, signal.time)
        if failed is None:
            return None
        last = failed if last is None else max(last, failed)
    return last


def _refusal(signal: PodSignal, reason: Reason, message: str) -> DesiredCondition:
    return DesiredCondition(False, reason, message, signal.source, signal.time)
