"""nodes_needed: how many more nodes of one kind let every pod fit.

The search tries numbers in trials: it doubles the number until everything fits, and halves the
interval then. It ends at one node for each pod that waits, since more cannot help. Preemption has
no part in it: nobody is to be evicted. The number is verified by scheduling a copy of the world
with that number of nodes, and a copy with one less. Where these disagree with the trials (pods that
wait for each other at Permit, ties that fall otherwise), they decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from scheduler.api.pod import Pod
from scheduler.explain.records.shown import Shown
from scheduler.explain.records.wording import counted
from scheduler.explain.what_if.added_nodes import kept_taints
from scheduler.offline.builders import JsonObject, renamed
from scheduler.offline.editing import Editing, WorldError, is_daemon
from scheduler.offline.records import Result, Verdict, Waiting
from scheduler.offline.world import World

MAX_NODES: Final = 5_000
"""Nodes that are added at most unless told otherwise."""


@dataclass(frozen=True, slots=True, repr=False)
class NodeKind(Shown):
    """A node to add, and the pods that run on each such node from the start."""

    node: Mapping[str, Any]
    """A manifest; added nodes are `NAME-0`, `NAME-1` and so on."""
    pods: tuple[Mapping[str, Any], ...] = ()
    """Of DaemonSets, for instance."""

    def _lines(self) -> Sequence[str]:
        name = (self.node.get("metadata") or {}).get("name", "")
        return [f"{name}, with {counted(len(self.pods), 'pod')} of its own"]


@dataclass(frozen=True, slots=True, repr=False)
class NodesNeeded(Shown):
    """The number of nodes after which everything fits, as far as nodes of this kind help."""

    nodes: int
    """To add; 0: none is needed, or none helps."""
    placed: tuple[str, ...]
    """The pods without a node now that have one then, `namespace/name`."""
    on_added: int
    """How many of `placed` are on added nodes."""
    hopeless: tuple[Verdict, ...] = ()
    """The pods that no number of such nodes helps, each with the reason."""
    gated: tuple[str, ...] = ()
    """The pods that are not scheduled because they are gated; left out."""
    with_one_less: tuple[Waiting, ...] = ()
    """The pods that wait with one node less: it was tried."""
    evicted_with_one_less: tuple[str, ...] = ()
    """The pods that are evicted with one node less."""
    limited: bool = False
    """The limit was reached, so that more nodes might still help those in `hopeless`."""
    nodes_by_pods: dict[str, int] = field(default_factory=dict)
    """Pods in `placed` on each added node, by its name."""

    def _lines(self) -> Sequence[str]:
        nodes, placed = counted(self.nodes, "more node"), counted(len(self.placed), "pod")
        lines = [f"{nodes} would place {placed}" if self.nodes else "more such nodes place no pod"]
        if self.hopeless:
            lines.append(f"{counted(len(self.hopeless), 'pod')} would still fit on no node")
        if self.gated:
            lines.append(f"{counted(len(self.gated), 'pod')} wait at a gate, and are left out")
        return ["; ".join(lines)]

    def _cells(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        rows = [(each.pod, each.reason.split(". ")[0]) for each in self.hopeless]
        return ("fits on no node", "reason"), rows


def node_like(world: World, name: str) -> NodeKind:
    """Return the kind of a node that exists: labels, taints, amounts, and the DaemonSet pods on it.

    What tells the state of that node only is left out: cordon, conditions as taints, annotations.

    Raises:
        WorldError: there is no such node.
    """
    tables = world._assembly.tables
    node = tables.get("nodes", name)
    if node is None:
        raise WorldError(f"there is no Node {name} in this world")
    manifest: JsonObject = msgspec.to_builtins(node)
    taints = kept_taints(node)
    labels = manifest["metadata"].get("labels") or {}
    pods = (each for each in tables.stores["pods"].list() if each.spec.node_name == name)
    return NodeKind(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints} if taints else {},
            "status": {
                **{key: manifest["status"].get(key) or {} for key in ("allocatable", "capacity")},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        tuple(_manifest(each) for each in pods if is_daemon(each)),
    )


def _manifest(pod: Pod) -> JsonObject:
    plain: JsonObject = msgspec.to_builtins(msgspec.structs.replace(pod, interned=None, pin=""))
    return {"apiVersion": "v1", "kind": "Pod", **plain}


def nodes_needed(
    world: World, kind: NodeKind | Mapping[str, Any], *, limit: int = MAX_NODES
) -> NodesNeeded:
    """Find the smallest number of nodes to add so that every pod fits and none is evicted.

    The world stays as it is. Pods that no number of such nodes helps are left out, and named.

    Args:
        world: with pods that wait.
        kind: a node, or what `node_like` returns.
        limit: the most nodes to add.

    >>> from kubestow import offline
    >>> with offline.World() as world:
    ...     names = world.add_nodes(offline.node(cpu=4))
    ...     pods = world.add_pods(offline.pod("web", cpu=3), count=5)
    ...     offline.nodes_needed(world, offline.node("more", cpu=8)).nodes
    2

    Raises:
        WorldError: the node is malformed.
    """
    if not isinstance(kind, NodeKind):
        kind = NodeKind(kind)
    return _Growth(world, kind, limit).search()


class _Growth:
    """One question."""

    def __init__(self, world: World, kind: NodeKind, limit: int) -> None:
        self._world, self._kind = world, kind
        self._limit = limit
        self._now = _scheduled(world)
        self._gated = tuple(each.pod for each in self._now.waiting if each.state == "gated")
        #: The pods to place, in the order of the queue.
        self._pods = _pending(world, frozenset(self._gated))
        self._runs: dict[int, Result] = {}

    def search(self) -> NodesNeeded:
        """Search by trials, and verify by scheduling."""
        bound = min(self._limit, len(self._pods))
        guess = least(lambda nodes: not self._tried(nodes, first=True), 0, bound)
        hopeless: list[Verdict] = []
        if guess is None:
            hopeless = self._tried(bound)
            without = {each.pod for each in hopeless}
            self._pods = [each for each in self._pods if each not in without]
            guess = least(lambda nodes: not self._tried(nodes, first=True), 0, bound)
        hopeless_pods = frozenset(each.pod for each in hopeless)
        found = least(lambda nodes: self._fits(nodes, hopeless_pods), guess or 0, bound)
        if found is None:
            # They fit by room, but are not scheduled even so: pods that wait for each other.
            last = self._run(bound, hopeless_pods)
            stuck = [Verdict(each.pod, "", each.reason, each.plugins) for each in last.waiting]
            return self._answer(0, [*hopeless, *stuck], hopeless_pods, limited=bound == self._limit)
        return self._answer(
            found, hopeless, hopeless_pods, limited=bool(hopeless) and bound == self._limit
        )

    def _answer(
        self, nodes: int, hopeless: Sequence[Verdict], without: frozenset[str], *, limited: bool
    ) -> NodesNeeded:
        run = self._run(nodes, without)
        wanted = set(self._pods)
        placed = [each for each in run.placed if each.pod in wanted]
        added: dict[str, int] = {}
        before = self._world._assembly.tables.stores["nodes"]
        for each in placed:
            if before.by_key(each.node) is None:
                added[each.node] = added.get(each.node, 0) + 1
        less = self._run(nodes - 1, without) if nodes else None
        return NodesNeeded(
            nodes,
            tuple(sorted(each.pod for each in placed)),
            sum(added.values()),
            tuple(hopeless),
            self._gated,
            () if less is None else _ungated(less),
            () if less is None else tuple(sorted(each.pod for each in less.evicted)),
            limited,
            dict(sorted(added.items())),
        )

    # -- by trials -------------------------------------------------------------------------------

    def _tried(self, nodes: int, *, first: bool = False) -> list[Verdict]:
        """Return the pods that do not fit with `nodes` more; `first`: at most one."""
        failed: list[Verdict] = []
        with self._world.trial() as trial:
            _add(trial, self._kind, nodes)
            for pod in self._pods:
                verdict = trial.place(pod, preempt=not first)
                if not verdict:
                    failed.append(verdict)
                    if first:
                        break
        return failed

    # -- by scheduling ---------------------------------------------------------------------------

    def _fits(self, nodes: int, without: frozenset[str]) -> bool:
        run = self._run(nodes, without)
        return not run.evicted and not _ungated(run)

    def _run(self, nodes: int, without: frozenset[str]) -> Result:
        if nodes not in self._runs:
            self._runs[nodes] = _scheduled(self._world, self._kind, nodes, without)
        return self._runs[nodes]


def _scheduled(
    world: World,
    kind: NodeKind | None = None,
    nodes: int = 0,
    without: frozenset[str] = frozenset(),
) -> Result:
    """Schedule a copy of a world with more nodes, and without some pods."""
    with world.copy() as copy:
        for key in without:
            namespace, _, name = key.rpartition("/")
            copy.remove("Pod", name, namespace)
        if kind is not None:
            _add(copy, kind, nodes)
        return copy.schedule()


def _add(world: Editing, kind: NodeKind, nodes: int) -> None:
    for number in range(nodes):
        name = world.add(world._numbered(kind.node, "nodes"))
        for each in kind.pods:
            pod = renamed(each, f"{each['metadata']['name']}-added-{number}")
            world.add({**pod, "spec": {**pod["spec"], "nodeName": name}})


def _pending(world: World, gated: frozenset[str]) -> list[str]:
    """Return the pods of our profiles that have no node, most important first."""
    world._settle()
    frameworks = world._assembly.profiles.frameworks
    pods = [
        each
        for each in world._assembly.tables.stores["pods"].list()
        if not each.spec.node_name
        and each.spec.scheduler_name in frameworks
        and each.key not in gated
    ]
    # Sorting keeps the order of those that are equally important: that of their creation.
    return [each.key for each in sorted(pods, key=lambda each: -each.priority)]


def _ungated(result: Result) -> tuple[Waiting, ...]:
    return tuple(each for each in result.waiting if each.state != "gated")


def least(fits: Callable[[int], bool], guess: int, bound: int) -> int | None:
    """Return the smallest number from 0 to `bound` that fits, None if none does.

    More never hurts, it is assumed; so it looks around `guess` with doubling steps, and halves the
    interval then.

    >>> least(lambda number: number >= 37, 0, 100), least(lambda number: number >= 37, 90, 100)
    (37, 37)
    >>> least(lambda number: False, 0, 100)
    """
    step = 1
    if fits(guess):
        high = guess
        while True:
            if high == 0:
                return 0
            low = max(high - step, 0)
            if not fits(low):
                break
            high, step = low, 2 * step
    else:
        low = guess
        while True:
            if low >= bound:
                return None
            high = min(low + step, bound)
            if fits(high):
                break
            low, step = high, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return high
