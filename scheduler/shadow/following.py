"""Follower: compares the shadow's choices with what the watch shows, and lets reality win.

It hears of each pod before the ordinary handlers do. Nothing that happens here changes a decision
of the shadow, except through the room that its choices hold (`choices`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from scheduler.api.pod import Pod
from scheduler.api.signal import Signal
from scheduler.cache import Cache
from scheduler.client.deltas import Delta, DeltaType
from scheduler.engine import Attempt, Engine
from scheduler.explain.records import QueueState
from scheduler.explain.records.shadow import ShadowPod, ShadowVerdict
from scheduler.framework import Clock, Subscriptions
from scheduler.queue import SchedulingQueue
from scheduler.service.binding_cycle import BindingCycle
from scheduler.service.event_handlers import EventHandlers
from scheduler.service.failure_handler import FailureHandler
from scheduler.service.limited_log import LimitedLog
from scheduler.shadow.assessing import Assessor
from scheduler.shadow.choices import Choice, Choices, rejection_of
from scheduler.shadow.doubts import Doubts
from scheduler.shadow.judging import MAX_MESSAGE, Look, ShadowJudgement, judge, judge_late
from scheduler.shadow.steady_time import SteadyTime
from scheduler.shadow.tally import ShadowTally

_errors = LimitedLog(__name__)

SOONER_SECONDS: Final = 1.0
"""Differences below this are not called sooner: they are the time that a binding takes."""


class Follower:
    """Judges every pod of the followed names that gets a node."""

    def __init__(
        self,
        choices: Choices,
        assessor: Assessor,
        cache: Cache,
        queue: SchedulingQueue,
        clock: Clock,
        tally: ShadowTally,
        subscriptions: Subscriptions,
    ) -> None:
        self.choices = choices
        self.tally = tally
        self.doubts = Doubts(assessor, self._without, clock, tally.add, subscriptions)
        #: Pending pods by UID, in the order in which they were seen first.
        self._numbers: dict[str, int] = {}
        self._seen = 0
        self._assessor = assessor
        self._cache = cache
        self._queue = queue
        self._clock = clock

    def attempted(self, attempt: Attempt) -> None:
        """Note an attempt right after its cycle."""
        self.choices.attempted(attempt)
        if attempt.failure is not None and attempt.failure.victims:
            self.tally.preempting += 1

    def now(self) -> float:
        """Return the wall clock time."""
        return self._clock.now()

    def seen(self, pod: Pod) -> None:
        """Number a pending pod that is new."""
        self._seen += 1
        self._numbers[pod.uid] = self._seen

    def bound(self, old: Pod, new: Pod) -> int:
        """Judge the binding of a pod, before it is applied; return the pod's number."""
        choice, late = self.choices.get(old.uid), False
        if choice is not None and choice.attempt is not None:
            # A later step may have undone it, as of a member of a group that failed.
            choice = choice if self._cache.is_assumed(old.uid) else None
        try:
            if choice is None:
                late = self._queue.state(old.uid) is QueueState.ACTIVE
            judgement = self._judged(choice, old, new.spec.node_name, late=late)
        except Exception as error:  # noqa: BLE001 - boundary: the state must follow reality anyway
            _errors.exception("judging a pod failed", error, pod=old.key)
            judgement = ShadowJudgement(ShadowVerdict.UNJUDGED, message=type(error).__name__)
        self.choices.take(old.uid)
        now, number = self._clock.now(), self._numbers.pop(old.uid, 0)
        self.doubts.add(
            ShadowPod(
                pod=old.key,
                uid=old.uid,
                profile=old.spec.scheduler_name,
                verdict=judgement.verdict,
                here=judgement.here if choice is None else choice.node,
                there=new.spec.node_name,
                decided=(now if late else 0.0) if choice is None else choice.time,
                late=late,
                bound=now,
                sooner=_sooner(choice, now),
                best=judgement.best,
                plugin=judgement.plugin,
                scores=judgement.scores,
                message=judgement.message,
            ),
            old,
            number,
        )
        return number

    def _judged(
        self, choice: Choice | None, pod: Pod, there: str, *, late: bool
    ) -> ShadowJudgement:
        if choice is not None and choice.node == there:
            return ShadowJudgement(ShadowVerdict.SAME)
        if choice is not None and choice.ties is not None:
            row = self._cache.table.row_of(there)
            if row is not None and (choice.ties == row).any():
                return ShadowJudgement(ShadowVerdict.TIE)
        if choice is None:
            info = self._queue.queued(pod.uid)
            if info is not None and info.gated:
                return ShadowJudgement(
                    ShadowVerdict.WOULD_HAVE_WAITED,
                    plugin=info.gating_plugin,
                    message=info.last_message[:MAX_MESSAGE],
                )
        looks = self._looks(choice, pod, there)
        return judge_late(looks, there) if late else judge(looks)

    def _looks(self, choice: Choice | None, pod: Pod, there: str) -> Iterator[Look]:
        """Look at the pod in the states that the other scheduler may have seen.

        First what is bound; then without later pods whose bindings were quicker; then also with the
        pods that it has placed but not yet bound, on the nodes that the shadow chose for them.
        """
        with self._without(()):
            yield self._assessor.look(pod, there)
        if quicker := self.doubts.later_than(self._numbers.get(pod.uid, self._seen)):
            with self._without(quicker):
                yield self._assessor.look(pod, there)
        assumed = self.choices.assumed()
        # Of a pod that is not decided yet, all choices are earlier.
        own = math.inf if choice is None else choice.number
        later = [each.uid for each in assumed if each.number >= own]
        if len(later) < len(assumed):
            with self._set_aside(later):
                yield self._assessor.look(pod, there)

    def _without(self, uids: Collection[str]) -> AbstractContextManager[None]:
        """Take these pods, and those that the shadow has placed, out of the table for a moment."""
        return self._set_aside([*uids, *(each.uid for each in self.choices.assumed())])

    @contextmanager
    def _set_aside(self, uids: Collection[str]) -> Iterator[None]:
        aside = [uid for uid in uids if self._cache.set_aside(uid)]
        try:
            yield
        finally:
            for uid in aside:
                self._cache.put_back(uid)

    def updated(self, old: Pod, new: Pod) -> bool:
        """Note the update of a pending pod; True if the shadow has decided about it already."""
        choice = self.choices.get(new.uid)
        if choice is None:
            return False
        message = rejection_of(new)
        if message is not None and message != rejection_of(old):
            self.choices.reject(choice)
        return choice.deadline is not None or choice.attempt is None

    def gone(self, pod: Pod) -> None:
        """Note that a pending pod was deleted."""
        self.choices.take(pod.uid)
        if self._numbers.pop(pod.uid, None) is not None:
            self.tally.gone += 1


