"""Room for the pending members of one group, for people (`kubestow explain --group`).

It computes, by template, resource and topology domain, upper bounds of how many members fit, like
those of a group cycle. It has no side effects on later cycles, and tries to place no member.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.domains import Domains, possible, rows_of
from scheduler.engine.engine import Engine
from scheduler.engine.errors import AttemptError
from scheduler.engine.plugin_calls import run_synchronously
from scheduler.explain.examining.examination import new_state
from scheduler.explain.examining.node_report import MAX_RESOURCES
from scheduler.explain.records import GroupDomain, GroupDomains, GroupResource, GroupTemplate
from scheduler.framework import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    Clock,
    CycleState,
    Int64Column,
    QueuedPodInfo,
    Rows,
)
from scheduler.framework.grouping import GroupTopology
from scheduler.groups.cycles.run import MemberRun, runs_of

MAX_TEMPLATES: Final = 8
"""Maximum number of templates to examine; each costs a run of all filters."""

MAX_SECONDS: Final = 0.05
"""Time after which no other template is examined: one of 1 MB takes as long by itself."""

MAX_DOMAINS: Final = 5
"""Maximum number of domains to show for each label."""

SUSPENDS: Final = "its cycle may be suspended: it is not tried for an explanation"

_NATIVE: Final = (
    ("cpu", CPU, 1000),
    ("memory", MEMORY, 1),
    ("ephemeral-storage", EPHEMERAL_STORAGE, 1),
)


@dataclass(frozen=True, slots=True)
class GroupRooms:
    """The room for the members of a group."""

    templates: tuple[GroupTemplate, ...]
    more_templates: int
    topology: tuple[GroupDomains, ...]


class GroupExamination:
    """Examines one group. Used once, between cycles."""

    def __init__(self, engine: Engine, infos: Sequence[QueuedPodInfo], *, clock: Clock) -> None:
        """Prepare the examination of pending members, all of profiles of `engine`."""
        self._engine = engine
        self._table: NodeTable = engine.cache.table
        self._infos = infos
        self._clock = clock
        self._check = engine.explanation_check()

    def rooms(self, topology: GroupTopology | None) -> GroupRooms:
        """Return the room on all nodes, and in the domains of the group."""
        totals = self._table.allocatable.sum(axis=1)
        runs = runs_of(self._infos, totals, all_needed=True) if self._infos else []
        found = list(self._templates(runs))
        # Templates that are not examined count as fitting.
        rooms = [(len(run.infos), by_row) for run, (_, by_row) in zip(runs, found, strict=False)]
        rooms += [(len(run.infos), None) for run in runs[len(found) :]]
        domains = () if topology is None else tuple(self._topology(topology, rooms))
        return GroupRooms(tuple(each for each, _ in found), len(runs) - len(found), domains)

    # -- templates -------------------------------------------------------------------------------

    def _templates(
        self, runs: Sequence[MemberRun]
    ) -> Iterator[tuple[GroupTemplate, Int64Column | None]]:
        end = self._clock.monotonic() + MAX_SECONDS
        for run in runs[:MAX_TEMPLATES]:
            yield self._template(run)
            if self._clock.monotonic() > end:
                return

    def _template(self, run: MemberRun) -> tuple[GroupTemplate, Int64Column | None]:
        pod, capacities = run.infos[0].pod, run.capacities(self._engine)
        state, rejected = self._pre_filtered(pod)
        nowhere = np.zeros(self._table.capacity, dtype=np.int64)
        rows = self._table.rows[:0]
        by_row: Int64Column | None = nowhere
        if state is not None:
            rows = capacities.passing_rows(pod, state)
            by_row = capacities.by_row(pod, state)
        elif rejected == SUSPENDS:
            by_row = None
        resources = sorted(_resources(self._table, pod, rows), key=lambda each: each.room)
        template = GroupTemplate(
            example=pod.metadata.name,
            pods=len(run.infos),
            nodes=len(rows),
            room=None if by_row is None else int(by_row.sum()),
            resources=tuple(resources) if len(rows) else (),
            rejected=rejected,
        )
        return template, by_row

    def _pre_filtered(self, pod: Pod) -> tuple[CycleState | None, str]:
        """Run PreFilter; return the cycle state if the pod passes, else None and the reason."""
        if self._engine.suspends(pod):
            return None, SUSPENDS
        framework = self._engine.frameworks[pod.spec.scheduler_name]
        state = new_state(self._clock.now(), self._check)
        try:
            left = run_synchronously(framework.run_pre_filter(state, pod, self._table))
        except AttemptError as error:
            return None, str(error)
        if left.rejections:
            return None, "; ".join(reason for each in left.rejections for reason in each.reasons)
        return state, ""

    # -- domains ---------------------------------------------------------------------------------

    def _topology(
        self, topology: GroupTopology, rooms: Sequence[tuple[int, Int64Column | None]]
    ) -> Iterator[GroupDomains]:
        required = Domains(self._table, topology.required) if topology.required else None
        placed = rows_of(topology.placed, self._engine.cache)
        if required is not None:
            yield _domains(required, None, rooms, placed)
        for key in topology.preferred:
            if key != topology.required:
                yield _domains(Domains(self._table, key, required), required, rooms, placed)


def _domains(
    domains: Domains,
    outer: Domains | None,
    rooms: Sequence[tuple[int, Int64Column | None]],
    placed: Rows,
) -> GroupDomains:
    rows = domains.labelled
    sizes, firsts = domains.sizes(rows), domains.firsts(rows)
    fits = possible(domains, rooms, rows)
    held = domains.sizes(placed[domains.of_row[placed] >= 0])

    def name(domain: int) -> str:
        row = int(firsts[domain])
        own = f"{domains.key}={domains.value(row)}"
        return own if outer is None else f"{outer.key}={outer.value(row)}, {own}"

    def rank(domain: int) -> tuple[int, int, str]:
        return -int(held[domain]), -int(fits[domain]), name(domain)

    existing = np.flatnonzero(sizes > 0).tolist()
    best = (
        GroupDomain(name(each), int(sizes[each]), int(fits[each]), int(held[each]))
        for each in nsmallest(MAX_DOMAINS, existing, key=rank)
    )
    return GroupDomains(domains.key, outer is None, len(existing), tuple(best))


def _resources(table: NodeTable, pod: Pod, rows: Rows) -> Iterator[GroupResource]:
    """Yield for each requested resource, and for `pods`, how many more such pods fit on `rows`."""
    wanted = pod.signature.requests
    amounts = (wanted.milli_cpu, wanted.memory, wanted.ephemeral_storage)
    for (name, index, unit), amount in zip(_NATIVE, amounts, strict=True):
        if amount:
            free = table.allocatable[index, rows] - table.requested[index, rows]
            yield _resource(name, amount, free, unit)
    for name, amount in [each for each in wanted.scalars if each[1]][:MAX_RESOURCES]:
        allocatable, requested = table.scalar_amounts(name, rows)
        yield _resource(name, amount, allocatable - requested)
    yield _resource("pods", 1, table.pod_limit[rows] - table.pod_count[rows])


def _resource(name: str, amount: int, free: Int64Column, unit: int = 1) -> GroupResource:
    free = np.maximum(free, 0)
    return GroupResource(name, amount / unit, int(free.sum()) / unit, int((free // amount).sum()))
