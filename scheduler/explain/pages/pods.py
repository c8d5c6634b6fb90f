"""The debug pages about pods: `/debug/queue` and `/debug/explain`.

`kubestow queue` and `kubestow explain` decode the records. They are built on the event loop between
cycles, so a response shows one consistent state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from scheduler.api.pod import Pod
from scheduler.engine import Attempt, Engine
from scheduler.explain.examining.explainer import (
    DEFAULT_EXAMPLES,
    DEFAULT_TOP,
    MAX_NODES,
    Explainer,
    FindPod,
)
from scheduler.explain.pages.query_numbers import number_in
from scheduler.explain.records import (
    Decision,
    ExplainPage,
    GroupExplanation,
    NotRemembered,
    PodExplanation,
    QueuePage,
)
from scheduler.explain.records.story import tell
from scheduler.framework import Clock
from scheduler.queue import SchedulingQueue

DEFAULT_LIMIT: Final = 100
DecisionsOf = Callable[[str, str], Sequence[Decision] | None]
"""Return the remembered decisions about `(namespace, name)`, oldest first; None without any."""

FaultsOf = Callable[[str, Collection[str]], Mapping[str, tuple[str, ...]]]
"""Return lines about failures of the plugins of a profile, by plugin."""

GroupOf = Callable[[Pod], GroupExplanation | None]
"""Return the explanation of the group of a pod, if it is in one."""

MAX_PODS: Final = 10_000
"""Maximum number of each sub-queue: encoding more would delay scheduling."""


class PodPages:
    """Both pages of one process."""

    def __init__(  # noqa: PLR0913 - what it is wired to
        self,
        engine: Engine,
        queue: SchedulingQueue,
        find_pod: FindPod,
        *,
        clock: Clock,
        leading: Callable[[], bool],
        decisions: DecisionsOf = lambda *_: None,
        faults: FaultsOf = lambda *_: {},
        group_of: GroupOf = lambda _: None,
        bindings: Mapping[str, Attempt],
    ) -> None:
        """Serve pods of queue and engine.

        `find_pod` returns the newest known state of a pod; `bindings` has the attempts, by UID,
        whose binding is under way.
        """
        self._faults = faults
        self._find_pod = find_pod
        self._group_of = group_of
        self._engine = engine
        self._queue = queue
        self._clock = clock
        self._leading = leading
        self._decisions = decisions
        self._started = clock.now()
        self._explainer = Explainer(engine, queue, find_pod, clock=clock, bindings=bindings)

    def queue(self, query: Mapping[str, str]) -> QueuePage:
        """Return counts, and pods in the order of popping; `?namespace=` and `?limit=`.

        Raises:
            ValueError: `limit` is no number in range.
        """
        namespace = query.get("namespace", "")
        limit = number_in(query, "limit", DEFAULT_LIMIT, 1, MAX_PODS)
        return QueuePage(
            now=self._clock.now(),
            leading=self._leading(),
            namespace=namespace,
            limit=limit,
            statistics=self._queue.statistics(),
            pods=self._queue.views(namespace=namespace, limit=limit),
            binding=self._explainer.slow_bindings(namespace, limit),
        )

    def explain(self, query: Mapping[str, str]) -> ExplainPage:
        """Return why one pod is pending, or where it is.

        `?pod=NAMESPACE/NAME`, `?nodes=`, `?examples=`; `?node=` for a report about one node.

        Raises:
            LookupError: there is no such pod, or node.
            ValueError: the query names none, or a number is out of range.
        """
        namespace, slash, name = query.get("pod", "").partition("/")
        if not (namespace and slash and name):
            raise ValueError("say which pod: /debug/explain?pod=NAMESPACE/NAME")
        explanation = self._explainer.explain(
            namespace,
            name,
            top=number_in(query, "nodes", DEFAULT_TOP, 0, MAX_NODES),
            examples=number_in(query, "examples", DEFAULT_EXAMPLES, 0, MAX_NODES),
            node=query.get("node", ""),
        )
        explanation = self._with_faults(explanation)
        decisions, why_not = self._remembered(explanation)
        return ExplainPage(
            leading=self._leading(),
            pod=explanation,
            story=tell(explanation, decisions, why_not),
            decisions=decisions,
            not_remembered=why_not,
            group=self._group(namespace, name),
        )

    def _group(self, namespace: str, name: str) -> GroupExplanation | None:
        pod = self._find_pod(namespace, name)
        return None if pod is None else self._group_of(pod)

    def _with_faults(self, pod: PodExplanation) -> PodExplanation:
        """Add the faults of plugins of the pod's profile to the explanation of a pending pod."""
        framework = self._engine.frameworks.get(pod.profile)
        if pod.nodes is None or framework is None:
            return pod
        explanations = dict(pod.nodes.explanations)
        for plugin, lines in self._faults(pod.profile, framework.plugins.keys()).items():
            explanations[plugin] = (*explanations.get(plugin, ()), *lines)
        return replace(pod, nodes=replace(pod.nodes, explanations=explanations))

    def _remembered(self, pod: PodExplanation) -> tuple[list[Decision], NotRemembered | None]:
        if pod.profile not in self._engine.frameworks:
            return [], NotRemembered.NOT_OURS
        remembered = self._decisions(pod.namespace, pod.name)
        if remembered is None:
            return [], NotRemembered.OFF
        # Not those about a deleted pod of the same name.
        found = [each for each in remembered if each.uid == pod.uid]
        if found:
            return found, None
        if not pod.node:
            return [], NotRemembered.NO_ATTEMPT
        earlier = not pod.since or _seconds(pod.since) < self._started
        return [], NotRemembered.EARLIER if earlier else NotRemembered.EVICTED


def _seconds(time: str) -> float:
    """Return the wall clock seconds of an RFC 3339 time; 0 for text that is none."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return 0.0
