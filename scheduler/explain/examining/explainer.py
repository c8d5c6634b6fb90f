"""Explain the state of one pod and the result of every node for it (`kubestow explain`).

It reads queue, cache and profiles without changing them; the results by node come from
`examination`. No plugin runs for a pod that already has a node. One that another scheduler handles
is examined as if it named the profile whose name is nearest, else the first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from heapq import nsmallest
from typing import Final, NamedTuple

import msgspec

from scheduler.api.pod import Pod
from scheduler.api.scheduler_names import nearest
from scheduler.api.signatures.packed_spec import for_scheduler
from scheduler.cache.cache import with_node
from scheduler.engine import Attempt, Engine
from scheduler.explain.examining.node_report import examine_with
from scheduler.explain.records import (
    BindingView,
    Examination,
    NodeReport,
    PodExplanation,
    PodState,
    PodView,
    QueueState,
)
from scheduler.explain.records.wording import span
from scheduler.framework import Clock
from scheduler.queue import SchedulingQueue

FindPod = Callable[[str, str], Pod | None]
"""`find_pod(namespace, name)` returns the newest known version of a pod, or None."""

MAX_LINES: Final = 3
"""Maximum number of lines from each Permit plugin about a waiting pod."""
SLOW_SECONDS: Final = 1.0
"""After that time a binding counts as slow."""
UNDER_WAY: Final = "; the binding is under way"
DEFAULT_TOP: Final = 10
DEFAULT_EXAMPLES: Final = 3
CREATE_ANEW: Final = (
    "The schedulerName of a pod cannot be changed: correct it in the manifest, or in the template "
    "of the pod's owner, and create the pod anew"
)
MAX_NODES: Final = 1000
"""Upper limit of both options, so that a response stays small in a large cluster."""


class _Asked(NamedTuple):
    top: int
    examples: int
    node: str


class Explainer:
    """Explains single pods. Used on the owner's event loop, between cycles."""

    def __init__(
        self,
        engine: Engine,
        queue: SchedulingQueue,
        find_pod: FindPod,
        *,
        clock: Clock,
        bindings: Mapping[str, Attempt],
    ) -> None:
        """Explain pods of engine and queue; `bindings` has those whose binding is under way."""
        self._engine = engine
        self._bindings = bindings
        self._queue = queue
        self._find_pod = find_pod
        self._clock = clock

    def explain(
        self,
        namespace: str,
        name: str,
        *,
        top: int = DEFAULT_TOP,
        examples: int = DEFAULT_EXAMPLES,
        node: str = "",
    ) -> PodExplanation:
        """Explain one pod.

        Args:
            namespace: namespace of the pod.
            name: name of the pod.
            top: number of feasible nodes to list with their scores.
            examples: number of nodes to name for each reason.
            node: a node to report about, even if the pod already has a node; empty: none.

        Raises:
            LookupError: there is no such pod or node.
            ValueError: `top` or `examples` is out of range.
        """
        for option, value in (("nodes", top), ("examples", examples)):
            if not 0 <= value <= MAX_NODES:
                raise ValueError(f"{option}={value}: give a number from 0 to {MAX_NODES}")
        pod = self._find_pod(namespace, name)
        if pod is None:
            raise LookupError(
                f'no pod "{namespace}/{name}": it does not exist, or it has finished '
                "(finished pods are not watched)"
            )
        base = PodExplanation(
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            uid=pod.uid,
            profile=pod.spec.scheduler_name,
            priority=pod.priority,
            state=PodState.UNKNOWN,
            summary="",
            now=self._clock.now(),
        )
        asked = _Asked(top, examples, node)
        placed = self._placed(pod, base)
        if placed is None:
            return self._unplaced(pod, base, asked)
        if not node:
            return placed
        # A bound pod would fit nowhere but on its own node, so examine a copy without one.
        copy = with_node(self._as_ours(pod), "")
        return replace(placed, report=self._examine(copy, asked)[1])

    # -- pods that have a node -------------------------------------------------------------------

    def _placed(self, pod: Pod, base: PodExplanation) -> PodExplanation | None:
        node = pod.spec.node_name
        if node:
            since = _bound_since(pod)
            when = f" since {since}" if since else ""
            whose = "" if self._ours(pod) else f", by scheduler {_quoted(pod.spec.scheduler_name)}"
            text = f"bound to node {node}{when}{whose}"
            return replace(base, state=PodState.BOUND, summary=text, node=node, since=since)
        placed = self._engine.cache.get_pod(pod.uid)
        if placed is None:
            return None
        state, text = self._chosen(placed)
        return replace(base, state=state, summary=text, node=placed.spec.node_name)

    def slow_bindings(self, namespace: str, limit: int) -> list[BindingView]:
        """Return pods that have had a node for a second or more and are not bound; oldest first.

        `namespace` selects those of one; empty: of all.
        """
        last = self._clock.monotonic() - SLOW_SECONDS
        slow = (
            each
            for each in self._bindings.values()
            if each.started <= last and namespace in ("", each.pod.metadata.namespace)
        )
        oldest = nsmallest(limit, slow, key=lambda each: each.started)
        return [self._binding_view(each) for each in oldest]

    def _binding_view(self, attempt: Attempt) -> BindingView:
        pod, clock = attempt.pod, self._clock
        return BindingView(
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            uid=pod.uid,
            node=pod.spec.node_name,
            since=clock.now() - (clock.monotonic() - attempt.started),
            text=self._chosen(pod)[1],
        )

    def _chosen(self, placed: Pod) -> tuple[PodState, str]:
        """Return the state and the summary of a pod that is assumed on a node."""
        node = placed.spec.node_name
        waiting = self._engine.waiting_pods.get(placed.uid)
        if waiting is None:
            text = f"node {node} was chosen{self._binding(self._bindings.get(placed.uid))}"
            return PodState.BINDING, text
        plugins = ", ".join(waiting.pending_plugins())
        left = max(0.0, waiting.deadline() - self._clock.monotonic())
        text = f"node {node} was chosen; waits at Permit for {plugins}, for {left:.0f} s at most"
        lines = self._engine.frameworks[placed.spec.scheduler_name].explain(placed)
        for plugin in waiting.pending_plugins():
            text += "".join(f"; {line}" for line in lines.get(plugin, ())[:MAX_LINES])
        return PodState.WAITING_AT_PERMIT, text

    def _binding(self, attempt: Attempt | None) -> str:
        """Return when a node was chosen, and for what the binding waits."""
        if attempt is None:
            return UNDER_WAY
        began = self._clock.monotonic() - attempt.started
        ago = f" {span(began)} ago" if began >= SLOW_SECONDS else ""
        if attempt.awaited_group:
            return (
                f"{ago}; its binding waits for that of other members of pod group "
                f"{attempt.awaited_group}"
            )
        waits = [f"waits {_pre_bind(attempt, each)}" for each in attempt.pre_binding]
        return f"{ago}; its binding {' and '.join(waits)}" if waits else f"{ago}{UNDER_WAY}"

    # -- pods that have none ---------------------------------------------------------------------

    def _unplaced(self, pod: Pod, base: PodExplanation, asked: _Asked) -> PodExplanation:
        if not self._ours(pod):
            text = f"not ours: schedulerName is {_quoted(pod.spec.scheduler_name)}"
            if near := nearest(pod.spec.scheduler_name, self._engine.frameworks):
                text += f"; did you mean {_quoted(near)}? {CREATE_ANEW}"
            else:
                ours = ", ".join(_quoted(name) for name in self._engine.frameworks)
                text += f", and this scheduler has {ours}"
            base = replace(base, state=PodState.NOT_OURS, summary=text)
            if pod.terminating:
                return base
            copy = self._as_ours(pod)
            nodes, report = self._examine(copy, asked)
            profile = copy.spec.scheduler_name
            return replace(base, nodes=nodes, report=report, examined_by=profile)
        view = self._queue.view(pod.metadata.namespace, pod.metadata.name)
        if view is not None and view.uid != pod.uid:
            view = None
        if pod.terminating:
            text = "being deleted: it will not be scheduled"
            return replace(base, state=PodState.TERMINATING, summary=text, queue=view)
        nodes, report = self._examine(pod, asked)
        state = PodState.UNKNOWN if view is None else PodState.QUEUED
        text = f"{_where(view)}; {_nodes_summary(nodes, gated=_gated(view))}"
        awaits = () if view is None else self._queue.awaited(view, pod)
        return replace(
            base, state=state, summary=text, queue=view, nodes=nodes, awaits=awaits, report=report
        )

    def _examine(self, pod: Pod, asked: _Asked) -> tuple[Examination, NodeReport | None]:
        engine, profile = self._engine, pod.spec.scheduler_name
        return examine_with(
            engine.frameworks[profile],
            engine.cache.table,
            self._queue.nominator,
            pod,
            asked.node,
            now=self._clock.now(),
            top=asked.top,
            examples=asked.examples,
            nodes_to_find=engine.algorithms[profile].search.nodes_to_find,
            check_time=engine.explanation_check(),
        )

    def _as_ours(self, pod: Pod) -> Pod:
        """Return the pod; one of another scheduler as if it named the nearest or first profile."""
        if self._ours(pod):
            return pod
        spec = for_scheduler(pod.spec, profile_for(pod, self._engine.frameworks))
        return msgspec.structs.replace(pod, spec=spec)

    def _ours(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self._engine.frameworks


def _pre_bind(attempt: Attempt, name: str) -> str:
    """Return for what PreBind of a plugin waits."""
    explain = getattr(attempt.framework.plugins.get(name), "explain_pre_bind", None)
    text = ""
    if callable(explain):
        try:
            text = str(explain(attempt.state, attempt.pod, attempt.node_name))
        except Exception as error:  # noqa: BLE001 - boundary: an explanation never fails
            text = f"for plugin {name}, which cannot explain it: {error!r}"
    return text or f"for PreBind of plugin {name}"


def profile_for(pod: Pod, profiles: Collection[str]) -> str:
    """Return the profile whose name the pod has nearly, else the first one."""
    return nearest(pod.spec.scheduler_name, profiles) or next(iter(profiles))


def _bound_since(pod: Pod) -> str:
    """Return when PodScheduled became true; else when the kubelet first saw the pod."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True":
            return condition.last_transition_time or ""
    return pod.status.start_time or ""


def _gated(view: PodView | None) -> bool:
    return view is not None and view.place is QueueState.GATED


def _where(view: PodView | None) -> str:
    if view is None:
        return "pending, but in no queue at this moment"
    if view.place is QueueState.GATED:
        reason = f" ({view.message})" if view.message else ""
        return f"held at the gate of plugin {view.gating_plugin}{reason}"
    if view.place is QueueState.IN_FLIGHT:
        return "being scheduled at this moment"
    if view.place is QueueState.UNSCHEDULABLE:
        plugins = ", ".join(sorted({*view.unschedulable_plugins, *view.pending_plugins}))
        return f"unschedulable: waits for an event that plugin(s) {plugins} registered"
    ahead = f", behind {view.position}" if view.position else ""
    return f"in the {view.place} queue{ahead}"


def _nodes_summary(nodes: Examination, *, gated: bool) -> str:
    if nodes.error:
        return f"an attempt now would end with an error: {nodes.error}"
    would = "once let in, it would fit" if gated else "it fits"
    return f"{would} on {nodes.feasible} of {nodes.nodes} nodes now"


def _quoted(name: str) -> str:
    return f'"{name}"'
