"""The scheduling cycle of a group of pods: its members are tried, and enough of them or none stay.

Each member runs through an ordinary cycle up to Reserve and is assumed on the live node table, so
that every plugin sees the members placed before it. If too few fit, all assumptions are undone in
reverse order; nothing else runs in between (docs/decisions/0012-pod-groups.md). No member preempts,
because that would evict before it is known whether the group fits; if it does not, evictions for
the whole group are planned at the end (`group_preemption`). Permit runs at the end.

Members that no plugin can tell apart form a run. If one of a run does not fit, the others of the
run are not tried: members placed since have only taken room. If the capacity of the nodes shows
that too few of a run can fit, the rest is not tried either (`capacity_bound`); a group that has
failed before may be known not to fit before any member is tried (`template_capacity`). The search
is greedy: if a mixed group does not fit, the run that failed goes first in the next pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from scheduler.engine import failure
from scheduler.engine.attempt import Attempt
from scheduler.engine.capacity_bound import CapacityBound, bound_after
from scheduler.engine.engine import Engine
from scheduler.engine.failure import Failure
from scheduler.engine.group_preemption import EvictionPlan, GroupPreemption
from scheduler.engine.repetition import Repetition
from scheduler.engine.template_capacity import GroupBound, Template, TemplateCapacities
from scheduler.framework import Int64Column, QueuedPodInfo
from scheduler.framework.grouping import GroupOutcome, GroupToSchedule
from scheduler.queue import identity

MAX_PASSES: Final = 3
"""Orders in which the members of a mixed group are tried."""

MAX_BUDGETS: Final = 10
"""CPU time that all members may use together, in budgets of an ordinary cycle."""


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

    def capacities(self, engine: Engine) -> TemplateCapacities:
        """Return the templates of the profile."""
        return engine.algorithms[self.infos[0].pod.spec.scheduler_name].capacities

    def learn(self, engine: Engine, attempt: Attempt | None, scarce: str) -> None:
        """Have a template follow the nodes from now on, if an attempt passed PreFilter."""
        if attempt is None or attempt.ended_before_filter:
            return
        template = self.capacities(engine).add(attempt.info.pod, attempt.state)
        if template is not None and scarce:
            template.scarce = scarce

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


@dataclass(slots=True)
class GroupResult:
    """The decision about a group."""

    outcome: GroupOutcome
    #: Attempts that have a node; empty if the group failed.
    placed: list[Attempt]
    #: Attempts that failed; of a scheduled group those of members beyond its minimum.
    failed: list[Attempt]
    #: Members that were not tried.
    untried: list[QueuedPodInfo]
    #: The failure of those that were not tried.
    untried_failure: Failure | None = None
    #: Set if the group failed and cannot fit before this bound has risen; None: it waits for the
    #: events of the plugins that rejected members.
    bound: GroupBound | None = None
    #: Evictions after which the failed group fits.
    plan: EvictionPlan | None = None


class GroupCycle:
    """Decides about one group. Used once."""

    def __init__(
        self,
        engine: Engine,
        group: GroupToSchedule,
        infos: Sequence[QueuedPodInfo],
        *,
        monotonic: Callable[[], float],
        take: Callable[[QueuedPodInfo], None],
        on_placed: Callable[[Attempt], None],
        pause: Callable[[], Awaitable[None]] | None = None,
        may_preempt: bool = False,
    ) -> None:
        """Prepare a cycle.

        `take` is called before a member is tried for the first time, `on_placed` right after a
        node was found for it. `pause` is awaited after each member and may suspend the cycle; its
        owner holds back all changes of state meanwhile. Evictions are planned only if the cycle
        `may_preempt`. Members are interned pods of profiles of the engine.
        """
        self._engine = engine
        self._group = group
        self._count = len(infos)
        totals = engine.cache.table.allocatable.sum(axis=1)
        self._runs = _runs(infos, totals, all_needed=group.need >= len(infos))
        self._monotonic = monotonic
        self._take = take
        self._taken: set[str] = set()
        self._on_placed = on_placed
        self._pause = pause
        self._may_preempt = may_preempt
        self._cost = 0.0
        #: The attempt that ended the cycle by an error, if one did.
        self._error: Attempt | None = None

    async def run(self) -> GroupResult:
        """Decide; suspends where the cycle of a member does."""
        started = self._monotonic()
        cannot_fit = self._count < self._group.need or self._known_not_to_fit()
        blocking = self._runs[0] if cannot_fit else await self._pass()
        for _ in range(MAX_PASSES - 1):
            if blocking is None or blocking is self._runs[0] or self._error is not None:
                # A run that is first was tried on nodes that no other member had taken.
                break
            self._undo()
            self._runs.remove(blocking)
            self._runs.insert(0, blocking)
            blocking = await self._pass()
        scheduled = blocking is None and self._permit()
        return self._result(scheduled, started)

    # -- one pass --------------------------------------------------------------------------------

    async def _pass(self) -> Run | None:
        """Try the runs in order; return the one because of which the group fails, if it does."""
        for run in self._runs:
            repetition = None
            for info in run.infos:
                attempt = await self._try(info, repetition)
                if repetition is None and not run.placed:
                    repetition = Repetition.of(attempt)
                if attempt.failure is not None:
                    run.failed = attempt
                    if not attempt.failure.rejected:
                        self._error = attempt
                    break
                run.placed.append(attempt)
                if self._pause is not None:
                    await self._pause()
                if len(run.placed) == 1 and len(run.infos) > 1:
                    run.bound = bound_after(attempt)
                    if self._hopeless():
                        return run
            if self._error is not None or self._hopeless():
                return run
        return None

    def _known_not_to_fit(self) -> bool:
        """Whether the bounds of groups that wait say so, before any member is tried."""
        bound = self._bound()
        bound.refresh()
        if not bound.parts or not bound.too_low():
            return False
        for run in self._runs:
            if run.template is not None:
                total = run.capacities(self._engine).total(run.template, exact=True)
                run.bound = CapacityBound(total - 1, run.template.scarce, frozenset())
        return True

    def _bound(self) -> GroupBound:
        """Return the bound of the group, as far as its templates are known."""
        parts, unlimited = [], 0
        for run in self._runs:
            capacities = run.capacities(self._engine)
            run.template = capacities.of(run.infos[0].pod)
            if run.template is None:
                unlimited += len(run.infos)
            else:
                parts.append((capacities, run.template, len(run.infos)))
        return GroupBound(self._group.need, parts, unlimited)

    def _hopeless(self) -> bool:
        return sum(run.possible for run in self._runs) < self._group.need

    async def _try(self, info: QueuedPodInfo, repetition: Repetition | None) -> Attempt:
        engine = self._engine
        if info.uid not in self._taken:
            self._taken.add(info.uid)
            self._take(info)
        if engine.suspends(info.pod):
            attempt = await engine.decide(info, member=True)
            if attempt.failure is None:
                engine.commit(attempt)
        else:
            attempt = engine.attempt(info, member=True, repetition=repetition)
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
            for attempt in reversed(run.placed):
                if attempt.failure is None:
                    self._engine.abandon(attempt)
                    self._engine.waiting_pods.remove(attempt.info.uid)
            run.placed, run.failed, run.bound = [], None, None

    def _permit(self) -> bool:
        """Run Permit of all members; return whether no plugin rejected one."""
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
        message = "" if complete else self._message(fit)
        seconds = self._monotonic() - started
        outcome = GroupOutcome(scheduled, message, fit, self._count - fit, seconds)
        if scheduled:
            return GroupResult(outcome, placed, failed, untried)
        why = failure.of_group(f"{self._group.name}: {message}", self._group.plugin)
        failed = self._failures(why, f"{self._group.name}: {self._fits(fit)}")
        bound = self._rising_bound()
        if bound is not None:
            for attempt in failed:
                assert attempt.failure is not None
                attempt.failure = failure.waiting_for(attempt.failure, self._group.plugin)
        return GroupResult(outcome, [], failed, untried, why, bound, self._plan())

    def _plan(self) -> EvictionPlan | None:
        """Plan evictions, after all was undone."""
        if not self._may_preempt or self._error is not None or self._count < self._group.need:
            return None
        infos = [info for run in self._runs for info in run.infos]
        return GroupPreemption(self._engine, self._group, infos, self._monotonic).plan()

    def _rising_bound(self) -> GroupBound | None:
        """Return the bound that keeps the group from fitting, after all was undone."""
        if self._error is not None or self._count < self._group.need:
            return None
        bound = self._bound()
        bound.refresh()
        return bound if bound.parts and bound.too_low() else None

    def _fits(self, fit: int) -> str:
        group = self._group
        have = group.minimum - group.need
        if self._count < group.need:
            return f"needs {group.minimum} pods, {have + self._count} can be tried"
        text = f"needs {group.minimum} pods, {have + fit} fit"
        return f"{text} ({have} placed before, {fit} now)" if have else text

    def _message(self, fit: int) -> str:
        text = self._fits(fit)
        if self._error is not None and self._error.failure is not None:
            return f"{text}; {self._error.info.key}: {self._error.failure.message}"
        for run in self._runs:
            if run.failed is not None and run.failed.failure is not None:
                return f"{text}, {self._count - fit} do not: {run.failed.failure.message}"
            if run.bound is not None and run.possible < len(run.infos):
                short = f": short of {run.bound.scarce}" if run.bound.scarce else ""
                return f"{text} at most, {self._count - fit} do not{short}"
        return text

    def _failures(self, why: Failure, prefix: str) -> list[Attempt]:
        """Undo all assumptions, and give each attempt its failure.

        Of each run one member keeps the plugins that rejected it, or may do so: an event that may
        help it may help the group, and brings that back. The others wait for it.
        """
        plugin = self._group.plugin
        runs = [(run, run.placed, run.failed, run.bound) for run in self._runs]
        self._undo()
        attempts: list[Attempt] = []
        for run, placed, failed, bound in runs:
            first = placed[0] if placed else failed
            run.learn(self._engine, first, "" if bound is None else bound.scarce)
            for attempt in placed:
                if attempt is self._error:
                    continue
                attempt.result, attempt.failure = None, why
                attempts.append(attempt)
            if not placed or failed is not None or placed[0] is self._error:
                continue
            if bound is not None and 1 + bound.more < len(run.infos):
                placed[0].failure = failure.waiting_for(why, *bound.plugins, plugin)
            elif len(runs) > 1:
                # If it found another place, its present one might be free for those that failed.
                placed[0].failure = failure.waiting_for(why, *_active_filters(placed[0]), plugin)
        ended = [failed for _, _, failed, _ in runs if failed is not None]
        if self._error is not None and self._error not in ended:
            ended.append(self._error)
        for attempt in ended:
            assert attempt.failure is not None
            attempt.failure = failure.in_group(attempt.failure, prefix, plugin)
        return [*attempts, *ended]


def _active_filters(attempt: Attempt) -> frozenset[str]:
    names = {plugin.name for plugin in attempt.framework.filter}
    return frozenset(names - attempt.state.skip_filter)


def _runs(infos: Sequence[QueuedPodInfo], totals: Int64Column, *, all_needed: bool) -> list[Run]:
    """Put members into runs, in an order that does not depend on that of `infos`.

    Large members come first, as they have the fewest places. If not all members are needed, those
    of higher priority go before that, since others may be left out.
    """
    runs: dict[object, Run] = {}
    for info in sorted(infos, key=lambda each: each.pod.metadata.name):
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
