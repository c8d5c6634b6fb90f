"""GateReporter: PodScheduled conditions of pods held by a plugin that has a reason of its own.

A gate answers again at every event that concerns it, for thousands of pods at once; the API server
must not hear of each answer. So a write waits a little, is dropped if the pod has moved on, is not
made when it says what the pod's status says already, and one that differs in numbers only is made
at most once a minute. Design: kep-5465-deferred-quota.md 2.8, "Write rules".

Invariant: one note per pod and at most one write waiting for it. What the failure handler writes
about a pod ends the wait (`superseded`).

No asyncio: the scheduling loop calls `run_due`, and sleeps no longer than `next_due` says. Touched
from one event loop only. It does not record Events; plugins do.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.api.redaction import redact_message
from scheduler.framework import Clock, QueuedPodInfo, Status
from scheduler.service.plugin_conditions import ConditionSource, no_conditions

POD_SCHEDULED: Final = "PodScheduled"

NUMBERS_PERIOD: Final = 60.0
"""Seconds between two writes that differ in numbers only. Also how long a write is trusted to have
arrived although the watch does not show it."""

MAX_PER_TURN: Final = 50
"""Writes planned before the loop goes on: well below a millisecond."""

_SWEEP_ABOVE: Final = 1_000

PodLister = Callable[[str, str], Pod | None]

# Standing alone, so that the 2 in a name (`team-2`) counts as text; with a unit (`1500m`, `2.5Gi`,
# `1m30s`). Possessive, because plugins write these texts: no input makes it slow.
_NUMBER: Final = re.compile(r"(?<![\w.\-])-?(?:\d++(?:\.\d++)?[A-Za-z]{0,2}+)++(?![\w\-])")
# Around the words of a plugin that turned a pod down before any node was asked.
_OF_NODES: Final = re.compile(r"\A\d+/\d+ nodes are available: ")
_OF_PREEMPTION: Final = re.compile(
    r"\. preemption: \d+/\d+ nodes are available: "
    r"\d+ Preemption is not helpful for scheduling\.\Z"
)


class GatedPods(Protocol):
    """The pods that wait, by UID; `SchedulingQueue` implements it."""

    on_gated: Callable[[QueuedPodInfo, Status], None] | None

    def __contains__(self, uid: object, /) -> bool:
        """Whether the pod waits."""
        ...


class WriteCondition(Protocol):
    """Writes PodScheduled=False; `afresh`: even if the pod, as known here, says so already.

    `more` are conditions of plugins, for the same write.
    """

    def __call__(
        self, pod: Pod, reason: str, message: str, more: Sequence[Condition], *, afresh: bool
    ) -> None:
        """Hand the condition to the dispatcher."""
        ...


@lru_cache(maxsize=1024)
def message_class(message: str) -> str:
    """What is said, without its numbers.

    >>> message_class("quota team-2 exceeded, used: requests.cpu=10, limited: requests.cpu=1500m")
    'quota team-2 exceeded, used: requests.cpu=#, limited: requests.cpu=#'
    """
    return _NUMBER.sub("#", said(message))


def said(message: str) -> str:
    """What the plugin says, without the words that an attempt at the nodes puts around it.

    Whether a gate says it or an attempt is no news.

    >>> said("0/5 nodes are available: no. preemption: 0/5 nodes are available: "
    ...      "5 Preemption is not helpful for scheduling.")
    'no'
    """
    inner, found = _OF_PREEMPTION.subn("", message)
    return _OF_NODES.sub("", inner) if found else message


@dataclass(slots=True)
class _Note:
    """What is known about one pod."""

    info: QueuedPodInfo
    #: What its status should say.
    reason: str = ""
    message: str = ""
    #: Held by a gate; otherwise turned down in its last attempt, which was number `attempts`.
    gated: bool = False
    attempts: int = 0
    #: Reason and message written last, if nobody has written anything else since, and when.
    shown: tuple[str, str] | None = None
    written_at: float = 0.0
    #: Somebody else wrote, or may have written: the pod as the watch shows it may be old.
    doubtful: bool = False
    #: When the status became wrong, and when to write; `due` is None when nothing waits.
    since: float = 0.0
    due: float | None = None
    #: Time of the one heap entry that counts.
    timer: float | None = None


@dataclass(frozen=True, slots=True)
class GateReporterStatistics:
    """Pods known and writes waiting now; the rest are counts since the start."""

    pods: int
    waiting: int
    written: int
    #: The status said so already.
    unchanged: int
    #: The pod had moved on.
    dropped: int


class GateReporter:
    """Delays and thins out conditions with a plugin's own reason. See the module's docstring."""

    def __init__(
        self,
        queue: GatedPods,
        newest: PodLister,
        write: WriteCondition,
        clock: Clock,
        *,
        delay: float = 1.0,
        conditions: ConditionSource = no_conditions,
    ) -> None:
        """Report what `queue` says about gated pods; `delay` is in seconds.

        `conditions` gives the conditions that plugins want written along.
        """
        self._conditions = conditions
        queue.on_gated = self.held
        self._queue = queue
        self._newest = newest
        self._write = write
        self._clock = clock
        self._delay = delay
        self._notes: dict[str, _Note] = {}
        self._heap: list[tuple[float, str]] = []
        self._sweep_at = _SWEEP_ABOVE
        self._written = self._unchanged = self._dropped = 0
        #: Called when `next_due` moved to an earlier time.
        self.on_timer: Callable[[], None] = lambda: None

    # -- what is told ----------------------------------------------------------------------------

    def held(self, info: QueuedPodInfo, status: Status) -> None:
        """A PreEnqueue plugin holds the pod, or holds it again; the queue's `on_gated`.

        A refusal without a reason of its own writes nothing (for scheduling gates the API server
        has written already), and what waited is dropped.
        """
        if status.condition_reason and status.rejected:
            self._want(info, status.condition_reason, status.message, gated=True)
        elif (note := self._notes.get(info.uid)) is not None:
            self._cancel(note)

    def rejected(self, info: QueuedPodInfo, reason: str, message: str) -> None:
        """The pod's attempt was turned down with a plugin's own reason; it is queued again."""
        self._want(info, reason, message, gated=False)

    def superseded(self, uid: str) -> bool:
        """Another condition is about to be written; whether ours may still be on its way."""
        note = self._notes.get(uid)
        if note is None:
            return False
        ours = note.shown is not None
        note.due, note.shown, note.doubtful = None, None, True
        return ours

    # -- time ------------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """Monotonic time at which `run_due` may have something to do; None when never."""
        return self._heap[0][0] if self._heap else None

    def run_due(self) -> None:
        """Write what is due, `MAX_PER_TURN` pods at most."""
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
        """Counts; O(pods)."""
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
        message = redact_message(message)
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
        # Nobody here has written about the pod: what it says is from before a restart, and stands.
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
            self.on_timer()

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
        self._write(pod, note.reason, note.message, more, afresh=note.doubtful)
        self._written += 1
        note.shown, note.written_at = (note.reason, note.message), now
        note.due, note.doubtful = None, False

    def _current(self, note: _Note) -> Pod | None:
        """The pod as it is now, if what the note says still holds."""
        info = note.info
        if info.uid not in self._queue or (note.gated and not info.gated):
            return None
        if info.attempts != note.attempts:
            return None
        pod = self._pending(info)
        return None if pod is None or pod.terminating else pod

    def _pending(self, info: QueuedPodInfo) -> Pod | None:
        metadata = info.pod.metadata
        pod = self._newest(metadata.namespace, metadata.name)
        if pod is None or pod.metadata.uid != info.uid or pod.spec.node_name:
            return None
        return pod

    def _sweep(self) -> None:
        """Forget pods that are gone or bound; amortised over the notes made since the last time."""
        self._notes = {
            uid: note for uid, note in self._notes.items() if self._pending(note.info) is not None
        }
        self._sweep_at = max(_SWEEP_ABOVE, 2 * len(self._notes))


def _shows(note: _Note) -> bool:
    """Whether the status says what it should."""
    return (
        note.shown is not None
        and note.shown[0] == note.reason
        and said(note.shown[1]) == said(note.message)
    )


def _numbers_only(note: _Note) -> bool:
    return (
        note.shown is not None
        and note.shown[0] == note.reason
        and message_class(note.shown[1]) == message_class(note.message)
    )


def _arrived(note: _Note, now: float) -> bool:
    """Whether the write can be taken as done: it is fresh, or the pod shows it.

    A patch that failed for good is thus made again at the next refusal.
    """
    if now - note.written_at < NUMBERS_PERIOD:
        return True
    return any(
        (each.type, each.reason) == (POD_SCHEDULED, note.reason)
        and said(each.message) == said(note.message)
        for each in note.info.pod.status.conditions
    )
