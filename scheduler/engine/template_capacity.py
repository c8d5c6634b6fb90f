"""Upper bounds of how many pods of a template fit, kept up to date while groups of such pods wait.

A *template* stands for all pods of one signature. A `CapacityFilterPlugin` limits how many of them
each node takes; a node takes none if a filter that depends on the node alone rejects it. Other
filters that depend on pods count as passing, since pods that are placed or end may open a node. So
the sum over all nodes is an upper bound, and a group that needs more cannot be placed.

An event changes few nodes, but hundreds of groups may wait. So capacities are first estimated from
free resources only, for all templates in one array operation; an estimate is never too low. The
filters of a template evaluate the changed nodes only if the estimate does not rule the group out.

Invariant, after `refresh`: `_most[template, row]` is never below the result of evaluating the row,
and equal to it where `_loose` is False.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod import Pod
from scheduler.cache import NodeTable
from scheduler.engine.domain_sums import DomainSums
from scheduler.engine.domains import OneDomain
from scheduler.engine.plugin_slots import FilterSlot, named_versions
from scheduler.explain.records.wording import counted
from scheduler.framework import CycleState, Int64Column, Rows

MAX_TEMPLATES: Final = 512
"""Maximum number of templates; groups with other templates count as groups that may fit."""

MAX_LABELS: Final = 4
"""Maximum number of labels with sums by domain; the sums of one label are dropped for a new one."""

MAX_SHORT: Final = 3
"""Maximum number of resources, and of filters, that a message names."""

_NO_LIMIT: Final = int(np.iinfo(np.int32).max)
_NOTHING: Final[Mapping[Template, int]] = MappingProxyType({})
_ROWS_AT_ONCE: Final = 1024
"""Rows per estimate. It limits memory, since an estimate has a number per row and template."""


@dataclass(slots=True, eq=False)
class Template:
    """The pods of one signature."""

    key: Hashable
    #: One of the pods, the data of its PreFilter plugins, and its skipped filters.
    pod: Pod
    state: CycleState
    skipped: frozenset[str]
    #: Row of the template in the arrays.
    index: int
    #: Number of waiting groups with such pods.
    groups: int = 0


@dataclass(frozen=True, slots=True)
class Shortage:
    """Reasons why some nodes take no more pods of a template."""

    #: Limiting factors, in words, and the number of nodes of each; most nodes first.
    short: Sequence[tuple[str, int]]
    #: Filters, and how many nodes each of them excludes regardless of the pods there.
    excluded: Sequence[tuple[str, int]]

    @property
    def text(self) -> str:
        """The reasons as a sentence for people; empty if none is known."""
        limits = [f"{name} on {counted(each, 'node')}" for name, each in self.short[:MAX_SHORT]]
        parts = [f"short of {', '.join(limits)}"] if limits else []
        if self.excluded:
            first, *others = sorted(self.excluded, key=lambda each: -each[1])[:MAX_SHORT]
            more = "".join(f", {count} by {name}" for name, count in others)
            parts.append(f"{counted(first[1], 'node')} excluded by {first[0]}{more}")
        return "; ".join(parts)


class TemplateCapacities:
    """The templates of waiting groups of one profile."""

    def __init__(self, slots: Sequence[FilterSlot], table: NodeTable) -> None:
        self._table = table
        self._limiting = [
            slot for slot in slots if callable(getattr(slot.plugin, "capacity_rows", None))
        ]
        #: Names of filters that depend on other pods and are no `CapacityFilterPlugin`.
        self._uncounted = frozenset(
            slot.name for slot in slots if slot.depends_on_pods and slot not in self._limiting
        )
        self._filters = [
            slot
            for slot in slots
            if slot.columnar and not slot.depends_on_pods and slot not in self._limiting
        ]
        #: Filters that compute the capacities of all templates at once.
        self._estimators = [
            slot.plugin
            for slot in self._limiting
            if callable(getattr(slot.plugin, "capacity_matrix", None))
        ]
        self._templates: dict[Hashable, Template] = {}
        #: The templates, and a pod of each, in the order of the arrays.
        self._in_order: tuple[Template, ...] = ()
        self._pods: tuple[Pod, ...] = ()
        self._most: NDArray[np.int32] = np.zeros((0, table.capacity), dtype=np.int32)
        self._loose: NDArray[np.bool_] = np.zeros((0, table.capacity), dtype=np.bool_)
        #: By row of the table: False if `_most` is 0 for all templates.
        self._open: NDArray[np.bool_] = np.zeros(table.capacity, dtype=np.bool_)
        #: By template: the sum over all nodes, and whether part of it is only an estimate.
        self._totals: Int64Column = np.zeros(0, dtype=np.int64)
        self._is_loose: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        #: By template: the lowest total with which a waiting group may fit.
        self._lowest: Int64Column = np.zeros(0, dtype=np.int64)
        #: By label key, for groups that must be in one domain.
        self._by_label: dict[str, DomainSums] = {}
        #: Change log position up to which changes are included, and the named versions of filters.
        self._sequence = 0
        self._versions: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self._templates)

    # -- templates -------------------------------------------------------------------------------

    def of(self, pod: Pod) -> Template | None:
        """Return the template of a pod, if it is known."""
        key = _key(pod)
        return None if key is None else self._templates.get(key)

    def add(self, pod: Pod, state: CycleState, room: Int64Column | None = None) -> Template | None:
        """Add and return the template of a pod; None if nothing limits it, or there are too many.

        `state` is the state of a cycle in which the pod passed PreFilter; `room` is the current
        result of `by_row`, if known.
        """
        key = _key(pod)
        if key is None or not self._limiting:
            return None
        known = self._templates.get(key)
        if known is not None:
            return known
        if len(self._templates) >= MAX_TEMPLATES:
            self._drop_unused()
            if len(self._templates) >= MAX_TEMPLATES:
                return None
        self.refresh()
        template = Template(key, pod, state, frozenset(state.skip_filter), len(self._templates))
        self._templates[key] = template
        self._arrange([*range(template.index), -1])
        if room is not None:
            self._most[template.index] = room
            self._loose[template.index] = False
            self._totals[template.index], self._is_loose[template.index] = room.sum(), False
        return template

    def _drop_unused(self) -> None:
        kept = [each for each in self._templates.values() if each.groups]
        order = [each.index for each in kept]
        self._templates = {each.key: each for each in kept}
        for index, each in enumerate(kept):
            each.index = index
        self._arrange(order)

    def _arrange(self, order: Sequence[int]) -> None:
        """Reorder the rows of the arrays by `order`, in which -1 stands for a new, unknown row."""
        capacity = self._table.capacity
        most = np.zeros((len(order), capacity), dtype=np.int32)
        loose = np.zeros((len(order), capacity), dtype=np.bool_)
        for place, before in enumerate(order):
            if before >= 0:
                most[place], loose[place] = self._most[before], self._loose[before]
            else:
                most[place, self._table.rows] = _NO_LIMIT
                loose[place, self._table.rows] = True
        self._most, self._loose, self._open = most, loose, np.logical_or.reduce(most)
        known = np.array(order, dtype=np.intp)
        self._lowest = np.append(self._lowest, _NO_LIMIT)[known]
        for each in self._by_label.values():
            each.forget()
        self._in_order = tuple(self._templates.values())
        self._pods = tuple(each.pod for each in self._in_order)
        self._totals = most.sum(axis=1, dtype=np.int64)
        self._is_loose = np.ones(len(order), dtype=np.bool_)

    # -- bounds ----------------------------------------------------------------------------------

    def total(self, template: Template, *, exact: bool) -> int:
        """Return an upper bound of the pods of a template that fit; call `refresh` first.

        Without `exact` it may be an estimate, which is higher than the filters' own bound.
        """
        if exact and self._is_loose[template.index]:
            self._evaluate(template)
        return int(self._totals[template.index])

    def set_lowest(self, template: Template, total: int | None) -> None:
        """Set the lowest total of a template with which any waiting group may fit; None: none."""
        self._lowest[template.index] = _NO_LIMIT if total is None else total

    def at(self, index: int) -> Template:
        """Return the template of an index."""
        return self._in_order[index]

    def enough(self) -> list[int]:
        """Return the indexes of the templates whose totals are that high; after `refresh`."""
        found: list[int] = np.flatnonzero(self._totals >= self._lowest).tolist()
        return found

    def by_row(self, pod: Pod, state: CycleState | None) -> Int64Column | None:
        """Return int64[table capacity]: an upper bound of pods like `pod` on each row.

        `state` is the state of a cycle in which the pod passed PreFilter, if there is one. Returns
        None if nothing is known.
        """
        template = self.of(pod)
        if template is not None:
            self.refresh()
            return self.rows_of(template, exact=True)
        if state is None or not self._limiting:
            return None
        rows = self._table.rows
        skipped = frozenset(state.skip_filter)
        try:
            rows, limit = self._limits(Template(None, pod, state, skipped, -1), rows)
        except Exception:  # noqa: BLE001 - plugin boundary: an attempt at the group will report it
            return None
        found = np.zeros(self._table.capacity, dtype=np.int64)
        found[rows] = limit
        return found

    def exactly_by_row(self, pod: Pod, state: CycleState | None) -> Int64Column | None:
        """Return `by_row` if no other filter may reject a node, so that it is exact; else None."""
        template = self.of(pod)
        skipped: Collection[str] = () if state is None else state.skip_filter
        if template is not None:
            skipped = template.skipped
        return self.by_row(pod, state) if self._uncounted.issubset(skipped) else None

    def rows_of(self, template: Template, *, exact: bool) -> Int64Column:
        """Return int64[table capacity]: the capacities of which `total` is the sum."""
        self.total(template, exact=exact)
        found: Int64Column = self._most[template.index].astype(np.int64)
        return found

    def by_domain(self, template: Template, key: str, *, exact: bool) -> Int64Column:
        """Return int64[values of a label]: an upper bound of a template's pods in each domain."""
        self.total(template, exact=exact)
        found = self._sums(key).by_domain(self._most)[:, template.index]
        return found.astype(np.int64)

    def most_in_one(self, template: Template, key: str, *, exact: bool) -> int:
        """Return the highest of the bounds that `by_domain` returns."""
        self.total(template, exact=exact)
        return int(self._sums(key).most(self._most)[template.index])

    def _sums(self, key: str) -> DomainSums:
        found = self._by_label.get(key)
        if found is None:
            if len(self._by_label) >= MAX_LABELS:
                del self._by_label[next(iter(self._by_label))]
            found = self._by_label[key] = DomainSums(self._table, key)
        return found

    def limiting(self, pod: Pod, state: CycleState | None) -> frozenset[str]:
        """Return the names of the filters that limit pods like `pod`; `state` as in `by_row`."""
        template = self.of(pod)
        skipped: Collection[str] = () if state is None else state.skip_filter
        if template is not None:
            skipped = template.skipped
        return frozenset(slot.name for slot in self._limiting if slot.name not in skipped)

    def shortage(self, pod: Pod, state: CycleState | None, rows: Rows) -> Shortage | None:
        """Return why no more pods like `pod` fit on `rows`, for people; None if unknown.

        `state` is as in `by_row`. It costs an evaluation of each row by each filter.
        """
        template = self.of(pod)
        if template is None:
            if state is None:
                return None
            template = Template(None, pod, state, frozenset(state.skip_filter), -1)
        excluded: dict[str, int] = {}
        try:
            rows = self.passing(template, rows, excluded)
            plugin = self._tightest(template, rows)
            limits_by_rows = getattr(plugin, "limits_by_rows", None)
            short = () if limits_by_rows is None else limits_by_rows(pod, self._table, rows)
        except Exception:  # noqa: BLE001 - plugin boundary: the text is left out
            return None
        return Shortage(short, tuple(excluded.items()))

    def _tightest(self, template: Template, rows: Rows) -> Any:
        """Return the plugin with the lowest capacity for pods of a template on these rows."""
        limiting = [slot.plugin for slot in self._limiting if slot.name not in template.skipped]
        if len(limiting) == 1 or not len(rows):
            return limiting[0] if limiting and len(rows) else None
        pod, table = template.pod, self._table
        return min(
            limiting,
            key=lambda plugin: int(plugin.capacity_rows(pod, table, rows).sum()),
            default=None,
        )

    def refresh(self) -> bool:
        """Include the changes of nodes since the last call; return whether there were any."""
        table = self._table
        versions = named_versions(self._limiting, table)
        if table.sequence == self._sequence and versions == self._versions:
            return False
        changes = table.change_log.since(self._sequence)
        known = changes is not None and versions == self._versions
        self._sequence, self._versions = table.sequence, versions
        if not self._templates:
            return True
        if table.capacity != self._most.shape[1]:
            self._arrange([-1] * len(self._templates))
            known = False
        if known and changes is not None:
            rows = np.fromiter(changes, dtype=np.intp, count=len(changes))
        else:
            rows = np.arange(table.capacity, dtype=np.intp)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            self._take_estimate(rows[start : start + _ROWS_AT_ONCE])
        return True

    def _take_estimate(self, rows: Rows) -> None:
        estimate = self._estimate(rows)
        is_open: NDArray[np.bool_] = np.logical_or.reduce(estimate)
        if not self._by_label:
            # Most nodes of a full cluster have no room for any template, before and after. (Sums by
            # label must see each row, since its label may have changed.)
            concerned = np.flatnonzero(is_open | self._open[rows])
            if not len(concerned):
                return
            rows, estimate, is_open = rows[concerned], estimate[:, concerned], is_open[concerned]
        self._open[rows] = is_open
        before = self._most[:, rows]
        self._totals += (estimate - before).sum(axis=1, dtype=np.int64)
        self._is_loose[:] = True
        for each in self._by_label.values():
            each.change(rows, before, estimate)
        self._most[:, rows] = estimate
        self._loose[:, rows] = True

    def _estimate(self, rows: Rows) -> NDArray[np.int32]:
        """Return int32[templates, rows]: capacities by free resources only."""
        most = np.full((len(self._pods), len(rows)), _NO_LIMIT, dtype=np.int64)
        for plugin in self._estimators:
            np.minimum(most, plugin.capacity_matrix(self._pods, self._table, rows), out=most)
        most[:, ~self._table.valid[rows]] = 0
        return most.astype(np.int32)

    def _evaluate(self, template: Template) -> None:
        """Run the filters of a template on the nodes for which only an estimate is known."""
        index = template.index
        self._is_loose[index] = False
        rows = np.flatnonzero(self._loose[index])
        some = rows[self._most[index, rows] > 0]
        try:
            some, limit = self._limits(template, some)
        except Exception:  # noqa: BLE001 - plugin boundary: an attempt at the group will report it
            limit = self._most[index, some]
        before = self._most[index, rows]
        self._most[index, rows] = 0
        self._most[index, some] = limit
        after = self._most[index, rows]
        self._totals[index] += (after - before).sum(dtype=np.int64)
        for each in self._by_label.values():
            each.change_one(index, rows, before, after)
        self._loose[index, rows] = False

    def passing(
        self, template: Template, rows: Rows, excluded: MutableMapping[str, int] | None = None
    ) -> Rows:
        """Return those of `rows` that no filter rejects regardless of the pods there.

        Adds to `excluded` the number of rows that each filter rejects first.
        """
        skipped, pod, table = template.skipped, template.pod, self._table
        for slot in self._filters:
            if len(rows) and slot.name not in skipped:
                before = len(rows)
                rows = rows[slot.plugin.filter_rows(template.state, pod, table, rows) == 0]
                if excluded is not None and len(rows) < before:
                    excluded[slot.name] = before - len(rows)
        return rows

    def passing_rows(self, pod: Pod, state: CycleState) -> Rows:
        """Return the rows that no filter rejects regardless of the pods there.

        `state` is the state of a cycle in which the pod passed PreFilter.
        """
        skipped = frozenset(state.skip_filter)
        try:
            return self.passing(Template(None, pod, state, skipped, -1), self._table.rows)
        except Exception:  # noqa: BLE001 - plugin boundary: an attempt at the group will report it
            return self._table.rows

    def _limits(self, template: Template, rows: Rows) -> tuple[Rows, Int64Column]:
        """Return those of `rows` that no filter rejects, and the capacity of each."""
        skipped, pod, table = template.skipped, template.pod, self._table
        rows = self.passing(template, rows)
        limit = np.full(len(rows), _NO_LIMIT, dtype=np.int64)
        for slot in self._limiting:
            if slot.name not in skipped:
                np.minimum(limit, slot.plugin.capacity_rows(pod, table, rows), out=limit)
        return rows, limit


