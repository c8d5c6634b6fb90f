"""DefaultPreemption: evicts pods of lower priority for a pod that fits on no node.

Upstream: `default_preemption.go` and `preemption/executor.go`. The plugin decides which pods may
preempt and carries out the decision; the engine searches for victims (`Handle.preemption`).
Evictions run in the background: PostFilter returns the nominated node at once, and PreEnqueue keeps
the pod out of the active queue until the last victim is terminating. An event that helps the pod
meanwhile has no effect, so the gate must open by itself: with the deletion of the last victim, and
else after `RECHECK_AFTER`.

`preemption_loops` ends what would go on for ever with another scheduler.

Differences from upstream: by default only pods of this process's own profiles are victims
(`victimSchedulers`); deletions carry the victim's UID, so a new pod of the same name is safe;
with the feature gate SchedulerAsyncPreemption off, evictions still run in the background, but
PreEnqueue does not hold the pod.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Final, Literal

from plugins.arguments import Arguments, require_valid
from plugins.evictions import (
    DISRUPTION_TARGET,
    EVENT_ACTION,
    PREEMPTION_BY_SCHEDULER,
    Evictions,
    Preemptor,
)
from plugins.preemption_loops import (
    EVENT_REASON,
    LOOPS,
    METRICS,
    LoopMemory,
    ensure_memory,
    known_memory,
    recall,
)
from plugins.queueing_hints import queue_if
from scheduler.api.pod import Pod
from scheduler.framework import (
    CLEAR_NOMINATION,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Code,
    CycleState,
    EventResource,
    Handle,
    Metric,
    NodeToStatus,
    NominatingInfo,
    Permission,
    PostFilterOutcome,
    PostFilterResult,
    QueuedPodInfo,
    QueueingHint,
    Status,
    error,
    plugin_names,
    unresolvable,
    unschedulable,
)
from scheduler.framework.field_errors import invalid
from scheduler.framework.preemption import (
    Candidate,
    Harm,
    PreemptionFinding,
    PreemptionRules,
)

PREFIX: Final = "preemption: "
NEVER: Final = "not eligible due to preemptionPolicy=Never."
FOUND: Final = "found a potential placement for pod on node {}, preempting {} victims"
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
WAITING: Final = "waiting for the preemption for this pod to be finished"

RECHECK_AFTER: Final = 1.0
"""Seconds after which the gate is looked at again; evictions take much less, as a rule."""

NOT_EVICTED: Final = (
    "pods of lower priority that other schedulers placed are not evicted for it: {pods}; the "
    "argument victimSchedulers: All would allow that"
)
NOT_PERMITTED: Final = "the scheduler may not {} {}"
_NONE_PREEMPTED: Final = "no pod is preempted"
_NEEDS: Final = (("list", "poddisruptionbudgets"), ("delete", "pods"))

_GATE: Final = "SchedulerAsyncPreemption"
_POLICY_NEVER: Final = "Never"
_PERCENT: Final = 100


class DefaultPreemptionArgs(Arguments):
    """Arguments of DefaultPreemption. The first two are upstream's, with its defaults."""

    min_candidate_nodes_percentage: int = 10
    """Percentage of the potential nodes on which to search for victims, 0 to 100."""

    min_candidate_nodes_absolute: int = 100
    """Minimum number of nodes to search, 0 or more. Both fields zero is an error."""

    victim_schedulers: Literal["Own", "All"] = "Own"
    """`Own`: only pods whose schedulerName is a profile of this process. `All`: as upstream."""


class _UnderWay:
    """Evictions under way, of all profiles."""

    def __init__(self) -> None:
        #: UIDs of pods with evictions under way, except those whose last victim is terminating.
        self.held: set[str] = set()
        #: UID of each pod whose last victim is being evicted, to that victim.
        self.last_victims: dict[str, Pod] = {}
        #: Inverse: UID of the victim to the UIDs of the pods.
        self.pods_by_last_victim: dict[str, set[str]] = {}


