"""Replay: a recording decided again, attempt by attempt, and compared with what was decided then.

A bundle without a recording has no attempts; `remembered` judges what it can of the decisions that
are remembered in it.

The world is driven by the recording: changes of objects arrive in the recorded order, clocks show
the recorded times, and each attempt begins with the recorded random state, rotation, nominations
and queue record. What is decided again is the scheduling cycle itself: PreFilter to Permit.

After an attempt that differs the world follows the recording, so that later attempts are judged on
their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from scheduler.build_info import build_info
from scheduler.cache.cache import CacheError
from scheduler.client.deltas import DeltaType
from scheduler.engine import Attempt, Failure
from scheduler.framework import CLEAR_NOMINATION, NominatingInfo, PostFilterOutcome
from scheduler.framework.bundled import StateInBundle
from scheduler.framework.grouping import GroupToSchedule
from scheduler.offline.bundles import (
    MALFORMED,
    Content,
    Record,
    Restorer,
    decoded_line,
    find_pod,
    put_object,
    remove_object,
    restore_nominations,
    restore_record,
)
from scheduler.offline.judgement import DIFFERENT, SAME, UNJUDGED, Judgement
from scheduler.offline.recorded import RecordedChange, Times
from scheduler.offline.recorded_groups import Member, RecordedGroup
from scheduler.offline.remembered import RememberedDecisions
from scheduler.offline.virtual_time import only_errors_logged
from scheduler.offline.world import World
from scheduler.recording.format import ATTEMPT, BINDING, DELTA, DUE, GROUP, BundleError, Line
from scheduler.recording.outcomes import MemberOutcome, Outcome, outcome_of, outcomes_of


class _Random(msgspec.Struct, omit_defaults=True):
    position: int
    gauss: float | None = None
    words: tuple[int, ...] = ()
    """Empty: those of the attempt before."""


class _Inputs(Times, kw_only=True, rename="camel"):
    seq: int
    random: _Random
    rotation: int
    #: None: as in the attempt before.
    nominations: list[tuple[str, str]] | None = None
    reserved: list[tuple[str, list[Any]]] | None = None


REDACTED: Final = (
    "the bundle is redacted: names that decide an order, and texts that selectors of devices look "
    "into, are not the original ones"
)


class _Attempt(_Inputs, kw_only=True, rename="camel"):
    pod: str
    uid: str
    now: float
    outcome: Outcome
    info: dict[str, Any] = {}
    memory: dict[str, Any] = {}


class _Group(_Inputs, kw_only=True, rename="camel"):
    group: GroupToSchedule
    may_preempt: bool
    members: list[Member]
    outcomes: list[MemberOutcome]


class _Failure(msgspec.Struct, rename="camel"):
    reason: str
    message: str
    nominated: str | None = None
    rejected_by: list[str] = []
    pending_by: list[str] = []
    requeue_after: float | None = None
    rejected: bool = True
    post_filter: str = "NotRun"
    note: str = ""
    pause: float = 0.0


class _Binding(Times):
    uid: str
    step: str
    failure: _Failure | None = None


@dataclass(slots=True)
class Replay:
    """Replays one file; a context manager.

    >>> with Replay.of("incident.bundle") as replay:  # doctest: +SKIP
    ...     different = [each for each in replay.run() if each.result == DIFFERENT]
    """

    content: Content
    world: World
    #: Kinds in the file that this version does not know, and how many objects.
    unknown: dict[str, int] = field(default_factory=dict)
    _attempts: dict[str, Attempt] = field(default_factory=dict)
    _words: tuple[int, ...] = ()
    #: Those of the recording at this moment: what was decided here may have made others.
    _nominations: Sequence[tuple[str, str]] = ()
    #: The same of the state of grouping plugins, by profile.
    _reserved: Sequence[tuple[str, list[Any]]] = ()

    @classmethod
    def of(cls, path: str | Path, plugin_dirs: Sequence[str] = ()) -> Replay:
        """Read a file and restore its state. Raises BundleError."""
        content = Content.read(path)
        configuration, registry = content.configuration(plugin_dirs)
        world = World(start=content.state.time, configuration=configuration, registry=registry)
        try:
            assembly = world._assembly
            # Nobody carries out what is decided here: its consequences are in the recording.
            assembly.background.dropped = True
            restorer = Restorer(assembly, content)
            restorer.restore()
        except BaseException:
            world.close()
            raise
        _, words, _ = content.state.random
        return cls(content, world, restorer.unknown, restorer.under_way, tuple(words[:-1]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.world.close()

    def run(self, until: int | None = None) -> Iterator[Judgement]:
        """Replay the stream, and yield a judgement of each attempt, in order.

        Of a bundle without a stream, a judgement of each remembered decision. `until` is the number
        of the last attempt to replay.

        Raises:
            BundleError: the file is malformed.
        """
        path = self.content.bundle.path
        if self.content.bundle.header.kind == "Bundle":
            remembered = RememberedDecisions(self.content, self.world._assembly, self._attempts)
            yield from (each for each in remembered.judged() if until is None or each.seq <= until)
            return
        for line in self.content.stream():
            try:
                with only_errors_logged():
                    judged = self._apply(path, line)
            except BundleError:
                raise
            except MALFORMED as error:
                text = f"{path}: the recording contradicts itself ({line.section}): {error}"
                raise BundleError(text) from error
            for each in judged:
                yield each
                if until is not None and each.seq >= until:
                    return

    # -- the stream ------------------------------------------------------------------------------

    def _apply(self, path: Path, line: Line) -> Sequence[Judgement]:
        match line.section:
            case section if section == DELTA:
                self._delta(decoded_line(path, line, RecordedChange))
            case section if section == DUE:
                self._due(decoded_line(path, line, Times))
            case section if section == BINDING:
                self._binding(decoded_line(path, line, _Binding))
            case section if section == ATTEMPT:
                return (self._attempt(decoded_line(path, line, _Attempt)),)
            case section if section == GROUP:
                return self._group(decoded_line(path, line, _Group))
        return ()

    def _set_clock(self, times: Times) -> None:
        assembly = self.world._assembly
        assembly.loop.jump(times.monotonic - self.content.state.monotonic)
        assembly.clock.set_wall(times.time)

    def _delta(self, delta: RecordedChange) -> None:
        self._set_clock(delta)
        assembly = self.world._assembly
        if delta.type is DeltaType.DELETED:
            remove_object(assembly.tables, delta.object, self.unknown)
        else:
            put_object(assembly.tables, delta.object, self.unknown)
        assembly.tables.deliver(assembly.handlers)

    def _due(self, times: Times) -> None:
        self._set_clock(times)
        scheduling = self.world._assembly.scheduling
        scheduling.queue.run_due()
        scheduling.loop.run_timed()

    def _binding(self, step: _Binding) -> None:
        self._set_clock(step)
        attempt = self._attempts.get(step.uid)
        if attempt is None:
            return
        scheduling = self.world._assembly.scheduling
        match step.step:
            case "permitted":
                scheduling.binding.permitted(attempt)
            case "done":
                scheduling.binding.done(attempt)
            case "bound":
                del self._attempts[step.uid]
                scheduling.binding.succeeded(attempt)
            case "failed" if step.failure is not None:
                del self._attempts[step.uid]
                scheduling.binding.failed(attempt, _failure(step.failure))

    # -- attempts --------------------------------------------------------------------------------

    def _attempt(self, recorded: _Attempt) -> Judgement:
        self._set_inputs(recorded)
        self.world._assembly.clock.set_wall(recorded.now)
        outcome, scheduling = recorded.outcome, self.world._assembly.scheduling
        pod = find_pod(self.world._assembly, recorded.pod, recorded.uid)
        if pod is None:
            return self._judged(recorded, None, "the pod is not in the file")
        info = scheduling.queue.take(pod)
        record = Record(recorded.pod, recorded.uid, info=recorded.info, memory=recorded.memory)
        monotonic = self.content.state.monotonic
        restore_record(self.world._assembly, info, record, monotonic)
        algorithm = scheduling.engine.algorithms.get(pod.spec.scheduler_name)
        if algorithm is None:
            return self._judged(recorded, None, f"no profile {pod.spec.scheduler_name!r} here")
        algorithm.search.rotation = recorded.rotation
        attempt = None
        why = outcome.unjudgeable
        if not why:
            attempt = scheduling.engine.attempt(info)
            replayed = outcome_of(attempt)
            if self._same(replayed, outcome):
                self._settle(attempt)
                return self._judged(recorded, replayed, "")
            if attempt.failure is None:
                scheduling.engine.abandon(attempt)
            why = self._differences(outcome, replayed)
            self._follow(info, outcome)
            return self._judged(recorded, replayed, why)
        self._follow(info, outcome)
        return self._judged(recorded, None, why)

    def _group(self, recorded: _Group) -> Sequence[Judgement]:
        """Decide about a group again; return a judgement of each member."""
        self._set_inputs(recorded)
        group = RecordedGroup(
            self.world._assembly, recorded.group, recorded.members, self.content.state.monotonic
        )
        why = group.take(recorded.rotation)
        why = why or next(
            filter(None, (each.outcome.unjudgeable for each in recorded.outcomes)), ""
        )
        replayed: dict[str, Outcome] = {}
        reproduced = exchanged = False
        if not why:
            result = group.decide(may_preempt=recorded.may_preempt)
            found = outcomes_of(result)
            replayed = {each.uid: each.outcome for each in found}
            reproduced = self._same_members(found, recorded.outcomes)
            exchanged = not reproduced and self._exchanged(found, recorded.outcomes)
            if reproduced:
                for attempt in group.ended(result):
                    self._settle(attempt)
            else:
                group.abandon(result)
        if not reproduced:
            for each in recorded.outcomes:
                info = group.infos.get(each.uid)
                if info is not None:
                    self._follow(info, each.outcome)
        if exchanged:
            replayed = {each.uid: each.outcome for each in recorded.outcomes}
        return [
            self._judged_member(recorded, number, each, replayed.get(each.uid), why)
            for number, each in enumerate(recorded.outcomes)
        ]

    def _exchanged(
        self, replayed: Sequence[MemberOutcome], recorded: Sequence[MemberOutcome]
    ) -> bool:
        """Whether members have each other's outcomes, for they are tried in the order of names."""
        here, then = (
            Counter(_words_sorted(each.outcome) for each in outcomes)
            for outcomes in (replayed, recorded)
        )
        return self.content.bundle.header.redacted and here == then

    def _judged_member(
        self, recorded: _Group, number: int, member: MemberOutcome, here: Outcome | None, why: str
    ) -> Judgement:
        same = here is not None and self._same(here, member.outcome)
        result = UNJUDGED if why else SAME if same else DIFFERENT
        if result == DIFFERENT:
            why = self._differences(member.outcome, here or Outcome())
        when, seq = recorded.time, recorded.seq + number
        return Judgement(seq, when, member.pod, result, why, member.outcome, here)

    def _set_inputs(self, recorded: _Inputs) -> None:
        self._set_clock(recorded)
        self._set_random(recorded)
        if recorded.nominations is not None:
            self._nominations = recorded.nominations
        if recorded.reserved is not None:
            self._reserved = recorded.reserved
        restore_nominations(self.world._assembly, self._nominations)
        grouping = self.world._assembly.scheduling.engine.grouping
        for profile, state in self._reserved:
            plugin = grouping.get(profile)
            if isinstance(plugin, StateInBundle):
                plugin.restore_bundle_state(state)

    def _settle(self, attempt: Attempt) -> None:
        """Do what the scheduling loop does after an attempt."""
        scheduling = self.world._assembly.scheduling
        if attempt.failure is not None:
            scheduling.failures.handle(attempt, attempt.failure)
            return
        self._attempts[attempt.info.uid] = attempt
        scheduling.failures.activate_pods_of(attempt)

    def _follow(self, info: Any, outcome: Outcome) -> None:
        """Bring about the recorded outcome, whatever was decided here."""
        scheduling = self.world._assembly.scheduling
        try:
            if outcome.node:
                self._settle(scheduling.engine.adopt(info, outcome.node))
                return
        except CacheError:
            scheduling.queue.done(info.uid)
            return
        attempt = scheduling.engine.aborted(info, RuntimeError("replayed"))
        nominated = outcome.nominated
        attempt.failure = Failure(
            reason=outcome.reason,
            message=outcome.message,
            nominating=None if nominated is None else _nominating(nominated),
            unschedulable_plugins=frozenset(outcome.rejected_by),
            pending_plugins=frozenset(outcome.pending_by),
            post_filter=PostFilterOutcome(outcome.post_filter or "NotRun"),
        )
        scheduling.failures.handle(attempt, attempt.failure)

    def _set_random(self, recorded: _Inputs) -> None:
        source = recorded.random
        if source.words:
            self._words = source.words
        state = (3, (*self._words, source.position), source.gauss)
        self.world._assembly.random.setstate(state)

    def _judged(self, recorded: _Attempt, replayed: Outcome | None, why: str) -> Judgement:
        result = UNJUDGED if replayed is None else DIFFERENT if why else SAME
        return Judgement(
            recorded.seq,
            recorded.time,
            recorded.pod,
            result,
            why,
            recorded.outcome,
            replayed,
        )

    def _same(self, replayed: Outcome, recorded: Outcome) -> bool:
        """Whether two outcomes are equal; redaction may change the order in a message."""
        if not self.content.bundle.header.redacted:
            return replayed == recorded
        return _words_sorted(replayed) == _words_sorted(recorded)

    def _same_members(
        self, replayed: Sequence[MemberOutcome], recorded: Sequence[MemberOutcome]
    ) -> bool:
        return [each.uid for each in replayed] == [each.uid for each in recorded] and all(
            map(
                self._same, (each.outcome for each in replayed), (each.outcome for each in recorded)
            )
        )

    def _differences(self, recorded: Outcome, replayed: Outcome) -> str:
        """Return what differs, and the likeliest reason."""
        found = []
        for name in Outcome.__struct_fields__:
            then, now = getattr(recorded, name), getattr(replayed, name)
            if then != now:
                found.append(f"{name.replace('_', ' ')} was {_shown(then)}, here {_shown(now)}")
        header, here = self.content.bundle.header, build_info().version
        if header.version != here:
            found.append(f"written by kubestow {header.version}, and this is {here}")
        if self.unknown:
            found.append(f"unknown here: {', '.join(sorted(self.unknown))}")
        if header.redacted:
            found.append(REDACTED)
        return "; ".join(found)


def _words_sorted(outcome: Outcome) -> Outcome:
    """Return the outcome with the words of its message in the order of the alphabet."""
    words = sorted(outcome.message.replace(",", " ").replace(". ", " ").split())
    return msgspec.structs.replace(outcome, message=" ".join(words))


def _shown(value: object) -> str:
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    return text if text not in ("", "None") else "none"


def _nominating(node: str) -> NominatingInfo:
    return NominatingInfo(node) if node else CLEAR_NOMINATION


def _failure(data: _Failure) -> Failure:
    return Failure(
        reason=data.reason,
        message=data.message,
        nominating=None if data.nominated is None else _nominating(data.nominated),
        unschedulable_plugins=frozenset(data.rejected_by),
        pending_plugins=frozenset(data.pending_by),
        requeue_after=data.requeue_after,
        rejected=data.rejected,
        post_filter=PostFilterOutcome(data.post_filter),
        note=data.note,
        pause=data.pause,
    )
