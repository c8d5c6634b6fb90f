"""Tally: the metrics of all groups, for `Gangs`.

A changed group is only recorded, and evaluated when the metrics are read. So a change costs almost
nothing, and reading the metrics costs as much as there were changed groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from plugins.gang_scheduling.standing import GroupStage, Standing
from scheduler.framework import Handle
from scheduler.framework.grouping import GroupOutcome
from scheduler.groups import Counts, Group, GroupKey

GROUPS: Final = "kubestow_gang_groups"
MEMBERS: Final = "kubestow_gang_members"
PARTIAL: Final = "kubestow_gang_partial_groups"
WAIT: Final = "kubestow_gang_wait_seconds"
LOOKUPS: Final = "kubestow_gang_succeeded_lookups_total"
REJECTIONS: Final = "kubestow_gang_bound_rejections_total"
VICTIMS: Final = "kubestow_gang_victims_total"


class _Counted(NamedTuple):
    stage: GroupStage
    source: str
    counts: Counts


class Tally:
    """Counts the groups of one process."""

    def __init__(
        self,
        handle: Handle,
        group: Callable[[GroupKey], Group | None],
        standing: Callable[[Group], Standing],
    ) -> None:
        """`group` returns a group by its key, `standing` its progress."""
        self._handle = handle
        self._group = group
        self._standing = standing
        self._changed: set[GroupKey] = set()
        self._counted: dict[GroupKey, _Counted] = {}
        self._groups: Counter[tuple[str, str]] = Counter()
        self._members: Counter[str] = Counter()
        self._partial = 0
        #: Time since which complete groups wait for their minimum to be placed.
        self._waiting: dict[GroupKey, float] = {}
        #: Parts of counters that are already in the metrics.
        self._lookups = self._kept = 0

    def touch(self, key: GroupKey) -> None:
        """Record that a group, or a member of it, may have changed."""
        self._changed.add(key)

    def look(self, group: Group) -> None:
        """Begin or end the waiting time of a changed group."""
        key = group.key
        self._changed.add(key)
        if key in self._waiting:
            if group.satisfied:
                self._end_wait(key, "bound")
        elif group.ready and group.need:
            self._waiting[key] = self._handle.clock.monotonic()

    def forget(self, key: GroupKey) -> None:
        """Drop a deleted group."""
        if key in self._counted:
            self._changed.add(key)
        else:
            # Groups that were created and deleted between two reads must not take memory.
            self._changed.discard(key)
        if key in self._waiting:
            self._end_wait(key, "deleted")

    def _end_wait(self, key: GroupKey, result: str) -> None:
        waited = self._handle.clock.monotonic() - self._waiting.pop(key)
        self._handle.metrics.observe(WAIT, result, value=waited)

    def evicted(self, kinds: Sequence[str]) -> None:
        """Count the victims of an eviction plan by kind."""
        for kind, number in Counter(kinds).items():
            self._handle.metrics.count(VICTIMS, kind, amount=number)

    def report(self, *, lookups: int, kept: int) -> None:
        """Set the gauges, and update the counters."""
        metrics = self._handle.metrics
        for name, labels, new in (
            (LOOKUPS, (), lookups - self._lookups),
            (REJECTIONS, ("event",), kept - self._kept),
        ):
            if new > 0:
                metrics.count(name, *labels, amount=new)
        self._lookups, self._kept = lookups, kept
        if not self._changed:
            return
        for key in self._changed:
            self._count(key)
        self._changed.clear()
        for (stage, source), number in self._groups.items():
            metrics.gauge(GROUPS, stage, source, value=number)
        for state, number in self._members.items():
            metrics.gauge(MEMBERS, state, value=number)
        metrics.gauge(PARTIAL, value=self._partial)

    def _count(self, key: GroupKey) -> None:
        before = self._counted.pop(key, None)
        if before is not None:
            self._add(before, -1)
        group = self._group(key)
        if group is not None:
            stage = self._standing(group).stage
            now = self._counted[key] = _Counted(stage, key.source.value, group.counts)
            self._add(now, 1)

    def _add(self, counted: _Counted, sign: int) -> None:
        self._groups[counted.stage.value, counted.source] += sign
        # Without waiting members the group's controller does not replace lost members.
        waiting = counted.counts.pending or counted.counts.gated
        self._partial += sign if counted.stage is GroupStage.PARTIAL and waiting else 0
        for state, number in counted.counts._asdict().items():
            if number:
                self._members[state] += sign * number


def result_of(outcome: GroupOutcome) -> str:
    """Return the result of a cycle as upstream's metric label."""
    if outcome.scheduled:
        return "scheduled"
    if outcome.error:
        return "error"
    return "waiting_on_preemption" if outcome.victims else "unschedulable"
