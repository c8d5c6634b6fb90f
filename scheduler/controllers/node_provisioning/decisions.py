"""Decisions of the bridge: events and pods go in, patches of one condition come out.

Pure: no I/O, no clock. Invariants: at most one patch per pod is under way; a pod is patched only
when status or reason change, or its message at most once a minute; a pod that has a node, is
gated, finished or on its way out is left alone; what another writer set is not overwritten before
somebody has looked who it was (`Patch.verify`).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.api.policy import CoreEvent
from scheduler.controllers.node_provisioning.ownership import CONDITION, find
from scheduler.controllers.node_provisioning.signals import (
    KARPENTER,
    PodSignal,
    ScaleUp,
    Signal,
    StatusObject,
    TargetFailure,
    read_event,
)
from scheduler.controllers.node_provisioning.sources import (
    SUSPECT_WINDOWS,
    DesiredCondition,
    Evidence,
    Failures,
    Limits,
    ObservedSignal,
    ScaleUps,
    evaluate_all,
)

MESSAGE_SECONDS: Final = 60.0
"""Between two patches of a pod that change nothing but words."""

MAX_CONFLICTS: Final = 3
"""Pods with another writer after which the bridge ends for good."""

RETRY_SECONDS: Final = (1.0, 60.0)
"""First and longest wait after a patch that failed; doubled in between."""

OWN_WRITES: Final = 8
"""Latest conditions of a pod that we recognise as our own when the watch brings them back."""

MAX_IN_FLIGHT: Final = 2
"""Patches at once. Few, for they share their slots with those of PodScheduled, without which no
autoscaler sees a pod; and what waits here is decided anew when its turn comes."""

MAX_TARGETS: Final = 10_000
"""Failed node groups and claims remembered before those past the deadline are dropped."""

NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Patch:
    """One condition to write. `verify`: first look whether somebody else writes it.

    `seen_without`: we have led since the pod had no such condition, so what it has now and we did
    not write is not ours, whatever it looks like.
    """

    pod: Pod
    condition: Condition
    source: str
    verify: bool
    seen_without: bool = False


@dataclass(frozen=True, slots=True)
class DuePatches:
    """What to write now, and when to ask again if nothing happens before."""

    patches: tuple[Patch, ...]
    wake: float


@dataclass(slots=True)
class _Writes:
    """What we wrote about one pod."""

    last: Condition | None = None
    at: float = 0.0
    own: deque[tuple[str, str, str]] = field(default_factory=lambda: deque(maxlen=OWN_WRITES))
    failed: int = 0
    retry_at: float = 0.0


@dataclass(frozen=True, slots=True)
class DecisionStatistics:
    """Sizes and counters now."""

    pods: int
    wanted: int
    signals: int
    failed_targets: int
    under_way: int
    conflicting_managers: int


class Decisions:
    """State of the bridge. Touched from one event loop; times are monotonic seconds."""

    def __init__(
        self,
        *,
        names: Collection[str],
        wanted: Callable[[Pod], bool],
        status: StatusObject | None = None,
        limits: Limits | None = None,
        backs_off: bool = True,
    ) -> None:
        """Prepare.

        Args:
            names: scheduler names we serve; other pods are never touched.
            wanted: whether the condition matters for a pod.
            status: what cluster-autoscaler's own events are about.
            limits: when a promise of nodes counts as broken.
            backs_off: whether another writer of the condition makes us stop.
        """
        self._names = frozenset(names)
        self._wanted_by = wanted
        self._status = status or StatusObject()
        self._limits = limits or Limits()
        self._backs_off = backs_off
        self._pods: dict[str, Pod] = {}
        self._wanted: set[str] = set()
        self._observed: dict[str, dict[str, ObservedSignal]] = {}
        self._evidence = Evidence(Failures(), ScaleUps())
        self._karpenter_promised = False
        self._writes: dict[str, _Writes] = {}
        self._conflicting: set[str] = set()
        self._conflicts_seen = 0
        self._under_way: set[str] = set()
        # Pods seen without the condition since we lead, that is, since the first plan.
        self._leading = False
        self._seen_without: set[str] = set()
        # Pods to look at, in the order in which they came up.
        self._dirty: dict[str, None] = {}
        self._timers: list[tuple[float, str]] = []
        # The earliest timer of each pod: a later one is only set when that has run.
        self._timer_of: dict[str, float] = {}

    @property
    def needed(self) -> bool:
        """Whether some pod waits for which the condition matters."""
        return bool(self._wanted)

    @property
    def karpenter_promised(self) -> bool:
        """Whether Karpenter promised nodes for some pod, so that node claims exist."""
        return self._karpenter_promised

    @property
    def stopped(self) -> bool:
        """Whether somebody else evidently sets the condition in this cluster."""
        return self._conflicts_seen >= MAX_CONFLICTS

    @property
    def conflicting_managers(self) -> int:
        """Pods left to another writer so far."""
        return self._conflicts_seen

    @property
    def has_work(self) -> bool:
        """Whether `plan` has something to look at, timers apart."""
        return bool(self._dirty)

    def statistics(self) -> DecisionStatistics:
        """Sizes and counters now."""
        return DecisionStatistics(
            pods=len(self._pods),
            wanted=len(self._wanted),
            signals=sum(map(len, self._observed.values())),
            failed_targets=len(self._evidence.failures),
            under_way=len(self._under_way),
            conflicting_managers=self._conflicts_seen,
        )

    # -- pods --------------------------------------------------------------------------------------

    def pod_changed(self, pod: Pod) -> None:
        """A pod appeared or changed."""
        uid = pod.uid
        if pod.spec.node_name or pod.spec.scheduler_name not in self._names or _finished(pod):
            if uid in self._pods or uid in self._observed:
                self.forget(uid)
            return
        self._pods[uid] = pod
        self._note_absence(pod)
        if self._wanted_by(pod) and not pod.spec.scheduling_gates:
            self._wanted.add(uid)
            if uid in self._observed:
                self._dirty[uid] = None
        else:
            self._wanted.discard(uid)

    def _note_absence(self, pod: Pod) -> None:
        if self._leading and find(pod.status.conditions) is None:
            self._seen_without.add(pod.uid)

    def forget(self, uid: str) -> None:
        """A pod is gone, bound, or not the one we thought."""
        self._pods.pop(uid, None)
        self._observed.pop(uid, None)
        self._writes.pop(uid, None)
        self._timer_of.pop(uid, None)
        self._dirty.pop(uid, None)
        for uids in (self._wanted, self._conflicting, self._under_way, self._seen_without):
            uids.discard(uid)

    # -- events ------------------------------------------------------------------------------------

    def event_changed(self, event: CoreEvent, now: float, age: float = 0.0) -> Signal | None:
        """An event appeared or changed, `age` seconds ago; what it says, if we care."""
        signal = read_event(event, self._status)
        if signal is None:
            return None
        since = now - max(0.0, age)
        if isinstance(signal, PodSignal):
            self._observe(signal, since)
            return signal
        if isinstance(signal, ScaleUp):
            self._add_scale_up(signal, since)
        else:
            self._add_failure(signal, since)
        return signal

    def node_added(self, time: float, since: float) -> None:
        """A node joined the cluster; it may be an autoscaler's. Wall and monotonic time."""
        for source in SUSPECT_WINDOWS:
            self._add_scale_up(ScaleUp(source, "", time), since)

    def claim_created(self, name: str, time: float, since: float) -> None:
        """Karpenter created a node claim."""
        self._add_scale_up(ScaleUp(KARPENTER, name, time), since)

    def claim_deleted(self, name: str, time: float, since: float) -> None:
        """A node claim was deleted, which is how Karpenter gives a machine up that never comes."""
        message = f"node claim {name} was deleted"
        self._add_failure(TargetFailure(KARPENTER, name, time, message), since)

    def _add_scale_up(self, scale_up: ScaleUp, since: float) -> None:
        # No pod is looked at for that: it only puts off what a pod's timer would find.
        self._evidence.scale_ups.add(scale_up, since, self._limits.provisioning_deadline)

    def _add_failure(self, failure: TargetFailure, since: float) -> None:
        failures = self._evidence.failures
        if len(failures) >= MAX_TARGETS:
            failures.forget_before(since - self._limits.provisioning_deadline)
        failures.add(failure, since)
        for uid, by_source in self._observed.items():
            observed = by_source.get(failure.source)
            # What failed may also be what came after the failure of the pod's own targets.
            if observed is not None and observed.newest.provisioning:
                self._dirty[uid] = None

    def _observe(self, signal: PodSignal, since: float) -> None:
        if signal.source == KARPENTER and signal.provisioning:
            self._karpenter_promised = True
        # Kept for unknown pods too: their watch may lag behind that of events.
        by_source = self._observed.setdefault(signal.uid, {})
        observed = by_source.get(signal.source)
        if observed is None:
            by_source[signal.source] = ObservedSignal(signal, since)
        elif not observed.add(signal, since):
            return
        self._dirty[signal.uid] = None

    def event_deleted(self, event: CoreEvent) -> None:
        """An event's time to live is over; what it said of a pod that waits is still true."""
        uid = event.involved_object.uid
        if uid not in self._pods:
            self._observed.pop(uid, None)
            self._dirty.pop(uid, None)

    def forget_events(self) -> None:
        """Nobody listens any more; listening again begins with what there is by then."""
        self._observed.clear()
        self._evidence = Evidence(Failures(), ScaleUps())
        self._karpenter_promised = False
        self._dirty.clear()
        self._timers.clear()
        self._timer_of.clear()

    # -- patches -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Patches that were under way have ended, and will not be answered."""
        self._under_way.clear()

    def plan(self, now: float, wall: str) -> DuePatches:
        """What to write now, `MAX_IN_FLIGHT` at most; `wall` (RFC 3339) stamps transitions.

        Each patch must be answered by `written`, `failed`, `concede` or `forget`.
        """
        if not self._leading:
            self._leading = True
            for pod in self._pods.values():
                self._note_absence(pod)
        while self._timers and self._timers[0][0] <= now:
            at, uid = heapq.heappop(self._timers)
            if self._timer_of.get(uid) == at:
                del self._timer_of[uid]
                self._dirty[uid] = None
        patches: list[Patch] = []
        while self._dirty and len(self._under_way) < MAX_IN_FLIGHT:
            uid = next(iter(self._dirty))
            del self._dirty[uid]
            patch = self._check(uid, now, wall)
            if patch is not None:
                self._under_way.add(uid)
                patches.append(patch)
        return DuePatches(tuple(patches), self._timers[0][0] if self._timers else NEVER)

    def _check(self, uid: str, now: float, wall: str) -> Patch | None:
        pod = self._pods.get(uid)
        if pod is None or uid not in self._wanted or uid in self._conflicting:
            return None
        if uid in self._under_way:
            return None  # looked at again when the patch is answered
        desired, changes_at = evaluate_all(
            self._observed.get(uid, {}), self._evidence, self._limits, now
        )
        self._check_at(uid, changes_at)
        if desired is None:
            return None
        writes = self._writes.get(uid) or _Writes()
        live = find(pod.status.conditions)
        due = _due(writes.last or live, desired, writes, now)
        if due > now:
            self._check_at(uid, due)
            return None
        condition = _condition(desired, writes.last or live, wall)
        verify = self._backs_off and live is not None and _content(live) not in writes.own
        return Patch(pod, condition, desired.source, verify, uid in self._seen_without)

    def _check_at(self, uid: str, at: float) -> None:
        if at < self._timer_of.get(uid, NEVER):
            self._timer_of[uid] = at
            heapq.heappush(self._timers, (at, uid))

    def written(self, patch: Patch, now: float) -> None:
        """The patch is in."""
        uid = patch.pod.uid
        if uid not in self._under_way:
            return  # forgotten meanwhile
        writes = self._writes.setdefault(uid, _Writes())
        writes.last, writes.at, writes.failed, writes.retry_at = patch.condition, now, 0, 0.0
        writes.own.append(_content(patch.condition))
        self._end_patch(uid)

    def failed(self, patch: Patch, now: float) -> None:
        """The patch was not sent, or refused for a reason that may pass."""
        uid = patch.pod.uid
        if uid not in self._under_way:
            return
        writes = self._writes.setdefault(uid, _Writes())
        first, longest = RETRY_SECONDS
        writes.retry_at = now + min(longest, first * 2.0 ** min(writes.failed, 10))
        writes.failed += 1
        # It may have arrived all the same.
        writes.own.append(_content(patch.condition))
        self._end_patch(uid)

    def concede(self, patch: Patch) -> None:
        """Another manager writes the condition of this pod: it is theirs."""
        uid = patch.pod.uid
        if uid in self._under_way:
            self._under_way.discard(uid)
            self._conflicting.add(uid)
            self._conflicts_seen += 1

    def _end_patch(self, uid: str) -> None:
        self._under_way.discard(uid)
        self._dirty[uid] = None


def _due(base: Condition | None, desired: DesiredCondition, writes: _Writes, now: float) -> float:
    """When the pod should be patched; infinite when it says already what it should."""
    if base is not None and (base.status, base.reason) == (desired.status, desired.reason):
        if base.message == desired.message:
            return NEVER
        after = writes.at + MESSAGE_SECONDS if writes.last is not None else now
        return max(after, writes.retry_at)
    return max(now, writes.retry_at)


def _condition(desired: DesiredCondition, base: Condition | None, wall: str) -> Condition:
    same = base is not None and base.status == desired.status
    return Condition(
        type=CONDITION,
        status=desired.status,
        reason=desired.reason,
        message=desired.message,
        last_transition_time=(base.last_transition_time if same and base else None) or wall,
    )


def _content(condition: Condition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message


def _finished(pod: Pod) -> bool:
    return pod.terminating or pod.status.phase in ("Succeeded", "Failed")
