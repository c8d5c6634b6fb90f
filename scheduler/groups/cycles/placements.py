"""Placements: the sets of nodes on which a group with topology constraints is tried in turn.

A group that requires one domain of a label is tried in one domain at a time, and nowhere else. A
group that prefers domains is tried in single domains of the narrowest label first, then in domains
of wider labels, then on all nodes. Within a wider domain, narrower ones are filled one after the
other, those with the most room first, so that the group is spread over few of them.

A domain with too little room for the members that the group needs is skipped. The others are
ordered: domains that already have members first, then those that take all members rather than just
the minimum, then by least total room, fewest nodes, and label value. Members that already have
nodes determine the domain of a required label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Final

import numpy as np

from scheduler.engine.domains import Domains, OneDomain, Rooms, possible, rows_of
from scheduler.engine.engine import Engine
from scheduler.framework import Int64Column, QueuedPodInfo, Rows
from scheduler.framework.grouping import GroupTopology, GroupToSchedule

MAX_DOMAINS: Final = 8
"""Maximum number of domains of one label in which a group is tried."""

MAX_PARTS: Final = 1_000
"""Maximum number of narrower domains to fill in turn; other members go anywhere."""

NO_LABEL: Final = "no node has the label {key}, of which it requires one domain"
SPLIT: Final = (
    "pods are in {count} domains of {key}, of which one is required; the others go to {value}, "
    "which has most of them"
)
UNLABELLED: Final = (
    "{count} pods are on nodes without the label {key}, of which a domain is required"
)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a placement's rows; parts are filled one after the other."""

    rows: Rows | None
    #: The maximum number of members of each template that fit here; None: unknown.
    rooms: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class GroupPlacement:
    """Rows on which the whole group is tried, ascending; None: all."""

    rows: Rows | None
    #: Description for people, such as `the domain rack=r7`; empty: all nodes.
    text: str
    #: The parts in the order in which they are filled; the last one is the whole placement.
    parts: Sequence[Part]
    #: The narrower domains, of which each of the `parts` but the last is one.
    narrower: Domains | None = None
    #: Upper bound of the number of members that fit.
    possible: int = 0
    #: 0 for the narrowest label, 1 for the next wider one, and so on.
    level: int = 0

    def describe(self, placed: Rows) -> str:
        """Describe for people where members placed on these rows are."""
        if self.narrower is None or not len(placed):
            return f"in {self.text}" if self.text else ""
        domains = len(np.unique(self.narrower.of_row[placed]))
        where = f"{domains} domain{'s' if domains > 1 else ''} of {self.narrower.key}"
        return f"in {where}, {self.text}" if self.text else f"in {where}"