def _sooner(choice: Choice | None, now: float) -> float:
    if choice is None or not choice.rejected:
        return 0.0
    seconds = now - choice.time
    return seconds if seconds > SOONER_SECONDS else 0.0


class FollowingHandlers(EventHandlers):
    """The handlers of the service, which tell the follower first."""

    def __init__(self, follower: Follower, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._follower = follower
        #: Called with what happens, and when, before it is applied.
        self.on_batch = Signal[[str, Sequence[Delta[Any]], float]]()

    def _apply(
        self, plural: str, batch: Sequence[Delta[Any]], change: Callable[[Any], str]
    ) -> None:
        self.on_batch(plural, batch, self._follower.now())
        super()._apply(plural, batch, change)

    def _pod(self, delta: Delta[Pod]) -> str:
        new, old = delta.object, delta.old
        pending = old is not None and not old.spec.node_name
        if delta.type is DeltaType.DELETED:
            if not new.spec.node_name:
                self._follower.gone(new)
        elif pending and old is not None and new.spec.node_name and self._ours(old):
            number = self._follower.bound(old, new)
            label = super()._pod(delta)
            self._follower.doubts.applied(new.uid, number)
            return label
        elif old is None and self._ours(new):
            if new.spec.node_name:
                self._follower.tally.unseen += 1
            else:
                self._follower.seen(new)
        return super()._pod(delta)

    def _unscheduled_updated(self, old: Pod, new: Pod) -> str:
        if not self._follower.updated(old, new):
            return super()._unscheduled_updated(old, new)
        if not self._cache.is_assumed(new.uid):
            # As the pod of another scheduler, which it is from here on.
            self._foreign_updated(old, new)
        return ""


class FollowingCycle(BindingCycle):
    """The binding cycle of a shadow: it ends after Permit, and the choice is held instead."""

    def __init__(
        self, engine: Engine, queue: SchedulingQueue, failures: FailureHandler, **parts: Any
    ) -> None:
        super().__init__(engine, queue, failures, **parts)
        self.time = SteadyTime(self._clock)
        self.choices = Choices(engine, queue, self._slots, self.time, self._subscriptions)

    async def _after_permit(self, attempt: Attempt) -> None:
        self._inbox.submit(self.done, attempt)
        failure = None
        if self._barriers or self._followed:
            # A group is placed as a whole, or not at all.
            failure = await self._pass_barrier(attempt)
        if failure is None:
            self._inbox.submit(self._hold, attempt)
        else:
            self._leave_barrier(attempt, failure)
            self._inbox.submit(self.failed, attempt, failure)

    def _hold(self, attempt: Attempt) -> None:
        if self.choices.hold(attempt):
            spent = self._clock.monotonic() - attempt.started
            self._metrics.attempt("scheduled", attempt.framework.profile_name, spent)
            self._failures.activate_pods_of(attempt)

    def failed(self, attempt: Attempt, failure: Any) -> None:
        """Forget the choice, and requeue the pod."""
        self.choices.forget(attempt.info.uid)
        super().failed(attempt, failure)
