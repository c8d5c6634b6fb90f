"""Fallback: which hard constraints count as soft in this attempt (KEP-3990 rules S3, S8 to S16).

One instance per profile, made only while feature gate PodTopologySpreadFallbackMode is on.
PreFilter asks once per attempt (`decide`); everything else of the cycle reads what it said. The
queue's hints ask the same question outside of attempts, and answer Queue only when more constraints
would be soft than in the last attempt: so a flapping condition is no busy loop.

Invariant: without a pod's queue record (a trial run) nothing is remembered, recorded or counted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from plugins.pod_topology_spread.constraints import Constraints
from plugins.pod_topology_spread.criteria import (
    CriteriaEvaluator,
    CriterionResult,
    FallbackSpec,
    carried_by,
)
from plugins.pod_topology_spread.fallback_annotation import ANNOTATION
from plugins.pod_topology_spread.fallback_condition import (
    CONDITION,
    INVALID_ANNOTATION,
    condition_of,
    fallback_condition,
    persisted_since,
    persisted_soft_keys,
)
from plugins.pod_topology_spread.fallback_state import FallbackState, make_memory, memory_of
from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.framework import CycleState, Handle, PostFilterOutcome, QueuedPodInfo, plugin_names

GATE: Final = "PodTopologySpreadFallbackMode"
APPLIED_ANNOTATION: Final = "kubestow.io/topology-spread-fallback-applied"

EVENT_FALLBACK: Final = "TopologySpreadFallback"
EVENT_INVALID: Final = "InvalidTopologySpreadFallback"
ACTION: Final = "Scheduling"

FALLBACKS: Final = "scheduler_pod_topology_spread_fallback_total"
TIME_HINTS: Final = "scheduler_pod_topology_spread_fallback_time_hint_duration_seconds"
SCHEDULED: Final = "scheduler_pod_topology_spread_fallback_scheduled_total"

_NAME: Final = plugin_names.POD_TOPOLOGY_SPREAD
_NOTHING: Final = FallbackSpec({})
_LATCHED: Final = "kept soft while the pod is nominated"


@dataclass(frozen=True, slots=True)
class ConstraintDecision:
    """What was decided about one hard constraint that has criteria."""

    key: str
    findings: tuple[CriterionResult, ...]
    latched: bool

    @property
    def soft(self) -> bool:
        """Whether it counts as ScheduleAnyway: all criteria hold, or it is latched."""
        return self.latched or all(each.holds for each in self.findings)

    @property
    def reason(self) -> str:
        """Why it is soft, in words that do not change from attempt to attempt."""
        if all(each.holds for each in self.findings):
            return "+".join(each.criterion for each in self.findings)
        return _LATCHED

    @property
    def evidence(self) -> str:
        """Why it is soft, with what says so."""
        if not all(each.holds for each in self.findings):
            return _LATCHED
        return ", ".join(f"{each.criterion} ({each.evidence})" for each in self.findings)

    @property
    def awaited(self) -> str:
        """The criteria that do not hold."""
        return "+".join(each.criterion for each in self.findings if not each.holds)


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about one pod in one attempt."""

    carried: FallbackSpec
    rulings: tuple[ConstraintDecision, ...]

    @property
    def soft_keys(self) -> frozenset[str]:
        """Topology keys of the hard constraints that count as soft."""
        return frozenset(each.key for each in self.rulings if each.soft)


