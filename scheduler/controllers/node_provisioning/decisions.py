"""Decisions of the bridge: events and pods go in, patches of one condition come out.

Pure: no I/O, no clock. Invariants: at most one patch per pod is under way; a pod is patched when
status or reason change, and for its message at most once a minute; a pod that has a node, is gated,
finished or terminating is not patched; a condition that another manager may have written is not
overwritten before its manager was read from the server (`Patch.verify`).
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
"""Seconds between two patches of a pod that change its message only."""

MAX_CONFLICTS: Final = 3
"""Pods with another writer after which the bridge ends for good."""

RETRY_SECONDS: Final = (1.0, 60.0)
"""First and longest delay after a failed patch; doubled in between."""

OWN_WRITES: Final = 8
"""Latest conditions of a pod that are recognised as our own when the watch delivers them."""

MAX_IN_FLIGHT: Final = 2
"""Concurrent patches. Few, since they share slots with those of PodScheduled, without which no
autoscaler sees a pod; and a pod that waits here is evaluated anew when its turn comes."""

MAX_TARGETS: Final = 10_000
"""Failed node groups and claims remembered before those past the deadline are dropped."""

NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Patch:
    """One condition to write; with `verify`, only if no other manager writes it.

    `seen_without`: the pod had no such condition while we led, so a condition that we did not write
    is not ours, whatever its reason.
    """

    pod: Pod
    condition: Condition
    source: str
    verify: bool
    seen_without: bool = False


@dataclass(frozen=True, slots=True)
class DuePatches:
    """The patches to write now, and when to plan again if nothing happens before."""

    patches: tuple[Patch, ...]
    wake: float


@dataclass(slots=True)
class _Writes:
    """Our writes of one pod's condition."""

    last: Condition | None = None
    at: float = 0.0
    own: deque[tuple[str, str, str]] = field(default_factory=lambda: deque(maxlen=OWN_WRITES))
    failed: int = 0
    retry_at: float = 0.0


@dataclass(frozen=True, slots=True)
class DecisionStatistics:
    """Current sizes and counters."""

    pods: int
    wanted: int
    signals: int
    failed_targets: int
    under_way: int
    conflicting_managers: int


