"""Trials: what would happen if, on the world itself, and undone at the end.

A trial changes the real node table, so that the real engine decides, but the queue hears of
nothing: no pod is requeued, nothing is written and no time passes. Leaving it takes every change
back in reverse order, with the random source and the rotation of nodes, so that the world goes on
as if nobody had asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import msgspec

from scheduler.api.pod import Pod
from scheduler.client.resources import PODS, Resource
from scheduler.engine import Attempt, Framework, PodExplanation
from scheduler.engine.explain import Explainer
from scheduler.framework import NominatingInfo, QueuedPodInfo
from scheduler.queue import SchedulingQueue
from scheduler.service.event_handlers import EventHandlers
from simulator.offline.assembly import Assembly, handlers_of
from simulator.offline.editing import Editing, WorldError, checked
from simulator.offline.records import Capacity, Verdict

MAX_COPIES = 100_000
"""Copies after which `how_many_fit` stops counting unless told otherwise."""


class _DeafQueue:
    """The queue as event handlers see it in a trial: it keeps its pods as they are."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self.nominator = queue.nominator

    def move_all_to_active_or_backoff(self, *_: object) -> int:
        """Move nothing."""
        return 0

    def add(self, pod: Pod) -> None:
        """Queue nothing."""

    def update(self, old: Pod | None, new: Pod) -> None:
        """Keep the old object."""

    def delete(self, pod: Pod) -> None:
        """Keep the pod."""


