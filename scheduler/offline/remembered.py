"""Judgement of the decisions that a bundle without a recording remembers.

The file has the state of its own moment, and not what changed before. Two kinds of decisions can be
judged by it. A rejection of a pod that still waits is decided again with that state; if no event
has moved the pod since, it must be rejected again. Placements are taken back one by one, the last
first, and each is decided again with the nodes as they were before it, as far back as the file
shows every change between. All others are unjudged, with the reason.

The world is used up: its pods are taken from their nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from scheduler.api.pod import Pod
from scheduler.client.resources import PODS
from scheduler.engine import Attempt
from scheduler.explain.records import Decision, DecisionResult, NodeScore, QueueState
from scheduler.framework import NominatingInfo
from scheduler.offline.assembly import Assembly
from scheduler.offline.bundles import Content, Record, decoded_line, find_pod, restore_record
from scheduler.offline.judgement import DIFFERENT, SAME, UNJUDGED, Judgement
from scheduler.offline.virtual_time import only_errors_logged
from scheduler.recording.format import DECISION
from scheduler.recording.outcomes import Outcome, outcome_of

NOT_LAST: Final = "another decision about the pod followed; the file has the state of its end only"
NOT_WAITING: Final = "the pod no longer waits"
NO_PROFILE: Final = "no profile {name!r} here"
AFTER_CHOICE: Final = "the pod was rejected after a node was chosen, by Permit or the binding"
NO_ATTEMPT: Final = {
    DecisionResult.GATED: "there was no attempt: a plugin keeps the pod from the queue",
    DecisionResult.ERROR: "an error depends on more than the state",
    DecisionResult.DROPPED: "the pod was gone before the attempt had ended",
}
MOVED: Final = "an event has moved the pod since: it would be placed on {node} now"
UNMOVED: Final = "it would be placed on {node}, although no event has moved the pod since"
CHANGED: Final = "the state changed since decision {seq}: {what}"


class RememberedDecisions:
    """The decisions of one bundle, with a world in its state."""

    def __init__(
        self, content: Content, assembly: Assembly, under_way: Mapping[str, Attempt]
    ) -> None:
        """Prepare; `under_way` are the attempts whose binding had not ended, by UID."""
        self._content = content
        self._assembly = assembly
        self._under_way = under_way
        self._waiting = {(each.pod, each.uid): each for each in content.queue}
        #: Number of the last decision about each pod.
        self._last: dict[str, int] = {}

    def judged(self) -> list[Judgement]:
        """Judge all decisions, once; in the order in which they were made.

        Raises:
            BundleError: one of them is malformed.
        """
        decisions = sorted(self._decisions(), key=lambda each: each.seq)
        self._last = {each.pod: each.seq for each in decisions}
        with only_errors_logged():
            # Rejections first: placements change the nodes.
            found = {each.seq: self._rejection(each) for each in decisions if not _placed(each)}
            found |= {each.seq: each for each in self._placements(decisions)}
        return [found[each.seq] for each in decisions]

    def _decisions(self) -> Iterator[Decision]:
        path = self._content.bundle.path
        for line in self._content.bundle.lines():
            if line.section == DECISION:
                yield decoded_line(path, line, Decision)

    # -- rejections ------------------------------------------------------------------------------

    def _rejection(self, decision: Decision) -> Judgement:
        why = NO_ATTEMPT.get(decision.result, AFTER_CHOICE if decision.node else "")
        record = self._waiting.get((decision.pod, decision.uid))
        pod = find_pod(self._assembly, decision.pod, decision.uid)
        if not why and self._last[decision.pod] != decision.seq:
            why = NOT_LAST
        if not why and (pod is None or record is None or record.place == QueueState.IN_FLIGHT):
            why = NOT_WAITING
        if why or pod is None or record is None:
            return _unjudged(decision, why)
        return self._rejected_again(decision, pod, record)

    def _rejected_again(self, decision: Decision, pod: Pod, record: Record) -> Judgement:
        scheduling = self._assembly.scheduling
        nominator = scheduling.queue.nominator
        nominated = nominator.node_of(pod.uid)
        attempt = self._attempt(pod, record)
        if attempt is None:
            return _unjudged(decision, NO_PROFILE.format(name=pod.spec.scheduler_name))
        outcome = outcome_of(attempt)
        if attempt.failure is not None:
            return _judgement(decision, SAME, "", outcome)
        scheduling.engine.abandon(attempt)
        # The placement ended the nomination, which keeps pods of lower priority out.
        nominator.add_nominated_pod(pod, NominatingInfo(nominated))
        if record.place == QueueState.UNSCHEDULABLE:
            return _judgement(decision, DIFFERENT, UNMOVED.format(node=outcome.node), outcome)
        return _judgement(decision, UNJUDGED, MOVED.format(node=outcome.node), outcome)

    # -- placements ------------------------------------------------------------------------------

    def _placements(self, decisions: list[Decision]) -> Iterator[Judgement]:
        """Take placements back, the last first, until a change between is not in the file."""
        gap, after = "", 0
        for decision in reversed(decisions):
            if not gap and after and decision.seq != after - 1:
                gap = CHANGED.format(seq=decision.seq, what="decisions between are not remembered")
            after = decision.seq
            if not _placed(decision):
                if not gap and decision.victims:
                    gap = CHANGED.format(seq=decision.seq, what="pods that it evicted are gone")
                continue
            if gap:
                yield _unjudged(decision, gap)
                continue
            judgement, gap = self._placement(decision)
            yield judgement

    def _placement(self, decision: Decision) -> tuple[Judgement, str]:
        """Judge one; return also why no earlier one can be judged, empty if it can."""
        assembly = self._assembly
        pod = find_pod(assembly, decision.pod, decision.uid)
        placed = assembly.state.cache.get_pod(decision.uid)
        if pod is None or placed is None or placed.spec.node_name != decision.node:
            what = "the pod is gone" if pod is None else "the pod is not on that node"
            gap = CHANGED.format(seq=decision.seq, what=what)
            return _unjudged(decision, gap), gap
        pending = self._take_back(pod)
        attempt = self._attempt(pending, None)
        if attempt is None:
            why = NO_PROFILE.format(name=pod.spec.scheduler_name)
            return _unjudged(decision, why), why
        outcome = outcome_of(attempt)
        what = self._difference(decision, attempt)
        if attempt.failure is None:
            assembly.scheduling.engine.abandon(attempt)
        if not what:
            return _judgement(decision, SAME, "", outcome), ""
        gap = CHANGED.format(seq=decision.seq, what=what)
        return _judgement(decision, UNJUDGED, gap, outcome), gap

    def _take_back(self, pod: Pod) -> Pod:
        """Let a pod that is bound, or about to be, be pending again."""
        assembly = self._assembly
        if assembly.state.cache.is_assumed(pod.uid):
            attempt = self._under_way.get(pod.uid)
            if attempt is None:
                assembly.state.cache.forget_pod(pod.uid)
            else:
                assembly.scheduling.engine.abandon(attempt)
        if not pod.spec.node_name:
            return pod
        spec = msgspec.structs.replace(pod.spec, node_name="")
        assembly.tables.remove(PODS.plural, pod)
        assembly.tables.deliver(assembly.handlers)
        assembly.tables.put(
            PODS.plural, msgspec.structs.replace(pod, spec=spec, interned=None), keep=True
        )
        assembly.tables.deliver(assembly.handlers)
        pending = find_pod(assembly, pod.key, pod.uid)
        assert pending is not None
        return pending

    def _difference(self, decision: Decision, attempt: Attempt) -> str:
        """Return how a second decision differs from the first; empty if only a tie does."""
        chosen = attempt.result
        if chosen is None:
            text = "" if attempt.failure is None else attempt.failure.message
            return f"the pod fits nowhere here: {text}"
        for name, then, here in (
            ("nodes in the cluster", decision.nodes, self._assembly.state.cache.table.node_count),
            ("nodes looked at", decision.evaluated, chosen.evaluated_nodes),
            ("nodes found to fit", decision.feasible, chosen.feasible_nodes),
        ):
            if then != here:
                return f"{name} were {then}, here {here}"
        if chosen.node_name == decision.node or self._tied(decision, attempt):
            return ""
        return f"the node was {decision.node}, here {chosen.node_name}"

    def _tied(self, decision: Decision, attempt: Attempt) -> bool:
        """Whether both chose by chance among nodes of the same total."""
        best = self._best(attempt)
        if not best or not decision.best or best[0].total != decision.best[0].total:
            return False
        tied = [each.node for each in best if each.total == best[0].total]
        # Only the best few are known: where all of those are equal, so may be others.
        return decision.node in tied or len(tied) == len(best) < decision.feasible

    def _best(self, attempt: Attempt) -> tuple[NodeScore, ...]:
        decisions = self._assembly.scheduling.decisions
        decisions.record(attempt)
        remembered = decisions.last_decision(attempt.info)
        return () if remembered is None else remembered.best

    # -- attempts --------------------------------------------------------------------------------

    def _attempt(self, pod: Pod, record: Record | None) -> Attempt | None:
        """Decide about a pod with the state as it is; None if no profile is for it."""
        scheduling = self._assembly.scheduling
        if pod.spec.scheduler_name not in scheduling.engine.algorithms:
            return None
        info = scheduling.queue.take(pod)
        if record is not None:
            restore_record(self._assembly, info, record, self._content.state.monotonic)
        return scheduling.engine.attempt(info)


def _placed(decision: Decision) -> bool:
    return decision.result is DecisionResult.PLACED


def _unjudged(decision: Decision, why: str) -> Judgement:
    return _judgement(decision, UNJUDGED, why)


def _judgement(
    decision: Decision, result: str, why: str, replayed: Outcome | None = None
) -> Judgement:
    placed = _placed(decision)
    recorded = Outcome(
        node=decision.node if placed else "",
        evaluated=decision.evaluated if placed else 0,
        feasible=decision.feasible if placed else 0,
        reason="" if placed else decision.result.capitalize(),
        message=decision.message,
    )
    return Judgement(decision.seq, decision.time, decision.pod, result, why, recorded, replayed)
