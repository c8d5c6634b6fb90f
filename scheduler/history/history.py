"""DecisionHistory: the last decisions about each of the last pods, within a bound of bytes."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from scheduler.explain.records import Decision
from scheduler.history.remembered import (
    ABOUT_A_UID,
    PLACED_BYTES,
    REMEMBERED_BYTES,
    Reason,
    Remembered,
)

DEFAULT_PODS: Final = 20_000
DEFAULT_ATTEMPTS: Final = 5
BYTES_PER_POD: Final = 2048
"""What a pod may use on average: 39 MiB for `DEFAULT_PODS`. Where texts are longer, fewer pods are
remembered."""

_POD_BYTES: Final = 192 + ABOUT_A_UID + sys.getsizeof("")
"""Of an entry of an ordered dictionary, with its share of free places, and of a UID."""


@dataclass(frozen=True, slots=True)
class HistoryStatistics:
    """Size of the history now, and counts since the start."""

    pods: int
    decisions: int
    bytes: int
    recorded: int
    evicted_pods: int


class DecisionHistory:
    """A ring of pods by the time of their last decision. Touched from its owner's loop only."""

    def __init__(self, pods: int = DEFAULT_PODS, attempts: int = DEFAULT_ATTEMPTS) -> None:
        """Remember the last `attempts` decisions about each of the last `pods` pods; 0: none."""
        #: By `namespace/name` the last decision, the pod that was decided about last at the end.
        self._pods: OrderedDict[str, Remembered] = OrderedDict()
        self._reasons: dict[Reason, Reason] = {}
        self._decisions = 0
        self._bytes = 0
        self._evicted = 0
        #: Number of the last decision.
        self.seq = 0
        self.resize(pods, attempts)

    def resize(self, pods: int, attempts: int) -> None:
        """Change the limits, and forget what is beyond them."""
        #: Whether anything is remembered.
        self.enabled = pods > 0
        self._most_pods, self._most_attempts = pods, attempts
        self._most_bytes = pods * BYTES_PER_POD
        for last in self._pods.values():
            self._shorten(last)
        if len(self._pods) > pods or self._bytes > self._most_bytes:
            self._evict()

    @property
    def bytes_used(self) -> int:
        """Bytes that the decisions hold."""
        return self._bytes

    # -- recording -------------------------------------------------------------------------------

    def record(self, pod: str, remembered: Remembered) -> None:
        """Add a decision about a pod, whose number is `seq` + 1."""
        # The size of the code matters here and in `_evict`: both run for every attempt.
        self.seq += 1
        self._decisions += 1
        pods, best = self._pods, remembered.best
        held = REMEMBERED_BYTES
        if remembered.node:
            held += PLACED_BYTES + len(remembered.chosen)
        if best is not None:
            if not best.users:
                held += best.nbytes
            best.users += 1
        if remembered.reason is not None:
            remembered.reason = self._share(remembered.reason)
        last = pods.get(pod)
        pods[pod] = remembered
        if last is None:
            self._bytes += held + _POD_BYTES + len(pod)
        else:
            self._bytes += held
            self._follow(pod, remembered, last)
        if len(pods) > self._most_pods or self._bytes > self._most_bytes:
            self._evict()

    def _follow(self, pod: str, remembered: Remembered, last: Remembered) -> None:
        """Put a decision before the earlier ones about its pod."""
        self._pods.move_to_end(pod)
        remembered.previous = last
        if last.uid == remembered.uid:
            remembered.uid = last.uid
        else:
            self._bytes += ABOUT_A_UID
        self._shorten(remembered)

    def last(self, pod: str, uid: str, attempt: int) -> Remembered | None:
        """Return an attempt if it is the last decision about the pod; None if it is not known."""
        last = self._pods.get(pod)
        if last is None or last.attempt != attempt or last.uid != uid:
            return None
        return last

    def explain(self, remembered: Remembered, reason: Reason | None) -> None:
        """Replace the reason of a remembered decision."""
        if remembered.reason is not None:
            self._release(remembered.reason)
        remembered.reason = None if reason is None else self._share(reason)
        if self._bytes > self._most_bytes:
            self._evict()

    # -- asking ----------------------------------------------------------------------------------

    def of_pod(self, namespace: str, name: str) -> tuple[Decision, ...]:
        """Return what is remembered about a pod, the oldest decision first."""
        key = f"{namespace}/{name}"
        decisions = [each.decision(key) for each in _attempts(self._pods.get(key))]
        return tuple(reversed(decisions))

    def latest(self, limit: int, since_seq: int = 0, namespace: str = "") -> tuple[Decision, ...]:
        """Return the last `limit` decisions after that of number `since_seq`, the oldest first.

        Only those about pods of `namespace` if given. O(`limit`) for all namespaces.
        """
        prefix = f"{namespace}/" if namespace else ""
        pods = ((pod, self._pods[pod]) for pod in reversed(self._pods) if pod.startswith(prefix))
        # No older pod has a decision that is later than the last one of each of these.
        found = [
            (seq, pod, each)
            for pod, last in islice(pods, limit)
            for each in _attempts(last)
            if (seq := each.seq) > since_seq
        ]
        found.sort(key=lambda each: each[0])
        return tuple(each.decision(pod) for _, pod, each in found[-limit:]) if limit else ()

    def every(self) -> Iterator[Decision]:
        """Return all decisions kept now, by pod, the oldest first; unpacked one by one."""
        known = tuple(self._pods.items())
        return (
            each.decision(pod) for pod, last in known for each in reversed(tuple(_attempts(last)))
        )

    def __len__(self) -> int:
        return len(self._pods)

    def statistics(self) -> HistoryStatistics:
        """Return sizes and counts."""
        return HistoryStatistics(
            len(self._pods), self._decisions, self._bytes, self.seq, self._evicted
        )

    # -- bounds ----------------------------------------------------------------------------------

    def _share(self, reason: Reason) -> Reason:
        shared = self._reasons.setdefault(reason, reason)
        if not shared.users:
            self._bytes += shared.nbytes
        shared.users += 1
        return shared

    def _release(self, reason: Reason) -> None:
        reason.users -= 1
        if not reason.users:
            del self._reasons[reason]
            self._bytes -= reason.nbytes

    def _shorten(self, last: Remembered) -> None:
        """Forget the decisions about a pod beyond the limit."""
        kept = last
        for _ in range(self._most_attempts - 1):
            if kept.previous is None:
                return
            kept = kept.previous
        beyond, kept.previous = kept.previous, None
        self._forget(beyond, kept.uid)

    def _forget(self, last: Remembered | None, uid: str) -> None:
        """Take a decision and those before it out of the counts; `uid` is that of the next one."""
        while last is not None:
            if last.uid != uid:
                self._bytes -= ABOUT_A_UID
                uid = last.uid
            self._forget_one(last)
            last = last.previous

    def _forget_one(self, decision: Remembered) -> None:
        self._decisions -= 1
        held, best = REMEMBERED_BYTES, decision.best
        if decision.node:
            held += PLACED_BYTES + len(decision.chosen)
        if best is not None:
            best.users -= 1
            if not best.users:
                held += best.nbytes
        self._bytes -= held
        if decision.reason is not None:
            self._release(decision.reason)

    def _evict(self) -> None:
        """Forget the pod that was decided about first, and others until the bounds hold."""
        pods = self._pods
        while pods:
            pod, last = pods.popitem(last=False)
            self._bytes -= _POD_BYTES + len(pod)
            self._evicted += 1
            self._forget_one(last)
            if last.previous is not None:
                self._forget(last.previous, last.uid)
            if len(pods) <= self._most_pods and self._bytes <= self._most_bytes:
                return


def _attempts(last: Remembered | None) -> Iterator[Remembered]:
    """Yield a decision and those before it, the last one first."""
    while last is not None:
        yield last
        last = last.previous
