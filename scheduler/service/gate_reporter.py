"""GateReporter: PodScheduled conditions of pods held by a plugin.

In-tree plugins set a reason of their own where a condition helps; the others may, and have the
reason `GATED_BY_PLUGIN` if they do not.

A gate runs again at every event registered for it, for thousands of pods at once; the API server
must not get a write for each run. So each write is delayed a little, dropped if the pod is no
longer held, omitted if the pod's status has the condition already, and made at most once a minute
if only numbers differ.

Invariant: one note per pod and at most one delayed write. A condition written by the failure
handler cancels it (`superseded`).

No asyncio: the scheduling loop calls `run_due`, and sleeps until `next_due` at most. Touched from
one event loop only. It does not record Events; plugins do.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from scheduler.api.pod import Pod
from scheduler.framework import Clock, QueuedPodInfo, Status
from scheduler.queue import SchedulingQueue
from scheduler.service.listers import PodLister, pending_pod
from scheduler.service.plugin_conditions import ConditionSource
from scheduler.service.plugin_overruns import IN_TREE
from scheduler.service.rejection_messages import message_class, plugin_message
from scheduler.service.status_writer import POD_SCHEDULED, StatusWriter

NUMBERS_PERIOD: Final = 60.0
"""Minimum seconds between two writes that differ in numbers only. A write also counts as applied
for this long although the watch has not delivered it."""

GATED_BY_PLUGIN: Final = "GatedByPlugin"
"""Reason of a gate of a plugin that sets none. Not Unschedulable, which would make autoscalers add
nodes, nor SchedulingGated, by which the API server and the deferred quota know scheduling gates."""

MAX_PER_TURN: Final = 50
"""Maximum number of writes per call of `run_due`: they take well below a millisecond."""

_SWEEP_ABOVE: Final = 1_000


@dataclass(slots=True)
class _Note:
    """The condition last written for one pod, and the one to be written."""

    info: QueuedPodInfo
    #: The condition that its status should have.
    reason: str = ""
    message: str = ""
    #: Held by a gate; otherwise rejected in its last attempt, which was number `attempts`.
    gated: bool = False
    attempts: int = 0
    #: Reason and message written last, unless another condition was written since, and when.
    shown: tuple[str, str] | None = None
    written_at: float = 0.0
    #: Another condition was written, or may have been: the pod from the watch may be stale.
    doubtful: bool = False
    #: When the status became wrong, and when to write; `due` is None without a delayed write.
    since: float = 0.0
    due: float | None = None
    #: Time of the only valid heap entry.
    timer: float | None = None


@dataclass(frozen=True, slots=True)
class GateReporterStatistics:
    """Current numbers of pods and delayed writes; the other fields count since the start."""

    pods: int
    waiting: int
    written: int
    #: The status had the condition already.
    unchanged: int
    #: The pod was no longer held.
    dropped: int


class GateReporter:
    """Delays and combines conditions with a plugin's own reason. See the module's docstring."""

    def __init__(
        self,
        queue: SchedulingQueue,
        newest: PodLister,
        statuses: StatusWriter,
        clock: Clock,
        *,
        delay: float,
        conditions: ConditionSource,
        wake: Callable[[], None],
    ) -> None:
        """Wire it; the caller connects `held` to the queue. `delay` is in seconds.

        `conditions` returns plugins' conditions for the same write; `wake` is called when
        `next_due` has moved to an earlier time.
        """
        self._conditions = conditions
        self._queue = queue
        self._newest = newest
        self._statuses = statuses
        self._clock = clock
        self._delay = delay
        self._notes: dict[str, _Note] = {}
        self._heap: list[tuple[float, str]] = []
        self._sweep_at = _SWEEP_ABOVE
        self._written = self._unchanged = self._dropped = 0
        self._wake = wake

    # -- notifications --------------------------------------------------------------------------

    def held(self, info: QueuedPodInfo, status: Status) -> None:
        """Note that a PreEnqueue plugin holds the pod (again); the queue's `on_gated`.

        A rejection by an in-tree plugin without a reason of its own writes nothing (for scheduling
        gates the API server has written already) and cancels a delayed write.
        """
        reason, message = status.condition_reason, status.message
        if not reason and status.plugin and status.plugin not in IN_TREE:
            reason, message = GATED_BY_PLUGIN, f"plugin {status.plugin}: {message}"
        if reason and status.rejected:
            self._want(info, reason, message, gated=True)
        elif (note := self._notes.get(info.uid)) is not None:
            self._cancel(note)

    def rejected(self, info: QueuedPodInfo, reason: str, message: str) -> None:
        """Note that the pod's attempt was rejected with a plugin's own reason."""
        self._want(info, reason, message, gated=False)

    def superseded(self, uid: str) -> bool:
        """Cancel the delayed write for another condition; return True if ours may be under way."""
        note = self._notes.get(uid)
        if note is None:
            return False
        ours = note.shown is not None
        note.due, note.shown, note.doubtful = None, None, True
        return ours

    # -- time ------------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """Return the monotonic time at which `run_due` may have work, or None."""
        return self._heap[0][0] if self._heap else None

    def run_due(self) -> None:
        """Write the due conditions, of `MAX_PER_TURN` pods at most."""
        now = self._clock.monotonic()
        for _ in range(MAX_PER_TURN):
            if not self._heap or self._heap[0][0] > now:
                return
            time, uid = heapq.heappop(self._heap)
            note = self._notes.get(uid)
            if note is None or note.timer != time:
                continue
            note.timer = None
            if note.due is None:
                continue
            if note.due > now:
                self._schedule(uid, note, note.due)
                continue
            self._report(note, now)

    def statistics(self) -> GateReporterStatistics:
        """Return current counts; O(pods)."""
        return GateReporterStatistics(
            pods=len(self._notes),
            waiting=sum(note.due is not None for note in self._notes.values()),
            written=self._written,
            unchanged=self._unchanged,
            dropped=self._dropped,
        )

    # -- deciding --------------------------------------------------------------------------------

    def _want(self, info: QueuedPodInfo, reason: str, message: str, *, gated: bool) -> None:
        uid, now = info.uid, self._clock.monotonic()
        note = self._notes.get(uid) or self._begin(info, reason, now)
        same = note.due is not None and note.reason == reason and note.message == message
        note.info, note.gated, note.attempts = info, gated, info.attempts
        if same:
            return
        note.reason, note.message = reason, message
        if _shows(note) and _arrived(note, now):
            self._unchanged += 1
            note.due = None
            return
        if note.due is None:
            note.since = now
        note.due = note.since + self._delay
        if _numbers_only(note):
            note.due = max(note.due, note.written_at + NUMBERS_PERIOD)
        self._schedule(uid, note, note.due)

    def _begin(self, info: QueuedPodInfo, reason: str, now: float) -> _Note:
        if len(self._notes) >= self._sweep_at:
            self._sweep()
        note = self._notes[info.uid] = _Note(info)
        if info.attempts:
            note.doubtful = True
            return note
        # A condition from before a restart, written by another process, remains valid.
        for condition in info.pod.status.conditions:
            if condition.type == POD_SCHEDULED and condition.reason == reason:
                note.shown, note.written_at = (reason, condition.message), now
        return note

    def _schedule(self, uid: str, note: _Note, due: float) -> None:
        if note.timer is not None and note.timer <= due:
            return
        note.timer = due
        entry = due, uid
        heapq.heappush(self._heap, entry)
        if self._heap[0] is entry:
            self._wake()

    def _cancel(self, note: _Note) -> None:
        if note.due is not None:
            note.due = None
            self._dropped += 1

    def _report(self, note: _Note, now: float) -> None:
        pod = self._current(note)
        if pod is None:
            self._cancel(note)
            return
        more = self._conditions(pod, note.info)
        self._statuses.not_scheduled(pod, note.reason, note.message, more, afresh=note.doubtful)
        self._written += 1
        note.shown, note.written_at = (note.reason, note.message), now
        note.due, note.doubtful = None, False

    def _current(self, note: _Note) -> Pod | None:
        """Return the newest state of the pod if the note still holds, else None."""
        info = note.info
        if info.uid not in self._queue or (note.gated and not info.gated):
            return None
        if info.attempts != note.attempts:
            return None
        pod = pending_pod(self._newest, info.pod)
        return None if pod is None or pod.terminating else pod

    def _sweep(self) -> None:
        """Forget deleted and bound pods; amortised over the notes made since the last sweep."""
        self._notes = {
            uid: note
            for uid, note in self._notes.items()
            if pending_pod(self._newest, note.info.pod) is not None
        }
        self._sweep_at = max(_SWEEP_ABOVE, 2 * len(self._notes))


def _shows(note: _Note) -> bool:
    """Whether the condition written last is the wanted one."""
    return (
        note.shown is not None
        and note.shown[0] == note.reason
        and plugin_message(note.shown[1]) == plugin_message(note.message)
    )


def _numbers_only(note: _Note) -> bool:
    """Whether only numbers differ, or the whole message of a plugin that may not expect writes."""
    return (
        note.shown is not None
        and note.shown[0] == note.reason
        and (
            note.reason == GATED_BY_PLUGIN
            or message_class(note.shown[1]) == message_class(note.message)
        )
    )


def _arrived(note: _Note, now: float) -> bool:
    """Whether the write can be taken as applied: it is recent, or the pod has the condition.

    A patch that failed for good is thus repeated at the next rejection.
    """
    if now - note.written_at < NUMBERS_PERIOD:
        return True
    return any(
        (each.type, each.reason) == (POD_SCHEDULED, note.reason)
        and plugin_message(each.message) == plugin_message(note.message)
        for each in note.info.pod.status.conditions
    )
