"""Questions of users: a pod, changes to the cluster, and how many copies would fit.

A question is answered by a generator whose steps are trials, each of which applies all changes
anew. Questions are bounded: one slice must not take long, so neither may what it applies.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from scheduler.api.meta import LabelSelector
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.selectors import SelectorError, compile_label_selector
from scheduler.client.resources import PODS
from scheduler.engine import TrialDecision, TrialDecisions
from scheduler.pages import Change, NodeToAdd, WhatIfQuestion
from scheduler.pages.what_if import MAX_COPIES, MAX_SECONDS
from scheduler.service.what_if.changes import ChangeError, as_json
from scheduler.service.what_if.remedies.node_steps import HOSTNAME
from scheduler.service.what_if.trial import Trial, TrialParts

MAX_CHANGES: Final = 200
"""Objects that a live question may change: some 5 ms to make and to take back."""
MAX_FIELDS: Final = 50
COPIES_AT_ONCE: Final = 4
"""Copies decided on in one slice; more only if they are quick."""
MAX_CUT: Final = 60
"""Slices for one decision."""

NO_RESERVE: Final = "Reserve, Permit and PreBind are not tried, and quotas see each copy alone"
EXTENDERS: Final = "extenders are not called"


@dataclass(slots=True)
class Answer:
    """The part of the answer that is known so far."""

    pod: str = ""
    nodes: int = 0
    first: TrialDecision = field(default_factory=TrialDecision)
    #: Nodes of the copies, in order.
    placed: list[str] = field(default_factory=list)
    #: The decision about the first copy that does not fit.
    last: TrialDecision = field(default_factory=TrialDecision)
    complete: bool = False


class Question:
    """One question about the live state."""

    def __init__(self, parts: TrialParts, asked: WhatIfQuestion, *, slice_seconds: float) -> None:
        """Check the question. Raises ChangeError for one that makes no sense or is too large."""
        self._parts = parts
        self._asked = asked
        self._seconds = slice_seconds
        self._decisions = TrialDecisions(parts.engine)
        self.answer = Answer()
        #: Names of nodes, and keys of pods.
        self._dropped: list[str] = []
        self._cordoned: list[str] = []
        self._removed = [each if "/" in each else f"default/{each}" for each in asked.remove_pods]
        if bool(asked.pod) == (asked.manifest is not None):
            raise ChangeError("give either a pod, namespace/name, or the manifest of one")
        _in_range("copies", asked.copies, 1, MAX_COPIES)
        _in_range("seconds", asked.seconds, 0.1, MAX_SECONDS)
        if len(asked.fields) > MAX_FIELDS:
            raise ChangeError(
                f"{len(asked.fields)} fields: at most {MAX_FIELDS} can be set at once"
            )

    def run(self) -> Generator[None, None, Answer]:
        """Answer; yields between slices. Raises ChangeError, LookupError."""
        template = self._prepare()
        # Held to the end, so that copies need not be decoded in every slice.
        self._parts.signatures.intern(template)
        try:
            yield
            yield from self._place(template)
        finally:
            self._parts.signatures.release(template)
        return self.answer

    def _place(self, template: Pod) -> Iterator[None]:
        answer, decision, cut = self.answer, TrialDecision(), 0
        while len(answer.placed) < self._asked.copies:
            before = len(answer.placed)
            decision = self._slice(template)
            cut = cut + 1 if decision.cut and len(answer.placed) == before else 0
            yield
            if not decision and (not decision.cut or cut > MAX_CUT):
                break
        answer.last = decision
        answer.complete = not decision.cut

    def _slice(self, template: Pod) -> TrialDecision:
        """Place the copies known to fit, then a few more; return the last decision."""
        answer, asked = self.answer, self._asked
        placed = list(answer.placed)
        with Trial(self._parts, self._decisions) as trial:
            trial.apply(list(self._changes(trial)))
            if asked.pod:
                self._waiting(trial)
            answer.nodes = self._parts.cache.table.node_count
            for index, node in enumerate(placed):
                trial.place(self._copy(trial, template, index), node)
            decision = TrialDecision()
            for _ in range(COPIES_AT_ONCE):
                if len(answer.placed) >= asked.copies:
                    break
                pod = self._copy(trial, template, len(answer.placed))
                # Plugins may look it up.
                trial.put(PODS, pod)
                decision = trial.decide(pod, seconds=self._seconds, keep=True)
                if not answer.placed and not decision.cut:
                    answer.first = decision
                if not decision:
                    break
                answer.placed.append(decision.node)
            return decision

    # -- the pod ---------------------------------------------------------------------------------

    def _prepare(self) -> Pod:
        """Return the pod with its fields set; check and count the changes."""
        asked = self._asked
        with Trial(self._parts) as trial:
            if asked.pod:
                template = as_json(self._waiting(trial))
            else:
                template = _new_pod(asked.manifest or {}, next(iter(self._parts.engine.frameworks)))
                metadata = template["metadata"]
                metadata["name"] = _unused_name(trial, metadata["namespace"], metadata["name"])
            metadata = template["metadata"]
            self.answer.pod = f"{metadata['namespace']}/{metadata['name']}"
            made = as_json(self._decoded(trial, template, self.answer.pod))
            decoded: Pod = trial.decoded(PODS, made, self.answer.pod)
            self._dropped = [name for each in asked.drop_nodes for name in _nodes(trial, each)]
            self._cordoned = [name for each in asked.cordon for name in _nodes(trial, each)]
            for key in self._removed:
                if trial.find("Pod", key) is None:
                    raise ChangeError(f"there is no Pod {key} to remove")
            changes = list(self._changes(trial))
            # So that an error is found before the first slice.
            trial.apply(changes[:MAX_CHANGES])
        if len(changes) > MAX_CHANGES:
            raise ChangeError(
                f"{len(changes)} objects would change: a live question may change {MAX_CHANGES}; "
                "use an offline world for more (docs/simulate.md)"
            )
        return decoded

    def _waiting(self, trial: Trial) -> Pod:
        """Return the pod that was asked about. Raises LookupError, or ChangeError with a node."""
        key = self._asked.pod
        known: Pod | None = trial.find("Pod", key)
        if known is None:
            raise LookupError(f'no pod "{key}": it does not exist, or it has finished')
        if self._parts.cache.is_assumed(known.uid):
            raise ChangeError(f"{key} is being bound at this moment")
        if known.spec.node_name:
            raise ChangeError(f"{key} is on {known.spec.node_name}: ask about a copy of it with -f")
        return known

    def _decoded(self, trial: Trial, template: dict[str, Any], key: str) -> Pod:
        if not self._asked.pod:
            trial.apply([Change("add", "Pod", key, value=template)])
        trial.apply(
            [Change("set", "Pod", key, path, each) for path, each in self._asked.fields.items()]
        )
        pod: Pod | None = trial.find("Pod", key)
        assert pod is not None
        if pod.spec.node_name:
            raise ChangeError(f"{key}: a pod with a node is not scheduled; do not set nodeName")
        if pod.spec.scheduler_name not in self._parts.engine.frameworks:
            ours = ", ".join(self._parts.engine.frameworks)
            raise ChangeError(
                f"{key}: schedulerName is {pod.spec.scheduler_name!r}; this scheduler has {ours}"
            )
        return pod

    def _copy(self, trial: Trial, template: Pod, index: int) -> Pod:
        """Return one copy, with an identity that no pod has; the first of a pod is that pod."""
        metadata = msgspec.structs.replace(template.metadata)
        if index:
            metadata.name = f"{metadata.name[:240]}-copy-{index}"
        if index or not self._asked.pod:
            metadata.name = _unused_name(trial, metadata.namespace, metadata.name)
            metadata.uid = trial.new_uid()
        return msgspec.structs.replace(template, metadata=metadata)

    # -- changes ---------------------------------------------------------------------------------

    def _changes(self, trial: Trial) -> Iterator[Change]:
        asked = self._asked
        for each in asked.add_nodes:
            yield from _added(trial, each)
        # Objects that went away since the question was asked need no change.
        for name in self._dropped:
            if trial.find("Node", name) is not None:
                yield from (Change("remove", "Pod", key) for key in self._pods_on(name))
                yield Change("remove", "Node", name)
        for name in self._cordoned:
            if trial.find("Node", name) is not None:
                yield Change("set", "Node", name, "/spec/unschedulable", True)
        for key in self._removed:
            if trial.find("Pod", key) is not None:
                yield Change("remove", "Pod", key)
        yield from asked.changes

    def _pods_on(self, node: str) -> list[str]:
        """Return the pods bound to a node; those that are being bound stay, and take no room."""
        cache = self._parts.cache
        row = cache.table.row_of(node)
        pods = [] if row is None else list(cache.table.pods[row].values())
        return [each.key for each in pods if not cache.is_assumed(each.uid)]


def _unused_name(trial: Trial, namespace: str, name: str) -> str:
    """Return the name of a pod, with a number if there is one that must keep its place."""
    unused, number = name, 1
    while trial.find("Pod", f"{namespace}/{unused}") is not None:
        number += 1
        unused = f"{name}-{number}"
    return unused


def _in_range(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ChangeError(f"{name}={value:g}: give a number from {least:g} to {most:g}")


def _new_pod(manifest: dict[str, Any], scheduler: str) -> dict[str, Any]:
    if manifest.get("kind") not in (None, "Pod"):
        raise ChangeError(f"the manifest is a {str(manifest['kind'])[:60]}: give a Pod")
    metadata, spec = manifest.get("metadata", {}), manifest.get("spec", {})
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise ChangeError("the manifest is no Pod: metadata and spec must be objects")
    made = {key: each for key, each in metadata.items() if key not in ("uid", "resourceVersion")}
    made["name"] = str(made.get("name") or "what-if")
    made["namespace"] = str(made.get("namespace") or "default")
    own = {"schedulerName": scheduler, **spec}
    own.pop("nodeName", None)
    return {"metadata": made, "spec": own}


def _nodes(trial: Trial, text: str) -> list[str]:
    """Return the nodes of a name or a label selector, by name. Raises ChangeError for none."""
    if "=" not in text and "!" not in text and " " not in text:
        node: Node | None = trial.find("Node", text)
        if node is None:
            raise ChangeError(f"there is no node {text!r}; selectors are written KEY=VALUE")
        return [node.name]
    wanted: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if not equals or not key:
            raise ChangeError(f"selector {text!r}: write KEY=VALUE, or several with commas")
        wanted[key] = value.removeprefix("=")
    try:
        selector = compile_label_selector(LabelSelector(match_labels=wanted))
    except SelectorError as error:
        raise ChangeError(f"selector {text!r}: {error}") from error
    found = [each for each in trial.objects("Node") if selector.matches(each.metadata.labels)]
    if not found:
        raise ChangeError(f"no node has {text}")
    return sorted(str(each.name) for each in found)


def _added(trial: Trial, asked: NodeToAdd) -> Iterator[Change]:
    """Yield the addition of nodes."""
    _in_range("count of nodes to add", asked.count, 1, MAX_CHANGES)
    own: dict[str, Any] = {"pods": "110"}
    labels: dict[str, str] = {}
    if asked.like:
        like: Node | None = trial.find("Node", asked.like)
        if like is None:
            raise ChangeError(f"there is no node {asked.like!r} to be like")
        made = as_json(like)
        own = dict(made["status"].get("allocatable", {}))
        labels = dict(made["metadata"].get("labels", {}))
    own |= asked.resources
    for index in range(asked.count):
        name = asked.name if asked.count == 1 else f"{asked.name}-{index}"
        if trial.find("Node", name) is not None:
            raise ChangeError(f"there is a node {name!r} already; give another name")
        value = {
            "metadata": {"name": name, "labels": {**labels, HOSTNAME: name, **asked.labels}},
            "spec": {"taints": [_taint(each) for each in asked.taints]},
            "status": {"allocatable": own, "capacity": own},
        }
        yield Change("add", "Node", name, value=value)


def _taint(text: str) -> dict[str, str]:
    head, colon, effect = text.rpartition(":")
    key, _, value = head.partition("=")
    if not colon or not key or not effect:
        raise ChangeError(f"taint {text!r}: write KEY=VALUE:EFFECT or KEY:EFFECT")
    return {"key": key, "value": value, "effect": effect}


def parse(body: bytes) -> WhatIfQuestion:
    """Read the body of a request. Raises ChangeError."""
    try:
        return msgspec.json.decode(body, type=WhatIfQuestion)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ChangeError(f"the question cannot be read: {error}") from error
