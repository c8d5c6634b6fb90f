"""Runs: the members of a group that no plugin can tell apart, and their results in a cycle."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from scheduler.engine.engine import Engine
from scheduler.engine.repetition import same_template
from scheduler.engine.schedule_one import Attempt
from scheduler.engine.template_capacity import Template, TemplateCapacities
from scheduler.framework import CycleState, Int64Column, QueuedPodInfo, Rows
from scheduler.groups.cycles.capacity_bound import CapacityBound
from scheduler.queue import identity

MAX_ROOMS: Final = 64
"""Maximum number of runs of a group for which a cycle computes the room on all nodes."""

MIN_NEED_TO_LOOK: Final = 16
"""For groups that need at least so many members the room is computed before they are tried. That
costs a PreFilter and half a millisecond for 5,000 nodes; trying few members costs little more."""


@dataclass(slots=True)
class MemberRun:
    """Members that differ in nothing that a plugin reads, and their results in a cycle."""

    infos: list[QueuedPodInfo]
    placed: list[Attempt] = field(default_factory=list)
    #: The attempt at the member that did not fit.
    failed: Attempt | None = None
    #: Upper bound, computed after the first member was placed if there are more.
    bound: CapacityBound | None = None
    #: Looked up again for each bound, since templates that no waiting group uses may be dropped.
    template: Template | None = None
    #: Index among the runs, for a group with topology constraints.
    index: int = 0
    #: The state after PreFilter alone, if the room for the members was computed.
    state: CycleState | None = None
    #: Index of the part of the placement that is being filled, and the number of members there.
    part: int = 0
    in_part: int = 0
    #: Whether the assumptions of `placed` were undone.
    undone: bool = False
    #: The row on which each member is tried first, in order; empty: no preference.
    packed: Rows = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    async def pack(self, engine: Engine) -> None:
        """Set `packed`: choose for each member a row with as little room as possible.

        Does nothing if the members have affinity or spread constraints, or if a filter without
        known capacity depends on other pods.
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
        """Return the template capacities of the run's profile."""
        return engine.algorithms[self.infos[0].pod.spec.scheduler_name].capacities

    def learn(self, engine: Engine, attempt: Attempt | None) -> None:
        """Register the template for bounds of waiting groups, if the pod has passed PreFilter."""
        state = self.state
        if attempt is not None and not attempt.ended_before_filter:
            state = attempt.state
        if state is not None:
            self.capacities(engine).add(self.infos[0].pod, state)

    async def room(self, engine: Engine) -> Int64Column | None:
        """Return int64[capacity]: the maximum number of members on each row; None: unknown."""
        pod = self.infos[0].pod
        capacities = self.capacities(engine)
        if capacities.of(pod) is None:
            self.state = await engine.pre_filtered(pod)
        return capacities.by_row(pod, self.state)

    def learn_room(self, engine: Engine, room: Int64Column) -> None:
        """Register the template for bounds of waiting groups; `room` is the result of `room()`."""
        if self.state is not None:
            self.capacities(engine).add(self.infos[0].pod, self.state, room)

    def shortage(self, engine: Engine, within: Rows | None) -> str:
        """Return why no more members fit on `within` (None: all rows), for people; may be empty."""
        state = self.placed[0].state if self.placed else self.state
        capacities = self.capacities(engine)
        rows = engine.cache.table.rows if within is None else within
        found = capacities.shortage(self.infos[0].pod, state, rows)
        return "" if found is None else found.text

    def has_results(self, engine: Engine) -> bool:
        """Whether results for such pods are cached, so that trying one costs little."""
        pod = self.infos[0].pod
        results = engine.algorithms[pod.spec.scheduler_name].search.results
        return results.get(pod.signature.id, pod.uid) is not None

    def again(self) -> MemberRun:
        """Return a fresh copy of the run, of which no member was tried."""
        return MemberRun(self.infos, index=self.index, state=self.state)

    def undo(self, engine: Engine) -> None:
        """Undo the assumptions; `placed` is kept for reports."""
        if self.undone:
            return
        self.undone = True
        for attempt in reversed(self.placed):
            if attempt.failure is None:
                engine.abandon(attempt)
                engine.waiting_pods.remove(attempt.info.uid)

    @property
    def tied_to(self) -> tuple[str, ...]:
        """UIDs of the members whose allocations may have kept the failed member from fitting."""
        return () if self.failed is None else self.failed.state.tied_to

    def rows_of(self, uids: Collection[str]) -> set[int]:
        """Return the rows of the placed members among these UIDs."""
        placed = (attempt for attempt in self.placed if attempt.info.uid in uids)
        return {attempt.result.row for attempt in placed if attempt.result is not None}

    @property
    def untried(self) -> list[QueuedPodInfo]:
        """The members that were not tried."""
        return self.infos[len(self.placed) + (self.failed is not None) :]

    @property
    def possible(self) -> int:
        """Upper bound of the number of members that fit."""
        if self.failed is not None:
            return len(self.placed)
        if self.bound is None:
            return len(self.infos)
        return min(len(self.infos), 1 + self.bound.more)