class DefaultPreemption:
    """Preempts pods of lower priority."""

    name: ClassVar[str] = plugin_names.DEFAULT_PREEMPTION
    args_type: ClassVar[type[DefaultPreemptionArgs]] = DefaultPreemptionArgs
    required_resources: ClassVar[tuple[str, ...]] = ("poddisruptionbudgets",)
    optional_resources: ClassVar[Mapping[str, str]] = {"poddisruptionbudgets": _NONE_PREEMPTED}
    permissions: ClassVar[tuple[Permission, ...]] = (
        Permission(
            resource="pods",
            verbs=("delete",),
            purpose="DefaultPreemption: removing victims, with a UID precondition",
            without=_NONE_PREEMPTED,
        ),
    )
    metrics: ClassVar[tuple[Metric, ...]] = METRICS
    memory_type: ClassVar[type[LoopMemory]] = LoopMemory
    #: PostFilter awaits extenders only, and each extender has its own timeout.
    timeout: ClassVar[float] = math.inf

    def __init__(self, args: DefaultPreemptionArgs | None, handle: Handle) -> None:
        args = args or DefaultPreemptionArgs()
        require_valid(self.validate_args(args))
        self._handle = handle
        self._asynchronous = handle.feature_gates.get(_GATE, True)
        #: Arguments of the search; public for inspection of its dry runs.
        self.rules = PreemptionRules(
            args.min_candidate_nodes_percentage,
            args.min_candidate_nodes_absolute,
            own_victims_only=args.victim_schedulers == "Own",
        )
        self._evictions = Evictions(handle)
        # Shared, because evictions go on when another instance replaces this one.
        under_way = handle.shared(self.name, _UnderWay)
        self._held = under_way.held
        self._last_victims = under_way.last_victims
        self._pods_by_last_victim = under_way.pods_by_last_victim

    @staticmethod
    def validate_args(args: DefaultPreemptionArgs) -> Iterator[tuple[str, str]]:
        """Require both numbers in range, and not both zero."""
        percentage = args.min_candidate_nodes_percentage
        absolute = args.min_candidate_nodes_absolute
        first, second = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
        if not 0 <= percentage <= _PERCENT:
            yield first, invalid(percentage, "not in valid range [0, 100]")
        if absolute < 0:
            yield second, invalid(absolute, "not in valid range [0, inf)")
        if not percentage and not absolute:
            zero = "cannot be zero at the same time as {}"
            yield first, invalid(percentage, zero.format(second))
            yield second, invalid(absolute, zero.format(first))

    # -- PreEnqueue ------------------------------------------------------------------------------

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold the pod until all its victims are terminating."""
        if not self._is_waiting(pod.metadata.uid):
            return None
        return unresolvable(WAITING, requeue_after=RECHECK_AFTER)

    def held(self, changed: object) -> AbstractSet[str]:
        """UIDs of the held pods, except those whose last victim is `changed` and terminating.

        Only `changed` is checked: once the API server has confirmed an eviction, the pods that
        waited for that victim are released anyway.
        """
        if isinstance(changed, Pod):
            for uid in self._pods_by_last_victim.get(changed.metadata.uid, ()):
                if not self._is_waiting(uid):
                    self._held.discard(uid)
        return self._held

    def _is_waiting(self, uid: str) -> bool:
        last = self._last_victims.get(uid)
        if last is None:
            return uid in self._held
        latest = self._latest(last)
        return latest is not None and not latest.terminating

    def _wait_for_last_victim(self, uid: str, last: Pod) -> None:
        """Hold the pod until its last victim is terminating."""
        self._stop_waiting(uid)
        self._last_victims[uid] = last
        self._pods_by_last_victim.setdefault(last.metadata.uid, set()).add(uid)
        if self._is_waiting(uid):
            self._held.add(uid)

    def _stop_waiting(self, uid: str) -> None:
        self._held.discard(uid)
        last = self._last_victims.pop(uid, None)
        if last is not None:
            waiting = self._pods_by_last_victim[last.metadata.uid]
            waiting.discard(uid)
            if not waiting:
                del self._pods_by_last_victim[last.metadata.uid]

    # -- kubestow explain ------------------------------------------------------------------------

    def explain(self, pod: Pod) -> list[str]:
        """Return that pods of other schedulers would have to go, which nobody here evicts."""
        if not self.rules.own_victims_only or pod.spec.preemption_policy == _POLICY_NEVER:
            return []
        others = self._handle.preemption.others_below(pod)
        if not others:
            return []
        names = ", ".join(f"{count} of {name}" for name, count in sorted(others.items()))
        return [NOT_EVICTED.format(pods=names)]

    # -- PostFilter ------------------------------------------------------------------------------

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus
    ) -> PostFilterResult | Coroutine[Any, Any, PostFilterResult]:
        """Find victims, start their evictions, and nominate the node.

        Returns a coroutine if extenders take part in the choice of victims.
        """
        if missing := self.missing_permission():
            return PostFilterResult(unschedulable(f"{PREFIX}{missing}"))
        victims: int | None = 0
        try:
            latest = self._latest(pod)
            if latest is None:
                return PostFilterResult(error(f'{PREFIX}pod "{pod.metadata.name}" not found'))
            ineligible = self._ineligible(latest, statuses)
            if ineligible is not None:
                return ineligible
            finding = self._handle.preemption.find(state, latest, statuses, self.rules)
            if finding.pending is not None:
                victims = None
                return self._apply_pending(latest, finding.pending, state)
            state.preemption_rejectors = finding.rejectors
            victims, result = self._apply(latest, finding, state)
            return result
        finally:
            if victims is not None:
                self._handle.preemption.observe(victims)

    def find_victims(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, harm: Harm | None = None
    ) -> Candidate | None:
        """Find the victims that `post_filter` would evict; evict none (`DryRunPostFilterPlugin`).

        Extenders, which may drop candidates, are not asked.
        """
        latest = self._latest(pod)
        if latest is None or self.missing_permission():
            return None
        if self._ineligible(latest, statuses) is not None:
            return None
        finding = self._handle.preemption.find(state, latest, statuses, self.rules, harm)
        if finding.pending is not None:
            finding.pending.close()
        chosen = finding.chosen
        return None if chosen is None or self._stopped(chosen, state) else chosen

    async def _apply_pending(
        self,
        pod: Pod,
        pending: Coroutine[Any, Any, PreemptionFinding],
        state: CycleState,
    ) -> PostFilterResult:
        victims = 0
        try:
            victims, result = self._apply(pod, await pending, state)
            return result
        finally:
            self._handle.preemption.observe(victims)

    def _apply(
        self, pod: Pod, finding: PreemptionFinding, state: CycleState
    ) -> tuple[int, PostFilterResult]:
        """Apply a finding; return the number of victims and the result."""
        if finding.chosen is None:
            return 0, _no_candidate(finding)
        if stopped := self._loop(pod, finding.chosen, state):
            return 0, _no_candidate(PreemptionFinding(message=stopped))
        victims = self._start_evictions(pod, finding.chosen, state.info)
        nominated = NominatingInfo(finding.chosen.node_name)
        keys = tuple(victim.key for victim in finding.chosen.victims)
        found = FOUND.format(finding.chosen.node_name, len(keys))
        status = Status(Code.SUCCESS, (f"{PREFIX}{found}",))
        return victims, PostFilterResult(status, nominated, PostFilterOutcome.NOMINATED, keys)

    def _loop(self, pod: Pod, candidate: Candidate, state: CycleState) -> str:
        """Return why evictions would go on with a loop between schedulers, or note them."""
        others = self._of_others(candidate.victims)
        if state.info is None or not others:
            return ""
        recall(state.info, state.now)
        stopped = self._stopped(candidate, state)
        if not stopped:
            ensure_memory(state.info).evicted(others, state.now)
            return ""
        memory = known_memory(state.info)
        assert memory is not None
        if not memory.told:
            memory.told = True
            self._report_loop(pod, stopped)
        return stopped

    def _stopped(self, candidate: Candidate, state: CycleState) -> str:
        memory = known_memory(state.info)
        return "" if memory is None else memory.stop(self._of_others(candidate.victims), state.now)

    def _of_others(self, victims: Sequence[Pod]) -> list[Pod]:
        own = self._handle.preemption.own
        return [each for each in victims if not each.terminating and not own(each)]

    def _report_loop(self, pod: Pod, stopped: str) -> None:
        self._handle.metrics.count(LOOPS)
        note = f"{PREFIX}{stopped}"
        self._handle.events.record(pod, "Warning", EVENT_REASON, EVENT_ACTION, note)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for deleted pods, which may be the last victim of a held pod."""
        event = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
        return (ClusterEventWithHint(event, self._after_deletion),) if self._asynchronous else ()

    def _after_deletion(self, pod: Pod, deleted: Pod, _new: None) -> QueueingHint:
        waiting = self._pods_by_last_victim.get(deleted.metadata.uid, ())
        return queue_if(pod.metadata.uid in waiting)

    # -- groups ----------------------------------------------------------------------------------

    def evict_for_group(
        self,
        members: Sequence[QueuedPodInfo],
        group: str,
        victims: Sequence[Pod],
        needed: Callable[[], bool] = lambda: True,
    ) -> None:
        """Start the evictions of the victims, all at once (`GroupPreemptionPlugin`)."""
        leaving = [each for each in victims if not each.terminating]
        self._handle.preemption.observe(len(victims))
        self._note_for_group(members, self._of_others(victims))
        if leaving:
            preemptor = Preemptor(members[0].pod, needed, group)
            self._handle.run_in_background(
                self._preempt_for_group(preemptor, leaving), f"preempt for {group}"
            )

    def _note_for_group(self, members: Sequence[QueuedPodInfo], others: Sequence[Pod]) -> None:
        """Note evictions in the records of all members, and report if they were the last ones.

        A plan that would go on with a loop is not made, so there is no later occasion.
        """
        if not others:
            return
        now = self._handle.clock.now()
        for each in members:
            ensure_memory(each).evicted(others, now)
        if stopped := ensure_memory(members[0]).stop(others, now):
            self._report_loop(members[0].pod, stopped)

    def stopped(self, members: Sequence[QueuedPodInfo]) -> str:
        """Return why no plan is made for a group at present, for people; empty if one may be."""
        memory = known_memory(members[0])
        return "" if memory is None else memory.stop_of_group(self._handle.clock.now())

    async def _preempt_for_group(self, preemptor: Preemptor, victims: Sequence[Pod]) -> None:
        errors: list[BaseException] = []
        for node_name in dict.fromkeys(each.spec.node_name for each in victims):
            errors += await self._evictions.clear_lower_nominations(preemptor, node_name)
        errors += (await self._evictions.evict(preemptor, "", victims))[1]
        if errors:
            raise BaseExceptionGroup(f"preempting pods for {preemptor.group}", errors)

    def missing_permission(self) -> str:
        """Return which permission for evictions is missing, for people; empty if none is."""
        # Budgets that cannot be read might forbid the eviction.
        missing = (each for each in _NEEDS if not self._handle.may(*each))
        return next((NOT_PERMITTED.format(*each) for each in missing), "")

    # -- eligibility -----------------------------------------------------------------------------

    def _ineligible(self, pod: Pod, statuses: NodeToStatus) -> PostFilterResult | None:
        if pod.spec.preemption_policy == _POLICY_NEVER:
            return PostFilterResult(
                unschedulable(PREFIX + NEVER), outcome=PostFilterOutcome.INELIGIBLE
            )
        nominated = pod.status.nominated_node_name
        if not nominated:
            return None
        row = self._handle.table.row_of(nominated)
        if row is None or statuses.get(nominated).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None
        for other in self._handle.table.node_info(row).pods:
            if other.priority < pod.priority and _is_being_preempted(other):
                return PostFilterResult(
                    unschedulable(PREFIX + TERMINATING), outcome=PostFilterOutcome.NOMINATED
                )
        return None

    def _latest(self, pod: Pod) -> Pod | None:
        metadata = pod.metadata
        found: Pod | None = self._handle.listers["pods"].get(metadata.name, metadata.namespace)
        return found if found is not None and found.metadata.uid == metadata.uid else None

    # -- actuation -------------------------------------------------------------------------------

    def _start_evictions(self, pod: Pod, candidate: Candidate, info: QueuedPodInfo | None) -> int:
        """Start the evictions; return the number of victims, 0 if all are terminating already."""
        victims = [each for each in candidate.victims if not each.terminating]
        if not victims:
            return 0
        if self._asynchronous:
            self._held.add(pod.metadata.uid)
        self._handle.run_in_background(
            self._preempt(pod, candidate.node_name, victims, info), f"preempt for {pod.key}"
        )
        return len(candidate.victims)

    async def _preempt(
        self, pod: Pod, node_name: str, victims: Sequence[Pod], info: QueuedPodInfo | None
    ) -> None:
        """Evict all victims but the last concurrently, then the last one.

        A failed eviction changes the outcome of the finished attempt in `info` to ERROR.

        The pod is activated after a failure, and also if the last victim was deleted before its
        eviction: that deletion event arrived while PreEnqueue still held the pod.
        """
        uid, retry = pod.metadata.uid, True
        attempts = 0 if info is None else info.attempts

        def needed() -> bool:
            latest = self._latest(pod)
            if latest is None or latest.terminating or latest.spec.node_name:
                return False
            # A later attempt may have found another node, if PreEnqueue does not hold the pod.
            tried_again = info is not None and info.attempts != attempts
            return not tried_again or self._handle.nominator.node_of(uid) == node_name

        preemptor = Preemptor(pod, needed)
        failures: list[BaseException] = []
        errors: list[BaseException] = []
        try:
            errors += await self._evictions.clear_lower_nominations(preemptor, node_name)
            *others, last = victims
            _, failures = await self._evictions.evict(preemptor, node_name, others)
            errors += failures
            if not failures:
                if self._asynchronous:
                    self._wait_for_last_victim(uid, last)
                already_gone, failures = await self._evictions.evict(preemptor, node_name, (last,))
                errors += failures
                retry = already_gone or bool(errors)
        finally:
            self._stop_waiting(uid)
            if failures and info is not None and info.attempts == attempts:
                info.post_filter = PostFilterOutcome.ERROR
            if retry:
                self._handle.activate((pod,))
        if errors:
            msg = f"preempting pods on node {node_name} for {pod.key}"
            raise BaseExceptionGroup(msg, errors)


def _no_candidate(finding: PreemptionFinding) -> PostFilterResult:
    if finding.error:
        return PostFilterResult(error(PREFIX + finding.error))
    return PostFilterResult(
        unschedulable(PREFIX + finding.message), CLEAR_NOMINATION, PostFilterOutcome.FAILED
    )


def _is_being_preempted(pod: Pod) -> bool:
    """Whether a pod is terminating because a scheduler preempted it."""
    return pod.terminating and any(
        each.type == DISRUPTION_TARGET
        and each.status == "True"
        and each.reason == PREEMPTION_BY_SCHEDULER
        for each in pod.status.conditions
    )
