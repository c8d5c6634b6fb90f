"""The scheduling cycle of a pod group: it places enough members at once, or none.

Each member goes through an ordinary cycle up to Reserve and is assumed on the live node table, so
that every plugin sees the members placed before it. If too few fit, all assumptions are undone in
reverse order; nothing else runs in between (docs/decisions/0012-pod-groups.md). Single members do
not preempt, since that would evict pods before it is known whether the group fits; if it does not,
evictions for the whole group are planned at the end (`group_preemption`). Permit runs last.

Members that no plugin can tell apart form a *run*. If a member does not fit, the rest of its run is
not tried: members placed meanwhile have only taken room. The rest is also skipped if the capacity
of the nodes shows that too few can fit (`capacity_bound`). Upper bounds may even rule out a group
before any member is tried (`template_capacity`). The search is greedy: if a mixed group does not
fit, the run that failed goes first in the next pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from scheduler.engine import failure
from scheduler.engine.engine import Engine
from scheduler.engine.failure import Failure
from scheduler.engine.group_result import EvictionPlan, GroupResult
from scheduler.engine.repetition import Repetition
from scheduler.engine.schedule_one import Attempt
from scheduler.engine.template_capacity import GroupBound
from scheduler.framework import QueuedPodInfo, Rows
from scheduler.framework.grouping import GroupOutcome, GroupTopology, GroupToSchedule
from scheduler.groups.cycles.capacity_bound import CapacityBound, bound_after
from scheduler.groups.cycles.limits import failed_together, refusal, refused_together
from scheduler.groups.cycles.placements import GroupPlacement, GroupPlacements
from scheduler.groups.cycles.preemption import GroupPreemption
from scheduler.groups.cycles.prospects import prospects
from scheduler.groups.cycles.run import (
    MAX_ROOMS,
    MemberRun,
    active_filters,
    learn_little_room,
    possible,
    rejectors,
    runs_of,
)

MAX_PASSES: Final = 3
"""Maximum number of orders in which the runs of a mixed group are tried."""

MAX_ELSEWHERE: Final = 8
"""Maximum number of further passes if the allocation of one member limits others to full nodes."""

MAX_BUDGETS: Final = 10
"""Maximum CPU time of all members together, as a multiple of the budget of an ordinary cycle."""


class GroupCycle:
    """One scheduling cycle of one group. Used once."""

    def __init__(
        self,
        engine: Engine,
        group: GroupToSchedule,
        infos: Sequence[QueuedPodInfo],
        *,
        monotonic: Callable[[], float],
        take: Callable[[QueuedPodInfo], None],
        on_placed: Callable[[Attempt], None],
        pause: Callable[[], Awaitable[bool]] | None = None,
        may_preempt: bool = False,
    ) -> None:
        """Prepare a cycle for the members `infos`: interned pods of profiles of the engine.

        `take` is called before a member is tried for the first time, `on_placed` right after a
        node was found for it. `pause` is awaited after each member, and returns whether it
        suspended the cycle; the owner defers all changes of state meanwhile. Evictions are planned
        only with `may_preempt`.
        """
        self._engine = engine
        self._group = group
        self._infos, self._count = infos, len(infos)
        totals = engine.cache.table.allocatable.sum(axis=1)
        self._runs = runs_of(infos, totals, all_needed=group.need >= len(infos))
        self._monotonic = monotonic
        self._take = take
        self._taken: set[str] = set()
        self._on_placed = on_placed
        self._pause = pause
        self._may_preempt = may_preempt
        self._cost = 0.0
        #: The attempt whose error ended the cycle, if any.
        self._error: Attempt | None = None
        #: For a group with topology constraints: all placements, and the current one.
        self._placements: GroupPlacements | None = None
        self._placement: GroupPlacement | None = None
        #: Numbers of time slices, orders and placements, for metrics.
        self._slices, self._orders, self._tried = 1, 0, 0
        #: Number of orders tried on the current placement.
        self._pass_orders = 0
        #: Plugins that rejected members on other placements.
        self._rejectors: frozenset[str] = frozenset()
        #: Rows that the current pass must not use.
        self._left_out: set[int] = set()

    async def run(self) -> GroupResult:
        """Run the cycle; suspends wherever the cycle of a member does."""
        started = self._monotonic()
        refused = refused_together(self._engine, self._group, self._infos)
        if refused is not None:
            self._taken.update(info.uid for info in self._infos)
            return refusal(
                self._engine,
                self._group,
                self._infos,
                refused,
                take=self._take,
                seconds=lambda: self._monotonic() - started,
            )
        if self._count < self._group.need:
            blocking: MemberRun | None = self._runs[0]
        elif self._group.topology is not None:
            blocking = await self._try_placements(self._group.topology)
        else:
            hopeless = self._known_not_to_fit() or await self._shown_not_to_fit()
            blocking = self._runs[0] if hopeless else await self._try_orders()
        scheduled = blocking is None and self._permit()
        return self._result(scheduled, started)

    # -- topology --------------------------------------------------------------------------------

    async def _try_placements(self, topology: GroupTopology) -> MemberRun | None:
        """Try the placements in order; return the run that does not fit in the best, or None."""
        runs = self._runs
        for index, run in enumerate(runs):
            run.index = index
        placements = GroupPlacements(self._engine, self._group, topology, self._infos)
        self._placements = placements
        # The room of a run costs a pass over all nodes; that of the first runs is enough to rank.
        looks = 0 if placements.is_settled else MAX_ROOMS
        placements.rooms = [
            (len(run.infos), await run.room(self._engine) if run.index < looks else None)
            for run in runs
        ]
        best: tuple[int, GroupPlacement, list[MemberRun], MemberRun] | None = None
        for placement in placements:
            self._tried += 1
            self._undo()
            self._placement, self._runs = placement, [run.again() for run in runs]
            blocking = await self._try_orders()
            if blocking is None or self._error is not None:
                return blocking
            fit = possible(self._runs)
            self._rejectors |= rejectors(self._runs)
            # Report the failure under the weakest constraint: all nodes if no domain is required,
            # otherwise the first domain of the widest label that takes the most members.
            if best is None or (placement.level, fit) > (best[1].level, best[0]):
                best = fit, placement, self._runs, blocking
        if best is None:
            self._limit_by_rooms(placements)
            return self._runs[0]
        self._undo()
        _, self._placement, self._runs, blocking = best
        return blocking

    def _limit_by_rooms(self, placements: GroupPlacements) -> None:
        """Set the bounds of a group that was not tried, because no domain has room for it."""
        best = self._placement = placements.best()
        if best is None or best.rows is None:
            return
        for run, (_, by_row) in zip(self._runs, placements.rooms, strict=True):
            if by_row is None:
                continue
            plugins = run.capacities(self._engine).limiting(run.infos[0].pod, run.state)
            run.bound = CapacityBound(int(by_row[best.rows].sum()) - 1, plugins)
            self._rejectors |= plugins

    def _place(self) -> str:
        """Return the placement for a failure message, with a leading space; may be empty."""
        placement, placements = self._placement, self._placements
        if placement is None or placements is None or placements.required is None:
            return ""
        if placements.pinned is not None:
            return f" in {placement.text} of its other pods"
        return f" in the best {placement.text.removeprefix('the ')}"

    # -- one pass --------------------------------------------------------------------------------

    async def _try_orders(self) -> MemberRun | None:
        """Try the runs in several orders; return the run that does not fit, None if all fit."""
        self._pass_orders = 1
        blocking = await self._pass()
        for _ in range(MAX_PASSES - 1):
            if blocking is None or blocking is self._runs[0] or self._error is not None:
                # The first run was tried before other members took room; no order can help it.
                break
            self._undo()
            others = [run.again() for run in self._runs if run is not blocking]
            self._runs = [blocking.again(), *others]
            self._pass_orders += 1
            blocking = await self._pass()
        return blocking if blocking is None else await self._try_elsewhere(blocking)

    async def _try_elsewhere(self, blocking: MemberRun) -> MemberRun | None:
        """Try again without the nodes of members whose allocations limit the blocking run."""
        best = self._runs, blocking
        for _ in range(MAX_ELSEWHERE):
            if not blocking.tied_to or self._error is not None:
                break
            for run in self._runs:
                self._left_out |= run.rows_of(blocking.tied_to)
            self._undo()
            self._runs = [run.again() for run in self._runs]
            following = await self._pass()
            if following is None:
                self._left_out.clear()
                return None
            blocking = following
            if possible(self._runs) > possible(best[0]):
                best = self._runs, blocking
        self._left_out.clear()
        if self._error is None:
            self._undo()
            self._runs, blocking = best
        return blocking

    async def _pass(self) -> MemberRun | None:
        """Try the runs in their order; return the run that does not fit, None if all fit."""
        self._orders += 1
        for run in self._runs:
            repetition = None
            if self._group.packs and self._placement is None and self._pass_orders == 1:
                await run.pack(self._engine)
            for info in run.infos:
                attempt = await self._try_parts(run, info, repetition)
                if repetition is None and not run.placed:
                    repetition = Repetition.of(attempt, len(run.infos) - 1)
                if attempt.failure is not None:
                    run.failed = attempt
                    if not attempt.failure.rejected:
                        self._error = attempt
                    break
                run.placed.append(attempt)
                if self._pause is not None:
                    self._slices += await self._pause()
                if len(run.placed) == 1 and len(run.infos) > 1:
                    rows = None if self._placement is None else self._placement.rows
                    run.bound = bound_after(attempt, rows)
                    if self._hopeless():
                        return run
            if self._error is not None or self._hopeless():
                return run
        return None

    def _known_not_to_fit(self) -> bool:
        """Whether the bounds of known templates rule the group out before any member is tried."""
        bound = self._bound()
        bound.refresh()
        if not bound.parts or not bound.too_low():
            return False
        for run in self._runs:
            if run.template is not None:
                total = run.capacities(self._engine).total(run.template, exact=True)
                run.bound = CapacityBound(total - 1, frozenset())
        return True

    async def _shown_not_to_fit(self) -> bool:
        """Whether a pass over all nodes rules out a group whose templates were not known yet."""
        learnt = await learn_little_room(self._runs, self._group.need, self._engine)
        return learnt and self._known_not_to_fit()

    def _bound(self) -> GroupBound:
        """Return the bound of the group; members of unknown templates count as fitting."""
        parts, unlimited = [], 0
        for run in self._runs:
            capacities = run.capacities(self._engine)
            run.template = capacities.of(run.infos[0].pod)
            if run.template is None:
                unlimited += len(run.infos)
            else:
                parts.append((capacities, run.template, len(run.infos)))
        one = None if self._placements is None else self._placements.one_domain
        return GroupBound(self._group.need, parts, unlimited, one)

    def _hopeless(self) -> bool:
        return possible(self._runs) < self._group.need

    async def _try_parts(
        self, run: MemberRun, info: QueuedPodInfo, repetition: Repetition | None
    ) -> Attempt:
        """Try a member in the current part of the placement, then in the following parts."""
        if self._placement is None:
            if (at := len(run.placed)) < len(run.packed):
                attempt = await self._try(info, repetition, run.packed[at : at + 1])
                if attempt.failure is None or not attempt.failure.rejected:
                    return attempt
            return await self._try(info, repetition, None)
        parts = self._placement.parts
        while True:
            part, is_last = parts[run.part], run.part + 1 >= len(parts)
            room = part.rooms[run.index]
            if is_last or room is None or run.in_part < room:
                attempt = await self._try(info, repetition, part.rows)
                if is_last or attempt.failure is None or not attempt.failure.rejected:
                    run.in_part += 1
                    return attempt
            run.part, run.in_part = run.part + 1, 0

    async def _try(
        self, info: QueuedPodInfo, repetition: Repetition | None, within: Rows | None
    ) -> Attempt:
        engine = self._engine
        if self._left_out:
            rows = engine.cache.table.rows if within is None else within
            within = np.setdiff1d(rows, np.fromiter(self._left_out, np.intp))
        if info.uid not in self._taken:
            self._taken.add(info.uid)
            self._take(info)
        attempt = await engine.decide(info, group=self._group, repetition=repetition, within=within)
        engine.commit(attempt)
        self._cost += attempt.cost
        limit = MAX_BUDGETS * engine.cycle_seconds
        if attempt.failure is None and self._cost > limit:
            engine.abandon(attempt)
            attempt.result, attempt.failure = None, failure.group_over_budget(self._cost, limit)
        if attempt.failure is None:
            self._on_placed(attempt)
        return attempt

    def _undo(self) -> None:
        for run in reversed(self._runs):
            run.undo(self._engine)

    def _permit(self) -> bool:
        """Run Permit for all placed members; return False if a plugin rejected one."""
        for run in self._runs:
            for attempt in run.placed:
                self._engine.permit(attempt)
                if attempt.failure is not None:
                    self._error = attempt
                    return False
        return True

    # -- the result ------------------------------------------------------------------------------

    def _result(self, scheduled: bool, started: float) -> GroupResult:
        runs = self._runs
        fit = min(sum(run.possible for run in runs), self._count)
        untried = [info for run in runs for info in run.untried]
        placed = [attempt for run in runs for attempt in run.placed]
        failed = [run.failed for run in runs if run.failed is not None]
        complete = scheduled and len(placed) == self._count
        message, plan = "" if complete else self._message(fit), None
        if not scheduled and self._count >= self._group.need and self._error is None:
            self._undo()
            plan = self._plan()
            message += self._prospects(message, evicts=plan is not None or not self._may_preempt)
        place, split = self._where(placed if scheduled else [])
        outcome = GroupOutcome(
            scheduled=scheduled,
            message=message,
            fit=fit,
            failed=self._count - fit,
            seconds=self._monotonic() - started,
            place=place,
            split=split,
            ruled_out=not scheduled and not self._taken and self._count >= self._group.need,
            error=self._error is not None,
            slices=self._slices,
            orders=self._orders,
            placements=self._tried,
        )
        if scheduled:
            return GroupResult(outcome, placed, failed, untried)
        why = failure.of_group(f"{self._group.name}: {message}", self._group.plugin)
        because = self._rejectors | rejectors(self._runs)
        failed = self._failures(why, f"{self._group.name}: {self._fits(fit)}")
        refused_by = failed_together(self._engine, self._infos, because)
        bound = self._rising_bound()
        if bound is None and not failed and self._rejectors:
            why = failure.waiting_for(why, *self._rejectors, self._group.plugin)
        if bound is not None:
            for attempt in failed:
                assert attempt.failure is not None
                attempt.failure = failure.waiting_for(attempt.failure, self._group.plugin)
        victims = () if plan is None else tuple(each.uid for each in plan.victims)
        outcome = replace(
            outcome,
            victims=victims if self._may_plan else None,
            seconds=self._monotonic() - started,
            refused_by=refused_by,
        )
        return GroupResult(outcome, [], failed, untried, why, bound, plan)

    def _where(self, placed: Sequence[Attempt]) -> tuple[str, str]:
        """Return the domain of placed members, and why they are in several domains, for people."""
        placement, placements = self._placement, self._placements
        if placement is None or placements is None:
            return "", ""
        rows = [attempt.result.row for attempt in placed if attempt.result is not None]
        place = placement.describe(np.array(rows, dtype=np.intp)) if rows else ""
        return place, placements.split

    @property
    def _may_plan(self) -> bool:
        return self._may_preempt and self._error is None and self._count >= self._group.need

    def _plan(self) -> EvictionPlan | None:
        """Plan evictions, after all assumptions were undone."""
        return self._preemption().plan() if self._may_plan else None

    def _preemption(self) -> GroupPreemption:
        runs = [run.infos for run in self._runs]
        return GroupPreemption(self._engine, self._group, runs, self._monotonic, self._placements)

    def _rising_bound(self) -> GroupBound | None:
        """Return the bound if it rules the group out; called after all was undone."""
        if self._error is not None or self._count < self._group.need:
            return None
        bound = self._bound()
        bound.refresh()
        return bound if bound.parts and bound.too_low() else None

    def _fits(self, fit: int, most: str = "") -> str:
        group = self._group
        if group.alone:
            return f"one more pod does not fit{self._place()}"
        have = group.minimum - group.need
        if self._count < group.need:
            return f"needs {group.minimum} pods, {have + self._count} can be tried"
        text = f"needs {group.minimum} pods, {have + fit} fit{most}"
        if have:
            text = f"{text} ({have} placed before, {fit} now)"
        return f"{text}{self._place()}"

    def _message(self, fit: int) -> str:
        text = self._fits(fit)
        if self._error is not None and self._error.failure is not None:
            return f"{text}; {self._error.info.key}: {self._error.failure.message}"
        if self._placements is not None and self._placements.refused:
            return f"needs {self._group.minimum} pods; {self._placements.refused}"
        others = "" if self._group.alone else f", {self._count - fit} do not"
        for run in self._runs:
            if run.failed is not None and run.failed.failure is not None:
                return f"{text}{others}: {run.failed.failure.message.removesuffix('.')}"
            if run.bound is not None and run.possible < len(run.infos):
                within = None if self._placement is None else self._placement.rows
                shortage = run.shortage(self._engine, within)
                text = f"{self._fits(fit, ' at most')}{others}"
                return f"{text}: {shortage}" if shortage else text
        return text

    def _prospects(self, said: str, *, evicts: bool) -> str:
        """Return what would make the group fit, for people; called after all was undone."""
        group, runs = self._group, self._runs
        if group.alone or (self._placements is not None and self._placements.refused):
            return ""
        search = self._preemption()
        several = len(runs) > 1 and self._pass_orders > 1 and runs[0].failed is None
        orders = self._pass_orders if several else 1
        return prospects(search, group, said, orders=orders, evicts=evicts)

    def _failures(self, why: Failure, prefix: str) -> list[Attempt]:
        """Undo all assumptions, and set the failure of each attempt.

        One member of each run keeps its rejectors, so that an event that may help it requeues the
        group. The other members wait for it.
        """
        plugin = self._group.plugin
        runs = [(run, run.placed, run.failed, run.bound) for run in self._runs]
        self._undo()
        attempts: list[Attempt] = []
        for run, placed, failed, bound in runs:
            first = placed[0] if placed else failed
            run.learn(self._engine, first)
            for attempt in placed:
                if attempt is self._error:
                    continue
                attempt.result, attempt.failure = None, why
                attempts.append(attempt)
            if not placed or failed is not None or placed[0] is self._error:
                continue
            if bound is not None and 1 + bound.more < len(run.infos):
                plugins = bound.plugins | self._rejectors
                placed[0].failure = failure.waiting_for(why, *plugins, plugin)
            elif len(runs) > 1:
                # If this run could move to other nodes, the failed run might fit on its nodes.
                placed[0].failure = failure.waiting_for(why, *active_filters(placed[0]), plugin)
        ended = [failed for _, _, failed, _ in runs if failed is not None]
        if self._error is not None and self._error not in ended:
            ended.append(self._error)
        for attempt in ended:
            assert attempt.failure is not None
            attempt.failure = failure.in_group(attempt.failure, prefix, plugin, self._rejectors)
        return [*attempts, *ended]
