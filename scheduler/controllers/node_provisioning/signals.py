"""Signals: the parts of autoscalers' Kubernetes Events that the bridge uses.

Pure: text in, record out. Messages are matched by substrings, since their fragments come in random
order and repeats have a prefix. An event that is not understood gives no signal, which is safe:
nothing is inferred from silence. docs/node-provisioning-bridge.md has the mapping.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scheduler.api.meta import parse_time
from scheduler.api.policy import CoreEvent

CLUSTER_AUTOSCALER: Final = "cluster-autoscaler"
KARPENTER: Final = "karpenter"

COMBINED: Final = "(combined from similar events): "
"""Prefix that client-go puts before the message after ten variants within ten minutes."""

MAX_MESSAGE_LENGTH: Final = 1024
"""Characters of a condition's message; events hold no more either."""


class Reason(StrEnum):
    """Reasons of the condition, all that the bridge writes."""

    TRIGGERED_SCALE_UP = "TriggeredScaleUp"
    NOMINATED = "Nominated"
    SCALE_UP_BACKOFF = "ScaleUpBackoff"
    MAX_SIZE_REACHED = "MaxSizeReached"
    QUOTA_EXCEEDED = "QuotaExceeded"
    NO_NODE_GROUP = "NoNodeGroup"
    KARPENTER_FAILED = "KarpenterFailedScheduling"
    PROVISIONING_FAILED = "ProvisioningFailed"
    PROVISIONING_TIMED_OUT = "ProvisioningTimedOut"


@dataclass(frozen=True, slots=True)
class PodSignal:
    """An autoscaler's event about one pod."""

    source: str
    namespace: str
    name: str
    uid: str
    #: Seconds since the epoch, by the autoscaler's clock.
    time: float
    #: The time of the first event of which this one is a repeat, or `time`. Karpenter repeats
    #: `Nominated` for one node claim every two minutes; cluster-autoscaler reports a scale-up once.
    first_time: float
    #: Whether nodes are on their way (True), or none will come (False).
    provisioning: bool
    reason: Reason
    message: str
    #: The node groups or node claims that are to bring nodes for the pod.
    targets: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TargetFailure:
    """The failure of a node group or node claim to bring a node; it names no pod."""

    source: str
    target: str
    time: float
    message: str


@dataclass(frozen=True, slots=True)
class ScaleUp:
    """A request for nodes to a node group or node claim; it names no pod."""

    source: str
    target: str
    time: float


Signal = PodSignal | TargetFailure | ScaleUp


@dataclass(frozen=True, slots=True)
class StatusObject:
    """The ConfigMap that cluster-autoscaler's events about node groups regard."""

    namespace: str = "kube-system"
    name: str = "cluster-autoscaler-status"


def read_event(event: CoreEvent, status: StatusObject) -> Signal | None:
    """Return the signal in an event; None if it has none or is not an autoscaler's."""
    time = event_time(event)
    if time is None:
        return None
    message = event.message.removeprefix(COMBINED)
    about = event.involved_object
    match (event.component, about.kind):
        case (source, "Pod") if source in _POD_READERS:
            return _pod_signal(event, message, time)
        case (source, "ConfigMap") if source == CLUSTER_AUTOSCALER:
            if (about.namespace, about.name) != (status.namespace, status.name):
                return None
            group = _group(event.reason, message)
            if group is None:
                return None
            if event.reason == SCALED_UP_GROUP:
                return ScaleUp(source, group, time)
            return TargetFailure(source, group, time, message)
        case (source, "NodeClaim") if source == KARPENTER:
            if event.reason == "InsufficientCapacityError" and about.name:
                return TargetFailure(source, about.name, time, message)
    return None


def event_time(event: CoreEvent) -> float | None:
    """Return the epoch seconds of `series.lastObservedTime`, `lastTimestamp` or `eventTime`."""
    series = event.series.last_observed_time if event.series is not None else None
    for text in (series, event.last_timestamp, event.event_time):
        if text:
            return parse_time(text)
    return None


