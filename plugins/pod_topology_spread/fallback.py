"""Fallback of hard constraints to soft ones (KEP-3990); rules in docs/topology-spread-fallback.md.

One instance per profile, created only while feature gate PodTopologySpreadFallbackMode is on. It
collects the facts for `decision.decide`, applies the decision to the attempt, and reports it in
events, metrics and the pod's condition. PreFilter decides once per attempt (rule S8). The queueing
hints decide again outside of attempts and return QUEUE only if more constraints would be soft than
in the last attempt, so a flapping condition causes no busy loop.

Invariant: without a pod's queue record (a trial run) nothing is stored, recorded or counted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final
from weakref import WeakValueDictionary

from plugins.pod_topology_spread.constraints import Constraints
from plugins.pod_topology_spread.criteria import FallbackSpec, fallback_spec
from plugins.pod_topology_spread.decision import ConstraintDecision, Facts, SpreadDecision, decide
from plugins.pod_topology_spread.fallback_condition import (
    CONDITION,
    INVALID_ANNOTATION,
    condition_of,
    fallback_condition,
)
from plugins.pod_topology_spread.fallback_state import FallbackState, ensure_state, state_of
from scheduler.api.meta import Condition
from scheduler.api.pod import Pod
from scheduler.framework import CycleState, Handle, QueuedPodInfo, plugin_names

GATE: Final = "PodTopologySpreadFallbackMode"
APPLIED_ANNOTATION: Final = "kubestow.io/topology-spread-fallback-applied"

EVENT_FALLBACK: Final = "TopologySpreadFallback"
EVENT_INVALID: Final = "InvalidTopologySpreadFallback"
ACTION: Final = "Scheduling"

FALLBACKS: Final = "scheduler_pod_topology_spread_fallback_total"
TIME_HINTS: Final = "scheduler_pod_topology_spread_fallback_time_hint_duration_seconds"
SCHEDULED: Final = "scheduler_pod_topology_spread_fallback_scheduled_total"

_NAME: Final = plugin_names.POD_TOPOLOGY_SPREAD


class Fallback:
    """Collects facts, applies decisions and reports them. See the module's docstring."""

    def __init__(self, constraints: Constraints, handle: Handle, timeout: float | None) -> None:
        """`timeout` is `nodeProvisioningTimeout` in seconds, None if it is not set."""
        self._constraints = constraints
        self._handle = handle
        self._timeout = timeout
        self.timed = timeout is not None
        #: Queue records of pods with hard constraints or an annotation; weak references.
        self._infos: WeakValueDictionary[str, QueuedPodInfo] = WeakValueDictionary()
        handle.subscriptions.on_bind(self._count_bound)

    # -- attempts --------------------------------------------------------------------------------

    def decide_attempt(
        self, state: CycleState, pod: Pod, hard_keys: Collection[str]
    ) -> SpreadDecision:
        """Decide for an attempt. Nothing is soft before `apply`."""
        spec = self._spec(pod)
        if spec.criteria:
            # Default constraints do not apply to a pod without Services and controller.
            applying = {key: each for key, each in spec.criteria.items() if key in hard_keys}
            spec = spec._replace(criteria=applying)
        info = state.info
        if info is None:
            decision = self._decide(pod, self._infos.get(pod.uid), spec)
            self._note(state, decision)
            return decision
        self._infos[pod.uid] = info
        known = ensure_state(info)
        node = self._handle.nominator.node_of(pod.uid)
        known.start_attempt(pod, info, tuple(spec.criteria), node, self._handle.clock)
        decision = self._decide(pod, info, spec, completed=info.attempts - 1)
        known.attempt = info.attempts
        known.invalid = spec.invalid
        known.previously_soft, known.soft = frozenset(known.soft), {}
        known.applied = False
        self._note(state, decision)
        self._warn(pod, known, spec)
        return decision

    def apply(self, state: CycleState, pod: Pod, decision: SpreadDecision) -> None:
        """Treat the soft constraints of the decision as soft for the rest of the attempt."""
        state.set_variant(_NAME, decision.soft_keys)
        info = state.info
        if info is None:
            return
        known = ensure_state(info)
        soft = [each for each in decision.constraints if each.soft]
        known.soft = {each.key: each.reason for each in soft}
        known.applied = True
        state.annotate_binding({APPLIED_ANNOTATION: ",".join(sorted(known.soft))})
        for each in soft:
            if each.key not in known.previously_soft:
                self._report(pod, each)

    # -- hints -----------------------------------------------------------------------------------

    def grows(self, pod: Pod) -> bool:
        """Whether an attempt now would treat more constraints as soft than the last one did."""
        info = self._infos.get(pod.uid)
        if info is None:
            return False
        spec = self._spec(pod)
        if not spec.criteria:
            return False
        known = ensure_state(info)
        known.observe(info, self._handle.clock)
        return not self._decide(pod, info, spec).soft_keys <= known.soft.keys()

    def grows_with_time(self, pod: Pod) -> bool:
        """Do as `grows` for a tick of the clock; measure its duration."""
        clock = self._handle.clock
        started = clock.monotonic()
        grows = self.grows(pod)
        self._handle.metrics.observe(TIME_HINTS, value=clock.monotonic() - started)
        return grows

    def repaired(self, pod: Pod) -> bool:
        """Whether the annotation was invalid in the last attempt and no longer is."""
        info = self._infos.get(pod.uid)
        known = None if info is None else state_of(info)
        return known is not None and bool(known.invalid) and not self._spec(pod).invalid

    # -- condition and explanation ---------------------------------------------------------------

    def conditions(self, pod: Pod, info: QueuedPodInfo) -> Sequence[Condition]:
        """Return the pod's condition `kubestow.io/TopologySpreadFallback` (rule S15), if any."""
        known = state_of(info)
        if known is None:
            return ()
        known.observe(info, self._handle.clock)
        spec = self._spec(pod)
        since = known.since_wall
        if not known.soft and not known.invalid:
            # A condition written before must be kept up to date.
            concerned = spec.criteria or condition_of(pod, CONDITION) is not None
            if since is None or not concerned:
                return ()
        constraints = self._decide(pod, info, spec).constraints
        awaited = {each.key: each.awaited for each in constraints if each.key not in known.soft}
        return (fallback_condition(known.soft, awaited, since, invalid=known.invalid),)

    def explain(self, pod: Pod) -> Sequence[str]:
        """Return a line per hard constraint with criteria, and one for an invalid annotation."""
        spec = self._spec(pod)
        lines = [
            str(each) for each in self._decide(pod, self._infos.get(pod.uid), spec).constraints
        ]
        if spec.invalid:
            lines.append(f"the annotation is ignored as a whole: {spec.invalid}")
        return tuple(lines)

    # -- facts -----------------------------------------------------------------------------------

    def _spec(self, pod: Pod) -> FallbackSpec:
        return fallback_spec(pod, self._constraints.written(pod))

    def _decide(
        self,
        pod: Pod,
        info: QueuedPodInfo | None,
        spec: FallbackSpec,
        completed: int | None = None,
    ) -> SpreadDecision:
        """Decide by the present facts; `completed` attempts are over, by default all of `info`."""
        node = self._handle.nominator.node_of(pod.uid)
        if info is None:
            return decide(Facts(pod, spec, self._timeout, nominated_node=node))
        known = state_of(info) or FallbackState()
        facts = Facts(
            pod=pod,
            spec=spec,
            timeout=self._timeout,
            waited=known.waited(self._handle.clock),
            completed=info.attempts if completed is None else completed,
            last_evaluated=known.attempt if known.gate_openings == info.gate_openings else 0,
            post_filter=info.post_filter,
            nominated_node=node,
            latched=known.latched_keys(node, info.post_filter),
        )
        return decide(facts)

    # -- effects ---------------------------------------------------------------------------------

    def _note(self, state: CycleState, decision: SpreadDecision) -> None:
        """Add the state of the fallback to the message of a failed attempt."""
        soft = [each.key for each in decision.constraints if each.soft]
        hard = [f"{each.key}: {each.awaited}" for each in decision.constraints if not each.soft]
        if soft:
            state.note_failure(f"fallback active for: {', '.join(soft)}")
        if hard:
            text = f"fallback waits for: {', '.join(hard)}"
            state.note_failure(text, if_rejected_by=_NAME)
            # Where CPU rejects every node, topology spread may still be what prevents preemption.
            state.count_preemption_rejections(_NAME)

    def _warn(self, pod: Pod, known: FallbackState, spec: FallbackSpec) -> None:
        """Record one warning event for each problem of the annotation."""
        texts = [
            f'topology key "{key}": the annotation differs from the field fallbackCriteria; '
            "the field counts"
            for key in spec.overruled
        ]
        if spec.invalid:
            effect = "the annotation is ignored" if spec.criteria else "the pod stays strict"
            texts.append(f"{spec.invalid}; {effect}")
        condition = condition_of(pod, CONDITION)
        if (
            spec.invalid
            and condition is not None
            and condition.reason == INVALID_ANNOTATION
            and condition.message.endswith(spec.invalid)
        ):
            # The process before this one has recorded the event.
            known.warned.update(texts)
        for text in texts:
            if text not in known.warned:
                known.warned.add(text)
                self._handle.events.record(pod, "Warning", EVENT_INVALID, ACTION, text)

    def _report(self, pod: Pod, constraint: ConstraintDecision) -> None:
        note = (
            f"topologySpreadConstraints[{constraint.key}] treated as ScheduleAnyway: "
            f"{constraint.evidence}"
        )
        self._handle.events.record(pod, "Normal", EVENT_FALLBACK, ACTION, note)
        for each in constraint.results:
            self._handle.metrics.count(FALLBACKS, each.criterion, self._handle.profile_name)

    def _count_bound(self, pod: Pod, node_name: str) -> None:
        """Count a pod that was bound in an attempt that relied on the fallback."""
        info = self._infos.get(pod.uid)
        known = None if info is None else state_of(info)
        if known is not None and known.applied:
            known.applied = False
            self._handle.metrics.count(SCHEDULED, self._handle.profile_name)
