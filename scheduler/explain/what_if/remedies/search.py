"""The search for remedies: steps from the rejections, each combination tried in a trial.

A search is a generator, so that its owner decides when each trial runs: every trial is one step of
it, and between two of them other work may change the state. A remedy is listed only if the pod was
placed in its trial.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Final

import structlog

from scheduler.api.meta import second_time
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.engine.reserved_room import reserved_room
from scheduler.explain.examining.explainer import profile_for
from scheduler.explain.examining.trial_decision import TrialDecision, TrialDecisions
from scheduler.explain.records import Change, Code, Remedies, Remedy, Step
from scheduler.explain.records.remedies import DEFAULT_REMEDIES
from scheduler.explain.what_if.changes import ChangeError, pointer
from scheduler.explain.what_if.remedies import (
    claim_steps,
    new_nodes,
    node_steps,
    pod_steps,
    priority_steps,
    resource_steps,
    volume_steps,
)
from scheduler.explain.what_if.remedies.ranking import Options, best, remedy, without_one
from scheduler.explain.what_if.remedies.situation import Situation, evictions, names, removed
from scheduler.explain.what_if.trial import TrialParts, WhatIfTrial
from scheduler.framework import Code as StatusCode
from scheduler.framework import Status

_log = structlog.get_logger(__name__)

STEPS: Final[dict[str, Callable[[Situation], Iterator[Step]]]] = {
    "NodeUnschedulable": node_steps.cordon,
    "TaintToleration": node_steps.taints,
    "NodeAffinity": node_steps.node_affinity,
    "NodePorts": node_steps.ports,
    "NodeDeclaredFeatures": node_steps.features,
    "NodeResourcesFit": resource_steps.resources,
    "PodTopologySpread": pod_steps.spread,
    "InterPodAffinity": pod_steps.pod_affinity,
    "DynamicResources": claim_steps.resource_claims,
    "VolumeBinding": volume_steps.volumes,
    "VolumeZone": volume_steps.volumes,
    "VolumeRestrictions": volume_steps.volumes,
    "NodeVolumeLimits": volume_steps.volumes,
}
"""What finds steps for the rejections of each plugin."""

NEAREST: Final = {"NodeResourcesFit": resource_steps.nearest}
"""What orders the nodes that a plugin rejects, those first where the least has to change."""

ERRORS: Final = (node_steps.preferred_affinity,)
"""What finds steps where a plugin ends the attempt, since it cannot read what the pod states."""

MAX_TRIALS: Final = 150
MAX_CUT: Final = 60
"""Slices for the first decision, which looks for victims on many nodes."""
MAX_CHANGES: Final = 20
"""Changes of one step: all are made in one slice, and to add a claim takes about a millisecond."""
MAX_STEPS: Final = 4
"""Steps that are combined at most; two suffice for nearly all pods."""
EXAMPLES: Final = 3
"""Nodes looked at for each reason."""
ENOUGH_SINGLE: Final = 3
"""Remedies of one step after which no combinations are tried."""


class ChangeSearch:
    """Looks for the remedies of one pod."""

    def __init__(
        self,
        parts: TrialParts,
        pod: str,
        *,
        limit: int = DEFAULT_REMEDIES,
        seconds: float = float("inf"),
    ) -> None:
        """Look for remedies of `pod`, `namespace/name`; no decision takes longer than `seconds`."""
        self._parts = parts
        self._key = pod
        self._limit = limit
        self._seconds = seconds
        self._decisions = TrialDecisions(parts.engine)
        self._found: list[Remedy] = []
        self._tried = 0
        #: Texts of steps to the plugin whose demands they meet.
        self._granting: dict[str, str] = {}
        #: Steps that come before every remedy.
        self._first: Options = ()

    def report(self, *, complete: bool, note: str = "") -> Remedies:
        """Return what was found so far."""
        found = best(self._found, self._limit)
        return Remedies(found, self._first, tried=self._tried, complete=complete, note=note)

    def run(self) -> Generator[None, None, Remedies]:
        """Try everything; yields between trials. Raises LookupError if the pod is gone."""
        yield from self._admit()
        decision, _ = self._try((), None)
        while decision.cut and self._tried < MAX_CUT:
            # The dry runs of preemption so far are remembered.
            yield
            decision, _ = self._try((), None)
        yield
        if decision:
            if self._first:
                return Remedies((remedy(self._first, decision.node),), tried=self._tried)
            return Remedies(fits=decision.node, tried=self._tried)
        if not self._may_mend(decision):
            return Remedies(tried=self._tried, complete=False, note=decision.error)
        self._await_reservations(decision)
        yield from self._await_ends()
        note = decision.error if decision.diagnosis is None else ""
        resolvable = bool(decision.plugins) and not decision.preemption_node
        _, starts = self._try((), partial(self._starts, decision))
        yield
        chains: list[tuple[Options, Options]] = []
        for start in starts:
            if self._tried >= MAX_TRIALS:
                return self.report(complete=False)
            steps = (start,)
            decision, following = self._try(steps, partial(self._next, steps))
            if decision:
                self._found.append(remedy(steps, decision.node))
            else:
                chains.append((steps, following))
            yield
            if len(chains) == 1 and not self._found:
                # The least that helps may be two steps; time may not suffice for all single ones.
                yield from self._combine(chains, rounds=1)
        if resolvable:
            yield from self._raise_priority()
        if len(self._found) < ENOUGH_SINGLE:
            yield from self._combine(chains)
        complete = self._tried < MAX_TRIALS
        return self.report(complete=complete, note="" if self._found else note)

    def _admit(self) -> Iterator[None]:
        """Begin with the steps without which the pod is not tried at all."""
        pod = self._pod(self._parts.stores["pods"].by_key(self._key))
        steps: list[Step] = []
        gates = [each.name for each in pod.spec.scheduling_gates]
        if gates:
            change = Change("set", "Pod", self._key, "/spec/schedulingGates", None)
            text = f"remove scheduling gate {', '.join(gates)}"
            steps.append(Step(Code.UNGATE, text, (change,), 1.0))
        profiles = self._parts.engine.frameworks
        if pod.spec.scheduler_name not in profiles:
            name = profile_for(pod, profiles)
            change = Change("set", "Pod", self._key, "/spec/schedulerName", name)
            text = f"create the pod with schedulerName {name}"
            steps.append(Step(Code.SET_SCHEDULER_NAME, text, (change,), 1.5))
        self._first = tuple(steps)
        yield

    def _await_ends(self) -> Generator[None, None, None]:
        """Find out whether the pods that are ending where this one is nominated make room."""
        pod = self._pod(self._parts.stores["pods"].by_key(self._key))
        node, table = pod.status.nominated_node_name, self._parts.cache.table
        row = table.row_of(node) if node else None
        ending = [] if row is None else [e for e in table.pods[row].values() if e.terminating]
        if not ending:
            return
        last = max(each.metadata.deletion_timestamp or "" for each in ending)
        text = f"wait until {names(ending)} has ended on {node}, at {last} at the latest"
        step = Step(Code.AWAIT_END, text, evictions(ending), 0.5, node)
        decision, _ = self._try((step,), lambda *_: ())
        if decision:
            self._found.append(remedy((step,), decision.node))
        yield

    def _await_reservations(self, decision: TrialDecision) -> None:
        """Add remedies where only room that is kept for a group is missing."""
        pod = self._pod(self._parts.stores["pods"].by_key(self._key))
        rejected = None if decision.diagnosis is None else decision.diagnosis.rejected
        framework = self._parts.engine.frameworks.get(pod.spec.scheduler_name)
        if framework is None:
            return
        for room in reserved_room(framework, self._parts.cache.table, pod, rejected):
            until = second_time(room.until)
            text = f"wait until room is no longer kept for {room.group}, at {until} at the latest"
            # No trial is needed: without the pods that are nominated there, the pod fits.
            step = Step(Code.AWAIT_RESERVATION, text, (), 0.7, room.nodes[0])
            self._found.append(remedy((step,), room.nodes[0]))

    def _raise_priority(self) -> Generator[None, None, None]:
        """Look for the lowest priority with which preemption makes room."""
        with WhatIfTrial(self._parts, self._decisions) as trial:
            for step in self._first:
                trial.apply(step.changes)
            pod = self._pod(trial.find("Pod", self._key))
            found = self._situation(trial, pod, Status(StatusCode.SUCCESS), None)
            steps = tuple(priority_steps.raised(found))
        for step in steps:
            decision, _ = self._try((step,), None)
            yield
            while decision.cut and self._tried < MAX_TRIALS:
                decision, _ = self._try((step,), None)
                yield
            node, victims = decision.preemption_node, decision.victims
            gone = Step(Code.EVICT_PODS, "", tuple(removed(each) for each in victims), 0.0, node)
            if not node or self._is_ending(victims) or _breaks_own_group(gone, found):
                continue
            # Preemption looks at one node at a time: a pod elsewhere may still be in the way.
            after, _ = self._try((step, gone), lambda *_: ())
            yield
            if after:
                shown = priority_steps.with_victims(step, node, victims)
                self._found.append(remedy((shown,), node))
                return

    def _is_ending(self, pods: tuple[str, ...]) -> bool:
        """Whether one of some pods ends anyway, at a time that eviction would not change."""
        known = map(self._parts.stores["pods"].by_key, pods)
        return any(each is None or each.terminating for each in known)

    def _combine(
        self, chains: list[tuple[Options, Options]], rounds: int = MAX_STEPS - 1
    ) -> Generator[None, None, None]:
        """Add steps to those that did not suffice, the cheapest first, until enough was found."""
        for _ in range(rounds):
            longer: list[tuple[Options, Options]] = []
            for steps, options in chains:
                if self._tried >= MAX_TRIALS or len(self._found) >= self._limit:
                    return
                for step in options[:2]:
                    more = (*steps, step)
                    decision, following = self._try(more, partial(self._next, more))
                    yield
                    if decision:
                        self._found.append((yield from self._shortened(more, decision.node)))
                        break
                    longer.append((more, following))
            if self._found:
                return
            chains = longer

    def _shortened(self, steps: Options, node: str) -> Generator[None, None, Remedy]:
        """Return a remedy without the steps that turn out to be superfluous."""
        shorter = True
        while shorter and self._tried < MAX_TRIALS:
            shorter = False
            for fewer in without_one(steps):
                decision, _ = self._try(fewer, None)
                yield
                if decision:
                    steps, node, shorter = fewer, decision.node, True
                    break
        return remedy(steps, node)

    # -- trials ----------------------------------------------------------------------------------

    def _try(
        self, steps: Options, options: Callable[[WhatIfTrial, TrialDecision], Iterable[Step]] | None
    ) -> tuple[TrialDecision, Options]:
        """Try steps; return the decision, and where it is a rejection, further steps."""
        self._tried += 1
        with WhatIfTrial(self._parts, self._decisions) as trial:
            try:
                for step in (*self._first, *steps):
                    trial.apply(step.changes)
            except ChangeError as error:
                return TrialDecision(error=str(error)), ()
            pod = self._pod(trial.find("Pod", self._key))
            granted = frozenset(
                self._granting[each.text] for each in steps if each.text in self._granting
            )
            decision = trial.decide(
                pod, seconds=self._seconds, preempt=options is None, granted=granted
            )
            if decision or options is None or not self._may_mend(decision):
                return decision, ()
            known = {each.text for each in steps}
            unseen: dict[str, Step] = {}
            situation = self._situation(trial, pod, Status(StatusCode.SUCCESS), None)
            for each in options(trial, decision):
                if len(each.changes) > MAX_CHANGES or each.text in known:
                    continue
                if not _breaks_own_group(each, situation):
                    unseen.setdefault(each.text, each)
            return decision, tuple(sorted(unseen.values(), key=lambda each: each.cost))

    def _may_mend(self, decision: TrialDecision) -> bool:
        """Whether steps can be looked for: the decision was made, or ended with an error."""
        return decision.diagnosis is not None or not (decision or decision.cut)

    def _pod(self, pod: Pod | None) -> Pod:
        if pod is None or pod.spec.node_name:
            raise LookupError(f"pod {self._key} does not wait any more")
        return pod

    def _starts(
        self, first: TrialDecision, trial: WhatIfTrial, decision: TrialDecision
    ) -> Iterator[Step]:
        """Yield the steps worth a try: the evictions of `first`, and some for every reason."""
        pod = self._pod(trial.find("Pod", self._key))
        known = [trial.find("Pod", each) for each in first.victims]
        victims = [each for each in known if each is not None]
        if victims:
            text = f"evict {names(victims)} from {first.preemption_node}"
            cost = 2.0 + len(victims)
            yield Step(Code.EVICT_PODS, text, evictions(victims), cost, first.preemption_node)
        if decision.diagnosis is None:
            yield from self._mending(trial, pod, decision)
            return
        for status, nodes in self._rejections(pod, decision):
            for node in nodes or [None]:
                yield from self._steps(trial, pod, status, node)
        situation = self._situation(trial, pod, Status(StatusCode.SUCCESS), None)
        yield from new_nodes.like_the_best(situation)

    def _next(self, after: Options, trial: WhatIfTrial, decision: TrialDecision) -> Iterator[Step]:
        """Yield steps for what still rejects the pod, on the last node that a step was about."""
        pod = self._pod(trial.find("Pod", self._key))
        name = next((each.node for each in reversed(after) if each.node), "")
        node: Node | None = trial.find("Node", name) if name else None
        status = decision.status_of(name) if node is not None else None
        if status is not None:
            yield from self._steps(trial, pod, status, node)
            return
        yield from self._mending(trial, pod, decision)
        for status, nodes in self._rejections(pod, decision, examples=1):
            for each in nodes or [None]:
                yield from self._steps(trial, pod, status, each)

    def _mending(self, trial: WhatIfTrial, pod: Pod, decision: TrialDecision) -> Iterator[Step]:
        """Yield steps for the error that ended a decision."""
        if decision.diagnosis is None:
            status = Status(StatusCode.ERROR, (decision.error,))
            for find in ERRORS:
                yield from find(self._situation(trial, pod, status, None))

    def _steps(
        self, trial: WhatIfTrial, pod: Pod, status: Status, node: Node | None
    ) -> Iterator[Step]:
        for plugin in status.plugin.split(", "):
            find = STEPS.get(plugin)
            if find is not None:
                yield from find(self._situation(trial, pod, status, node))
            else:
                yield from self._demanded(plugin, pod)

    def _demanded(self, plugin: str, pod: Pod) -> Iterator[Step]:
        """Yield one step with all that a plugin demands."""
        framework = self._parts.engine.frameworks[pod.spec.scheduler_name]
        find = getattr(framework.plugins.get(plugin), "demands", None)
        try:
            demands = () if find is None else tuple(find(pod))
        except Exception:  # noqa: BLE001 - plugin boundary: there are other remedies
            _log.exception("a plugin cannot name its demands", plugin=plugin, pod=pod.key)
            return
        if not demands:
            return
        changes = tuple(
            Change("set", each.kind, each.name, pointer(*each.keys), each.value) for each in demands
        )
        quota = all(each.kind == "ResourceQuota" for each in demands)
        code = Code.RAISE_QUOTA if quota else Code.MEET_DEMAND
        text = " and ".join(each.text for each in demands)
        self._granting[text] = plugin
        yield Step(code, text, changes, 4.0 + 0.2 * len(demands))

    def _situation(
        self, trial: WhatIfTrial, pod: Pod, status: Status, node: Node | None
    ) -> Situation:
        framework = self._parts.engine.frameworks[pod.spec.scheduler_name]
        return Situation(trial, self._parts.cache.table, framework, pod, status, node)

    def _rejections(
        self, pod: Pod, decision: TrialDecision, examples: int = EXAMPLES
    ) -> Iterator[tuple[Status, list[Node | None]]]:
        """Yield each distinct rejection, with a few of its nodes."""
        diagnosis, table = decision.diagnosis, self._parts.cache.table
        if diagnosis is None:
            return
        seen = 0
        if diagnosis.rejected is not None:
            for status, rows in diagnosis.rejected.by_status():
                seen += len(rows)
                order = NEAREST.get(status.plugin)
                ordered = rows if order is None else order(table, pod, rows)
                yield status, [table.nodes[row] for row in ordered[:examples].tolist()]
        absent = diagnosis.statuses.absent
        if seen < table.node_count and absent.rejected:
            plugins = absent.plugin or ", ".join(sorted(diagnosis.unschedulable_plugins))
            rows = table.rows[:1].tolist() if seen == 0 else []
            yield absent.by(plugins), [table.nodes[row] for row in rows]


def _breaks_own_group(step: Step, situation: Situation) -> bool:
    """Whether a step removes a pod of the pod's own group or of its owner."""
    removes = (each.name for each in step.changes if (each.action, each.kind) == ("remove", "Pod"))
    pods = (situation.trial.find("Pod", name) for name in removes)
    return any(each is not None and situation.is_own_member(each) for each in pods)
