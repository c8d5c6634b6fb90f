"""The journal of a recording: what the scheduler applies and decides, in order, for one reader.

The scheduler appends, the reader takes; nothing here ever waits. If the reader is too slow, or a
report fails, the journal ends instead: no report raises. What is appended is immutable, so that it
can be encoded later.

A replay does not repeat how the queue chose the next pod: each attempt is recorded with its inputs
that are not in the objects (random state, rotation, nominations, the pod's record in the queue).
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from random import Random
from typing import Any, Concatenate, Final, ParamSpec

import msgspec

from scheduler.client.custom_resources import is_reference
from scheduler.client.deltas import Delta, DeltaType
from scheduler.client.resources import Resource
from scheduler.engine import Attempt, Engine, Failure
from scheduler.engine.group_result import GroupResult
from scheduler.framework import Clock, QueuedPodInfo
from scheduler.framework.bundled import StateInBundle
from scheduler.framework.grouping import GroupToSchedule
from scheduler.queue import SchedulingQueue
from scheduler.queue.snapshots import kept_fields
from scheduler.recording.custom_objects import encode_custom, encode_identity
from scheduler.recording.format import ATTEMPT, BINDING, DELTA, DUE, GROUP, encode
from scheduler.recording.objects import encode_object
from scheduler.recording.outcomes import failure_data, outcome_of, outcomes_of
from scheduler.service.observer import LEADER, RELIST, RELOAD, Observer

MAX_PENDING: Final = 20_000
"""Entries that the reader has not taken yet: some seconds of a busy scheduler, below 100 MiB."""

SLOW_READER: Final = "slow-reader"
FAILED: Final = "failed"
REASONS: Final = {
    RELIST: "a resource was listed anew",
    LEADER: "this replica stopped leading",
    RELOAD: "the configuration was replaced",
    SLOW_READER: f"the reader fell more than {MAX_PENDING} entries behind",
    FAILED: "recording an event failed; the log of the scheduler has the error",
}

Entry = tuple[str, Any]
"""Section and data; data of a DELTA is encoded by `encoded`."""

P = ParamSpec("P")


def _guarded(
    report: Callable[Concatenate[Journal, P], None],
) -> Callable[Concatenate[Journal, P], None]:
    """Let a report do nothing after the end, and end the journal if it raises."""

    @functools.wraps(report)
    def guarded(journal: Journal, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if journal.ended:
            return
        try:
            report(journal, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - boundary: scheduling continues without recording
            journal.fail(error)

    return guarded


class Journal(Observer):
    """Keeps what is reported until it is taken."""

    def __init__(
        self,
        engine: Engine,
        queue: SchedulingQueue,
        *,
        clock: Clock,
        random: Random,
        on_end: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        """Begin. `on_end` is called once, at the end, whatever its reason; `on_error` at a fault.

        Neither may raise.
        """
        self._engine = engine
        self._queue = queue
        self._clock = clock
        self._random = random
        self._on_end = on_end
        self._on_error = on_error
        self._entries: deque[Entry] = deque()
        #: Set when there is something to take, or the journal has ended.
        self.wake = asyncio.Event()
        #: Why the journal ended; empty while it continues.
        self.ended = ""
        self._seq = 0
        self._begun: dict[str, Any] = {}
        self._words: tuple[int, ...] = ()
        #: Version of the nominations, and state of grouping plugins, that were noted last.
        self._nominations = -1
        self._reserved: list[Any] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def take(self) -> Entry | None:
        """Take the oldest entry; None when there is none."""
        if self._entries:
            return self._entries.popleft()
        self.wake.clear()
        if self.ended:
            self.wake.set()
        return None

    def clear(self) -> None:
        """Drop what was appended and not taken."""
        self._entries.clear()

    def end(self, reason: str) -> None:
        """Append nothing more; what was appended can still be taken."""
        if not self.ended:
            self.ended = reason
            self.wake.set()
            self._on_end()

    def fail(self, error: Exception) -> None:
        """End because of a fault of the recording."""
        if not self.ended:
            self._on_error(error)
            self.end(FAILED)

    # -- reports of the scheduler ----------------------------------------------------------------

    @_guarded
    def deltas(self, plural: str, batch: Sequence[Delta[Any]]) -> None:
        """Note changes of objects, before they are applied."""
        now = self._times()
        for delta in batch:
            self._append(DELTA, (plural, delta, now))

    @_guarded
    def due(self) -> None:
        """Note that work of the queue or of plugins is due by the clock, if any is."""
        wakeup = self._queue.next_wakeup()
        if wakeup is not None and wakeup <= self._clock.now():
            self.tick()

    @_guarded
    def tick(self) -> None:
        """Note the time."""
        self._append(DUE, self._times())

    @_guarded
    def attempt_begins(self, info: QueuedPodInfo) -> None:
        """Note the inputs of an attempt."""
        self._begun = self._inputs(info) | _record_of(info)

    @_guarded
    def attempt_ended(self, attempt: Attempt) -> None:
        """Note the outcome of the attempt that began last."""
        suspended = self._engine.suspends(attempt.info.pod)
        self._seq += 1
        self._begun |= {
            "seq": self._seq,
            "now": attempt.state.now,
            "outcome": outcome_of(attempt, suspended=suspended),
        }
        self._append(ATTEMPT, self._begun)
        self._begun = {}

    @_guarded
    def group_begins(
        self,
        info: QueuedPodInfo,
        group: GroupToSchedule,
        infos: Sequence[QueuedPodInfo],
        *,
        may_preempt: bool,
    ) -> None:
        """Note the inputs of a group's cycle; `info` is the member that was popped."""
        algorithms = self._engine.algorithms
        members = []
        for each in infos:
            algorithm = algorithms.get(each.pod.spec.scheduler_name)
            known = algorithm is not None and algorithm.capacities.of(each.pod) is not None
            members.append(_record_of(each) | {"learnt": known})
        self._begun = self._inputs(info) | {
            "group": msgspec.to_builtins(group),
            "mayPreempt": may_preempt,
            "members": members,
        }

    @contextmanager
    def cycle_paused(self) -> Iterator[None]:
        """Keep the random state over a pause of a cycle, in which others draw from it as well."""
        state = self._random.getstate()
        yield
        self._random.setstate(state)

    @_guarded
    def group_ended(self, result: GroupResult, infos: Sequence[QueuedPodInfo]) -> None:
        """Note the outcome of the cycle that began last, of these members."""
        suspended = any(self._engine.suspends(each.pod) for each in infos)
        outcomes = outcomes_of(result, suspended=suspended)
        self._append(GROUP, self._begun | {"seq": self._seq + 1, "outcomes": outcomes})
        self._seq += len(outcomes)
        self._begun = {}

    @_guarded
    def binding(self, attempt: Attempt, step: str, failure: Failure | None = None) -> None:
        """Note a step of a binding cycle: `permitted`, `done`, `bound` or `failed`."""
        data = self._times() | {"uid": attempt.info.uid, "step": step}
        if failure is not None:
            data["failure"] = failure_data(failure)
        self._append(BINDING, data)

    # -- inside ----------------------------------------------------------------------------------

    def _inputs(self, info: QueuedPodInfo) -> dict[str, Any]:
        """Return the inputs of a cycle that begins with a popped pod."""
        inputs = self._times() | {"random": self._random_state()}
        algorithm = self._engine.algorithms.get(info.pod.spec.scheduler_name)
        inputs["rotation"] = 0 if algorithm is None else algorithm.search.rotation
        nominator = self._queue.nominator
        if nominator.version != self._nominations:
            self._nominations = nominator.version
            inputs["nominations"] = [[each.key, node] for each, node in nominator.nominations()]
        reserved = [
            [profile, [*grouping.bundle_state()]]
            for profile, grouping in self._engine.grouping.items()
            if isinstance(grouping, StateInBundle)
        ]
        # Compared by itself: the cycle of a group withdraws its nominations first, and ends its
        # reservation if it is placed.
        if reserved != self._reserved:
            inputs["reserved"] = self._reserved = reserved
        # If the last cycle was suspended and begins again, or was given up, what it noted is in no
        # entry yet.
        noted = self._begun
        if "words" in noted.get("random", ()):
            inputs["random"].setdefault("words", noted["random"]["words"])
        for name in noted.keys() & {"nominations", "reserved"}:
            inputs.setdefault(name, noted[name])
        return inputs

    def _append(self, section: str, data: Any) -> None:
        if len(self._entries) >= MAX_PENDING:
            self.end(SLOW_READER)
            return
        self._entries.append((section, data))
        self.wake.set()

    def _times(self) -> dict[str, Any]:
        return {"time": self._clock.now(), "monotonic": self._clock.monotonic()}

    def _random_state(self) -> dict[str, Any]:
        """Return the state of the random source; only its position while the words are the same."""
        _, state, gauss = self._random.getstate()
        words = state[:-1]
        if words == self._words:
            return {"position": state[-1], "gauss": gauss}
        self._words = words
        return {"position": state[-1], "gauss": gauss, "words": words}


