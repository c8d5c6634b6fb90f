"""The script of the morning: what is done to the cluster, in which order, and how it must end.

A list of beats. Each does to the embedded API server what a user, a controller or a cloud would do.
A beat may wait for a condition before it acts (a gate is removed only from a pod that was seen
waiting for it), which makes the story the same at every speed and on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from simulator.api import MERGE_PATCH
from simulator.cluster import EmbeddedCluster
from simulator.demos.morning.cluster import ClusterBoard
from simulator.demos.morning.objects import POOLS, ZONES, DemoCluster, agent, node, pinned_pod
from simulator.objects import JsonObject, copy_tree

SHOW_SECONDS: Final = 14.0
"""Default duration; the times of beats refer to it."""

UNGATED: Final = ("prepare-1", "prepare-2", "prepare-3")
BIG: Final = "big-train-1"
BIG_NODE: Final = "gpu-1b-3"
_BIG_POOL: Final = next(pool for pool in POOLS if pool.name == "gpu")._replace(gpus=8)
CORDONED: Final = "general-1c-6"
PINNED: Final = "ledger-0"
INTOLERANT: Final = "exporter-1"
INTOLERANT_NODE: Final = "gpu-1a-1"
_MEANT_TO_WAIT: Final = ("gated", "misfit")


class Beat(NamedTuple):
    """One step of the script."""

    at: float
    """When, in seconds of a show of SHOW_SECONDS."""
    act: Callable[[], object]
    text: str = ""
    """Shown to the viewer; empty for details of the beat before."""
    after: Callable[[ClusterBoard], bool] | None = None
    """Acts only once this holds."""
    awaiting: str = ""
    """`after` in words, for the error when it never comes to hold."""


class Script(NamedTuple):
    """Beats in order of time, and the state in which they must leave the cluster."""

    beats: list[Beat]
    pods: int
    """Pods of ours that exist at the end."""
    waiting: frozenset[str]
    """Names of those that must still wait then; all others must be bound."""

    def settled(self, board: ClusterBoard) -> bool:
        """Whether the end is reached: everything bound that can be, every other pod rejected."""
        return (
            board.pods == self.pods
            and board.bound == self.pods - len(self.waiting)
            and all(board.is_rejected(name) for name in self.waiting)
        )


class Kubectl:
    """The verbs that the script uses on its cluster."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster

    def create(self, obj: JsonObject) -> None:
        """Kubectl create."""
        self._cluster.create(obj)

    def scale(self, deployment: JsonObject, replicas: int) -> None:
        """Kubectl scale deployment."""
        self._patch(deployment, {"spec": {"replicas": replicas}})

    def ungate(self, pod: JsonObject) -> None:
        """Remove all scheduling gates."""
        self._patch(pod, {"spec": {"schedulingGates": []}})

    def uncordon(self, node: JsonObject) -> None:
        """Kubectl uncordon."""
        self._patch(node, {"spec": {"unschedulable": None}})

    def _patch(self, obj: JsonObject, patch: JsonObject) -> None:
        resource = self._cluster.resources.of_kind(obj["apiVersion"], obj["kind"])
        meta = obj["metadata"]
        namespace = meta.get("namespace", "")
        self._cluster.api.patch(resource, namespace, meta["name"], patch, MERGE_PATCH)


def write_script(demo: DemoCluster, kubectl: Kubectl) -> Script:
    """Write the script for a demo cluster whose `base` objects already exist."""
    return _Writer(demo, kubectl).script()