class Fallback:
    """Decides, remembers and tells. See the module's docstring."""

    def __init__(self, constraints: Constraints, handle: Handle, timeout: float | None) -> None:
        """`timeout` is `nodeProvisioningTimeout` in seconds, if it is set."""
        self._constraints = constraints
        self._handle = handle
        self._judge = CriteriaEvaluator(handle, timeout)
        self.timed = timeout is not None
        #: Queue records of pods with hard constraints or an annotation; not kept alive here.
        self._infos: WeakValueDictionary[str, QueuedPodInfo] = WeakValueDictionary()
        handle.subscriptions.on_bind(self._bound)

    # -- attempts --------------------------------------------------------------------------------

    def concerns(self, pod: Pod, *, hard: bool) -> bool:
        """Whether an attempt at the pod must be decided; `hard`: it has hard constraints."""
        return hard or ANNOTATION in pod.metadata.annotations

    def decide(self, state: CycleState, pod: Pod, hard_keys: Collection[str]) -> Decision:
        """The decision for an attempt. Nothing is soft before `apply`."""
        carried = self._carried(pod, hard_keys)
        info = state.info
        if info is None:
            info = self._infos.get(pod.uid)
            decision = self._rule(pod, info, carried, 0 if info is None else info.attempts)
            self._note(state, decision)
            return decision
        memory = make_memory(info)
        self._infos[pod.uid] = info
        ended = info.attempts - 1
        self._recall(pod, info, memory, carried, ended)
        decision = self._rule(pod, info, carried, ended)
        memory.attempt = info.attempts
        memory.invalid = carried.invalid
        memory.before, memory.soft = frozenset(memory.soft), {}
        memory.applied = False
        self._note(state, decision)
        self._warn(pod, memory, carried)
        return decision

    def apply(self, state: CycleState, pod: Pod, decision: Decision) -> None:
        """The attempt treats what was decided as soft from now on."""
        state.set_variant(_NAME, decision.soft_keys)
        info = state.info
        if info is None:
            return
        memory = make_memory(info)
        memory.soft = {each.key: each.reason for each in decision.rulings if each.soft}
        memory.applied = True
        state.annotate_binding({APPLIED_ANNOTATION: ",".join(sorted(memory.soft))})
        for each in decision.rulings:
            if each.soft and each.key not in memory.before:
                self._tell(pod, each)

    # -- hints -----------------------------------------------------------------------------------

    def grows(self, pod: Pod) -> bool:
        """Whether an attempt now would treat more constraints as soft than the last one did."""
        info = self._infos.get(pod.uid)
        if info is None:
            return False
        memory = make_memory(info)
        carried = carried_by(pod, self._constraints)
        if carried is None:
            return False
        self._observe(info, memory)
        decision = self._rule(pod, info, carried, info.attempts)
        return not decision.soft_keys <= memory.soft.keys()

    def grows_with_time(self, pod: Pod) -> bool:
        """As `grows`, at a tick of the clock; measured."""
        started = self._handle.clock.monotonic()
        grows = self.grows(pod)
        took = self._handle.clock.monotonic() - started
        self._handle.metrics.observe(TIME_HINTS, value=took)
        return grows

    def repaired(self, pod: Pod) -> bool:
        """Whether the annotation was invalid in the last attempt and no longer is."""
        info = self._infos.get(pod.uid)
        if info is None or not make_memory(info).invalid:
            return False
        carried = carried_by(pod, self._constraints)
        return carried is None or not carried.invalid

    # -- what people see -------------------------------------------------------------------------

    def conditions(self, pod: Pod, info: QueuedPodInfo) -> Sequence[Condition]:
        """The pod's own condition (rule S15)."""
        memory = memory_of(info)
        if memory is None:
            return ()
        self._observe(info, memory)
        carried = carried_by(pod, self._constraints) or _NOTHING
        idle = not memory.soft and not memory.invalid
        if idle and (memory.since_wall is None or not (carried.criteria or _shown(pod))):
            return ()
        rulings = self._rule(pod, info, carried, info.attempts).rulings
        awaited = {each.key: each.awaited for each in rulings if each.key not in memory.soft}
        since, invalid = memory.since_wall, memory.invalid
        return (fallback_condition(memory.soft, awaited, since, invalid=invalid),)

    def explain(self, pod: Pod) -> Sequence[str]:
        """One line per hard constraint that has criteria, and one for a bad annotation."""
        carried = carried_by(pod, self._constraints)
        if carried is None:
            return ()
        info = self._infos.get(pod.uid)
        decision = self._rule(pod, info, carried, 0 if info is None else info.attempts)
        lines = [_line(each) for each in decision.rulings]
        if carried.invalid:
            lines.append(f"the annotation is ignored as a whole: {carried.invalid}")
        return tuple(lines)

    # -- deciding --------------------------------------------------------------------------------

    def _carried(self, pod: Pod, hard_keys: Collection[str]) -> FallbackSpec:
        carried = carried_by(pod, self._constraints)
        if carried is None:
            return _NOTHING
        # Default constraints may come to nothing, for a pod that no Service selects.
        criteria = {key: each for key, each in carried.criteria.items() if key in hard_keys}
        return carried._replace(criteria=criteria)

    def _rule(
        self, pod: Pod, info: QueuedPodInfo | None, carried: FallbackSpec, ended: int
    ) -> Decision:
        latch = self._latch(pod, info)
        return Decision(
            carried,
            tuple(
                ConstraintDecision(
                    key, self._judge.findings(pod, info, criteria, ended), key in latch
                )
                for key, criteria in carried.criteria.items()
            ),
        )

    def _latch(self, pod: Pod, info: QueuedPodInfo | None) -> frozenset[str]:
        """Keys that stay soft because preemption nominated a node while they were (rule S11)."""
        memory = None if info is None else memory_of(info)
        if info is None or memory is None:
            return frozenset()
        node = self._handle.nominator.node_of(pod.uid)
        if memory.latch_node and memory.latch_node == node:
            return memory.latch
        if node and info.post_filter is PostFilterOutcome.NOMINATED:
            return frozenset(memory.soft)
        return frozenset()

    def _recall(
        self,
        pod: Pod,
        info: QueuedPodInfo,
        memory: FallbackState,
        carried: FallbackSpec,
        ended: int,
    ) -> None:
        """Bring the memory up to date with what happened since the last attempt."""
        self._observe(info, memory)
        if ended <= 0 and not memory.attempt:
            self._restore(pod, info, memory, tuple(carried.criteria))
        if memory.gate_openings != info.gate_openings:
            # What came of the attempts before the gate says nothing about now.
            memory.gate_openings, memory.attempt = info.gate_openings, 0
        latch = self._latch(pod, info)
        node = self._handle.nominator.node_of(pod.uid)
        memory.latch, memory.latch_node = latch, node if latch else ""

    def _restore(
        self, pod: Pod, info: QueuedPodInfo, memory: FallbackState, keys: Sequence[str]
    ) -> None:
        """Take over from the process before: T0 and latch (rules S5, S11, S15)."""
        condition = condition_of(pod, CONDITION)
        since = persisted_since(condition)
        if since is not None and not info.gate_openings:
            self._begin_wait(memory, since)
        nominated = pod.status.nominated_node_name
        if nominated:
            memory.latch = persisted_soft_keys(condition, keys)
            memory.latch_node = nominated if memory.latch else ""

    def _observe(self, info: QueuedPodInfo, memory: FallbackState) -> None:
        """Set T0 after the first rejection; forget it once a gate has held the pod again (S5)."""
        if info.gate_openings != memory.gate_openings and memory.attempt:
            memory.since_wall = None
        elif _NAME in info.unschedulable_plugins and not info.gated and memory.attempt:
            self._begin_wait(memory, info.timestamp)

    def _begin_wait(self, memory: FallbackState, since: float) -> None:
        clock = self._handle.clock
        memory.begin_wait(since, now_wall=clock.now(), now_monotonic=clock.monotonic())

    # -- telling ---------------------------------------------------------------------------------

    def _note(self, state: CycleState, decision: Decision) -> None:
        soft = [each.key for each in decision.rulings if each.soft]
        hard = [f"{each.key}: {each.awaited}" for each in decision.rulings if not each.soft]
        if soft:
            state.note_failure(f"fallback active for: {', '.join(soft)}")
        if hard:
            text = f"fallback waits for: {', '.join(hard)}"
            state.note_failure(text, if_rejected_by=_NAME)
            # Where CPU turns down every node, spreading may be all that is in preemption's way.
            state.count_preemption_rejections(_NAME)

    def _warn(self, pod: Pod, memory: FallbackState, carried: FallbackSpec) -> None:
        texts = [
            f'topology key "{key}": the annotation differs from the field fallbackCriteria; '
            "the field counts"
            for key in carried.overruled
        ]
        if carried.invalid:
            effect = "the annotation is ignored" if carried.criteria else "the pod stays strict"
            texts.append(f"{carried.invalid}; {effect}")
        known = condition_of(pod, CONDITION)
        shown = "" if known is None or known.reason != INVALID_ANNOTATION else known.message
        for text in texts:
            if carried.invalid and shown.endswith(carried.invalid):
                # Said by the process before.
                memory.warned.add(text)
            if text not in memory.warned:
                memory.warned.add(text)
                self._handle.events.record(pod, "Warning", EVENT_INVALID, ACTION, text)

    def _tell(self, pod: Pod, ruling: ConstraintDecision) -> None:
        note = (
            f"topologySpreadConstraints[{ruling.key}] treated as ScheduleAnyway: {ruling.evidence}"
        )
        self._handle.events.record(pod, "Normal", EVENT_FALLBACK, ACTION, note)
        for each in ruling.findings:
            self._handle.metrics.count(FALLBACKS, each.criterion, self._handle.profile_name)

    def _bound(self, pod: Pod, node_name: str) -> None:
        info = self._infos.get(pod.uid)
        if info is None:
            return
        memory = memory_of(info)
        if memory is not None and memory.applied:
            memory.applied = False
            self._handle.metrics.count(SCHEDULED, self._handle.profile_name)


def _shown(pod: Pod) -> bool:
    """Whether the pod has the condition, so that it must be kept true."""
    return condition_of(pod, CONDITION) is not None


def _line(ruling: ConstraintDecision) -> str:
    state = "soft" if ruling.soft else "hard"
    if ruling.latched:
        state += f" ({_LATCHED})"
    said = ", ".join(
        f"{each.criterion} {'true' if each.holds else 'false'} ({each.evidence})"
        for each in ruling.findings
    )
    return f"{ruling.key}: {state}: {said}"
