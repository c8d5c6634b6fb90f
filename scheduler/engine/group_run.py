"""Runs: the members of a group that no plugin can tell apart, and their results in a cycle."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.api.packed_labels import MAX_PLAIN_LABELS
from scheduler.api.pod import Pod
from scheduler.engine.attempt import Attempt
from scheduler.engine.capacity_bound import CapacityBound
from scheduler.engine.engine import Engine
from scheduler.engine.template_capacity import Template, TemplateCapacities
from scheduler.framework import CycleState, Int64Column, QueuedPodInfo, Rows
from scheduler.queue import identity

MAX_ROOMS: Final = 64
"""Templates of a group of which the room of all nodes is looked at in one cycle."""

MIN_NEED_TO_LOOK: Final = 16
"""Members that a group needs at once, from which on the room for them is looked at first. That
costs a PreFilter and half a millisecond for 5,000 nodes; to try few members costs little more."""


@dataclass(slots=True)
class Run:
    """Members that no plugin can tell apart, but for their names."""

    infos: list[QueuedPodInfo]
    placed: list[Attempt] = field(default_factory=list)
    #: The attempt of the member that did not fit.
    failed: Attempt | None = None
    #: Known once a member was placed and there are more.
    bound: CapacityBound | None = None
    #: Looked up for each bound, since templates that no waiting group uses may be dropped.
    template: Template | None = None
    #: Of a group with topology: its place among the runs.
    index: int = 0
    #: The result of PreFilter alone, if the room for the members was looked at.
    state: CycleState | None = None
    #: The part of the placement that is filled, and the members there.
    part: int = 0
    in_part: int = 0
    #: Whether the assumptions of `placed` were undone.
    undone: bool = False
    #: The row on which each member is tried first, in order; none: anywhere.
    packed: Rows = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    async def pack(self, engine: Engine) -> None:
        """Choose for each member a row with as little room as possible.

        Not where members have affinity or spread constraints, which are to decide, or where filters
        that cannot tell how many fit depend on other pods.
        """
        pod = self.infos[0].pod
        spec = pod.signature.spec
        if spec.affinity is not None or spec.topology_spread_constraints:
            return
        capacities = self.capacities(engine)
        if self.state is None and capacities.of(pod) is None:
            self.state = await engine.pre_filtered(pod)
        room = capacities.exactly_by_row(pod, self.state)
        if room is not None:
            room = np.minimum(room, len(self.infos))
            rows = np.flatnonzero(room)
            rows = rows[np.argsort(room[rows], kind="stable")]
            taken = int(np.searchsorted(np.cumsum(room[rows]), len(self.infos))) + 1
            self.packed = np.repeat(rows[:taken], room[rows[:taken]])

    def capacities(self, engine: Engine) -> TemplateCapacities:
        """Return the templates of the profile."""
        return engine.algorithms[self.infos[0].pod.spec.scheduler_name].capacities

    def learn(self, engine: Engine, attempt: Attempt | None) -> None:
        """Have a template follow the nodes from now on, if an attempt passed PreFilter."""
        state = self.state
        if attempt is not None and not attempt.ended_before_filter:
            state = attempt.state
        if state is not None:
            self.capacities(engine).add(self.infos[0].pod, state)

    async def room(self, engine: Engine) -> Int64Column | None:
        """Return int64[capacity]: how many members each row takes at most; None: not known."""
        pod = self.infos[0].pod
        capacities = self.capacities(engine)
        if capacities.of(pod) is None:
            self.state = await engine.pre_filtered(pod)
        return capacities.by_row(pod, self.state)

    def learn_room(self, engine: Engine, room: Int64Column) -> None:
        """Have a template follow the nodes from now on, of which `room` was just returned."""
        if self.state is not None:
            self.capacities(engine).add(self.infos[0].pod, self.state, room)

    def shortage(self, engine: Engine, within: Rows | None) -> str:
        """Return why no more members fit on some rows (None: all), for people; empty: unknown."""
        state = self.placed[0].state if self.placed else self.state
        capacities = self.capacities(engine)
        rows = engine.cache.table.rows if within is None else within
        found = capacities.shortage(self.infos[0].pod, state, rows)
        return "" if found is None else found.text

    def has_results(self, engine: Engine) -> bool:
        """Whether results of such a pod are kept, with which an attempt at it costs little."""
        pod = self.infos[0].pod
        results = engine.algorithms[pod.spec.scheduler_name].search.results
        return results.get(pod.signature.id, pod.uid) is not None

    def again(self) -> Run:
        """Return the run as it was before any member was tried."""
        return Run(self.infos, index=self.index, state=self.state)

    def undo(self, engine: Engine) -> None:
        """Undo the assumptions; `placed` stays for reports."""
        if self.undone:
            return
        self.undone = True
        for attempt in reversed(self.placed):
            if attempt.failure is None:
                engine.abandon(attempt)
                engine.waiting_pods.remove(attempt.info.uid)

    @property
    def tied_to(self) -> tuple[str, ...]:
        """UIDs of the members whose allocations may be why one did not fit."""
        return () if self.failed is None else self.failed.state.tied_to

    def rows_of(self, uids: Collection[str]) -> set[int]:
        """Return the rows of those of the members that are placed."""
        placed = (attempt for attempt in self.placed if attempt.info.uid in uids)
        return {attempt.result.row for attempt in placed if attempt.result is not None}

    @property
    def untried(self) -> list[QueuedPodInfo]:
        """The members that were not tried."""
        return self.infos[len(self.placed) + (self.failed is not None) :]

    @property
    def possible(self) -> int:
        """Members that fit, or may fit as far as is known."""
        if self.failed is not None:
            return len(self.placed)
        if self.bound is None:
            return len(self.infos)
        return min(len(self.infos), 1 + self.bound.more)


async def learn_little_room(runs: Sequence[Run], need: int, engine: Engine) -> bool:
    """Look at all nodes; whether they have too little room for a group that was not seen before.

    Templates follow the nodes then, and say so. A member of which results are kept is tried at
    little cost. So is one alone, and one that no node has room for: the attempt tells why.
    """
    if need < MIN_NEED_TO_LOOK:
        return False
    rooms: list[tuple[Run, Int64Column]] = []
    fit = 0
    for index, run in enumerate(runs):
        count, room = len(run.infos), None
        if count > 1 and index < MAX_ROOMS and not run.has_results(engine):
            room = await run.room(engine)
        if room is not None:
            count = min(count, int(room.sum()))
            rooms.append((run, room))
            if not count:
                return False
        fit += count
    if fit >= need:
        return False
    for run, room in rooms:
        run.learn_room(engine, room)
    return True


def possible(runs: Iterable[Run]) -> int:
    """Return how many members fit, or may fit as far as is known."""
    return sum(run.possible for run in runs)


def active_filters(attempt: Attempt) -> frozenset[str]:
    """Return the names of the filters that looked at the pod of an attempt."""
    names = {plugin.name for plugin in attempt.framework.filter}
    return frozenset(names - attempt.state.skip_filter)


def rejectors(runs: Sequence[Run]) -> frozenset[str]:
    """Return the plugins because of which runs do not fit."""
    found: frozenset[str] = frozenset()
    for run in runs:
        if run.failed is not None and run.failed.failure is not None:
            found |= run.failed.failure.unschedulable_plugins
        if run.bound is not None and 1 + run.bound.more < len(run.infos):
            found |= run.bound.plugins
    return found


def runs_of(infos: Sequence[QueuedPodInfo], totals: Int64Column, *, all_needed: bool) -> list[Run]:
    """Put members into runs, in an order that does not depend on that of `infos`.

    Large members come first, as they have the fewest places. If not all members are needed, those
    of higher priority go before that, since others may be left out.
    """
    runs: dict[object, Run] = {}
    run: Run | None = None
    for info in sorted(infos, key=lambda each: each.pod.metadata.name):
        if run is not None and _same_template(run.infos[0].pod, info.pod):
            run.infos.append(info)
            continue
        known = identity(info.pod)
        like = info.uid if known is None else known
        key = (info.pod.spec.scheduler_name, like, info.pod.priority)
        run = runs.get(key)
        if run is None:
            run = runs[key] = Run([])
        run.infos.append(info)
    if len(runs) == 1:
        return list(runs.values())

    def rank(run: Run) -> tuple[int, int, float, str]:
        info = run.infos[0]
        requests = info.pod.signature.requests
        native = (requests.milli_cpu, requests.memory, requests.ephemeral_storage)
        shares = [amount / total for amount, total in zip(native, totals, strict=True) if total]
        scalars = sum(amount for _, amount in requests.scalars)
        priority = 0 if all_needed else info.pod.priority
        return (-priority, -scalars, -max(shares, default=0.0), info.pod.metadata.name)

    return sorted(runs.values(), key=rank)


def _same_template(one: Pod, other: Pod) -> bool:
    """Whether two pods have the same `identity`, where that is seen without computing it."""
    labels = one.metadata.labels
    return (
        one.interned is not None
        and one.interned is other.interned
        and one.pin == other.pin
        # A pod may have 50,000.
        and len(labels) <= MAX_PLAIN_LABELS
        and labels == other.metadata.labels
        and one.metadata.namespace == other.metadata.namespace
    )
