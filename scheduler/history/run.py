"""A finished run: nodes, pods and decisions over a span of time, and its state at any moment.

A simulation makes it, a bundle is turned into it, and the page of `kubestow ui` shows it with a
slider for the time. Its fields are the keys of the file (docs/page.md), where those that are not
known are ignored, so that later versions may add some.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

import msgspec

from scheduler.history import Decision, DecisionResult

RUN_API_VERSION: Final = "run.kubestow.io/v1"
FOREVER: Final = float("inf")


class RunNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node from `added` until `removed`."""

    name: str
    zone: str = ""
    unschedulable: bool = False
    allocatable: dict[str, float]
    """Of `cpu` in cores, of other native resources in bytes; `pods` is one of them."""
    added: float = 0.0
    removed: float | None = None


class RunPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod from `created` until `deleted`."""

    namespace: str
    name: str
    uid: str = ""
    profile: str = ""
    priority: int = 0
    requests: dict[str, float] = {}
    created: float = 0.0
    deleted: float | None = None
    node: str = ""
    """The node of a pod that was bound when it was created; of others decisions tell it."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class RecordedRun(msgspec.Struct, kw_only=True, tag_field="kind", tag="Run", dict=True):
    """A run. Times are wall clock seconds, or virtual ones of a simulation."""

    apiVersion: Literal["run.kubestow.io/v1"] = RUN_API_VERSION  # noqa: N815 - as in Kubernetes
    title: str = ""
    begin: float
    end: float
    nodes: list[RunNode]
    pods: list[RunPod]
    decisions: list[Decision]
    """Those that were made, and remembered, in the span; in any order."""

    @cached_property
    def by_time(self) -> list[Decision]:
        """Decisions in their order."""
        return sorted(self.decisions, key=lambda each: (each.time, each.seq))

    def until(self, moment: float) -> list[Decision]:
        """Return the decisions made until a moment, in their order."""
        return self.by_time[: bisect_right(self.by_time, moment, key=lambda each: each.time)]


@dataclass(slots=True)
class Frame:
    """The state of a run at one moment."""

    moment: float
    nodes: dict[str, RunNode]
    decisions: list[Decision]
    """Until then, in their order."""
    last: dict[str, Decision]
    """The last one about each pod, by `namespace/name`."""
    waiting: list[RunPod] = field(default_factory=list)
    """The oldest first."""
    placed: dict[str, list[RunPod]] = field(default_factory=lambda: defaultdict(list))
    """By node."""


def frame_at(run: RecordedRun, moment: float) -> Frame:
    """Return the state at a moment, which is moved into the span of the run."""
    moment = min(run.end, max(run.begin, moment))
    decisions = run.until(moment)
    nodes = {each.name: each for each in run.nodes if _lives(each.added, each.removed, moment)}
    frame = Frame(moment, nodes, decisions, {each.pod: each for each in decisions})
    for pod in run.pods:
        if not _lives(pod.created, pod.deleted, moment):
            continue
        node = pod.node or _chosen(frame.last.get(pod.key), pod)
        if node:
            frame.placed[node].append(pod)
        else:
            frame.waiting.append(pod)
    frame.waiting.sort(key=lambda pod: (pod.created, pod.key))
    return frame


def _lives(begin: float, end: float | None, moment: float) -> bool:
    return begin <= moment < (FOREVER if end is None else end)


def _chosen(last: Decision | None, pod: RunPod) -> str:
    """Return the node that the last decision gave a pod; not one of a former pod of its name."""
    if last is None or last.result is not DecisionResult.PLACED or last.time < pod.created:
        return ""
    return last.node
