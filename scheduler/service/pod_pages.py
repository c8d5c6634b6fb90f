"""The debug pages about pods: `/debug/queue` and `/debug/explain`.

Turns queries into calls and results into records, which `kubestow queue` and `kubestow explain`
decode. Runs on the loop between cycles, so a response shows one consistent state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from scheduler.engine import Engine, Explainer
from scheduler.engine.explain import DEFAULT_EXAMPLES, DEFAULT_TOP, MAX_NODES, FindPod
from scheduler.framework import Clock
from scheduler.pages import ExplainPage, QueuePage
from scheduler.queue import SchedulingQueue
from scheduler.service.query_numbers import number_in

DEFAULT_LIMIT: Final = 100
MAX_PODS: Final = 10_000
"""Of each sub-queue. More would hold up scheduling while they are encoded."""


class PodPages:
    """Both pages of one process."""

    def __init__(
        self,
        engine: Engine,
        queue: SchedulingQueue,
        find_pod: FindPod,
        *,
        clock: Clock,
        leading: Callable[[], bool],
    ) -> None:
        """Serve pods of queue and engine; `find_pod` returns the newest known state of a pod."""
        self._queue = queue
        self._clock = clock
        self._leading = leading
        self._explainer = Explainer(engine, queue, find_pod, clock=clock)

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
        )

    def explain(self, query: Mapping[str, str]) -> ExplainPage:
        """Return why one pod is pending: `?pod=NAMESPACE/NAME`, `?nodes=` and `?examples=`.

        Raises:
            LookupError: there is no such pod.
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
        )
        return ExplainPage(leading=self._leading(), pod=explanation)
