"""Trials: what would happen if, on the world itself, and undone at the end.

A trial changes the real node table, so that the real engine decides, but the queue hears of
nothing: no pod is requeued, nothing is written and no time passes. Leaving it takes every change
back in reverse order, with the random source, so that the world goes on as if nobody had asked.
`kubestow whatif` asks the running scheduler by the same trials (`scheduler.explain.what_if`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from scheduler.client.resources import Resource
from scheduler.explain.examining.explainer import Explainer
from scheduler.explain.records import PodExplanation, Remedies
from scheduler.explain.records.remedies import DEFAULT_REMEDIES
from scheduler.explain.records.wording import counted
from scheduler.explain.what_if.changes import ChangeError
from scheduler.explain.what_if.remedies.search import ChangeSearch
from scheduler.explain.what_if.trial import WhatIfTrial as LiveTrial
from scheduler.offline.assembly import Assembly
from scheduler.offline.editing import Editing, WorldError, checked
from scheduler.offline.records import Capacity, Verdict

MAX_COPIES = 100_000
"""Copies after which `how_many_fit` stops counting unless told otherwise."""


class Trial(Editing):
    """Changes to try, as a context manager; made by `World.trial`."""

    def __init__(self, assembly: Assembly, *, default_scheduler: str, adopt: bool) -> None:
        self._assembly = assembly
        self._tables = assembly.tables
        self._default_scheduler = default_scheduler
        self._adopt = adopt
        self._numbers = {}
        self._manifests = assembly.manifests
        self._local_storage = set()
        self._trial = LiveTrial(assembly.trial_parts())

    def __enter__(self) -> Self:
        self._trial.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._trial.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<Trial: {counted(len([*self._tables.stores['nodes'].list()]), 'node')}>"

    # -- questions -------------------------------------------------------------------------------

    def place(self, pod: str | Mapping[str, Any], *, preempt: bool = True) -> Verdict:
        """Try to find a node for a pending pod, `namespace/name`, or for one that is added first.

        A pod that fits keeps its place to the end of the trial, so that the next one finds what is
        left. Nobody is evicted: `Verdict.victims` are those that preemption would, which are not
        looked for without `preempt`. PreEnqueue and Permit are not asked.

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
        decision = self._trial.decide(found, preempt=preempt, keep=True, reserve=True)
        if decision:
            return Verdict(key, decision.node, feasible=decision.feasible)
        return Verdict(
            key,
            "",
            decision.message,
            decision.plugins,
            preemption_node=decision.preemption_node,
            victims=decision.victims,
        )

    def remedies(self, pod: str, *, limit: int = DEFAULT_REMEDIES) -> Remedies:
        """Look for what would have to change for a pending pod to fit; each was tried.

        Raises:
            LookupError: there is no such pod, or it has a node.
        """
        search = ChangeSearch(self._assembly.trial_parts(), pod, limit=limit).run()
        while True:
            try:
                next(search)
            except StopIteration as end:
                found: Remedies = end.value
                return found

    def explain(self, pod: str, *, top: int = 10, examples: int = 3) -> PodExplanation:
        """Explain a pod as `kubestow explain` does. Raises LookupError if there is none."""
        return explain(self._assembly, pod, top=top, examples=examples)

    def how_many_fit(self, pod: Mapping[str, Any], limit: int = MAX_COPIES) -> Capacity:
        """Place copies of a pod until none fits any more, or `limit` are placed."""
        by_node: dict[str, int] = {}
        template = self._template(pod)
        self._need_namespace(template.metadata.namespace)
        for total in range(limit):
            name = f"offline-copy-{self._tables.new_uid()}"
            verdict = self.place(self._put_copy(template, name))
            if not verdict:
                return Capacity(total, dict(sorted(by_node.items())), verdict.reason)
            by_node[verdict.node] = by_node.get(verdict.node, 0) + 1
        return Capacity(limit, dict(sorted(by_node.items())), "")

    # -- changes ---------------------------------------------------------------------------------

    def _put_item(self, resource: Resource[Any], item: Any) -> None:
        """Add or replace a typed object. Raises QuantityError."""
        checked(resource, item)
        try:
            self._trial.put(resource, item)
        except ChangeError as error:
            raise WorldError(str(error)) from error

    def _take_item(self, resource: Resource[Any], item: Any) -> None:
        """Remove a typed object at once."""
        try:
            self._trial.remove(resource, item)
        except ChangeError as error:
            raise WorldError(str(error)) from error


def explain(assembly: Assembly, pod: str, *, top: int, examples: int) -> PodExplanation:
    """Explain a pod, `namespace/name`. Raises LookupError if there is none."""
    namespace, _, name = pod.rpartition("/")
    explainer = Explainer(
        assembly.scheduling.engine,
        assembly.scheduling.queue,
        assembly.state.listers.pod,
        clock=assembly.clock,
        bindings=assembly.scheduling.binding.under_way,
    )
    return explainer.explain(namespace or "default", name, top=top, examples=examples)
