"""consolidate: which nodes could be emptied, one after the other, and where their pods would go.

The least used nodes come first, as cluster autoscalers go about it. A node is kept if one of its
pods must not be evicted: because a disruption budget forbids it, it would lose its data, nobody
would make it anew, or an annotation says so. Otherwise a trial looks for another node for each
pod, and then a copy of the world loses the node and schedules its pods for real; if one waits then,
or another pod is evicted, the node is kept. So each step holds after those before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.api.pod import Pod
from scheduler.engine.preemption.disruption_budgets import DisruptionBudgets
from scheduler.explain.records.shown import Shown
from scheduler.explain.records.wording import counted
from scheduler.offline.checkpoint import Checkpoint
from scheduler.offline.editing import WorldError, is_daemon
from scheduler.offline.records import Result
from scheduler.offline.world import World

SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"

_EXAMPLES: Final = 3
"""Pods that a reason names."""


@dataclass(frozen=True, slots=True, repr=False)
class Emptied(Shown):
    """A node that could be emptied."""

    node: str
    used: float
    """The larger share of its CPU and memory that is requested before the first step, 0 to 1."""
    moves: dict[str, str]
    """The pods that move, `namespace/name`, each with the node where it is then."""

    def _lines(self) -> Sequence[str]:
        moves = [f"{pod} goes to {node}" for pod, node in self.moves.items()]
        share = f"{100 * self.used:.0f} % of it is requested"
        count = counted(len(moves), "move")
        return [f"{self.node} could be emptied by {count}: {share}", *moves]


@dataclass(frozen=True, slots=True, repr=False)
class Kept(Shown):
    """A node that cannot be emptied."""

    node: str
    used: float
    """See `Emptied.used`."""
    reason: str

    def _lines(self) -> Sequence[str]:
        return [f"{self.node} is kept, {100 * self.used:.0f} % of it is requested: {self.reason}"]


@dataclass(frozen=True, slots=True, repr=False)
class Consolidation(Shown):
    """The nodes that could be emptied, in the order in which to do it, and all others."""

    emptied: tuple[Emptied, ...]
    kept: tuple[Kept, ...]
    """The least used first."""
    waiting: tuple[str, ...] = ()
    """The pods that waited before, and do so still."""

    @property
    def moves(self) -> int:
        """The number of moves; a pod that moves twice counts twice."""
        return sum(len(each.moves) for each in self.emptied)

    def _lines(self) -> Sequence[str]:
        nodes = counted(len(self.emptied) + len(self.kept), "node")
        moves = counted(self.moves, "move")
        return [f"{len(self.emptied)} of {nodes} could be emptied, by {moves}"]

    def _cells(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        rows = [(each.node, f"{100 * each.used:.0f} %", "emptied") for each in self.emptied]
        rows += [(each.node, f"{100 * each.used:.0f} %", each.reason) for each in self.kept]
        return ("node", "used", "result"), rows


def consolidate(
    world: World, *, force: bool = False, delete_emptydir_data: bool = False
) -> Consolidation:
    """Find nodes that can be emptied; the world stays as it is.

    Pods of DaemonSets and static pods end with their node. Local PersistentVolumes keep their pods,
    since the scheduler knows their nodes.

    Args:
        world: what waits in it is scheduled first.
        force: move pods without a controller, too, as `kubectl drain --force`.
        delete_emptydir_data: move pods with data on the disk of their node, too.

    >>> from kubestow import offline
    >>> with offline.World() as world:
    ...     names = world.add_nodes(offline.node("n", cpu=4), count=3)
    ...     for number, name in enumerate(names):
    ...         _ = world.add_pods(offline.pod(f"web-{number}", cpu=2, node=name))
    ...     found = offline.consolidate(world, force=True)
    >>> [(each.node, len(each.moves)) for each in found.emptied]
    [('n-0', 1)]
    """
    return _Search(world, force=force, delete_emptydir_data=delete_emptydir_data).run()


class _Search:
    """One question."""

    def __init__(self, world: World, *, force: bool, delete_emptydir_data: bool) -> None:
        self._world = world
        self._force, self._delete_data = force, delete_emptydir_data
        self._emptied: list[Emptied] = []
        self._kept: list[Kept] = []
        self._waiting: frozenset[str] = frozenset()

    def run(self) -> Consolidation:
        """Go through the nodes of a copy once, the least used first."""
        with self._world.copy() as work:
            self._waiting = frozenset(each.pod for each in work.schedule().waiting)
            for used, name in sorted(_shares(work)):
                reason = self._blocked(work, name) or self._tried(work, name)
                moves: dict[str, str] = {}
                if not reason:
                    moves, reason = self._moved(work, name)
                if reason:
                    self._kept.append(Kept(name, used, reason))
                else:
                    self._emptied.append(Emptied(name, used, moves))
        return Consolidation(tuple(self._emptied), tuple(self._kept), tuple(sorted(self._waiting)))

    def _blocked(self, work: World, name: str) -> str:
        """Return why no pod of a node may be evicted; empty: all may."""
        pods = _moving(work, name)
        data = [] if self._delete_data else [each for each in pods if self._keeps_data(each)]
        budgets = DisruptionBudgets(work._assembly.tables.stores["poddisruptionbudgets"].list())
        violating, _, _ = budgets.split(pods)
        reasons = (
            ("no controller would make them anew", self._orphans(pods)),
            ("data in volumes emptyDir or hostPath would be lost", data),
            (f"the annotation {SAFE_TO_EVICT} or {DO_NOT_DISRUPT} forbids it", _pinned(pods)),
            ("more than their PodDisruptionBudgets allow at once", violating),
        )
        return "; ".join(f"{why}: {_some(found)}" for why, found in reasons if found)

    def _orphans(self, pods: Sequence[Pod]) -> list[Pod]:
        if self._force:
            return []
        return [each for each in pods if not _controlled(each) and not _safe(each)]

    def _keeps_data(self, pod: Pod) -> bool:
        return pod.key in self._world._local_storage and not _safe(pod)

    def _tried(self, work: World, name: str) -> str:
        """Try whether all pods of a node fit elsewhere; return why not."""
        with work.trial() as trial:
            lost = trial.drop_node(name)
            # In the order in which the queue will have them.
            for key in sorted(lost, key=lambda key: -trial.pod(key).priority):
                try:
                    verdict = trial.place(key, preempt=False)
                except WorldError as error:
                    return str(error)
                if not verdict:
                    return f"{key} fits on no other node: {_first_sentence(verdict.reason)}"
        return ""

    def _moved(self, work: World, name: str) -> tuple[dict[str, str], str]:
        """Lose the node; return where its pods are then, or why this cannot be, and undo it."""
        checkpoint = Checkpoint(work)
        lost = work.drop_node(name)
        reason = self._lost(work.schedule())
        if reason:
            checkpoint.put_back()
            return {}, reason
        return {key: work.pod(key).spec.node_name for key in sorted(lost)}, ""

    def _lost(self, result: Result) -> str:
        """Return why a node cannot be emptied by what happened when it was lost."""
        waiting = sorted({each.pod for each in result.waiting} - self._waiting)
        if waiting:
            reason = _first_sentence(str(getattr(result[waiting[0]], "reason", "")))
            return f"when it is emptied, {waiting[0]} waits: {reason}"
        if result.evicted:
            return f"when it is emptied, {result.evicted[0].pod} is evicted to make room"
        return ""


def _moving(world: World, name: str) -> list[Pod]:
    table = world._assembly.state.cache.table
    row = table.row_of(name)
    pods = () if row is None else table.node_info(row).pods
    return [each for each in pods if not each.terminating and not is_daemon(each)]


def _controlled(pod: Pod) -> bool:
    return any(each.controller for each in pod.metadata.owner_references)


def _safe(pod: Pod) -> bool:
    return pod.metadata.annotations.get(SAFE_TO_EVICT) == "true"


def _pinned(pods: Iterable[Pod]) -> list[Pod]:
    return [
        each
        for each in pods
        if each.metadata.annotations.get(SAFE_TO_EVICT) == "false"
        or each.metadata.annotations.get(DO_NOT_DISRUPT) == "true"
    ]


def _some(pods: Sequence[Pod]) -> str:
    names = sorted(each.key for each in pods)
    more = len(names) - _EXAMPLES
    return ", ".join(names[:_EXAMPLES]) + (f" and {more} more" if more > 0 else "")


def _first_sentence(message: str) -> str:
    return message.split(". ", maxsplit=1)[0].rstrip(".")


def _shares(world: World) -> Iterator[tuple[float, str]]:
    """Yield the used share of each node, and its name."""
    world._settle()
    table = world._assembly.state.cache.table
    for node in world._assembly.tables.stores["nodes"].list():
        row = table.row_of(node.metadata.name)
        if row is not None:
            amounts = zip(table.requested[:2, row], table.allocatable[:2, row], strict=True)
            shares = [float(used) / float(whole) for used, whole in amounts if whole]
            yield round(max(shares, default=0.0), 4), node.metadata.name
