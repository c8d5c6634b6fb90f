"""A world with a queue and an explainer."""

from __future__ import annotations

from typing import Any

from plugins import DEFAULT_PLUGINS, in_tree
from scheduler.api import Pod
from scheduler.engine import Attempt
from scheduler.explain.examining.explainer import Explainer
from scheduler.explain.records import Examination, PodExplanation
from scheduler.framework import Status, unresolvable
from scheduler.queue import SchedulingQueue, build_hint_map
from tests.unit.engine.harness import PROFILE, World


class ExplainedWorld(World):
    """A world with a queue and an explainer."""

    def __init__(self, *plugins: type[Any], **options: Any) -> None:
        super().__init__(*plugins, **options)
        self.known: dict[str, Pod] = {}
        self.queue = SchedulingQueue(
            self.clock,
            self.framework.queue_sort.sort_key,
            {PROFILE: self.framework.pre_enqueue},
            {PROFILE: build_hint_map(self.framework.event_plugins())},
            pod_lister=self.find,
        )
        self.nominations: Any = self.queue.nominator
        self.engine = self.another_engine(reuse=True)
        #: Attempts whose binding is under way, by UID.
        self.bindings: dict[str, Attempt] = {}
        self.explainer = Explainer(
            self.engine, self.queue, self.find, clock=self.clock, bindings=self.bindings
        )

    def find(self, namespace: str, name: str) -> Pod | None:
        return self.known.get(f"{namespace}/{name}")

    def pending(self, name: str = "p", **spec: Any) -> Pod:
        """A pod that exists and was added to the queue."""
        pod = self.exists(self.pod(name, **spec))
        self.queue.add(pod)
        return pod

    def exists(self, pod: Pod) -> Pod:
        self.known[pod.key] = pod
        return pod

    def try_next(self) -> None:
        """One attempt that must fail, as the scheduling loop makes it."""
        info = self.queue.pop()
        assert info is not None
        attempt = self.engine.attempt(info)
        assert attempt.failure is not None
        attempt.failure.apply(info, self.clock.now())
        self.queue.add_unschedulable_if_not_present(info)

    def explain(self, name: str = "p", **options: Any) -> PodExplanation:
        return self.explainer.explain("default", name, **options)

    def examined(self, name: str = "p", **options: Any) -> Examination:
        found = self.explain(name, **options).nodes
        assert found is not None
        return found


def in_tree_world(**options: Any) -> ExplainedWorld:
    return ExplainedWorld(*in_tree(), weights=dict(DEFAULT_PLUGINS), **options)


def reject_if(rejects: bool, reason: str) -> Status | None:
    return unresolvable(reason) if rejects else None


def fail(*_: object) -> Any:
    msg = "broken"
    raise RuntimeError(msg)