class GroupPlacements:
    """The placements of one group. Used within one cycle."""

    def __init__(
        self,
        engine: Engine,
        group: GroupToSchedule,
        topology: GroupTopology,
        infos: Sequence[QueuedPodInfo],
    ) -> None:
        cache = engine.cache
        self._table = cache.table
        self._need, self._count = group.need, len(infos)
        #: Room for the members by template. The caller sets it, unless `is_settled`.
        self.rooms: Rooms = ()
        pods = [info.pod for info in infos if info.pod.status.nominated_node_name]
        self._placed = rows_of(topology.placed, cache)
        #: Rows of members that are placed, or for which room is reserved.
        self._held = rows_of(topology.placed, cache, nominated=pods)
        self._key = topology.required
        self._preferred = [key for key in topology.preferred if key != topology.required]
        self.required = Domains(self._table, self._key) if self._key else None
        #: A message if members are in several domains of the required label, otherwise empty.
        self.split = ""
        #: The domain of the required label that placed members determine, if any.
        self.pinned: OneDomain | None = None
        if self.required is not None:
            self._pin(self.required)

    def _pin(self, required: Domains) -> None:
        labelled = self._placed[required.of_row[self._placed] >= 0]
        if not len(labelled):
            if len(self._placed):
                self.split = UNLABELLED.format(count=len(self._placed), key=self._key)
            return
        counts = required.sizes(labelled)
        most = np.flatnonzero(counts == counts.max())
        firsts = required.firsts(required.labelled)
        domain = min(most.tolist(), key=lambda each: required.value(int(firsts[each])))
        different = int(np.count_nonzero(counts))
        if different > 1:
            value = f"{self._key}={required.value(int(firsts[domain]))}"
            self.split = SPLIT.format(count=different, key=self._key, value=value)
        self.pinned = OneDomain(self._table, self._key, required.value(int(firsts[domain])))
        required.only(domain)

    @property
    def is_settled(self) -> bool:
        """Whether there is at most one placement, so that `rooms` would not change the choice."""
        return self.pinned is not None and not self._preferred

    @property
    def one_domain(self) -> OneDomain | None:
        """The requirement of one domain, or None if there is none."""
        if self.required is None:
            return None
        return self.pinned or OneDomain(self._table, self._key)

    @property
    def refused(self) -> str:
        """Return why no node at all is eligible for the group; empty if some are."""
        if self.required is None or len(self.required.labelled):
            return ""
        return NO_LABEL.format(key=self._key)

    # -- placements ------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[GroupPlacement]:
        """Yield the placements to try, best first."""
        narrower: Domains | None = None
        for level, key in enumerate(self._preferred):
            domains = Domains(self._table, key, self.required)
            yield from self._in_one(domains, narrower, level)
            narrower = domains
        if self.required is not None:
            yield from self._in_one(self.required, narrower, len(self._preferred))
            return
        parts = self._parts(None, narrower)
        yield GroupPlacement(None, "", parts, narrower, self._count, len(self._preferred))

    def best(self) -> GroupPlacement | None:
        """Return the domain of the required label that has room for the most members."""
        return next(self._ranked(self.required, None, 1), None) if self.required else None

    def _in_one(
        self, domains: Domains, narrower: Domains | None, level: int
    ) -> Iterator[GroupPlacement]:
        for placement in self._ranked(domains, narrower, MAX_DOMAINS):
            if placement.possible >= self._need:
                yield replace(placement, level=level)

    def _ranked(
        self, domains: Domains, narrower: Domains | None, most: int
    ) -> Iterator[GroupPlacement]:
        rows = domains.labelled
        if not len(rows):
            return
        fits = possible(domains, self.rooms, rows)
        room = self._left_over(domains, rows)
        sizes, firsts = domains.sizes(rows), domains.firsts(rows)
        held = self._held_by(domains)
        enough = np.flatnonzero((fits >= self._need) & (sizes > 0))
        if not len(enough):
            # None of these domains is tried; the one with the most room appears in messages.
            enough = np.flatnonzero((fits == fits[sizes > 0].max()) & (sizes > 0))

        def rank(domain: int) -> tuple[int, bool, int, int, str]:
            fit = int(fits[domain])
            value = domains.value(int(firsts[domain]))
            all_fit = fit >= self._count
            return (-int(held[domain]), not all_fit, int(room[domain]), int(sizes[domain]), value)

        for domain in nsmallest(most, enough.tolist(), key=rank):
            inside = domains.rows(domain)
            text = f"the domain {self._name(domains, int(firsts[domain]))}"
            parts = self._parts(inside, narrower)
            yield GroupPlacement(inside, text, parts, narrower, int(fits[domain]))

    def _name(self, domains: Domains, row: int) -> str:
        """Return the name of a row's domain, preceded by that of the required label, if any."""
        name = f"{domains.key}={domains.value(row)}"
        if self.required is None or domains is self.required:
            return name
        return f"{self.required.key}={self.required.value(row)}, {name}"

    def _left_over(self, domains: Domains, rows: Rows) -> Int64Column:
        """Return int64[domains]: room for pods of the first template; number of rows if unknown."""
        by_row = self.rooms[0][1]
        return domains.sizes(rows) if by_row is None else domains.sums(by_row, rows)

    def _held_by(self, domains: Domains) -> Int64Column:
        held = self._held[domains.of_row[self._held] >= 0]
        return domains.sizes(held)

    def _parts(self, rows: Rows | None, narrower: Domains | None) -> list[Part]:
        """Return a part for each narrower domain with room, and one for all `rows`."""
        unknown = (None,) * len(self.rooms)
        whole = Part(rows, unknown)
        if narrower is None:
            return [whole]
        inside = narrower.labelled if rows is None else rows[narrower.of_row[rows] >= 0]
        if not len(inside):
            return [whole]
        fits = possible(narrower, self.rooms, inside)
        held, firsts = self._held_by(narrower), narrower.firsts(inside)
        sums = [
            None if by_row is None else narrower.sums(by_row, inside) for _, by_row in self.rooms
        ]

        def rank(domain: int) -> tuple[int, int, str]:
            value = narrower.value(int(firsts[domain]))
            return -int(held[domain]), -int(fits[domain]), value

        some = np.flatnonzero((fits > 0) & (firsts >= 0)).tolist()
        order = nsmallest(min(self._count, MAX_PARTS), some, key=rank)
        # Sorted by domain, so that finding the rows of a domain does not take a pass over all rows.
        by_domain = np.argsort(narrower.of_row[inside], kind="stable")
        sorted_domains = narrower.of_row[inside][by_domain]
        parts = []
        for domain in order:
            start, end = np.searchsorted(sorted_domains, (domain, domain + 1))
            rooms = tuple(None if each is None else int(each[domain]) for each in sums)
            parts.append(Part(inside[by_domain[start:end]], rooms))
        return [*parts, whole]
