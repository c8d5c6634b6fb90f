"""Questions of users: a pod, changes to the cluster, and how many copies would fit.

A question is answered by a generator whose steps are trials, each of which applies all changes
anew. Questions are bounded: one slice must not take long, so neither may what it applies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from time import thread_time
from typing import Any, Final

import msgspec

from scheduler.api.meta import LabelSelector, ObjectMeta
from scheduler.api.node import Node
from scheduler.api.pod import Pod
from scheduler.api.quantity import QuantityError
from scheduler.api.selectors import CompiledLabelSelector, SelectorError, compile_label_selector
from scheduler.cache import NodeTable
from scheduler.client.resources import PODS
from scheduler.explain.examining.trial_decision import TrialDecision, TrialDecisions
from scheduler.explain.records import Change, NodeToAdd, WhatIfQuestion
from scheduler.explain.what_if.added_nodes import node_manifest
from scheduler.explain.what_if.changes import (
    ChangeError,
    as_json,
    check_field,
    check_identity,
    check_manifest,
    decoded,
    set_field,
)
from scheduler.explain.what_if.edits import Edits
from scheduler.explain.what_if.limits import Sizes, check_question
from scheduler.explain.what_if.trial import TrialParts, WhatIfTrial
from scheduler.framework import PodTerm
from scheduler.service.questions import QuestionFailedError

Find = Callable[[str, str], Any | None]
"""Return an object by kind and key; None for none."""

COPIES_AT_ONCE: Final = 4
"""Copies decided on in one slice; more only if they are quick."""
MAX_CUT: Final = 60
"""Slices for one decision."""

RUNTIME_CLASS: Final = "/spec/runtimeClassName"
"""Not read by scheduling, but the overhead and nodes of a new pod follow from it."""

NO_RESERVE: Final = (
    "only the choice of a node was tried, not what follows it: waiting for a pod group, or for a "
    "volume to be provisioned"
)
ALONE: Final = "a deferred quota was compared with each copy alone, not with all of them"
NO_QUOTA: Final = (
    "ordinary ResourceQuotas are not checked: the API server does so when the pod is created"
)
"""Of pods that do not exist; others were admitted."""
CLUSTERS_OWN: Final = "default-scheduler"
ASSUMED: Final = (
    "the manifest names no schedulerName, so that the cluster's own scheduler places the pod as it "
    "is; the answer is for schedulerName {name}"
)


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
    #: What was filled in for the objects of the question, and what is not known.
    filled: str = ""
    #: That the pod is asked about as if it named the scheduler; empty if it does.
    assumed: str = ""


class Question:
    """One question about the live state."""

    def __init__(self, parts: TrialParts, asked: WhatIfQuestion, *, slice_seconds: float) -> None:
        """Check the question. Raises ChangeError for one that makes no sense or is too large."""
        check_question(asked)
        self._parts = parts
        self._asked = asked
        self._seconds = slice_seconds
        self._decisions = TrialDecisions(parts.engine)
        self._edits = Edits(parts)
        self._sizes = Sizes()
        self.answer = Answer()

    def run(self) -> Generator[None, None, Answer]:
        """Answer; yields between slices. Raises ChangeError, LookupError, QuestionFailedError."""
        try:
            end = thread_time() + self._seconds
            for _ in self._make_edits():
                if thread_time() > end:
                    yield
                    end = thread_time() + self._seconds
            # After what the edits add, which may decide how the pod is stored.
            template = self._template()
            for _ in _count_pods(template, self._parts.cache.table):
                if thread_time() > end:
                    yield
                    end = thread_time() + self._seconds
            yield
            yield from self._place(template)
            self.answer.filled = self._edits.manifests.fillings.line()
        finally:
            self._edits.close()
        return self.answer

    def _make_edits(self) -> Iterator[None]:
        """Decode all changes; yields where a slice may end."""
        for change in self._changes():
            if change is not None:
                self._edits.make(change)
            yield

    def _place(self, template: Pod) -> Iterator[None]:
        answer, decision, cut = self.answer, TrialDecision(), 0
        while len(answer.placed) < self._asked.copies:
            before = len(answer.placed)
            decision = self._slice(template)
            cut = cut + 1 if decision.cut and len(answer.placed) == before else 0
            yield
            if decision.raised:
                raise QuestionFailedError(f"the question failed: {decision.error}")
            if not decision and (not decision.cut or cut > MAX_CUT):
                break
        answer.last = decision
        answer.complete = not decision.cut

    def _slice(self, template: Pod) -> TrialDecision:
        """Place the copies known to fit, then a few more; return the last decision."""
        answer, asked = self.answer, self._asked
        placed = list(answer.placed)
        end = thread_time() + self._seconds
        with WhatIfTrial(self._parts, self._decisions) as trial:
            self._edits.apply(trial)
            if asked.pod:
                self._waiting(trial.find)
            answer.nodes = self._parts.cache.table.node_count
            for index, node in enumerate(placed):
                trial.place(self._copy(trial, template, index), node)
            decision = TrialDecision()
            for _ in range(min(COPIES_AT_ONCE, asked.copies - len(placed))):
                pod = self._copy(trial, template, len(answer.placed))
                # Plugins may look it up.
                trial.put(PODS, pod)
                # Applying the changes took its part of the slice, and so will taking them back.
                left = max(self._seconds / 2, end - thread_time())
                decision = trial.decide(pod, seconds=left, keep=True, details=True)
                if not answer.placed and not decision.cut:
                    answer.first = decision
                if not decision:
                    break
                answer.placed.append(decision.node)
                if thread_time() > end:
                    break
            return decision

    # -- the pod ---------------------------------------------------------------------------------

    def _template(self) -> Pod:
        """Return the pod with its fields set, interned until the question ends."""
        asked = self._asked
        if asked.pod:
            made = as_json(self._waiting(self._edits.find))
        else:
            ours = next(iter(self._parts.engine.frameworks))
            made = _new_pod(asked.manifest or {}, ours)
            named = "schedulerName" in (asked.manifest or {}).get("spec", {})
            if not named and "/spec/schedulerName" not in asked.fields and ours != CLUSTERS_OWN:
                self.answer.assumed = ASSUMED.format(name=ours)
            metadata = made["metadata"]
            metadata["name"] = _unused_name(
                self._edits.find, metadata["namespace"], metadata["name"]
            )
        before = msgspec.convert(
            {name: made["metadata"].get(name, "") for name in ("name", "namespace", "uid")},
            ObjectMeta,
        )
        key = self.answer.pod = f"{before.namespace}/{before.name}"
        try:
            if asked.manifest is not None:
                check_manifest(made, PODS, key)
            for path, value in asked.fields.items():
                change = Change("set", "Pod", key, path, value)
                if path != RUNTIME_CLASS:
                    check_field(change, PODS)
                set_field(made, change)
            _forget_priority(made, asked.fields)
            # As the scheduler reads it: what it does not read may be of any size.
            # Of a pod that exists, too: what was set decides about other fields.
            pod: Pod = decoded(PODS, made, key, partial(self._edits.manifests.complete, PODS))
            self._sizes.add(as_json(pod).get("spec"), key)
            self._check(pod, before)
            return self._edits.interned(pod)
        except RecursionError:
            raise ChangeError(f"{key}: nests too deeply") from None
        except QuantityError as error:
            raise ChangeError(f"{key}: {error}") from error

    def _check(self, pod: Pod, before: ObjectMeta) -> None:
        key = self.answer.pod
        check_identity(before, pod.metadata, key)
        if pod.spec.node_name:
            raise ChangeError(f"{key}: a pod with a node is not scheduled; do not set nodeName")
        if pod.spec.scheduler_name not in self._parts.engine.frameworks:
            ours = ", ".join(self._parts.engine.frameworks)
            raise ChangeError(
                f"{key}: schedulerName is {pod.spec.scheduler_name[:80]!r}; "
                f"this scheduler has {ours}"
            )

    def _waiting(self, find: Find) -> Pod:
        """Return the pod that was asked about. Raises LookupError, or ChangeError with a node."""
        key = self._asked.pod
        known: Pod | None = find("Pod", key)
        if known is None:
            raise LookupError(f'no pod "{key[:200]}": it does not exist, or it has finished')
        if self._parts.cache.is_assumed(known.uid):
            raise ChangeError(f"{key} is being bound at this moment")
        if known.spec.node_name:
            raise ChangeError(f"{key} is on {known.spec.node_name}: ask about a copy of it with -f")
        return known

    def _copy(self, trial: WhatIfTrial, template: Pod, index: int) -> Pod:
        """Return one copy, with an identity that no pod has; the first of a pod is that pod."""
        metadata = msgspec.structs.replace(template.metadata)
        if index:
            metadata.name = f"{metadata.name[:240]}-copy-{index}"
        if index or not self._asked.pod:
            metadata.name = _unused_name(trial.find, metadata.namespace, metadata.name)
            metadata.uid = trial.new_uid()
        return msgspec.structs.replace(template, metadata=metadata)

    # -- changes ---------------------------------------------------------------------------------

    def _changes(self) -> Iterator[Change | None]:
        """Yield all changes, and None where the slice may end."""
        asked, find = self._asked, self._edits.find
        # Before anything is changed: a selector selects the nodes that there are.
        dropped, cordoned = list[str](), list[str]()
        for names, texts in ((dropped, asked.drop_nodes), (cordoned, asked.cordon)):
            for text in texts:
                names.extend(self._nodes(text))
                yield None
        for each in asked.add_nodes:
            yield from self._added(each)
        for name in dropped:
            if find("Node", name) is not None:
                for key in self._pods_on(name):
                    if find("Pod", key) is not None:
                        yield Change("remove", "Pod", key)
                yield Change("remove", "Node", name)
        for name in cordoned:
            if find("Node", name) is not None:
                yield Change("set", "Node", name, "/spec/unschedulable", True)
        for key in asked.remove_pods:
            yield Change("remove", "Pod", key if "/" in key else f"default/{key}")
        yield from asked.changes

    def _pods_on(self, node: str) -> list[str]:
        """Return the pods bound to a node; those that are being bound stay, and take no room."""
        cache = self._parts.cache
        row = cache.table.row_of(node)
        pods = [] if row is None else list(cache.table.pods[row].values())
        return [each.key for each in pods if not cache.is_assumed(each.uid)]

    def _nodes(self, text: str) -> list[str]:
        """Return the nodes of a name or a label selector, by name. Raises ChangeError for none."""
        if "=" not in text and "!" not in text and " " not in text:
            node: Node | None = self._edits.find("Node", text)
            if node is None:
                raise ChangeError(
                    f"there is no node {text[:200]!r}; selectors are written KEY=VALUE"
                )
            return [node.name]
        matches = label_selector(text).matches
        nodes = self._parts.stores["nodes"].list()
        found = [str(each.name) for each in nodes if matches(each.metadata.labels)]
        if not found:
            raise ChangeError(f"no node has {text[:200]}")
        return sorted(found)

    def _added(self, asked: NodeToAdd) -> Iterator[Change]:
        """Yield the addition of nodes."""
        like: Node | None = None
        if asked.like:
            like = self._edits.find("Node", asked.like)
            if like is None:
                raise ChangeError(f"there is no node {asked.like[:200]!r} to be like")
        for index in range(asked.count):
            name = asked.name if asked.count == 1 else f"{asked.name}-{index}"
            if self._edits.find("Node", name) is not None:
                raise ChangeError(f"there is a node {name[:200]!r} already; give another name")
            try:
                value = node_manifest(asked, name, like)
            except ValueError as error:
                raise ChangeError(f"Node {name[:200]}: {error}") from error
            if index == 0:
                self._sizes.add_node(value, asked.count)
            yield Change("add", "Node", name, value=value)


def _count_pods(pod: Pod, table: NodeTable) -> Iterator[None]:
    """Count the pods that match each affinity term, which a plugin would do in one piece.

    The table keeps the counts for the plugins, which resolve selectors of namespaces as well.
    """
    yield
    terms = pod.signature.pod_affinity_terms(pod.metadata.namespace)
    yield
    weighted = (*terms.preferred, *terms.preferred_anti)
    for term in (*terms.required_anti, *(each.term for each in weighted)):
        table.label_column(term.topology_key)
        yield
        if term.namespace_selector is None:
            table.pod_counts((PodTerm(term.namespaces, term.selector),), terminating=True)
            yield


def _unused_name(find: Find, namespace: str, name: str) -> str:
    """Return the name of a pod, with a number if there is one that must keep its place."""
    unused, number = name, 1
    while find("Pod", f"{namespace}/{unused}") is not None:
        number += 1
        unused = f"{name}-{number}"
    return unused


def _forget_priority(made: dict[str, Any], fields: Collection[str]) -> None:
    """Let another class decide about the priority of a pod, unless that was set as well."""
    spec = made.get("spec")
    if isinstance(spec, dict) and "/spec/priorityClassName" in fields:
        for name in ("priority", "preemptionPolicy"):
            if f"/spec/{name}" not in fields:
                spec.pop(name, None)


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


def label_selector(text: str) -> CompiledLabelSelector:
    """Return the selector of `KEY=VALUE,...`. Raises ChangeError."""
    wanted: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if not equals or not key:
            raise ChangeError(f"selector {text[:200]!r}: write KEY=VALUE, or several with commas")
        wanted[key] = value.removeprefix("=")
    try:
        return compile_label_selector(LabelSelector(match_labels=wanted))
    except SelectorError as error:
        raise ChangeError(f"selector {text[:200]!r}: {error}") from error


def parse(body: bytes) -> WhatIfQuestion:
    """Read the body of a request. Raises ChangeError."""
    try:
        return msgspec.json.decode(body, type=WhatIfQuestion)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ChangeError(f"the question cannot be read: {error}") from error
