"""The debug page `/debug/decisions`: recent decisions, from the decision history.

It is built on the event loop between cycles and has at most `MAX_DECISIONS` records, which take
some 10 us each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from scheduler.explain.pages.query_numbers import number_in
from scheduler.explain.records import Decision, DecisionList, DecisionResult, Placement
from scheduler.framework import Clock
from scheduler.history import DecisionHistory

DEFAULT_DECISIONS: Final = 50
MAX_DECISIONS: Final = 500
_MAX_SEQ: Final = 999_999_999


class DecisionPages:
    """The page of one process."""

    def __init__(
        self, history: DecisionHistory, *, clock: Clock, leading: Callable[[], bool]
    ) -> None:
        self._history = history
        self._clock = clock
        self._leading = leading

    def decisions(self, query: Mapping[str, str]) -> DecisionList:
        """Return the decisions about `?pod=NAMESPACE/NAME`, or the last ones about all pods.

        At most the last `?limit=` of those with a number above `?since=`; if about all pods, only
        those of `?namespace=`.

        Raises:
            LookupError: nothing is remembered about the pod.
            ValueError: the pod is not named in full, or a number is out of range.
        """
        limit = number_in(query, "limit", DEFAULT_DECISIONS, 1, MAX_DECISIONS)
        since = number_in(query, "since", 0, 0, _MAX_SEQ)
        if "pod" in query:
            found = self._of_pod(query["pod"], since)[-limit:]
        else:
            found = self._history.latest(limit, since, query.get("namespace", ""))
        return DecisionList(
            now=self._clock.now(),
            leading=self._leading(),
            last_seq=self._history.seq,
            remembered_pods=len(self._history),
            decisions=found,
        )

    def placements(self, limit: int) -> Sequence[Placement]:
        """Return the latest placements of pods, newest first, for `SummaryPages`."""
        # Ten times as many decisions, because in a busy queue many are rejections.
        decisions = self._history.latest(min(10 * limit, MAX_DECISIONS))
        placed = [
            Placement(
                time=each.time,
                pod=each.pod,
                node=each.node,
                attempt=each.attempt,
                score=each.score,
                seconds=each.seconds,
            )
            for each in reversed(decisions)
            if each.result is DecisionResult.PLACED
        ]
        return placed[:limit]

    def _of_pod(self, pod: str, since: int) -> tuple[Decision, ...]:
        namespace, slash, name = pod.partition("/")
        if not (namespace and slash and name):
            raise ValueError("say which pod: /debug/decisions?pod=NAMESPACE/NAME")
        found = self._history.of_pod(namespace, name)
        if not found:
            raise LookupError(self._unknown(pod))
        return tuple(each for each in found if each.seq > since)

    def _unknown(self, pod: str) -> str:
        if not self._history.enabled:
            return f'no decision about pod "{pod}": kubestow.decisionHistory.pods is 0'
        return (
            f'no decision about pod "{pod}" is remembered: there was none since this process '
            "started, or it is too long ago"
        )
