"""NodeResourcesFit: filters by free resources and scores the resulting usage (upstream `fit.go`).

The filter reports every resource that is short, so its codes are bit masks: one bit for the number
of pods, one for "does not fit on the empty node either", and one per requested resource, in the
order in which reasons appear. A pod may name 20,000 resources: all scalar ones beyond
`_MAX_REASONS` share the last bit, and names that no node has are decided once for all rows.

A resource that devices of a class serve (`DeviceClass`, `spec.extendedResourceName`) is left to
DynamicResources on nodes that have none of it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plugins.arguments import require_valid
from plugins.dynamic_resources.permissions import CLASSES
from plugins.node_resources.amounts import NATIVE, Demand, amount_of, amounts_in
from plugins.node_resources.arguments import (
    LEAST_ALLOCATED,
    NodeResourcesFitArgs,
    ScoringStrategy,
    fit_problems,
)
from plugins.node_resources.requeueing import fit_events
from plugins.node_resources.scoring import Scorer
from plugins.node_resources.served import ServedAmounts, ServedResources
from plugins.node_resources.shortages import shortages
from plugins.row_selection import FEW, selector
from scheduler.api.pod import Pod
from scheduler.api.requests import Resources, is_extended_resource_name
from scheduler.framework import (
    NEVER,
    ClusterEventWithHint,
    Code,
    Codes,
    Columns,
    CycleState,
    Handle,
    Int64Column,
    NodeAmounts,
    NodeInfo,
    NodeTableView,
    RejectedNodes,
    ReuseRule,
    Rows,
    Status,
    plugin_names,
)

TOO_MANY_PODS: Final = "Too many pods"
INSUFFICIENT: Final = "Insufficient {resource}"
INSUFFICIENT_OTHERS: Final = "Insufficient other resources"
"""Reason for all scalar resources beyond the first `_MAX_REASONS` of the pod."""

_POD_LIMIT: Final = 1
_UNRESOLVABLE: Final = 2
_FIRST_RESOURCE: Final = 4
_MAX_REASONS: Final = 24
"""Scalar resources with a bit of their own. With one more bit for the others, codes stay below
2**30, where the engine's own codes begin."""
_MAX_ESTIMATED: Final = 32
"""Resources that `capacity_matrix` looks at, those that most pods ask for: pods may name thousands,
and it runs for every change of a node while groups wait."""
_FIRST_SCALAR: Final = _FIRST_RESOURCE << len(NATIVE)
_OTHERS: Final = _FIRST_SCALAR << _MAX_REASONS

_NO_DEMAND: Final = np.iinfo(np.int64).min
"""Less than is free anywhere."""
_MAX_KNOWN: Final = 1024
"""Requests whose needs are kept."""

_USAGE: Final = ReuseRule(
    Columns.USAGE | Columns.ALLOCATABLE, versions=(CLASSES,), amounts_only=True
)


class Needs(NamedTuple):
    """Resources a pod needs, restricted to those that some node has."""

    demands: list[Demand]
    nowhere: int
    """Bits of the resources that no node has: a shortage on every row."""
    native: Int64Column
    """(n, 1), the amounts of the first n of `NATIVE`; `_NO_DEMAND` of those not demanded."""
    native_bits: Codes
    """(n,), their bits."""
    scalars: list[Demand]
    """`demands` without those of `NATIVE`."""

    @classmethod
    def of(cls, demands: list[Demand], nowhere: int = 0) -> Needs:
        """Prepare the comparison of many rows at once."""
        indexes = {NATIVE[each.name]: each for each in demands if each.name in NATIVE}
        count = max(indexes, default=-1) + 1
        amounts, bits = np.full((count, 1), _NO_DEMAND), np.zeros(count, dtype=np.int32)
        for index, each in indexes.items():
            amounts[index], bits[index] = each.amount, each.bit
        scalars = [each for each in demands if each.name not in NATIVE]
        return cls(demands, nowhere, amounts, bits, scalars)


_ByResource = dict[str, tuple[Rows, NDArray[np.int64]]]
"""By resource the places of the pods that ask for it, and how much each asks for, as a column."""


