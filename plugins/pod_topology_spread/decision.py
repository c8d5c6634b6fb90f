"""The pure decision which hard constraints count as soft: `decide(facts) -> Decision`.

Rules S2 to S6 and S11 of docs/topology-spread-fallback.md. `fallback.py` collects the facts and
applies the decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from plugins.pod_topology_spread.criteria import FallbackSpec
from plugins.pod_topology_spread.fallback_annotation import (
    NODE_PROVISIONING_FAILED,
    PREEMPTION_FAILED,
)
from plugins.pod_topology_spread.fallback_condition import condition_of
from scheduler.api.pod import Pod
from scheduler.framework import PostFilterOutcome

NODE_PROVISIONING: Final = "NodeProvisioningInProgress"
POD_SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"

_FAILED_PREEMPTION: Final = {
    PostFilterOutcome.FAILED: "preemption found no candidate",
    PostFilterOutcome.INELIGIBLE: "the pod may not preempt",
    PostFilterOutcome.NO_PLUGIN: "the profile has no PostFilter plugin",
    PostFilterOutcome.ERROR: "evictions failed",
}
_LATCHED: Final = "kept soft while the pod is nominated"
_MAX_EVIDENCE_LENGTH: Final = 120


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything the decision about one pod depends on, at one moment."""

    pod: Pod
    spec: FallbackSpec
    #: `nodeProvisioningTimeout` in seconds; None: only the pod's condition counts.
    timeout: float | None = None
    #: Seconds since T0 (rule S5); None before PodTopologySpread first rejected the pod.
    waited: float | None = None
    #: Finished attempts in this process; 0 if only the pod's status shows the last outcome.
    completed: int = 0
    #: Number of the last attempt, since a gate last released the pod, in which PreFilter of
    #: PodTopologySpread ran; 0 for none.
    last_evaluated: int = 0
    #: Outcome of PostFilter in the last attempt of this process.
    post_filter: PostFilterOutcome = PostFilterOutcome.NOT_RUN
    #: The node that the nominator of this process has for the pod; empty for none.
    nominated_node: str = ""
    #: Topology keys that the latch keeps soft (rule S11).
    latched: frozenset[str] = frozenset()


class CriterionResult(NamedTuple):
    """Whether one criterion holds, with the evidence."""

    criterion: str
    holds: bool
    evidence: str


class ConstraintDecision(NamedTuple):
    """The decision about one hard constraint that has criteria."""

    key: str
    results: tuple[CriterionResult, ...]
    latched: bool

    @property
    def met(self) -> bool:
        """Whether all criteria hold (rule S2)."""
        return all(each.holds for each in self.results)

    @property
    def soft(self) -> bool:
        """Whether the constraint counts as ScheduleAnyway."""
        return self.latched or self.met

    @property
    def reason(self) -> str:
        """Return why the constraint is soft, in the same words at each attempt."""
        return "+".join(each.criterion for each in self.results) if self.met else _LATCHED

    @property
    def evidence(self) -> str:
        """Return why the constraint is soft, with the evidence for each criterion."""
        if not self.met:
            return _LATCHED
        return ", ".join(f"{each.criterion} ({each.evidence})" for each in self.results)

    @property
    def awaited(self) -> str:
        """Return the criteria that do not hold."""
        return "+".join(each.criterion for each in self.results if not each.holds)

    def __str__(self) -> str:
        state = "soft" if self.soft else "hard"
        if self.latched:
            state += f" ({_LATCHED})"
        criteria = ", ".join(
            f"{each.criterion} {'true' if each.holds else 'false'} ({each.evidence})"
            for each in self.results
        )
        return f"{self.key}: {state}: {criteria}"


@dataclass(frozen=True, slots=True)
class SpreadDecision:
    """The decision about one pod in one attempt."""

    spec: FallbackSpec
    #: One entry per hard constraint with criteria, each decided alone (rule S3).
    constraints: tuple[ConstraintDecision, ...]

    @property
    def soft_keys(self) -> frozenset[str]:
        """Topology keys of the hard constraints that count as soft."""
        return frozenset(each.key for each in self.constraints if each.soft)


def decide(facts: Facts) -> SpreadDecision:
    """Decide for each hard constraint with criteria whether it counts as soft."""
    return SpreadDecision(
        facts.spec,
        tuple(
            ConstraintDecision(
                key, tuple(_result(each, facts) for each in criteria), key in facts.latched
            )
            for key, criteria in facts.spec.criteria.items()
        ),
    )


def _result(criterion: str, facts: Facts) -> CriterionResult:
    if criterion == NODE_PROVISIONING_FAILED:
        return CriterionResult(criterion, *_node_provisioning_failed(facts))
    if criterion == PREEMPTION_FAILED:
        return CriterionResult(criterion, *_preemption_failed(facts))
    return CriterionResult(criterion, False, "unknown criterion: it never holds")


def _node_provisioning_failed(facts: Facts) -> tuple[bool, str]:
    """Rule S4."""
    condition = condition_of(facts.pod, NODE_PROVISIONING)
    if condition is not None and condition.status in ("True", "False"):
        evidence = f"{NODE_PROVISIONING}={condition.status}"
        detail = ": ".join(text for text in (condition.reason, condition.message) if text)
        if detail:
            evidence += f" ({_truncate(detail)})"
        return condition.status == "False", evidence
    evidence = f"no condition {NODE_PROVISIONING}"
    if condition is not None:
        evidence = f"{NODE_PROVISIONING}={condition.status}"
        if condition.status != "Unknown":
            evidence += " (want True, False or Unknown)"
    timeout, waited = facts.timeout, facts.waited
    if timeout is None:
        return False, f"{evidence}, no nodeProvisioningTimeout"
    if waited is None:
        return False, f"{evidence}, the timeout has not begun"
    if waited >= timeout:
        return True, f"{evidence} within {timeout:g}s"
    return False, f"{evidence}, {timeout - waited:.0f}s of {timeout:g}s left"


def _preemption_failed(facts: Facts) -> tuple[bool, str]:
    """Rule S6."""
    if facts.completed <= 0:
        return _preemption_failed_by_status(facts)
    if not facts.last_evaluated:
        return False, "no attempt since a gate released the pod"
    if facts.last_evaluated != facts.completed:
        return False, "the last attempt ended before topology spread was evaluated"
    failure = _FAILED_PREEMPTION.get(facts.post_filter)
    if failure is not None:
        return True, failure
    if facts.post_filter is PostFilterOutcome.NOMINATED:
        return False, "preemption nominated a node"
    return False, "preemption was not tried in the last attempt"


def _preemption_failed_by_status(facts: Facts) -> tuple[bool, str]:
    """Rule S6 for a last attempt made by another process, e.g. before a restart."""
    condition = condition_of(facts.pod, POD_SCHEDULED)
    if condition is None:
        return False, "no attempt yet"
    if condition.status != "False" or condition.reason != UNSCHEDULABLE:
        return False, f"PodScheduled={condition.status}, reason {condition.reason or 'none'}"
    nominated = facts.pod.status.nominated_node_name or facts.nominated_node
    if nominated:
        return False, f"nominated to {nominated}"
    return True, "PodScheduled=False, reason Unschedulable, no nominated node"


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_EVIDENCE_LENGTH else text[: _MAX_EVIDENCE_LENGTH - 3] + "..."
