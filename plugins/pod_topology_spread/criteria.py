"""Which fallback criteria a pod's hard constraints have, and whether they hold (rules S1 to S6).

Judging reads pod, queue record and clock, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from plugins.pod_topology_spread.constraints import Constraints
from plugins.pod_topology_spread.fallback_annotation import (
    ANNOTATION,
    EVERY_KEY,
    NODE_PROVISIONING_FAILED,
    PREEMPTION_FAILED,
    Criteria,
    FallbackAnnotationError,
    criteria_by_key,
    parse_fallback_annotation,
)
from plugins.pod_topology_spread.fallback_condition import condition_of
from plugins.pod_topology_spread.fallback_state import FallbackState, memory_of
from scheduler.api.pod import Pod
from scheduler.framework import Handle, PostFilterOutcome, QueuedPodInfo

NODE_PROVISIONING: Final = "NodeProvisioningInProgress"
POD_SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"

_FAILED_PREEMPTION: Final = {
    PostFilterOutcome.FAILED: "preemption found no candidate",
    PostFilterOutcome.INELIGIBLE: "the pod may not preempt",
    PostFilterOutcome.NO_PLUGIN: "the profile has no PostFilter plugin",
    PostFilterOutcome.ERROR: "evictions failed",
}
_MAX_EVIDENCE_LENGTH: Final = 120


class FallbackSpec(NamedTuple):
    """The criteria of one pod, wherever they were written."""

    #: Topology key of a hard constraint to its criteria, in the order of the constraints.
    criteria: Mapping[str, Criteria]
    #: What is wrong with the annotation, of which nothing counts then; empty for nothing.
    invalid: str = ""
    #: Keys for which the annotation contradicts the native field, which counts.
    overruled: tuple[str, ...] = ()


class CriterionResult(NamedTuple):
    """Whether one criterion holds, and what says so."""

    criterion: str
    holds: bool
    evidence: str
    #: Seconds until it holds unless something else happens; None when time alone does not do it.
    remaining: float | None = None


def carried_by(pod: Pod, constraints: Constraints) -> FallbackSpec | None:
    """Criteria by the native field, else by the annotation; None for a pod that has neither."""
    written = constraints.written(pod)
    text = pod.metadata.annotations.get(ANNOTATION)
    if text is None:
        return FallbackSpec(written.criteria) if written.criteria else None
    own_keys = written.hard_keys if written.own else ()
    try:
        entries = parse_fallback_annotation(text, own_keys)
    except FallbackAnnotationError as error:
        return FallbackSpec(written.criteria, invalid=str(error))
    annotated = criteria_by_key(entries, own_keys)
    native = written.criteria
    merged = {
        key: criteria
        for key in written.hard_keys
        if (criteria := native.get(key) or annotated.get(key, ()))
    }
    overruled = tuple(
        key
        for key in own_keys
        if key in native
        and key in entries
        and key != EVERY_KEY
        and set(native[key]) != set(entries[key])
    )
    return FallbackSpec(merged, overruled=overruled)


class CriteriaEvaluator:
    """Says whether criteria hold."""

    def __init__(self, handle: Handle, timeout: float | None) -> None:
        """`timeout` is `nodeProvisioningTimeout` in seconds; None: only the condition counts."""
        self._handle = handle
        self._timeout = timeout

    def findings(
        self, pod: Pod, info: QueuedPodInfo | None, criteria: Criteria, ended: int
    ) -> tuple[CriterionResult, ...]:
        """One finding per criterion; `ended` is how many attempts of this process are over."""
        return tuple(self._criterion_result(pod, info, each, ended) for each in criteria)

    def _criterion_result(
        self, pod: Pod, info: QueuedPodInfo | None, criterion: str, ended: int
    ) -> CriterionResult:
        memory = None if info is None else memory_of(info)
        if criterion == NODE_PROVISIONING_FAILED:
            return self._node_provisioning(pod, memory)
        if criterion == PREEMPTION_FAILED:
            holds, evidence = self._preemption(pod, info, memory, ended)
            return CriterionResult(criterion, holds, evidence)
        return CriterionResult(criterion, False, "unknown criterion: it never holds")

    # -- rule S4 ---------------------------------------------------------------------------------

    def _node_provisioning(self, pod: Pod, memory: FallbackState | None) -> CriterionResult:
        criterion = NODE_PROVISIONING_FAILED
        condition = condition_of(pod, NODE_PROVISIONING)
        if condition is not None and condition.status in ("True", "False"):
            detail = ": ".join(text for text in (condition.reason, condition.message) if text)
            said = f"{NODE_PROVISIONING}={condition.status}"
            shown = f"{said} ({_cut(detail)})" if detail else said
            return CriterionResult(criterion, condition.status == "False", shown)
        said = f"no condition {NODE_PROVISIONING}"
        if condition is not None:
            said = f"{NODE_PROVISIONING}={condition.status}"
            if condition.status != "Unknown":
                said += " (want True, False or Unknown)"
        if self._timeout is None:
            return CriterionResult(criterion, False, f"{said}, no nodeProvisioningTimeout")
        if memory is None or memory.since_wall is None:
            return CriterionResult(criterion, False, f"{said}, the timeout has not begun", None)
        waited = self._handle.clock.monotonic() - memory.since_monotonic
        if waited >= self._timeout:
            return CriterionResult(criterion, True, f"{said} within {self._timeout:g}s")
        left = self._timeout - waited
        return CriterionResult(
            criterion, False, f"{said}, {left:.0f}s of {self._timeout:g}s left", left
        )

    # -- rule S6 ---------------------------------------------------------------------------------

    def _preemption(
        self, pod: Pod, info: QueuedPodInfo | None, memory: FallbackState | None, ended: int
    ) -> tuple[bool, str]:
        if info is None or ended <= 0:
            return self._preemption_by_status(pod)
        if memory is None or memory.gate_openings != info.gate_openings or not memory.attempt:
            return False, "no attempt since a gate let the pod go"
        if memory.attempt != ended:
            return False, "the last attempt ended before spreading was looked at"
        outcome = info.post_filter
        text = _FAILED_PREEMPTION.get(outcome)
        if text is not None:
            return True, text
        if outcome is PostFilterOutcome.NOMINATED:
            return False, "preemption nominated a node"
        return False, "preemption was not tried in the last attempt"

    def _preemption_by_status(self, pod: Pod) -> tuple[bool, str]:
        """Nobody in this process saw the last attempt: what its status says must do."""
        condition = condition_of(pod, POD_SCHEDULED)
        if condition is None:
            return False, "no attempt yet"
        if condition.status != "False" or condition.reason != UNSCHEDULABLE:
            return False, f"PodScheduled={condition.status}, reason {condition.reason or 'none'}"
        nominated = pod.status.nominated_node_name or self._handle.nominator.node_of(pod.uid)
        if nominated:
            return False, f"nominated to {nominated}"
        return True, "PodScheduled=False, reason Unschedulable, no nominated node"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_EVIDENCE_LENGTH else text[: _MAX_EVIDENCE_LENGTH - 3] + "..."