def _key(pod: Pod) -> Hashable | None:
    signature = pod.interned
    return None if signature is None else (signature.id, pod.pin)


@dataclass(frozen=True, slots=True)
class GroupBound:
    """An upper bound of the members of a group that fit, from the capacities of its templates."""

    #: Number of members that must be placed at once.
    need: int
    #: The templates, and the number of members of each.
    parts: Sequence[tuple[TemplateCapacities, Template, int]]
    #: Number of members without a template, which count as fitting.
    unlimited: int = 0
    #: Set if all members must be in one domain.
    within: OneDomain | None = None

    @property
    def kind(self) -> Hashable:
        """Equal for bounds that are equal whatever the nodes are."""
        parts = tuple((id(template), count) for _, template, count in self.parts)
        within = None if self.within is None else (self.within.key, self.within.value)
        return self.need, self.unlimited, within, parts

    @property
    def lowest(self) -> int:
        """The lowest total with which the group may fit; some template must have as much."""
        return -(-(self.need - self.unlimited) // max(len(self.parts), 1))

    def possible(self, *, exact: bool, promised: Mapping[Template, int] = _NOTHING) -> int:
        """Return an upper bound of the members that fit, besides pods that were `promised` room.

        Without `exact` it may be an estimate, which is higher than the filters' own bound.
        """
        found = self.unlimited
        for capacities, template, count in self.parts:
            room = capacities.total(template, exact=exact) - promised.get(template, 0)
            found += min(max(room, 0), count)
        if self.within is None or found < self.need:
            return found
        return self._possible_in_one(self.within, exact=exact, promised=promised)

    def _possible_in_one(
        self, one: OneDomain, *, exact: bool, promised: Mapping[Template, int]
    ) -> int:
        """Return the bound of the domain with the most room; promised pods may be in it."""
        if len(self.parts) == 1 and one.value is None:
            ((capacities, template, count),) = self.parts
            room = capacities.most_in_one(template, one.key, exact=exact)
            return self.unlimited + min(max(room - promised.get(template, 0), 0), count)
        found: Int64Column | None = None
        for capacities, template, count in self.parts:
            room_by_domain = capacities.by_domain(template, one.key, exact=exact)
            fits = np.clip(room_by_domain - promised.get(template, 0), 0, count)
            found = fits if found is None else found + fits
        if found is None:
            return self.unlimited
        if one.value is not None:
            index = one.table.label_values(one.key).ids.get(one.value)
            return self.unlimited + (0 if index is None else int(found[index]))
        return self.unlimited + int(found.max(initial=0))

    def refresh(self) -> None:
        """Bring the capacities of all templates up to date."""
        for capacities, _, _ in self.parts:
            capacities.refresh()

    def too_low(self, promised: Mapping[Template, int] = _NOTHING) -> bool:
        """Whether the group cannot fit, as the nodes were at the last `refresh`."""
        return (
            self.possible(exact=False, promised=promised) < self.need
            or self.possible(exact=True, promised=promised) < self.need
        )
