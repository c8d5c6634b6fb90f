"""Doubts: judgements of disagreement, kept for a moment in case the bindings came in another order.

A scheduler binds concurrently, so the binding of a pod may arrive before that of a pod which it had
placed earlier, and which it counted. So as soon as the binding of such an earlier pod arrives, a
doubtful one is looked at again: in the state with the earlier pod, and without itself and those
that came after it. Pods are taken to be placed in the order in which they were created.

Bounded: at most `MAX_DOUBTS`, each for `DOUBT_SECONDS`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

import msgspec

from scheduler.api.pod import Pod
from scheduler.explain.records.shadow import AGREEING, ShadowPod, ShadowVerdict
from scheduler.framework import Clock, Subscriptions
from scheduler.shadow.assessing import Assessor

DOUBT_SECONDS: Final = 0.5
MAX_DOUBTS: Final = 64
MAX_ARRIVED: Final = 256

Without = Callable[[Collection[str]], AbstractContextManager[None]]
"""Takes pods, by UID, and all that the shadow has placed, out of the node table for a moment."""


@dataclass(frozen=True, slots=True)
class _Doubt:
    judged: ShadowPod
    pod: Pod
    number: int
    end: float


class Doubts:
    """The judgements that may still change; implements `framework.TimedWork`."""

    def __init__(
        self,
        assessor: Assessor,
        without: Without,
        clock: Clock,
        report: Callable[[ShadowPod], None],
        subscriptions: Subscriptions,
    ) -> None:
        """`report` gets each judgement once it is final."""
        self._wake = subscriptions.on_time(self)
        self._assessor = assessor
        self._without = without
        self._clock = clock
        self._report = report
        self._doubts: deque[_Doubt] = deque()
        #: UID and number of the last pods whose binding arrived.
        self._arrived: deque[tuple[str, int]] = deque(maxlen=MAX_ARRIVED)

    def add(self, judged: ShadowPod, pod: Pod, number: int) -> None:
        """Take a judgement of the `number`th pod; one of agreement is final at once."""
        if judged.verdict in AGREEING:
            self._report(judged)
            return
        if len(self._doubts) >= MAX_DOUBTS:
            self._report(self._doubts.popleft().judged)
        end = self._clock.monotonic() + DOUBT_SECONDS
        self._doubts.append(_Doubt(judged, pod, number, end))
        self._wake()

    def applied(self, uid: str, number: int) -> None:
        """Look again at the doubtful pods that came after this one, whose binding is applied."""
        self._arrived.append((uid, number))
        if not any(each.number > number for each in self._doubts):
            return
        left: deque[_Doubt] = deque()
        for each in self._doubts:
            if each.number > number and self._agrees(each):
                found = msgspec.structs.replace(
                    each.judged, verdict=ShadowVerdict.WINDOW, plugin="", scores=(), message=""
                )
                self._report(found)
            else:
                left.append(each)
        self._doubts = left

    def _agrees(self, doubt: _Doubt) -> bool:
        with self._without({*self.later_than(doubt.number), doubt.judged.uid}):
            return self._assessor.look(doubt.pod, doubt.judged.there).agrees

    def later_than(self, number: int) -> set[str]:
        """Return the UIDs of later pods whose bindings have arrived lately."""
        return {uid for uid, other in self._arrived if other > number}

    def settle(self) -> None:
        """Make all judgements final."""
        while self._doubts:
            self._report(self._doubts.popleft().judged)

    def next_due(self) -> float | None:
        """Return the monotonic time at which the next judgement is final."""
        return self._doubts[0].end if self._doubts else None

    def run_due(self) -> None:
        """Make the judgements final whose time is over."""
        now = self._clock.monotonic()
        while self._doubts and self._doubts[0].end <= now:
            self._report(self._doubts.popleft().judged)