class NodeResourcesFit:
    """Compares the pod's requests with the node's free resources."""

    name: ClassVar[str] = plugin_names.NODE_RESOURCES_FIT
    args_type: ClassVar[type[NodeResourcesFitArgs]] = NodeResourcesFitArgs
    validate_args = staticmethod(fit_problems)
    pre_filter_reusable: ClassVar[bool] = True
    filter_reuse: ClassVar[ReuseRule | None] = _USAGE
    pre_score_reusable: ClassVar[bool] = True
    #: NEVER if the strategy scores resources that devices may serve.
    score_reuse: ReuseRule | None = _USAGE

    def __init__(self, args: NodeResourcesFitArgs | None, handle: Handle) -> None:
        args = args or NodeResourcesFitArgs()
        require_valid(fit_problems(args))
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.scoring_strategy or ScoringStrategy(type=LEAST_ALLOCATED)
        served = None
        if any(ServedAmounts.may_serve(each.name) for each in strategy.resources or ()) and (
            handle.feature_gates.get("DRAExtendedResource", True)
        ):
            served = ServedAmounts(handle)
            self.score_reuse = NEVER
        self._scorer = Scorer(strategy, served)
        self._table = handle.table
        self._classes = ServedResources(handle)
        #: The resources that classes serve, as `_known_needs` takes them into account.
        self._served: Container[str] = ()
        #: By identity of requests, which are kept so that no others get it: the position in the
        #: change log, and what they need.
        self._known_needs: dict[int, tuple[Resources, int, Needs]] = {}
        #: The pods of the last `capacity_matrix`, and what they ask for.
        self._many: tuple[Sequence[Pod], _ByResource] = (), {}

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Return None: the pod limit concerns every pod, and the signature has the requests."""
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Reject a node, with every resource that is short."""
        requests = pod.signature.requests
        mask = _POD_LIMIT if node.pod_count + 1 > node.allowed_pod_number else 0
        if not requests.empty:
            needs = self._needs(requests)
            mask |= needs.nowhere
            allocatable, requested = node.allocatable, node.requested
            for name, amount, bit, is_served in needs.demands:
                capacity = amount_of(allocatable, name)
                if is_served and not capacity:
                    continue
                mask |= _shortage(amount, capacity, amount_of(requested, name), bit)
        return _status(mask, requests) if mask else None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeAmounts, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        needs = self._needs(pod.interned.requests)
        if len(rows) <= FEW:
            return np.array(_masks(table, rows, needs), dtype=np.int32)
        index = selector(table, rows)
        codes: Codes = (table.pod_count[index] >= table.pod_limit[index]).astype(np.int32)
        if needs.nowhere:
            codes |= needs.nowhere
        # All native resources at once: for a few dozen rows, NumPy takes longer to begin than to
        # compute.
        allocatable = _first(table.allocatable, len(needs.native), index)
        used = _first(table.requested, len(needs.native), index)
        lacking = allocatable - used < needs.native
        if lacking.nonzero()[0].size:
            codes |= needs.native_bits @ lacking
            unresolvable = lacking & (allocatable < needs.native)
            if unresolvable.nonzero()[0].size:
                codes |= np.logical_or.reduce(unresolvable) * np.int32(_UNRESOLVABLE)
        for name, amount, bit, is_served in needs.scalars:
            capacity, used = amounts_in(table, name, index)
            short = capacity - used < amount
            if is_served:
                short &= capacity > 0
            if short.nonzero()[0].size:
                codes[short] |= bit
                codes[short & (capacity < amount)] |= _UNRESOLVABLE
        return codes

    def capacity_rows(self, pod: Pod, table: NodeTableView, rows: Rows) -> Int64Column:
        """Return how many pods like this fit beside each other, by each resource and pod slots."""
        capacity: Int64Column = table.pod_limit[rows] - table.pod_count[rows]
        needs = self._needs(pod.signature.requests)
        if needs.nowhere:
            return np.zeros_like(capacity)
        for name, amount, _, is_served in needs.demands:
            allocatable, used = amounts_in(table, name, rows)
            fitting = (allocatable - used) // amount
            if is_served:
                fitting = np.where(allocatable > 0, fitting, capacity)
            np.minimum(capacity, fitting, out=capacity)
        np.maximum(capacity, 0, out=capacity)
        return capacity

    def capacity_matrix(
        self, pods: Sequence[Pod], table: NodeTableView, rows: Rows
    ) -> NDArray[np.int64]:
        """Return (len(pods), len(rows)): `capacity_rows` of each pod, or more.

        Resources that devices serve, and rare ones, are left out. What `pods` ask for is kept for
        the next call with the same object.
        """
        if self._many[0] is not pods:
            self._many = pods, _by_resource(self._demands(pod.signature.requests) for pod in pods)
        slots = table.pod_limit[rows] - table.pod_count[rows]
        # Without a division per pod for rows that take none of them: most rows of a full cluster.
        some = slots > 0
        for name, (which, amounts) in self._many[1].items():
            if len(which) == len(pods):
                allocatable, used = amounts_in(table, name, rows)
                some &= allocatable - used >= amounts.min()
        capacity: NDArray[np.int64] = np.zeros((len(pods), len(rows)), dtype=np.int64)
        if some.any():
            capacity[:, some] = self._capacities(len(pods), table, rows[some], slots[some])
        return capacity

    def _capacities(
        self, pods: int, table: NodeTableView, rows: Rows, slots: Int64Column
    ) -> NDArray[np.int64]:
        capacity: NDArray[np.int64] = np.repeat(slots[np.newaxis], pods, axis=0)
        for name, (which, amounts) in self._many[1].items():
            allocatable, used = amounts_in(table, name, rows)
            free = np.maximum(allocatable - used, 0)
            capacity[which] = np.minimum(capacity[which], free // amounts)
        return capacity

    def limits_by_rows(
        self, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Sequence[tuple[str, int]]:
        """Return the resources of which rows take the fewest pods like this, with their numbers.

        Resources that devices serve are left out. Of equal numbers the resource comes first of
        which the fewest pods find enough.
        """
        slots = np.maximum(table.pod_limit[rows] - table.pod_count[rows], 0)
        rooms = {"pod slots": slots}
        for name, amount, _, is_served in self._needs(pod.signature.requests).demands:
            if not is_served:
                allocatable, used = amounts_in(table, name, rows)
                rooms[name] = np.maximum(allocatable - used, 0) // amount
        least = np.minimum.reduce(list(rooms.values()))
        found = [
            (name, int(np.count_nonzero(room == least)), int(room.sum()))
            for name, room in rooms.items()
        ]
        found.sort(key=lambda each: (-each[1], each[2]))
        return [(name, count) for name, count, _ in found if count]

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return a status with every shortage of the mask, in order."""
        return _status(code, pod.signature.requests)

    def explain_rejection(
        self, state: CycleState, pod: Pod, table: NodeTableView, rejected: RejectedNodes
    ) -> str:
        """Return what is short: how much the pod wants, and where most of it is free."""
        reasons = rejected.status.reasons
        short = [
            each
            for each in self._demands(pod.signature.requests)
            if INSUFFICIENT.format(resource=each.name) in reasons
        ]
        return shortages(table, rejected, short)

    def pre_score(
        self, state: CycleState, pod: Pod, table: NodeTableView, feasible: Rows
    ) -> Status | None:
        """Return None; the signature has the amounts to score with."""
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return 0 to 100 by the configured strategy."""
        return self._scorer.one(pod.signature.scoring, node)

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeAmounts, rows: Rows
    ) -> Int64Column:
        """Columnar form of `score`."""
        return self._scorer.rows(pod.signature.scoring, table, rows)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for pods that release resources, and for nodes that are added or grow."""
        return fit_events(self._demands, is_extended=self._classes.enabled)

    def _needs(self, requests: Resources) -> Needs:
        """Return what must be free; kept for other rows, victims and pods of the template."""
        served = self._classes.resources() if requests.scalars else self._served
        if self._served is not served:
            self._served = served
            self._known_needs.clear()
        known = self._known_needs.get(id(requests))
        if known is not None:
            _, sequence, needs = known
            if not needs.nowhere or sequence == self._table.sequence:
                return needs
        elif len(self._known_needs) >= _MAX_KNOWN:
            self._known_needs.clear()
        if len(requests.scalars) <= _MAX_REASONS:
            needs = Needs.of(list(self._demands(requests)))
        else:
            needs = self._satisfiable(requests)
        self._known_needs[id(requests)] = requests, self._table.sequence, needs
        return needs

    def _satisfiable(self, requests: Resources) -> Needs:
        """Separate the demands that some node offers from those that no node offers."""
        is_offered, nowhere = self._table.offers_scalar, 0
        demands = []
        for each in self._demands(requests):
            if each.is_served or each.name in NATIVE or is_offered(each.name):
                demands.append(each)
            else:
                nowhere |= each.bit | _UNRESOLVABLE
        return Needs.of(demands, nowhere)

    def _demands(self, requests: Resources) -> Iterator[Demand]:
        """Yield each requested amount above 0, in the order of reasons."""
        bit = _FIRST_RESOURCE
        for name in NATIVE:
            amount = amount_of(requests, name)
            if amount > 0:
                yield Demand(name, amount, bit)
            bit <<= 1
        ignoring = bool(self._ignored or self._ignored_groups)
        served = self._classes.resources() if requests.scalars else ()
        for name, amount in requests.scalars:
            if amount > 0 and not (ignoring and self._ignores(name)):
                yield Demand(name, amount, bit, name in served)
            if bit < _OTHERS:
                bit <<= 1

    def _ignores(self, name: str) -> bool:
        return is_extended_resource_name(name) and (
            name in self._ignored or name.partition("/")[0] in self._ignored_groups
        )


def _by_resource(demands: Iterable[Iterable[Demand]]) -> _ByResource:
    found: dict[str, dict[int, int]] = {}
    for place, each in enumerate(demands):
        for demand in each:
            if not demand.is_served:
                found.setdefault(demand.name, {})[place] = demand.amount
    if len(found) > _MAX_ESTIMATED:
        most = sorted(found, key=lambda name: -len(found[name]))[:_MAX_ESTIMATED]
        found = {name: found[name] for name in most}
    return {
        name: (
            np.fromiter(amounts, dtype=np.intp),
            np.fromiter(amounts.values(), dtype=np.int64)[:, np.newaxis],
        )
        for name, amounts in found.items()
    }


def _first(amounts: Int64Column, count: int, index: slice | Rows) -> Int64Column:
    """Return some rows of the first resources, possibly as a view."""
    found: Int64Column = amounts[:count]
    # `take` needs a third of the time of an index that is a slice and an array.
    return found[:, index] if isinstance(index, slice) else found.take(index, axis=1)


def _shortage(amount: int, capacity: int, used: int, bit: int) -> int:
    if amount <= capacity - used:
        return 0
    return bit | _UNRESOLVABLE if amount > capacity else bit


def _masks(table: NodeAmounts, rows: Rows, needs: Needs) -> list[int]:
    """Return one mask per row in plain Python, faster than NumPy for a few rows."""
    pod_count, pod_limit = table.pod_count, table.pod_limit
    allocatable, requested = table.allocatable, table.requested
    masks = []
    for row in rows.tolist():
        mask = needs.nowhere
        if pod_count.item(row) >= pod_limit.item(row):
            mask |= _POD_LIMIT
        for name, amount, bit, is_served in needs.demands:
            native = NATIVE.get(name)
            if native is None:
                capacity, used = table.scalar_amounts_at(name, row)
            else:
                capacity, used = allocatable.item(native, row), requested.item(native, row)
            if capacity or not is_served:
                mask |= _shortage(amount, capacity, used, bit)
        masks.append(mask)
    return masks


def _status(mask: int, requests: Resources) -> Status:
    return _worded(mask, tuple([name for name, _ in requests.scalars[:_MAX_REASONS]]))


@lru_cache(maxsize=256)
def _worded(mask: int, scalars: tuple[str, ...]) -> Status:
    reasons = [TOO_MANY_PODS] if mask & _POD_LIMIT else []
    bit = _FIRST_RESOURCE
    for name in (*NATIVE, *scalars):
        if mask & bit:
            reasons.append(INSUFFICIENT.format(resource=name))
        bit <<= 1
    if mask & _OTHERS:
        reasons.append(INSUFFICIENT_OTHERS)
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if mask & _UNRESOLVABLE else Code.UNSCHEDULABLE
    return Status(code, tuple(reasons))