async def learn_little_room(runs: Sequence[MemberRun], need: int, engine: Engine) -> bool:
    """Compute the room for runs without cached results; return whether it is too little.

    If so, their templates are registered for bounds. False also means that trying the members is
    preferable: it costs little for single members and with cached results, and if no node has room
    for a member, the attempt yields the reason.
    """
    if need < MIN_NEED_TO_LOOK:
        return False
    rooms: list[tuple[MemberRun, Int64Column]] = []
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


def possible(runs: Iterable[MemberRun]) -> int:
    """Return an upper bound of the number of members that fit."""
    return sum(run.possible for run in runs)


def active_filters(attempt: Attempt) -> frozenset[str]:
    """Return the names of the filters that did not skip the pod of an attempt."""
    names = {plugin.name for plugin in attempt.framework.filter}
    return frozenset(names - attempt.state.skip_filter)


def rejectors(runs: Sequence[MemberRun]) -> frozenset[str]:
    """Return the plugins that keep runs from fitting."""
    found: frozenset[str] = frozenset()
    for run in runs:
        if run.failed is not None and run.failed.failure is not None:
            found |= run.failed.failure.unschedulable_plugins
        if run.bound is not None and 1 + run.bound.more < len(run.infos):
            found |= run.bound.plugins
    return found


def runs_of(
    infos: Sequence[QueuedPodInfo], totals: Int64Column, *, all_needed: bool
) -> list[MemberRun]:
    """Group members into runs, in an order that does not depend on that of `infos`.

    Larger members come first, since they fit on the fewest nodes. Unless all members are needed,
    higher priority comes before size, since the last members may get no node.
    """
    runs: dict[object, MemberRun] = {}
    run: MemberRun | None = None
    for info in sorted(infos, key=lambda each: each.pod.metadata.name):
        if run is not None and same_template(run.infos[0].pod, info.pod):
            run.infos.append(info)
            continue
        known = identity(info.pod)
        like = info.uid if known is None else known
        key = (info.pod.spec.scheduler_name, like, info.pod.priority)
        run = runs.get(key)
        if run is None:
            run = runs[key] = MemberRun([])
        run.infos.append(info)
    if len(runs) == 1:
        return list(runs.values())

    def rank(run: MemberRun) -> tuple[int, int, float, str]:
        info = run.infos[0]
        requests = info.pod.signature.requests
        native = (requests.milli_cpu, requests.memory, requests.ephemeral_storage)
        shares = [amount / total for amount, total in zip(native, totals, strict=True) if total]
        scalars = sum(amount for _, amount in requests.scalars)
        priority = 0 if all_needed else info.pod.priority
        return (-priority, -scalars, -max(shares, default=0.0), info.pod.metadata.name)

    return sorted(runs.values(), key=rank)