class _Writer:
    def __init__(self, demo: DemoCluster, kubectl: Kubectl) -> None:
        self._demo = demo
        self._kubectl = kubectl
        self._nodes = {o["metadata"]["name"]: o for o in demo.base if o["kind"] == "Node"}
        self._extra = [
            pinned_pod(PINNED, "shop", CORDONED),
            pinned_pod(INTOLERANT, "platform", INTOLERANT_NODE),
        ]
        self._late_node = node(_BIG_POOL, ZONES[1], 3)

    def script(self) -> Script:
        """Return all beats in order of time."""
        beats = [*self._agents(), *self._web(), *self._jobs(), *self._odd(), *self._training()]
        beats += self._turns()
        waiting = {o["metadata"]["name"] for part in _MEANT_TO_WAIT for o in self._part(part)}
        waiting = waiting - {*UNGATED, BIG} | {INTOLERANT}
        pods = self._demo.pods + len(self._extra) + 1
        return Script(sorted(beats, key=lambda beat: beat.at), pods, frozenset(waiting))

    def _part(self, *parts: str) -> list[JsonObject]:
        return [o for o in self._demo.workloads if o["metadata"]["labels"]["demo"] in parts]

    def _create(self, obj: JsonObject) -> Callable[[], object]:
        return partial(self._kubectl.create, obj)

    def _spread(
        self, start: float, end: float, objects: list[JsonObject], text: str
    ) -> Iterator[Beat]:
        for number, obj in enumerate(objects):
            at = start + (end - start) * number / len(objects)
            yield Beat(at, self._create(obj), "" if number else text)

    def _agents(self) -> Iterator[Beat]:
        agents = self._part("agent")
        return self._spread(0.3, 1.8, agents, f"an agent for each of {len(agents)} nodes")

    def _web(self) -> Iterator[Beat]:
        for number, deployment in enumerate(self._part("web")):
            begin = 2.2 + 1.0 * number
            name, replicas = deployment["metadata"]["name"], deployment["spec"]["replicas"]
            first = copy_tree(deployment)
            first["spec"]["replicas"] = replicas // 3
            text = f"shop/{name} rolls out {replicas} replicas"
            yield Beat(begin, self._create(first), text)
            for wave, wanted in ((1, 2 * replicas // 3), (2, replicas)):
                yield Beat(begin + 0.3 * wave, partial(self._kubectl.scale, deployment, wanted))

    def _jobs(self) -> Iterator[Beat]:
        jobs = self._part("batch")
        pods = sum(job["spec"]["completions"] for job in jobs)
        return self._spread(5.2, 7.2, jobs, f"{len(jobs)} batch jobs, {pods} pods in all")

    def _odd(self) -> Iterator[Beat]:
        gated, misfits = self._part("gated"), self._part("misfit")
        yield from self._spread(5.8, 6.2, gated, f"{len(gated)} pods behind a scheduling gate")
        text = f"{len(misfits)} pods that fit on no node yet"
        yield from self._spread(6.6, 7.0, misfits, text)
        text = f"{PINNED} needs {CORDONED} (cordoned)"
        yield Beat(7.2, self._create(self._extra[0]), text)
        text = f"{INTOLERANT} forgot the GPU toleration"
        yield Beat(7.4, self._create(self._extra[1]), text)

    def _training(self) -> Iterator[Beat]:
        training = self._part("gpu")
        return self._spread(7.6, 8.8, training, f"{len(training)} training pods on GPUs")

    def _turns(self) -> Iterator[Beat]:
        by_name = {pod["metadata"]["name"]: pod for pod in self._part("gated")}
        text = f"data is ready: {len(UNGATED)} pods lose their gate"
        for number, name in enumerate(UNGATED):
            yield Beat(
                9.4 + 0.2 * number,
                partial(self._kubectl.ungate, by_name[name]),
                "" if number else text,
                partial(ClusterBoard.is_rejected, name=name),
                f"{name} to be gated",
            )
        text = f"node {BIG_NODE} joins with {_BIG_POOL.gpus} GPUs"
        awaiting = f"{BIG} to be found unschedulable and the other training pods to be bound"
        training = [pod["metadata"]["name"] for pod in self._part("gpu")]

        def ready(board: ClusterBoard) -> bool:
            # The others would like the empty node as well.
            return board.is_rejected(BIG) and all(board.is_bound(name) for name in training)

        yield Beat(10.8, self._create(self._late_node), text, ready, awaiting)
        yield Beat(10.9, self._create(agent(BIG_NODE)))
        awaiting = f"{PINNED} to be found unschedulable"
        after = partial(ClusterBoard.is_rejected, name=PINNED)
        uncordon = partial(self._kubectl.uncordon, self._nodes[CORDONED])
        yield Beat(12.2, uncordon, f"node {CORDONED} is uncordoned", after, awaiting)
