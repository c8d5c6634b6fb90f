"""DecisionLog: logs one line for each placement and each rejection.

A pod that is rejected repeatedly, or created again under the same name, must not fill the log: a
pod gets at most one line per second, and at most one per minute if a rejection differs from the
last one in numbers only. The next line counts those left out (`suppressed`). After `MAX_PODS` other
pods the last line of a pod is forgotten, so that its next one is logged at once.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import structlog

from scheduler.engine import Attempt
from scheduler.framework import Clock, QueuedPodInfo
from scheduler.service.rejection_messages import message_class

_log = structlog.get_logger(__name__)

BETWEEN_LINES: Final = 1.0
"""Minimum seconds between two lines about one pod."""
BETWEEN_EQUAL_LINES: Final = 60.0
_BOUND: Final = "bound"
MAX_PODS: Final = 10_000
"""Maximum number of pods whose last line is remembered."""


class DecisionLog:
    """Writes the lines of one scheduler. Touched from its event loop only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: By pod: when its last line was written, what it said, and how many were left out since.
        self._last: OrderedDict[str, tuple[float, str, int]] = OrderedDict()

    def placed(self, attempt: Attempt, score: int | None, seconds: float) -> None:
        """Log that a pod is bound, `seconds` after its pop."""
        self._write(
            "pod bound",
            attempt.info.key,
            _BOUND,
            node=attempt.node_name,
            score=score,
            attempts=attempt.info.attempts,
            seconds=round(seconds, 6),
        )

    def rejected(self, info: QueuedPodInfo, reason: str, message: str) -> None:
        """Log that an attempt failed, with the text of the condition."""
        self._write(
            "pod not scheduled",
            info.key,
            message_class(message),
            reason=reason,
            attempts=info.attempts,
            message=message,
        )

    def _write(self, event: str, pod: str, kind: str, **fields: Any) -> None:
        now = self._clock.monotonic()
        last = self._last.get(pod)
        if last is not None:
            written, before, suppressed = last
            if now < written + _quiet(before, kind):
                self._last[pod] = written, before, suppressed + 1
                return
            if suppressed:
                fields["suppressed"] = suppressed
            self._last.move_to_end(pod)
        self._last[pod] = now, kind, 0
        if len(self._last) > MAX_PODS:
            self._last.popitem(last=False)
        _log.info(event, pod=pod, **fields)


def _quiet(before: str, kind: str) -> float:
    """Return the seconds between two lines; 0 if a pod is bound after rejections."""
    if kind == _BOUND:
        return BETWEEN_LINES if before == _BOUND else 0.0
    return BETWEEN_EQUAL_LINES if kind == before else BETWEEN_LINES
