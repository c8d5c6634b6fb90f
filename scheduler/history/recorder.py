"""DecisionRecorder: turns attempts into remembered decisions, as they end.

Only reads what an attempt left behind. It draws no random number, and no decision depends on it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Concatenate, Final, ParamSpec, TypeVar

from scheduler.api.signal import Signal
from scheduler.cache import NodeTable
from scheduler.engine import Attempt, Failure
from scheduler.engine.cycle_time import NOT_RUN
from scheduler.engine.diagnosis import (
    Diagnosis,
    RejectionGroup,
    rejection_group,
    status_reasons,
)
from scheduler.engine.rejection_details import RejectionDetails
from scheduler.engine.runtime import Framework
from scheduler.engine.scoring import Scoring
from scheduler.explain.records import Decision, DecisionResult, RejectionCount
from scheduler.framework import QueuedPodInfo, Status
from scheduler.history.history import DecisionHistory
from scheduler.history.remembered import BINDING, PACKED_NUMBERS, Reason, Remembered
from scheduler.history.score_packer import ScorePacker

MAX_MESSAGE: Final = 1024
"""Characters of a message; the rest is cut off, as of an Event's note."""
MAX_REJECTIONS: Final = 20
"""Groups of rejections of one attempt that are kept, the largest."""
MAX_VICTIMS: Final = 50
DETAILS_SHARE: Final = 50
"""One part in this number of the time may go into details of rejections."""
DETAILS_SECONDS: Final = 1.0
"""How long details serve for equal rejections of pods of the same signature."""
_MAX_DETAILS: Final = 256

_DROPPED: Final = Reason(
    DecisionResult.DROPPED,
    "the pod was deleted, replaced or bound by another scheduler before the attempt had ended",
)
_UNBOUND: Final = Reason(
    DecisionResult.DROPPED, "the binding ended without a result: the pod is gone or bound already"
)
_NO_TIMES: Final = NOT_RUN.tobytes()


P = ParamSpec("P")
R = TypeVar("R")