# ------------------------------------------------------------------------------------ about one pod

_GROUP: Final = re.compile(r"\{(\S+) (\d+)->(\d+) \(max: (\d+)\)\}")
_CLAIM: Final = re.compile(r"nodeclaim/([^\s,]+)")
_NOT_READY: Final = re.compile(r"\d+ not ready for scale-up\Z")


def _pod_signal(event: CoreEvent, message: str, time: float) -> PodSignal | None:
    found = _POD_READERS[event.component](event.reason, message)
    about = event.involved_object
    if found is None or not about.uid:
        return None
    provisioning, reason, targets = found
    first = parse_time(event.first_timestamp or "") if event.component == KARPENTER else None
    return PodSignal(
        event.component, about.namespace, about.name, about.uid,
        time, time if first is None else min(first, time), provisioning, reason,
        _short(f"{event.reason}: {_detail(event.reason, message)}"), targets,
    )  # fmt: skip


_Reading = tuple[bool, Reason, frozenset[str]]


def _of_cluster_autoscaler(reason: str, message: str) -> _Reading | None:
    if reason == "TriggeredScaleUp":
        groups = frozenset(match[0] for match in _GROUP.findall(message))
        return True, Reason.TRIGGERED_SCALE_UP, groups
    if reason != "NotTriggerScaleUp":
        return None
    fragments = _fragments(message)
    if fragments and all(_NOT_READY.match(each) for each in fragments):
        return None  # the groups are only being started
    return False, _why_not(message), frozenset()


def _why_not(message: str) -> Reason:
    if "in backoff after failed scale-up" in message:
        return Reason.SCALE_UP_BACKOFF
    if "max node group size reached" in message or "max total nodes in cluster reached" in message:
        return Reason.MAX_SIZE_REACHED
    if "exceeded quota:" in message:
        return Reason.QUOTA_EXCEEDED
    return Reason.NO_NODE_GROUP


def _of_karpenter(reason: str, message: str) -> _Reading | None:
    if reason == "FailedScheduling":
        return False, Reason.KARPENTER_FAILED, frozenset()
    if reason == "Nominated":
        return True, Reason.NOMINATED, frozenset(_CLAIM.findall(message))
    return None


_POD_READERS: Final = {CLUSTER_AUTOSCALER: _of_cluster_autoscaler, KARPENTER: _of_karpenter}


def _fragments(message: str) -> list[str]:
    """Return the fragments after the colon of "pod didn't trigger scale-up: ..."."""
    rest = message.partition(":")[2].strip()
    return [each.strip() for each in rest.split(", ")] if rest else []


def _detail(reason: str, message: str) -> str:
    """Return the message with its fragments sorted, so that equal contents give equal messages."""
    if reason == "NotTriggerScaleUp":
        return ", ".join(sorted(_fragments(message))) or "there is no node group"
    return message


def _short(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[: MAX_MESSAGE_LENGTH - 3]}..."


# -------------------------------------------------------------------------------- about node groups

SCALED_UP_GROUP: Final = "ScaledUpGroup"

_GROUP_NAMES: Final = {
    # "Scale-up: setting group g1 size to 2 instead of 1 (max: 5)", later "group g1 size set to 2".
    SCALED_UP_GROUP: re.compile(r"group (\S+) size"),
    "FailedToScaleUpGroup": re.compile(r"for group (\S+):(?:\s|\Z)"),
    "ScaleUpFailed": re.compile(r"to group (\S+) due to"),
    "ScaleUpTimedOut": re.compile(r"added to group (\S+) failed to register"),
}


def _group(reason: str, message: str) -> str | None:
    pattern = _GROUP_NAMES.get(reason)
    found = pattern.search(message) if pattern is not None else None
    return None if found is None else found[1]
