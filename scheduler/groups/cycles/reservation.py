"""Plans which nodes to reserve for a group that is starved by smaller pods.

Smaller pods take every piece of room before a whole group fits. The plan assigns a node to as many
members as the group needs. It prefers nodes that lack the least, assuming that pods of the same or
a lower priority will end, and that pods of a higher priority stay. It considers free amounts and
filters that depend on the node alone; constraints between members are left to the cycle that places
them. Members are nominated to these nodes, so that other pods may only use what the plan leaves.

Reserving room that is already free costs other pods the least. Room that is still in use stays idle
from the end of its first pod to that of its last, so only little of it is reserved at a time.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.engine import Engine
from scheduler.engine.preemption.without_victims import WithoutPotentialVictims
from scheduler.framework import BoolColumn, Int64Column, PotentialVictims, QueuedPodInfo, Rows
from scheduler.framework.grouping import GroupToSchedule
from scheduler.groups.cycles.placements import MAX_DOMAINS, GroupPlacements
from scheduler.groups.cycles.run import MemberRun, runs_of

_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
_SLOTS: Final = "pods"


@dataclass(frozen=True, slots=True)
class _Amount:
    """One resource of all nodes, minus what the plan has used so far."""

    total: Int64Column
    #: Free now, and free once all pods that are assumed to end have ended. Negative: overcommitted.
    free: Int64Column
    most: Int64Column


class _Room:
    """The amounts of all nodes by resource, each computed on first use."""

    def __init__(
        self, table: NodeTable, emptied: WithoutPotentialVictims, amounts: dict[str, _Amount]
    ) -> None:
        """`emptied` is the table without pods assumed to end; `amounts` are those known so far."""
        self._table = table
        self._emptied = emptied
        self._amounts = amounts

    def copy(self) -> _Room:
        """Return a copy, for a plan to change."""
        amounts = {
            name: _Amount(each.total, each.free.copy(), each.most.copy())
            for name, each in self._amounts.items()
        }
        return _Room(self._table, self._emptied, amounts)

    def of(self, name: str) -> _Amount:
        found = self._amounts.get(name)
        if found is None:
            found = self._amounts[name] = self._read(name)
        return found

    def _read(self, name: str) -> _Amount:
        table, emptied = self._table, self._emptied
        if name == _SLOTS:
            total, used, staying = table.pod_limit, table.pod_count, emptied.pod_count
        elif name in _NATIVE:
            column = _NATIVE.index(name)
            total, used = table.allocatable[column], table.requested[column]
            staying = emptied.requested[column]
        else:
            every = slice(0, table.capacity)
            total, used = table.scalar_amounts(name, every)
            _, staying = emptied.scalar_amounts(name, every)
        return _Amount(total, total - used, total - staying)


@dataclass(slots=True)
class _Plan:
    #: (member, node, what the node lacks), see `_fill`.
    nodes: list[tuple[Pod, str, float]]

    @property
    def lacking(self) -> float:
        """Sum of what the nodes of all members lack."""
        return sum(lacking for _, _, lacking in self.nodes)

    def kept(self, draining: int) -> list[tuple[Pod, str]]:
        """Return the members whose room is free, and the `draining` others that lack the least."""
        ready = [(pod, node) for pod, node, lacking in self.nodes if not lacking]
        others = sorted((each for each in self.nodes if each[2]), key=lambda each: each[2])
        return [*ready, *((pod, node) for pod, node, _ in others[:draining])]


def plan_reservation(
    engine: Engine, group: GroupToSchedule, infos: Sequence[QueuedPodInfo], draining: int
) -> list[tuple[Pod, str]] | None:
    """Return members with the nodes to reserve for them; None if there is no plan.

    The plan has a node for each of the members `infos` (of one profile) that the group needs, all
    in one domain of the label that the group requires, if any. Returned are the members whose room
    is free now, and the `draining` others whose nodes lack the least. There is no plan if the room
    would not suffice even after the end of all pods of the same or a lower priority.
    """
    table = engine.cache.table
    ending = PotentialVictims(min(each.pod.priority for each in infos) + 1, None)
    room = _Room(table, WithoutPotentialVictims(table, ending), {})
    totals = table.allocatable.sum(axis=1)
    runs = runs_of(infos, totals, all_needed=group.need >= len(infos))
    candidates = [_candidates(engine, run) for run in runs]
    plans = [
        plan
        for inside in _domains(engine, group, infos, room)
        if (plan := _plan(engine, group.need, runs, candidates, room.copy(), inside)) is not None
    ]
    return min(plans, key=lambda each: each.lacking).kept(draining) if plans else None


def _domains(
    engine: Engine, group: GroupToSchedule, infos: Sequence[QueuedPodInfo], room: _Room
) -> list[BoolColumn | None]:
    """Return the rows of each domain to plan in; domains with the most free room come first."""
    topology = group.topology
    if topology is None or not topology.required:
        return [None]
    one = GroupPlacements(engine, group, topology, infos).one_domain
    assert one is not None
    domains = one.domains()
    rows = domains.labelled
    if not len(rows):
        return []
    demands = _demands(infos[0].pod)
    now = np.minimum.reduce([room.of(name).free // amount for name, amount in demands])
    fits = domains.sums(np.maximum(now, 0), rows)
    order = np.argsort(-fits, kind="stable")[:MAX_DOMAINS].tolist()
    return [domains.of_row == each for each in order]


def _plan(
    engine: Engine,
    need: int,
    runs: Sequence[MemberRun],
    candidates: Sequence[Rows],
    room: _Room,
    inside: BoolColumn | None,
) -> _Plan | None:
    plan = _Plan([])
    names = engine.cache.table.names
    for run, rows in zip(runs, candidates, strict=True):
        wanted = min(len(run.infos), need - len(plan.nodes))
        chosen = _fill(
            room, run.infos[0].pod, rows if inside is None else rows[inside[rows]], wanted
        )
        for info, (row, lacking) in zip(run.infos, chosen, strict=False):
            plan.nodes.append((info.pod, names[row], lacking))
    return plan if len(plan.nodes) >= need else None


def _candidates(engine: Engine, run: MemberRun) -> Rows:
    """Return the rows that no filter rejects for reasons of the node; empty if unknown."""
    capacities = run.capacities(engine)
    template = capacities.of(run.infos[0].pod)
    if template is None:
        return np.zeros(0, dtype=np.intp)
    return capacities.passing(template, engine.cache.table.rows)


def _fill(room: _Room, pod: Pod, rows: Rows, count: int) -> list[tuple[int, float]]:
    """Choose a row for each of `count` equal pods, or fewer; rows that lack the least come first.

    What a row lacks is the largest fraction, over all resources, of its total amount that must
    still become free. Returns (row, lacking) pairs.
    """
    demands = [(room.of(name), amount) for name, amount in _demands(pod)]
    limit = np.minimum.reduce([each.most[rows] // amount for each, amount in demands])
    if pod.signature.host_ports:
        limit = np.minimum(limit, 1)
    rows, limit = rows[limit > 0], limit[limit > 0]
    if not len(rows) or not count:
        return []
    shares = [(amount - each.free[rows]) / each.total[rows] for each, amount in demands]
    lacking = np.maximum(np.maximum.reduce(shares), 0.0)
    first = np.argsort(lacking, kind="stable")[:count]
    heap = [(lacking[at].item(), int(rows[at]), 1, int(limit[at])) for at in first]
    chosen: list[tuple[int, float]] = []
    while heap and len(chosen) < count:
        lack, row, number, most = heapq.heappop(heap)
        chosen.append((row, lack))
        if number < most:
            after = (
                (amount * (number + 1) - each.free[row].item()) / each.total[row].item()
                for each, amount in demands
            )
            heapq.heappush(heap, (max(0.0, *after), row, number + 1, most))
    taken = np.asarray([row for row, _ in chosen], dtype=np.intp)
    for each, amount in demands:
        np.subtract.at(each.free, taken, amount)
        np.subtract.at(each.most, taken, amount)
    return chosen


def _demands(pod: Pod) -> list[tuple[str, int]]:
    requests = pod.signature.requests
    native = (requests.milli_cpu, requests.memory, requests.ephemeral_storage)
    named = [*zip(_NATIVE, native, strict=True), *requests.scalars, (_SLOTS, 1)]
    return [(name, amount) for name, amount in named if amount > 0]