class Trial(Editing):
    """Changes to try, as a context manager; made by `World.trial`."""

    def __init__(self, assembly: Assembly, *, default_scheduler: str, adopt: bool) -> None:
        self._assembly = assembly
        self._tables = assembly.tables
        self._default_scheduler = default_scheduler
        self._adopt = adopt
        self._numbers = {}
        deaf: Any = _DeafQueue(assembly.scheduling.queue)
        handlers = EventHandlers(
            assembly.state.cache,
            deaf,
            assembly.state.waiting_pods,
            scheduler_names=assembly.profiles.frameworks,
            registered=assembly.scheduling.registered,
            subscriptions=assembly.state.subscriptions,
            clock=assembly.clock,
            metrics=assembly.metrics,
            features=assembly.scheduling.features,
            honor_foreign_nominations=assembly.configuration.options.honor_foreign_nominations,
        )
        self._handlers = handlers_of(handlers, assembly.state, assembly.needed)
        #: (plural, key, object before, None if there was none, whether a pod brought a signature).
        self._changed: list[tuple[str, str, Any | None, bool]] = []
        self._attempts: list[tuple[Attempt, str]] = []
        self._random: object = None
        self._rotation: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._random = self._assembly.random.getstate()
        algorithms = self._assembly.scheduling.engine.algorithms
        self._rotation = {name: each.search.rotation for name, each in algorithms.items()}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._attempts:
            self._forget(*self._attempts.pop())
        while self._changed:
            self._undo(*self._changed.pop())
        random_state: Any = self._random
        self._assembly.random.setstate(random_state)
        for name, each in self._assembly.scheduling.engine.algorithms.items():
            each.search.rotation = self._rotation.get(name, 0)

    # -- questions -------------------------------------------------------------------------------

    def place(self, pod: str | Mapping[str, Any]) -> Verdict:
        """Try to find a node for a pending pod, `namespace/name`, or for one that is added first.

        A pod that fits keeps its place to the end of the trial, so that the next one finds what is
        left. Nobody is evicted. PreEnqueue is not asked.

        Raises:
            WorldError: there is no such pod, it has a node, or no profile is for it.
        """
        key = pod if isinstance(pod, str) else self.add_pods(pod)[0]
        found = self.pod(key)
        if found.spec.node_name:
            raise WorldError(f"{key} is on {found.spec.node_name} already")
        engine = self._assembly.scheduling.engine
        framework = engine.frameworks.get(found.spec.scheduler_name)
        if framework is None:
            raise WorldError(
                f"{key}: schedulerName is {found.spec.scheduler_name!r}, and this world has "
                f"{', '.join(engine.frameworks)}"
            )
        if engine.cache.get_pod(found.uid) is not None:
            raise WorldError(f"{key} is being bound, or was placed in this trial already")
        nominated = self._assembly.scheduling.queue.nominator.node_of(found.uid)
        with _without_post_filter(framework):
            attempt = engine.attempt(QueuedPodInfo(found, self._assembly.clock.now()))
        if attempt.failure is None and attempt.result is not None:
            self._attempts.append((attempt, nominated))
            return Verdict(key, attempt.node_name, feasible=attempt.result.feasible_nodes)
        failure = attempt.failure
        assert failure is not None
        plugins = tuple(sorted(failure.unschedulable_plugins | failure.pending_plugins))
        return Verdict(key, "", failure.message, plugins)

    def explain(self, pod: str, *, top: int = 10, examples: int = 3) -> PodExplanation:
        """Explain a pod as `kubestow explain` does. Raises LookupError if there is none."""
        return explain(self._assembly, pod, top=top, examples=examples)

    def how_many_fit(self, pod: Mapping[str, Any], limit: int = MAX_COPIES) -> Capacity:
        """Place copies of a pod until none fits any more, or `limit` are placed."""
        by_node: dict[str, int] = {}
        template = {**pod, "metadata": {**pod.get("metadata", {}), "uid": ""}}
        for total in range(limit):
            metadata = {**template["metadata"], "name": f"offline-copy-{self._tables.new_uid()}"}
            verdict = self.place({**template, "metadata": metadata})
            if not verdict:
                return Capacity(total, dict(sorted(by_node.items())), verdict.reason)
            by_node[verdict.node] = by_node.get(verdict.node, 0) + 1
        return Capacity(limit, dict(sorted(by_node.items())), "")

    # -- changes ---------------------------------------------------------------------------------

    def put_item(self, resource: Resource[Any], item: Any) -> None:
        """Add or replace a typed object. Raises QuantityError."""
        checked(resource, item)
        key = resource.key(item)
        before = self._tables.stores[resource.plural].by_key(key)
        interned = resource is PODS and item.interned is None
        self._tables.put(resource.plural, item, keep=True)
        self._changed.append((resource.plural, key, before, interned))
        self._tables.deliver(self._handlers)

    def take_item(self, resource: Resource[Any], item: Any) -> None:
        """Remove a typed object at once."""
        self._tables.remove(resource.plural, item, keep=True)
        self._changed.append((resource.plural, resource.key(item), item, False))
        self._tables.deliver(self._handlers)

    def _undo(self, plural: str, key: str, before: Any | None, interned: bool) -> None:
        now = self._tables.stores[plural].by_key(key)
        if before is None:
            self._tables.remove(plural, now)
        else:
            self._tables.put(plural, msgspec.structs.replace(before))
            if interned and now is not None:
                self._tables.signatures.release(now)
        self._tables.deliver(self._handlers)

    def _forget(self, attempt: Attempt, nominated: str) -> None:
        self._assembly.scheduling.engine.abandon(attempt)
        if nominated:
            pod = attempt.info.pod
            self._assembly.scheduling.queue.nominator.add_nominated_pod(
                pod, NominatingInfo(nominated)
            )


@contextmanager
def _without_post_filter(framework: Framework) -> Iterator[None]:
    """Let a cycle end where preemption would begin: it would evict pods, and note that it did."""
    kept, framework.post_filter = framework.post_filter, ()
    try:
        yield
    finally:
        framework.post_filter = kept


def explain(assembly: Assembly, pod: str, *, top: int, examples: int) -> PodExplanation:
    """Explain a pod, `namespace/name`. Raises LookupError if there is none."""
    namespace, _, name = pod.rpartition("/")
    explainer = Explainer(
        assembly.scheduling.engine,
        assembly.scheduling.queue,
        assembly.state.listers.pod,
        clock=assembly.clock,
    )
    return explainer.explain(namespace or "default", name, top=top, examples=examples)