def _guarded(
    method: Callable[Concatenate[DecisionRecorder, P], R],
) -> Callable[Concatenate[DecisionRecorder, P], R | None]:
    """Report what a method raises, if anybody wants to know, and return None then."""

    @functools.wraps(method)
    def guarded(recorder: DecisionRecorder, /, *args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return method(recorder, *args, **kwargs)
        except Exception as error:
            if recorder.on_error is None:
                raise
            recorder.on_error(error)
            return None

    return guarded


class DecisionRecorder:
    """Records the attempts of one engine. Touched from its owner's loop only.

    With `on_error` no method raises.
    """

    def __init__(
        self,
        history: DecisionHistory,
        table: NodeTable,
        monotonic: Callable[[], float],
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """Record into `history`.

        `monotonic` limits the time that goes into details. `on_error` hears of a fault of the
        recording, which costs the record of one attempt and nothing else.
        """
        self.on_error = on_error
        #: Called with each attempt right after its cycle, while its scores are known.
        self.on_attempt = Signal[[Attempt]]()
        self.history = history
        self._table = table
        self._monotonic = monotonic
        self._packers: dict[str, ScorePacker] = {}
        self._details: dict[str, RejectionDetails] = {}
        self._known: dict[tuple[str, int, str], tuple[float, Mapping[RejectionGroup, str]]] = {}
        self._next_details = 0.0

    # -- attempts --------------------------------------------------------------------------------

    @_guarded
    def record(self, attempt: Attempt) -> None:
        """Record an attempt right after its scheduling cycle, before anything else has changed."""
        if self.on_attempt.listeners:
            self.on_attempt(attempt)
        if not self.history.enabled:
            return
        info, chosen, failure = attempt.info, attempt.chosen, attempt.failure
        state, algorithm, history = attempt.state, attempt.algorithm, self.history
        times, best, own = _NO_TIMES, None, b""
        if algorithm is not None:
            times = algorithm.stopwatch.seconds.tobytes()
        if chosen is not None:
            node, evaluated = chosen.node_name, chosen.evaluated_nodes
            feasible = chosen.feasible_nodes
            if feasible > 1 and algorithm is not None and algorithm.scored is not None:
                best, own = self._packer(attempt, algorithm.scoring).pack(
                    algorithm.scored, chosen.row, self._table.names, state.skip_score
                )
        else:
            node, evaluated, feasible = "", _evaluated(failure), 0
        numbers = PACKED_NUMBERS.pack(
            history.seq + 1,
            state.now,
            self._table.node_count,
            evaluated,
            feasible,
            state.now - info.timestamp,
            times,
            info.popped_early,
        )
        history.record(
            info.key,
            Remembered(
                info.pod.metadata.uid,
                attempt.framework.profile_name,
                info.attempts,
                info.last_event,
                info.last_hint,
                node,
                numbers,
                best,
                own,
                None if failure is None else self._reason(attempt, failure),
            ),
        )

    def _packer(self, attempt: Attempt, scoring: Scoring) -> ScorePacker:
        profile = attempt.framework.profile_name
        packer = self._packers.get(profile)
        if packer is None or packer.scoring is not scoring:
            packer = self._packers[profile] = ScorePacker(scoring)
        return packer

    @_guarded
    def failed(self, attempt: Attempt, failure: Failure) -> None:
        """Record that an attempt failed after the choice of a node."""
        remembered = self._last(attempt.info)
        if remembered is not None:
            reason = self._reason(attempt, failure) if failure.message else _UNBOUND
            _end(attempt, remembered, 0.0)
            self.history.explain(remembered, reason)

    @_guarded
    def dropped(self, info: QueuedPodInfo) -> None:
        """Record that the pod went away during the attempt."""
        remembered = self._last(info)
        if remembered is not None:
            self.history.explain(remembered, _DROPPED)

    @_guarded
    def bound(self, attempt: Attempt, now: float) -> int | None:
        """Record that the pod is bound since `now`; return the total score of its node, if any."""
        if not self.history.enabled:
            return None
        remembered = self._last(attempt.info)
        if remembered is None:
            return None
        _end(attempt, remembered, now)
        return remembered.total

    @_guarded
    def gated(self, info: QueuedPodInfo, status: Status, now: float) -> None:
        """Record that a PreEnqueue plugin holds a pod; one that is held already is updated."""
        history = self.history
        if not history.enabled:
            return
        remembered = self._last(info)
        reason = Reason(
            DecisionResult.GATED if status.rejected else DecisionResult.ERROR,
            status.message[:MAX_MESSAGE],
            (RejectionCount(info.gating_plugin, status.code.label, _reasons(status), 0),),
        )
        if remembered is not None and remembered.reason is not None:
            if remembered.reason == reason:
                return
            if remembered.reason.result is DecisionResult.GATED:
                history.explain(remembered, reason)
                return
        numbers = PACKED_NUMBERS.pack(
            history.seq + 1, now, self._table.node_count, 0, 0, -1.0, _NO_TIMES, False
        )
        profile = info.pod.spec.scheduler_name
        event, hint = info.last_event, info.last_hint
        history.record(
            info.key,
            Remembered(
                info.uid, profile, info.attempts, event, hint, "", numbers, None, b"", reason
            ),
        )

    @_guarded
    def last_decision(self, info: QueuedPodInfo) -> Decision | None:
        """Return the record of the attempt under way or just ended; None if it is forgotten."""
        remembered = self._last(info)
        return None if remembered is None else remembered.decision(info.key)

    @_guarded
    def replace_frameworks(self, frameworks: Mapping[str, Framework]) -> None:
        """Ask the plugins of these profiles for details from now on."""
        self._details = {
            name: RejectionDetails(framework, self._table) for name, framework in frameworks.items()
        }
        self._known.clear()
        self._packers.clear()

    def _last(self, info: QueuedPodInfo) -> Remembered | None:
        return self.history.last(info.key, info.pod.metadata.uid, info.attempts)

    # -- reasons ---------------------------------------------------------------------------------

    def _reason(self, attempt: Attempt, failure: Failure) -> Reason:
        rejected = failure.result != "error"
        nominating = failure.nominating
        victims = failure.victims
        if len(victims) > MAX_VICTIMS:
            victims = (*victims[:MAX_VICTIMS], f"and {len(victims) - MAX_VICTIMS} more")
        return Reason(
            DecisionResult.UNSCHEDULABLE if rejected else DecisionResult.ERROR,
            failure.message[:MAX_MESSAGE],
            self._rejections(attempt, failure),
            victims,
            "" if nominating is None else nominating.node_name,
        )

    def _rejections(self, attempt: Attempt, failure: Failure) -> tuple[RejectionCount, ...]:
        diagnosis = failure.diagnosis
        if diagnosis is None:
            return ()
        groups: dict[RejectionGroup, int] = {}
        for status, nodes in diagnosis.rejections():
            group = rejection_group(status)
            groups[group] = groups.get(group, 0) + nodes
        # The largest first; among equals, as the profile has its plugins.
        largest = sorted(groups.items(), key=lambda each: -each[1])[:MAX_REJECTIONS]
        details = self._details_of(attempt, failure, diagnosis)
        return tuple(
            RejectionCount(
                group[0] or ", ".join(diagnosis.narrowed_by),
                group[1].label,
                ", ".join(group[2])[:MAX_MESSAGE],
                nodes,
                details.get(group, ""),
            )
            for group, nodes in largest
        )

    def _details_of(
        self, attempt: Attempt, failure: Failure, diagnosis: Diagnosis
    ) -> Mapping[RejectionGroup, str]:
        """Return what the plugins know about the rejections, within the share of time for it."""
        profile = attempt.framework.profile_name
        details = self._details.get(profile)
        if details is None or attempt.chosen is not None:
            return {}
        now = self._monotonic()
        key = (profile, attempt.pod.signature.id, failure.message)
        known = self._known.get(key)
        if known is not None and now < known[0] + DETAILS_SECONDS:
            return known[1]
        if now < self._next_details:
            return {}
        found: dict[RejectionGroup, str] = {}
        rejected = diagnosis.rejected
        if rejected is None:
            absent = diagnosis.statuses.absent
            rows = self._table.rows
            found[rejection_group(absent)] = details.of(attempt.state, attempt.pod, absent, rows)
        else:
            for status, rows in rejected.by_reasons()[:MAX_REJECTIONS]:
                text = details.of(attempt.state, attempt.pod, status, rows)
                found[rejection_group(status)] = text
        if len(self._known) >= _MAX_DETAILS:
            self._known.clear()
        self._known[key] = now, found
        ended = self._monotonic()
        self._next_details = ended + (ended - now) * DETAILS_SHARE
        return found


def _end(attempt: Attempt, remembered: Remembered, now: float) -> None:
    """Add how the binding cycle ended; `now` is 0 if the pod is not bound."""
    spent = attempt.binding_seconds
    if spent is None:
        if now:
            remembered.binding = BINDING.pack(now, -1.0, -1.0, -1.0)
        return
    seconds = spent.get
    remembered.binding = BINDING.pack(
        now, seconds("Permit", -1.0), seconds("PreBind", -1.0), seconds("Bind", -1.0)
    )


def _reasons(status: Status) -> str:
    return ", ".join(status_reasons(status))[:MAX_MESSAGE]


def _evaluated(failure: Failure | None) -> int:
    """Return how many nodes a search looked at that found none."""
    diagnosis = None if failure is None else failure.diagnosis
    if diagnosis is None or diagnosis.rejected is None:
        return 0
    return len(diagnosis.rejected.rows)
