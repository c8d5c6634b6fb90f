"""NodeResourcesFit: enough free resources on the node, and how full it becomes (plugins.md 4.8).

The filter reports every resource that is short, so its codes are bit masks: one bit for the number
of pods, one for "not even an empty node would do", and one per resource the pod asks for, in the
order in which reasons appear.

Differences from upstream: extended resources are never handed to device classes (kubestow
allocates no devices), so DeviceClass events are not registered either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import numpy as np

from plugins import names
from plugins.arguments import ArgumentProblem, require_valid
from plugins.noderesources import scoring
from plugins.noderesources.amounts import NATIVE, Demand, amount_of, amounts_in
from plugins.noderesources.arguments import NodeResourcesFitArgs, fit_problems
from plugins.noderesources.requeueing import fit_events
from plugins.row_selection import FEW, selector
from scheduler.api.pod import Pod
from scheduler.api.requests import Resources, is_extended_resource_name
from scheduler.framework import (
    ClusterEventWithHint,
    Code,
    Codes,
    Columns,
    CycleState,
    Handle,
    Int64Column,
    NodeInfo,
    NodeTableView,
    ReuseRule,
    Rows,
    Status,
)

TOO_MANY_PODS: Final = "Too many pods"
INSUFFICIENT: Final = "Insufficient {resource}"

_POD_LIMIT: Final = 1
_UNRESOLVABLE: Final = 2
_FIRST_RESOURCE: Final = 4
_MAX_SCALARS: Final = 26
"""Masks of pods with more scalar resources would not fit into an int32 and are numbered instead."""

_USAGE: Final = ReuseRule(Columns.USAGE | Columns.ALLOCATABLE)


class NodeResourcesFit:
    """Filters by what is free and scores by how much of it the pod would use."""

    name: ClassVar[str] = names.NODE_RESOURCES_FIT
    args_type: ClassVar[type[NodeResourcesFitArgs]] = NodeResourcesFitArgs
    pre_filter_reusable: ClassVar[bool] = True
    filter_reuse: ClassVar[ReuseRule | None] = _USAGE
    pre_score_reusable: ClassVar[bool] = True
    score_reuse: ClassVar[ReuseRule | None] = _USAGE

    def __init__(self, args: NodeResourcesFitArgs | None, handle: Handle) -> None:
        args = args or NodeResourcesFitArgs()
        require_valid(self.validate_args(args))
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._scorer = scoring.scorer(args.scoring_strategy)
        self._latest: tuple[Resources | None, list[Demand]] = None, []
        self._numbered: dict[int, int] = {}
        self._masks: list[int] = [0]

    @staticmethod
    def validate_args(args: NodeResourcesFitArgs) -> Iterator[ArgumentProblem]:
        """Names, weights and the strategy."""
        return fit_problems(args)

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Never skips: the number of pods concerns every pod. Requests are in the shape already."""
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Collect everything that is short."""
        requests = pod.shape.requests
        mask = _POD_LIMIT if node.pod_count + 1 > node.allowed_pod_number else 0
        if not requests.empty:
            allocatable, requested = node.allocatable, node.requested
            for name, amount, bit in self._demands(requests):
                capacity = amount_of(allocatable, name)
                mask |= _shortage(amount, capacity, amount_of(requested, name), bit)
        return _status(mask, requests) if mask else None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """As `filter`."""
        requests = pod.shape.requests
        demands = self._demands(requests)
        wide = len(requests.scalars) > _MAX_SCALARS
        if wide or len(rows) <= FEW:
            masks = _masks(table, rows, demands)
            return np.array(self._number(masks) if wide else masks, dtype=np.int32)
        index = selector(table, rows)
        codes: Codes = (table.pod_count[index] >= table.pod_limit[index]).astype(np.int32)
        for name, amount, bit in demands:
            capacity, used = amounts_in(table, name, index)
            short = capacity - used < amount
            if short.any():
                codes[short] |= bit
                codes[short & (capacity < amount)] |= _UNRESOLVABLE
        return codes

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Every shortage of the mask, in order."""
        requests = pod.shape.requests
        wide = len(requests.scalars) > _MAX_SCALARS
        return _status(self._masks[code] if wide else code, requests)

    def pre_score(
        self, state: CycleState, pod: Pod, table: NodeTableView, feasible: Rows
    ) -> Status | None:
        """Never skips. What the pod counts with is in the shape already."""
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """0 to 100 by the configured strategy."""
        return self._scorer.one(pod.shape.scoring, node)

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """As `score`."""
        return self._scorer.rows(pod.shape.scoring, table, rows)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Room may appear when a pod goes or shrinks, or when a node comes or grows."""
        return fit_events(self._demands)

    def _demands(self, requests: Resources) -> list[Demand]:
        """What must be free, in the order of reasons; remembered for the next node or victim."""
        known, demands = self._latest
        if known is not requests:
            demands = self._collected(requests)
            self._latest = requests, demands
        return demands

    def _collected(self, requests: Resources) -> list[Demand]:
        demands = []
        bit = _FIRST_RESOURCE
        for name in NATIVE:
            amount = amount_of(requests, name)
            if amount > 0:
                demands.append(Demand(name, amount, bit))
            bit <<= 1
        for name, amount in requests.scalars:
            if amount > 0 and not self._ignores(name):
                demands.append(Demand(name, amount, bit))
            bit <<= 1
        return demands

    def _ignores(self, name: str) -> bool:
        if not self._ignored and not self._ignored_groups:
            return False
        return is_extended_resource_name(name) and (
            name in self._ignored or name.partition("/")[0] in self._ignored_groups
        )

    def _number(self, masks: list[int]) -> list[int]:
        for mask in masks:
            if mask and mask not in self._numbered:
                self._numbered[mask] = len(self._masks)
                self._masks.append(mask)
        return [self._numbered.get(mask, 0) for mask in masks]


def _shortage(amount: int, capacity: int, used: int, bit: int) -> int:
    if amount <= capacity - used:
        return 0
    return bit | _UNRESOLVABLE if amount > capacity else bit


def _masks(table: NodeTableView, rows: Rows, demands: list[Demand]) -> list[int]:
    """One mask per row in plain Python, quicker than NumPy for a few rows."""
    pod_count, pod_limit = table.pod_count, table.pod_limit
    allocatable, requested = table.allocatable, table.requested
    masks = []
    for row in rows.tolist():
        mask = _POD_LIMIT if pod_count.item(row) >= pod_limit.item(row) else 0
        for name, amount, bit in demands:
            native = NATIVE.get(name)
            if native is None:
                capacity, used = table.scalar_amounts_at(name, row)
            else:
                capacity, used = allocatable.item(native, row), requested.item(native, row)
            mask |= _shortage(amount, capacity, used, bit)
        masks.append(mask)
    return masks


def _status(mask: int, requests: Resources) -> Status:
    reasons = [TOO_MANY_PODS] if mask & _POD_LIMIT else []
    bit = _FIRST_RESOURCE
    for name in (*NATIVE, *(name for name, _ in requests.scalars)):
        if mask & bit:
            reasons.append(INSUFFICIENT.format(resource=name))
        bit <<= 1
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if mask & _UNRESOLVABLE else Code.UNSCHEDULABLE
    return Status(code, tuple(reasons))