def encoded(
    entry: Entry, resources: Mapping[str, Resource[Any]], kept_annotations: Sequence[str]
) -> Entry:
    """Return an entry as it is written; `resources` are those that are watched, by plural."""
    section, data = entry
    if section != DELTA:
        return entry
    plural, delta, times = data
    resource, kind = resources[plural], delta.type
    if is_reference(plural):
        obj = encode_custom(resource, delta.object, kept_annotations)
        if obj is None:
            # A replay continues without it, as one that began without it.
            obj, kind = encode_identity(resource, delta.object), DeltaType.DELETED
    else:
        obj = encode_object(resource, delta.object, kept_annotations)
    return section, times | {"plural": plural, "type": kind.value, "object": msgspec.Raw(obj)}


def _record_of(info: QueuedPodInfo) -> dict[str, Any]:
    """Return a pod's record in the queue as an attempt begins with it."""
    record = {"pod": info.pod.key, "uid": info.uid, "info": kept_fields(info)}
    if info.plugin_memory:
        record["memory"] = memory_of(info)
    return record


def memory_of(info: QueuedPodInfo) -> dict[str, msgspec.Raw]:
    """Return what plugins keep about a pod, by plugin, encoded as it is now.

    Raises whatever encoding the record of a plugin raises.
    """
    return {
        name: msgspec.Raw(encode(value))
        for name, value in (info.plugin_memory or {}).items()
        if is_dataclass(value) and not isinstance(value, type)
    }
