"""Runs from bundles and recordings (docs/bundles.md), for the page with a time slider.

The run of a bundle spans the decisions that it remembers, that of a recording also the time that it
recorded. The file agrees with its manifest; a line that cannot be read is left out, since the rest
of another version's file is worth seeing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from scheduler.api import PodSignatures
from scheduler.api.pod import Pod
from scheduler.api.quantity import QuantityError
from scheduler.api.requests import Resources, node_allocatable
from scheduler.client.resources import NODES, PODS
from scheduler.history import Decision, DecisionResult, RejectionCount
from scheduler.history.run import RecordedRun, RunNode, RunPod
from scheduler.recording.format import ATTEMPT, BINDING, DECISION, DELTA, OBJECT, Line
from scheduler.recording.outcomes import Outcome
from scheduler.recording.reading import Bundle, open_bundle

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
_UNREADABLE: Final = (msgspec.DecodeError, QuantityError, ValueError, RecursionError)


class _Object(msgspec.Struct):
    kind: str = ""


class _Delta(msgspec.Struct):
    time: float
    plural: str
    type: str
    object: msgspec.Raw


class _Attempt(msgspec.Struct):
    time: float
    pod: str
    uid: str
    outcome: Outcome
    info: dict[str, Any] = {}


class _Binding(msgspec.Struct):
    time: float
    uid: str
    step: str


def run_of(path: str) -> RecordedRun:
    """Read a bundle or a recording.

    Raises:
        BundleError: it is none, or it is damaged.
    """
    bundle = open_bundle(path)
    story = _Story()
    for line in bundle.lines():
        try:
            story.add(line)
        except _UNREADABLE:
            continue
    return story.run(bundle)


@dataclass(slots=True)
class _Story:
    """State of a bundle that is read line by line."""

    signatures: PodSignatures = field(default_factory=PodSignatures)
    nodes: dict[str, RunNode] = field(default_factory=dict)
    pods: dict[str, RunPod] = field(default_factory=dict)
    """By UID."""
    gone_nodes: list[RunNode] = field(default_factory=list)
    gone_pods: list[RunPod] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    placed: dict[str, int] = field(default_factory=dict)
    """The index of the last decision that placed a pod, by UID."""
    end: float = 0.0

    def add(self, line: Line) -> None:
        """Take a line; sections that no run needs are ignored."""
        take = self._takers().get(line.section)
        if take is not None:
            take(line.data)

    def _takers(self) -> dict[str, Callable[[msgspec.Raw], None]]:
        return {
            OBJECT: self._object,
            DECISION: lambda data: self._decided(msgspec.json.decode(data, type=Decision)),
            DELTA: self._delta,
            ATTEMPT: self._attempt,
            BINDING: self._binding,
        }

    def run(self, bundle: Bundle) -> RecordedRun:
        """Return the run, when all lines were taken."""
        created = bundle.header.created
        begin = min((each.time for each in self.decisions), default=created)
        pods = [*self.pods.values(), *self.gone_pods]
        return RecordedRun(
            title=f"{bundle.header.kind.lower()} {bundle.path.name}",
            begin=min(begin, created),
            end=max(self.end, created),
            nodes=[*self.nodes.values(), *self.gone_nodes],
            # Where a decision is known, it tells when the pod got its node.
            pods=[
                msgspec.structs.replace(pod, node="") if pod.uid in self.placed else pod
                for pod in pods
            ],
            decisions=self.decisions,
        )

    # -- objects ---------------------------------------------------------------------------------

    def _object(self, data: msgspec.Raw) -> None:
        kind = msgspec.json.decode(data, type=_Object).kind
        if kind == "Node":
            self._node(data, 0.0)
        elif kind == "Pod":
            self._pod(data, 0.0)

    def _delta(self, data: msgspec.Raw) -> None:
        delta = msgspec.json.decode(data, type=_Delta)
        self.end = max(self.end, delta.time)
        deleted = delta.type == "DELETED"
        if delta.plural == NODES.plural:
            name = self._node(delta.object, delta.time)
            if deleted:
                removed = msgspec.structs.replace(self.nodes.pop(name), removed=delta.time)
                self.gone_nodes.append(removed)
        elif delta.plural == PODS.plural:
            uid = self._pod(delta.object, delta.time)
            if deleted:
                gone = msgspec.structs.replace(self.pods.pop(uid), deleted=delta.time)
                self.gone_pods.append(gone)

    def _node(self, data: msgspec.Raw, now: float) -> str:
        """Add or update a node; return its name."""
        node = NODES.decode(data)
        known = self.nodes.get(node.name)
        resources, pods = node_allocatable(node)
        self.nodes[node.name] = RunNode(
            name=node.name,
            zone=node.metadata.labels.get(ZONE_LABEL, ""),
            unschedulable=node.spec.unschedulable,
            allocatable={**_amounts(resources), "pods": pods},
            added=now if known is None else known.added,
        )
        return node.name

    def _pod(self, data: msgspec.Raw, now: float) -> str:
        """Add or update a pod; return its UID."""
        pod = PODS.decode(data)
        self.signatures.intern(pod)
        self.pods[pod.uid] = RunPod(
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            uid=pod.uid,
            profile=pod.spec.scheduler_name,
            priority=pod.priority,
            requests=_amounts(pod.signature.assigned),
            created=_created(pod, now),
            node=pod.spec.node_name,
        )
        return pod.uid

    # -- decisions -------------------------------------------------------------------------------

    def _decided(self, decision: Decision) -> None:
        self.end = max(self.end, decision.time, decision.bound)
        if decision.result is DecisionResult.PLACED:
            self.placed[decision.uid] = len(self.decisions)
        self.decisions.append(decision)

    def _attempt(self, data: msgspec.Raw) -> None:
        """Make a decision of a recorded attempt, whose times by phase are not in the file."""
        attempt = msgspec.json.decode(data, type=_Attempt)
        outcome, pod = attempt.outcome, self.pods.get(attempt.uid)
        rejected = outcome.rejected_by or outcome.pending_by
        result = DecisionResult.UNSCHEDULABLE if rejected else DecisionResult.ERROR
        self._decided(
            Decision(
                seq=max((each.seq for each in self.decisions[-1:]), default=0) + 1,
                pod=attempt.pod,
                uid=attempt.uid,
                profile="" if pod is None else pod.profile,
                attempt=_number(attempt.info.get("attempts")),
                time=attempt.time,
                queue="",
                event="",
                hint_plugin="",
                result=DecisionResult.PLACED if outcome.node else result,
                node=outcome.node,
                message=outcome.message,
                nodes=len(self.nodes),
                evaluated=outcome.evaluated,
                feasible=outcome.feasible,
                rejections=tuple(RejectionCount(each, "", "", 0) for each in outcome.rejected_by),
                victims=outcome.victims,
                nominated_node=outcome.nominated or "",
            )
        )

    def _binding(self, data: msgspec.Raw) -> None:
        binding = msgspec.json.decode(data, type=_Binding)
        self.end = max(self.end, binding.time)
        index = self.placed.get(binding.uid)
        if index is None:
            return
        if binding.step == "bound":
            self.decisions[index] = dataclasses.replace(self.decisions[index], bound=binding.time)
        elif binding.step == "failed":
            failed = dataclasses.replace(self.decisions[index], result=DecisionResult.ERROR)
            self.decisions[index] = failed
            del self.placed[binding.uid]


def _amounts(resources: Resources) -> dict[str, float]:
    found: dict[str, float] = {
        "cpu": resources.milli_cpu / 1000,
        "memory": resources.memory,
        "ephemeral-storage": resources.ephemeral_storage,
        **dict(resources.scalars),
    }
    return {name: amount for name, amount in found.items() if amount}


def _created(pod: Pod, now: float) -> float:
    """Return when a pod was created, `now` if it does not say."""
    try:
        return datetime.fromisoformat(pod.metadata.creation_timestamp or "").timestamp()
    except ValueError:
        return now


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
