"""Tally: the sums of all judgements, and the last ones that did not agree. Pure and bounded."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final

from scheduler.explain.records.shadow import AGREEING, Cause, PendingPod, ShadowPod, ShadowSummary

MAX_DIFFERING: Final = 1000
"""Judgements that are kept of those that do not agree."""
MAX_CAUSES: Final = 200
"""Pairs of verdict and plugin that are counted; there are as many as plugins, a few dozen."""
OTHER_CAUSES: Final = "others"


class ShadowTally:
    """Counts judgements as they are made."""

    def __init__(self, names: Sequence[str], began: float) -> None:
        """`began` is the wall clock time from which on it counts."""
        self.names, self.began = tuple(names), began
        self.verdicts: Counter[str] = Counter()
        self.causes: Counter[tuple[str, str]] = Counter()
        self.differing: deque[ShadowPod] = deque(maxlen=MAX_DIFFERING)
        self.sooner = 0
        self.sooner_seconds = 0.0
        self.preempting = 0
        self.gone = self.late = self.unseen = 0
        #: Called with each judgement.
        self.listeners: list[Callable[[ShadowPod], None]] = []

    def begin(self, now: float) -> None:
        """Begin, once the first lists have arrived."""
        self.began, self.unseen = now, 0

    def add(self, judged: ShadowPod) -> None:
        """Count one judgement."""
        self.verdicts[judged.verdict] += 1
        self.late += judged.late
        if judged.sooner:
            self.sooner += 1
            self.sooner_seconds += judged.sooner
        if judged.verdict not in AGREEING:
            cause = (judged.verdict, judged.plugin)
            if cause not in self.causes and len(self.causes) >= MAX_CAUSES:
                cause = (judged.verdict, OTHER_CAUSES)
            self.causes[cause] += 1
            self.differing.append(judged)
        for listener in self.listeners:
            listener(judged)

    def summary(
        self,
        now: float,
        *,
        nodes: int = 0,
        pods: int = 0,
        pending: Sequence[PendingPod] = (),
        more: int = 0,
        silent: tuple[float, str] = (0.0, ""),
        rows: int = 20,
    ) -> ShadowSummary:
        """Return the sums so far, with at most `rows` of the pods that differ or wait.

        `pending` are all pods without a node about which somebody has said anything; `more` are
        not looked at. `silent` is for how long nothing was heard, and why.
        """
        both = [each for each in pending if not each.here and each.message_there]
        there = [each for each in pending if each.here]
        here = [each for each in pending if not each.here and not each.message_there]
        unlike = [each for each in both if not each.same_reason]
        alike = [each for each in both if each.same_reason]
        return ShadowSummary(
            began=self.began,
            now=now,
            names=self.names,
            judged=self.verdicts.total(),
            verdicts=dict(self.verdicts),
            causes=tuple(
                Cause(verdict, plugin, count)  # type: ignore[arg-type]  # the keys are verdicts
                for (verdict, plugin), count in self.causes.most_common()
            ),
            sooner=self.sooner,
            sooner_seconds=self.sooner_seconds,
            preempting=self.preempting,
            late=self.late,
            gone=self.gone,
            unseen=self.unseen,
            waiting_both=len(both),
            waiting_same_reason=len(alike),
            waiting_there=len(there),
            waiting_here=len(here),
            waiting_more=more,
            pods=pods,
            nodes=nodes,
            silent=silent[0],
            silent_error=silent[1],
            differing=tuple(self.differing)[: -rows - 1 : -1] if rows else (),
            pending=tuple([*there, *unlike, *here, *alike][:rows]),
        )
