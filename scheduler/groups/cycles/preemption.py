"""GroupPreemption: finds victims whose eviction makes room for a whole group, without evicting.

The members are placed as in an ordinary pass. If one does not fit, preemption's search for single
pods finds victims on one node; these are removed from the node table, and the member is placed
there. There is a plan only if enough members get a node. In any case all changes of the table are
undone at the end, and nothing is evicted here. A plan is therefore proven on the table as a whole:
without the victims, all these members fit together.

Groups for which there is too little room even without all pods of lower priority are ruled out
first. Like preemption of single pods the search is greedy, and may miss a smaller set of victims;
at the end, victims that turn out to be unnecessary are dropped from the plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.engine.domains import Domains, possible
from scheduler.engine.engine import Engine
from scheduler.engine.errors import CycleBudgetError
from scheduler.engine.group_result import EvictionPlan
from scheduler.engine.plugin_slots import FilterSlot
from scheduler.engine.preemption.candidates import importance
from scheduler.engine.preemption.without_victims import WithoutPotentialVictims
from scheduler.engine.reserved_room import ReservedRoom, reservations, reserved_among
from scheduler.engine.runtime import Framework
from scheduler.engine.schedule_one import Attempt
from scheduler.framework import Int64Column, PotentialVictims, QueuedPodInfo, Rows
from scheduler.framework.grouping import GroupPreemptionPlugin, GroupToSchedule
from scheduler.framework.preemption import Candidate
from scheduler.groups.cycles.placements import MAX_DOMAINS, GroupPlacements

MAX_BUDGETS: Final = 10
"""Maximum time of the search for all members, as a multiple of the budget of an ordinary cycle."""

MAX_SPARED: Final = 16
"""Maximum number of units of victims (evicted together) that are tested for being unnecessary."""

_NEVER: Final = "Never"

_ABOVE_ALL: Final = 1 << 31
"""Higher than any priority."""


class GroupPreemption:
    """The search for the victims of one group. Used once, while no member is assumed."""

    def __init__(
        self,
        engine: Engine,
        group: GroupToSchedule,
        runs: Sequence[Sequence[QueuedPodInfo]],
        monotonic: Callable[[], float],
        placements: GroupPlacements | None = None,
    ) -> None:
        """Prepare the search for the members in `runs`, each of one signature.

        `placements` are those on which the group was tried, if it has topology constraints.
        """
        self._engine = engine
        self._group = group
        self._runs = _merged(runs)
        self._infos = [info for run in runs for info in run]
        self._framework = engine.frameworks[self._infos[0].pod.spec.scheduler_name]
        self._plugin = _plugin_of(self._framework)
        self._monotonic = monotonic
        self._placements = placements
        self._end = monotonic() + MAX_BUDGETS * engine.cycle_seconds
        self._within: Rows | None = None
        self._violations = 0
        self._victims: dict[str, Pod] = {}
        self._placed: list[Attempt] = []

    def plan(self) -> EvictionPlan | None:
        """Return the best plan found; None if there is none, or the group may not preempt."""
        plugin = self._plugin
        if plugin is None or not self._may_preempt():
            return None
        without = self._without_victims(plugin, self.priority)
        required = None if self._placements is None else self._placements.required
        if required is None:
            return None if self._hopeless(without) else self._plan(plugin)
        best: EvictionPlan | None = None
        for rows in self._domains(required, without):
            self._within = rows
            found = self._plan(plugin)
            if found is not None and (best is None or found.harm < best.harm):
                best = found
        return best

    def _plan(self, plugin: GroupPreemptionPlugin) -> EvictionPlan | None:
        """Return a plan for the rows `_within`; all changes of the node table are undone."""
        engine = self._engine
        try:
            if not self._place_all(plugin) or not self._victims:
                return None
            members = [(each.info, each.node_name) for each in self._placed]
            self._abandon_placed()
            members = self._spare() or members
            return EvictionPlan(
                plugin,
                tuple(sorted(self._victims.values(), key=importance)),
                tuple(info for info, _ in members),
                {info.uid: node for info, node in members},
                self._violations,
            )
        finally:
            self._abandon_placed()
            for uid in reversed(self._victims):
                engine.cache.put_back(uid)
            self._victims, self._violations = {}, 0

    def _abandon_placed(self) -> None:
        for attempt in reversed(self._placed):
            self._engine.abandon(attempt)
        self._placed = []

    # -- sparing ---------------------------------------------------------------------------------

    def _spare(self) -> list[tuple[QueuedPodInfo, str]]:
        """Drop unnecessary victims; return the members with their new nodes, empty if unchanged.

        Victims are chosen member by member, each for one node. Pods that are evicted with a victim,
        such as the rest of its gang, also free room on other nodes, which may make other victims
        unnecessary. So each unit of victims, the most important one first, is put back into the
        table, and dropped from the plan if the whole group still fits.
        """
        members: list[tuple[QueuedPodInfo, str]] = []
        units = self._units()
        for unit in units[:MAX_SPARED] if len(units) > 1 else ():
            if self._monotonic() > self._end:
                break
            for uid in unit:
                self._engine.cache.put_back(uid)
            if self._may_fit() and self._place_all(None):
                members = [(each.info, each.node_name) for each in self._placed]
                for uid in unit:
                    del self._victims[uid]
            else:
                self._abandon_placed()
                for uid in unit:
                    self._engine.cache.set_aside(uid)
            self._abandon_placed()
        return members

    def _units(self) -> list[list[str]]:
        """Return the units of victims (UIDs) that are evicted together, most important first."""
        units: list[list[str]] = []
        known: set[str] = set()
        for victim in sorted(self._victims.values(), key=importance):
            uid = victim.metadata.uid
            if uid not in known:
                together = {uid, *self._evicted_with(victim, self._victims.keys())}
                units.append([each for each in self._victims if each in together])
                known.update(units[-1])
        return units

    def _may_fit(self) -> bool:
        """Whether the group may fit on the current nodes, judging by free resources only."""
        table, left = self._engine.cache.table, self._group.need
        for run in self._runs:
            room = self._room(run[0].pod, table)
            if room is None:
                return True
            within = room if self._within is None else room[self._within]
            left -= min(len(run), int(within.sum()))
        return left <= 0

    # -- for people ------------------------------------------------------------------------------

    def most_when_empty(self) -> int | None:
        """Return an upper bound of the members that fit in an empty cluster; None: unknown."""
        table = self._engine.cache.table
        if table.priorities.unbanded.any():
            return None
        without = WithoutPotentialVictims(table, PotentialVictims(_ABOVE_ALL, None))
        rooms: list[tuple[int, Int64Column]] = []
        for run in self._runs:
            by_row = self._room_on_allowed_nodes(run[0].pod, without)
            if by_row is None:
                return None
            rooms.append((len(run), by_row))
        required = None if self._placements is None else self._placements.required
        if required is not None:
            return int(possible(required, rooms, required.labelled).max(initial=0))
        return sum(min(count, int(by_row.sum())) for count, by_row in rooms)

    def reserved_for_others(self) -> Iterator[ReservedRoom]:
        """Yield the reservations of other groups for nodes where a member would have room."""
        table = self._engine.cache.table
        for run in self._runs:
            pod = run[0].pod
            if not any(reservations(self._framework, pod)):
                continue
            room = self._room_on_allowed_nodes(pod, table)
            if room is not None:
                names = {table.names[row] for row in np.flatnonzero(room > 0).tolist()}
                yield from reserved_among(self._framework, pod, names)

    def _room_on_allowed_nodes(self, pod: Pod, without: Any) -> Int64Column | None:
        """Return `_room` with 0 for nodes that known filters exclude regardless of their pods."""
        table = self._engine.cache.table
        capacities = self._engine.algorithms[self._framework.profile_name].capacities
        by_row, template = self._room(pod, without), capacities.of(pod)
        if by_row is None or template is None:
            return by_row
        passing = np.zeros(table.capacity, dtype=np.bool_)
        passing[capacities.passing(template, table.rows)] = True
        return np.where(passing, by_row, 0)

    def victims_that_suffice(self, priority: int, *, own: bool = True) -> int:
        """Return how many pods below a priority there are if the group might fit without them.

        0 if it would not. `own` considers only pods of the profiles that preemption is limited to.
        """
        plugin = self._plugin
        if plugin is None:
            return 0
        without = self._without_victims(plugin, priority, own=own)
        victims = without.potential_victims
        required = None if self._placements is None else self._placements.required
        if required is not None:
            domains = self._domains(required, without)
            return max((int(victims[each].sum()) for each in domains), default=0)
        return 0 if self._hopeless(without) else int(victims.sum())

    def no_permission(self) -> str:
        """Return which permission is missing for evictions; empty if none is, or none is known."""
        missing = getattr(self._plugin, "missing_permission", None)
        return "" if missing is None else missing()

    def stopped(self) -> str:
        """Return why no victims are looked for at present; empty if they are."""
        stopped = getattr(self._plugin, "stopped", None)
        return "" if stopped is None else stopped(self._infos)

    @property
    def forbidden_by_member(self) -> bool:
        """Whether a member has a policy with which it never preempts."""
        return any(info.pod.spec.preemption_policy == _NEVER for info in self._infos)

    @property
    def suspends(self) -> bool:
        """Whether extenders or async plugins take part, so that there is no trial."""
        return any(self._engine.suspends(info.pod) for info in self._infos)

    # -- may it ----------------------------------------------------------------------------------

    @property
    def priorities(self) -> tuple[int, int]:
        """The lowest and the highest priority of the members."""
        every = [info.pod.priority for info in self._infos]
        return min(every), max(every)

    @property
    def priority(self) -> int:
        """The priority for preemption: the group may evict only what each member may evict."""
        lowest, own = self.priorities[0], self._group.priority
        return lowest if own is None else min(lowest, own)

    def _may_preempt(self) -> bool:
        return self._group.may_preempt and not (self.forbidden_by_member or self.suspends)

    def _hopeless(self, without: WithoutPotentialVictims) -> bool:
        """Whether evicting all potential victims would not be enough, or there are none."""
        table = self._engine.cache.table
        if table.priorities.unbanded.any():
            return False
        if not without.potential_victims.any():
            return True
        left = self._group.need
        for run in self._runs:
            room = self._room(run[0].pod, without)
            if room is None:
                return False
            left -= min(len(run), int(room.sum()))
        return left > 0

    def _without_victims(
        self, plugin: GroupPreemptionPlugin, priority: int, *, own: bool = True
    ) -> WithoutPotentialVictims:
        limited = own and plugin.rules.own_victims_only
        schedulers = frozenset(self._engine.frameworks) if limited else None
        victims = PotentialVictims(priority, schedulers)
        return WithoutPotentialVictims(self._engine.cache.table, victims)

    def _room(self, pod: Pod, without: Any) -> Int64Column | None:
        """Return int64[capacity]: how many such pods fit on each row of the table `without`."""
        table = self._engine.cache.table
        for slot in self._limiting_slots():
            found = np.zeros(table.capacity, dtype=np.int64)
            found[table.rows] = slot.plugin.capacity_rows(pod, without, table.rows)
            return found
        return None

    def _domains(self, domains: Domains, without: WithoutPotentialVictims) -> list[Rows]:
        """Return the domains in which evictions may help; those with the most room come first."""
        assert self._placements is not None
        table = self._engine.cache.table
        rows, rooms = domains.labelled, []
        for run in self._runs:
            banded = not table.priorities.unbanded.any()
            rooms.append((len(run), self._room(run[0].pod, without) if banded else None))
        if not len(rows):
            return []
        enough = possible(domains, rooms, rows) >= self._group.need
        enough &= domains.sizes(rows) > 0
        now = possible(domains, self._placements.rooms, rows)
        order = np.lexsort((domains.sizes(rows), -now))
        return [domains.rows(each) for each in order[enough[order]][:MAX_DOMAINS].tolist()]

    def _limiting_slots(self) -> list[FilterSlot]:
        """Return the filters on resources, which can compute capacities without the victims."""
        algorithm = self._engine.algorithms[self._framework.profile_name]
        return [
            slot
            for slot in algorithm.search.filtering.slots
            if callable(getattr(slot.plugin, "capacity_matrix", None))
        ]

    # -- the trial -------------------------------------------------------------------------------

    def _place_all(self, plugin: GroupPreemptionPlugin | None) -> bool:
        """Place as many members as the group needs, one after the other; return whether all fit.

        `plugin` finds victims for members that do not fit; None: no victims are allowed.
        """
        need = self._group.need
        for run in self._runs:
            for info in run:
                if len(self._placed) >= need:
                    return True
                if self._monotonic() > self._end or not self._place(plugin, info):
                    break
        return len(self._placed) >= need

    def _place(self, plugin: GroupPreemptionPlugin | None, info: QueuedPodInfo) -> bool:
        within = self._within
        attempt = self._engine.attempt(info, group=self._group, within=within)
        if plugin is not None and attempt.failure is not None and attempt.failure.rejected:
            victims = self._find_victims(plugin, attempt)
            if not victims:
                return False
            for victim in victims:
                if self._engine.cache.set_aside(victim.metadata.uid):
                    self._victims[victim.metadata.uid] = victim
            attempt = self._engine.attempt(info, group=self._group, within=within)
        if attempt.failure is not None:
            return False
        self._placed.append(attempt)
        return True

    def _find_victims(self, plugin: GroupPreemptionPlugin, attempt: Attempt) -> list[Pod]:
        """Return the victims on the best node, and all pods that are evicted together with one."""
        if attempt.ended_before_filter or attempt.failure is None:
            return []
        diagnosis = attempt.failure.diagnosis
        assert diagnosis is not None
        engine = self._engine
        try:
            with engine.trial_budget(engine.cycle_seconds):
                found = plugin.find_victims(
                    attempt.state, attempt.info.pod, diagnosis.statuses, self._harm
                )
        except CycleBudgetError:
            return []
        if found is None:
            return []
        self._violations += found.pdb_violations
        victims = self._all_victims(found)
        placed = {each.info.uid for each in self._placed}
        if any(
            uid in placed or victim.priority >= self.priority for uid, victim in victims.items()
        ):
            return []
        return list(victims.values())

    def _all_victims(self, found: Candidate) -> dict[str, Pod]:
        """Return the victims on a node, and the pods that must be evicted with them."""
        victims: dict[str, Pod] = {}
        for victim in found.victims:
            victims[victim.metadata.uid] = victim
            for uid in self._evicted_with(victim, self._victims.keys() | victims.keys()):
                pod = self._engine.cache.get_pod(uid)
                if pod is not None and uid not in self._victims:
                    victims.setdefault(uid, pod)
        return victims

    def _harm(self, found: Candidate) -> int:
        """Count the further pods that must be evicted together with a candidate's victims."""
        return len(self._all_victims(found)) - len(found.victims)

    def _evicted_with(self, victim: Pod, victims: AbstractSet[str]) -> Iterable[str]:
        together = getattr(self._framework.grouping, "evicted_with", None)
        return () if together is None else together(victim, victims)


def _plugin_of(framework: Framework) -> GroupPreemptionPlugin | None:
    for plugin in framework.post_filter:
        if callable(getattr(plugin, "evict_for_group", None)):
            found: GroupPreemptionPlugin = plugin
            return found
    return None


def _merged(runs: Sequence[Sequence[QueuedPodInfo]]) -> list[list[QueuedPodInfo]]:
    """Merge adjacent runs of the same signature."""
    by_signature = itertools.groupby(runs, lambda run: run[0].pod.signature.id)
    return [[info for run in alike for info in run] for _, alike in by_signature]