class Decisions:
    """State of the bridge. Touched from one event loop; times are monotonic, in seconds."""

    def __init__(
        self,
        *,
        names: Collection[str],
        wanted: Callable[[Pod], bool],
        status: StatusObject | None = None,
        limits: Limits | None = None,
        backs_off: bool = True,
    ) -> None:
        """Start without pods and events.

        Args:
            names: our scheduler names; other pods are never touched.
            wanted: whether a pod needs the condition.
            status: the ConfigMap of cluster-autoscaler's events about node groups.
            limits: when a promise of nodes counts as broken.
            backs_off: whether the bridge stops for another manager of the condition.
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
        #: Whether Karpenter promised nodes for some pod, so that node claims exist.
        self.karpenter_promised = False
        self._writes: dict[str, _Writes] = {}
        self._conflicting: set[str] = set()
        #: Number of pods left to another manager so far.
        self.conflicting_managers = 0
        self._under_way: set[str] = set()
        # Pods seen without the condition since we lead, that is, since the first plan.
        self._leading = False
        self._seen_without: set[str] = set()
        # Pods to evaluate, in the order in which they changed.
        self._dirty: dict[str, None] = {}
        self._timers: list[tuple[float, str]] = []
        # The earliest timer of each pod: a later one is only set after that has fired.
        self._timer_of: dict[str, float] = {}

    @property
    def needed(self) -> bool:
        """Whether some pending pod needs the condition."""
        return bool(self._wanted)

    @property
    def stopped(self) -> bool:
        """Whether another manager evidently writes the condition in this cluster."""
        return self.conflicting_managers >= MAX_CONFLICTS

    @property
    def has_work(self) -> bool:
        """Whether `plan` has pods to evaluate, timers aside."""
        return bool(self._dirty)

    def statistics(self) -> DecisionStatistics:
        """Return current sizes and counters."""
        return DecisionStatistics(
            pods=len(self._pods),
            wanted=len(self._wanted),
            signals=sum(map(len, self._observed.values())),
            failed_targets=len(self._evidence.failures),
            under_way=len(self._under_way),
            conflicting_managers=self.conflicting_managers,
        )

    # -- pods --------------------------------------------------------------------------------------

    def pod_changed(self, pod: Pod) -> None:
        """Take in a new or changed pod."""
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
        """Drop a pod that is deleted, bound or replaced."""
        self._pods.pop(uid, None)
        self._observed.pop(uid, None)
        self._writes.pop(uid, None)
        self._timer_of.pop(uid, None)
        self._dirty.pop(uid, None)
        for uids in (self._wanted, self._conflicting, self._under_way, self._seen_without):
            uids.discard(uid)

    # -- events ------------------------------------------------------------------------------------

    def event_changed(self, event: CoreEvent, now: float, age: float = 0.0) -> Signal | None:
        """Take in an event that changed `age` seconds ago; return its signal, if it has one."""
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
        """Take in a new node, which may be an autoscaler's; `time` is wall, `since` monotonic."""
        for source in SUSPECT_WINDOWS:
            self._add_scale_up(ScaleUp(source, "", time), since)

    def claim_created(self, name: str, time: float, since: float) -> None:
        """Take in a node claim that Karpenter created."""
        self._add_scale_up(ScaleUp(KARPENTER, name, time), since)

    def claim_deleted(self, name: str, time: float, since: float) -> None:
        """Take in a deletion, which is how Karpenter abandons a machine that never comes."""
        message = f"node claim {name} was deleted"
        self._add_failure(TargetFailure(KARPENTER, name, time, message), since)

    def _add_scale_up(self, scale_up: ScaleUp, since: float) -> None:
        # No pod needs an evaluation now: a scale-up only extends what a pod's timer will find.
        self._evidence.scale_ups.add(scale_up, since, self._limits.provisioning_deadline)

    def _add_failure(self, failure: TargetFailure, since: float) -> None:
        failures = self._evidence.failures
        if len(failures) >= MAX_TARGETS:
            failures.forget_before(since - self._limits.provisioning_deadline)
        failures.add(failure, since)
        for uid, by_source in self._observed.items():
            observed = by_source.get(failure.source)
            # The target may also be one requested after the failure of the pod's own targets.
            if observed is not None and observed.newest.provisioning:
                self._dirty[uid] = None

    def _observe(self, signal: PodSignal, since: float) -> None:
        if signal.source == KARPENTER and signal.provisioning:
            self.karpenter_promised = True
        # Kept for unknown pods too: their watch may lag behind that of events.
        by_source = self._observed.setdefault(signal.uid, {})
        observed = by_source.get(signal.source)
        if observed is None:
            by_source[signal.source] = ObservedSignal(signal, since)
        elif not observed.add(signal, since):
            return
        self._dirty[signal.uid] = None

    def event_deleted(self, event: CoreEvent) -> None:
        """Drop an expired event of an unknown pod; for a pending pod it remains true."""
        uid = event.involved_object.uid
        if uid not in self._pods:
            self._observed.pop(uid, None)
            self._dirty.pop(uid, None)

    def forget_events(self) -> None:
        """Drop all events: the watches have ended, and new ones begin with a full list."""
        self._observed.clear()
        self._evidence = Evidence(Failures(), ScaleUps())
        self.karpenter_promised = False
        self._dirty.clear()
        self._timers.clear()
        self._timer_of.clear()

    # -- patches -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Forget patches under way, whose outcome will not be reported after a restart."""
        self._under_way.clear()

    def plan(self, now: float, wall: str) -> DuePatches:
        """Return the patches to write now; `wall` (RFC 3339) stamps transitions.

        At most `MAX_IN_FLIGHT` are under way. The outcome of each must be reported by `written`,
        `failed`, `concede` or `forget`.
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
            return None  # evaluated again when the outcome of its patch is reported
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
        """Record a successful patch."""
        uid = patch.pod.uid
        if uid not in self._under_way:
            return  # forgotten meanwhile
        writes = self._writes.setdefault(uid, _Writes())
        writes.last, writes.at, writes.failed, writes.retry_at = patch.condition, now, 0, 0.0
        writes.own.append(_content(patch.condition))
        self._end_patch(uid)

    def failed(self, patch: Patch, now: float) -> None:
        """Record a patch that was not sent, or that the server rejected for now."""
        uid = patch.pod.uid
        if uid not in self._under_way:
            return
        writes = self._writes.setdefault(uid, _Writes())
        first, longest = RETRY_SECONDS
        writes.retry_at = now + min(longest, first * 2.0 ** min(writes.failed, 10))
        writes.failed += 1
        # The server may have applied it all the same.
        writes.own.append(_content(patch.condition))
        self._end_patch(uid)

    def concede(self, patch: Patch) -> None:
        """Leave the condition of this pod to the manager that writes it."""
        uid = patch.pod.uid
        if uid in self._under_way:
            self._under_way.discard(uid)
            self._conflicting.add(uid)
            self.conflicting_managers += 1

    def _end_patch(self, uid: str) -> None:
        self._under_way.discard(uid)
        self._dirty[uid] = None


def _due(base: Condition | None, desired: DesiredCondition, writes: _Writes, now: float) -> float:
    """Return when to patch the pod; infinite if its condition is as desired."""
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
