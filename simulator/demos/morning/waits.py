"""Groups of waiting pods by reason, shortened for display.

The source is the condition PodScheduled, which `kubectl describe pod` shows as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from scheduler.api import Pod

GATED: Final = "SchedulingGated"
QUEUED: Final = "in the queue"

_MESSAGE: Final = re.compile(r"0/\d+ nodes are available: (?P<reasons>.*?)\.(?: |$)")
_COUNTED: Final = re.compile(r"(?P<count>\d+) (?P<reason>.+)")
_SHORT: Final = (
    ("node(s) were unschedulable", "cordoned"),
    ("node(s) had untolerated taint", "taint not tolerated"),
    ("node(s) didn't match Pod's node affinity/selector", "no matching label"),
    ("node(s) didn't match pod topology spread constraints", "spread over zones"),
    ("node(s) didn't match pod affinity rules", "pod affinity"),
    ("node(s) didn't match pod anti-affinity rules", "pod anti-affinity"),
    ("node(s) didn't have free ports", "port taken"),
    ("Insufficient ", "insufficient "),
    ("Too many pods", "too many pods"),
)
_NEVER_CONSIDERED: Final = "node(s) didn't satisfy plugin(s)"
"""Nodes that PreFilter left out, for a pinned pod all but one; of no interest to the viewer."""


class NodeReason(NamedTuple):
    """A reason and the number of nodes it applies to."""

    number: int
    text: str


class WaitGroup(NamedTuple):
    """Pods that wait for the same reason."""

    reason: str
    number: int
    example: str
    """namespace/name of one of them."""
    detail: str
    """All reasons of the example, by node count; empty where that adds nothing."""


def node_reasons(message: str) -> list[NodeReason]:
    """Return the reasons in a FailedScheduling message, the most frequent first.

    >>> node_reasons("0/3 nodes are available: 1 Insufficient cpu, 2 Too many pods. preemption: …")
    [NodeReason(number=2, text='too many pods'), NodeReason(number=1, text='insufficient cpu')]
    """
    found = _MESSAGE.match(message)
    if found is None:
        return []
    reasons: list[NodeReason] = []
    excluded: list[NodeReason] = []
    for part in found["reasons"].split(", "):
        counted = _COUNTED.fullmatch(part)
        if counted is None:
            continue
        reason = NodeReason(int(counted["count"]), _short(counted["reason"]))
        left_out = counted["reason"].startswith(_NEVER_CONSIDERED)
        (excluded if left_out else reasons).append(reason)
    return sorted(reasons or excluded, key=lambda one: -one.number)


def _short(reason: str) -> str:
    for begins, short in _SHORT:
        if reason.startswith(begins):
            return short + reason.removeprefix(begins) if begins.endswith(" ") else short
    return reason.removeprefix("node(s) ")


def waiting_reason(pod: Pod) -> tuple[str, str]:
    """Return reason and message of PodScheduled=False; empty texts before the first attempt."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message
    return "", ""


def headline(pod: Pod) -> tuple[str, str]:
    """Return the reason to group a waiting pod under, and the details of this pod."""
    reason, message = waiting_reason(pod)
    if reason == GATED:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return f"gate {gates}" if gates else QUEUED, ""
    if not reason:
        return QUEUED, ""
    reasons = node_reasons(message)
    if not reasons:
        return message or reason, ""
    detail = ", ".join(f"{one.number} {one.text}" for one in reasons) if len(reasons) > 1 else ""
    return reasons[0].text, detail


def wait_groups(pods: Iterable[Pod]) -> list[WaitGroup]:
    """Group waiting pods by reason, the largest group first."""
    groups: dict[str, WaitGroup] = {}
    for pod in pods:
        reason, detail = headline(pod)
        found = groups.get(reason)
        groups[reason] = (
            WaitGroup(reason, 1, pod.key, detail)
            if found is None
            else found._replace(number=found.number + 1)
        )
    return sorted(groups.values(), key=lambda group: (-group.number, group.reason))
