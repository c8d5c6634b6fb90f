"""PriorityUsage: usage per row and priority, by which preemption rules out rows.

Invariant: for every row, the bands plus `unbanded` count each pod on it exactly once, with the
amounts of its signature. Bounded: beyond `MAX_BANDS` distinct (priority, schedulerName) pairs, pods
of further pairs are only counted, in `unbanded`; rows with such pods are dry-run one by one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Final

import numpy as np

from scheduler.api.pod import Pod
from scheduler.api.signatures.signature import PodSignature
from scheduler.cache.columns import NATIVE_RESOURCES, NodeColumns
from scheduler.cache.counting import add_count
from scheduler.cache.scalar_amounts import ScalarAmounts
from scheduler.framework.nodes import BoolColumn, Int64Column, PotentialVictims, Rows

MAX_BANDS: Final = 64

Band = tuple[int, str]
"""(priority, schedulerName)."""


class _Usage:
    """Pods and amounts of one band, per row."""

    __slots__ = ("amounts", "pods", "scalars", "total")

    def __init__(self, capacity: int) -> None:
        self.amounts: Int64Column = np.zeros((NATIVE_RESOURCES, capacity), dtype=np.int64)
        self.scalars = ScalarAmounts(capacity)
        self.pods: Int64Column = np.zeros(capacity, dtype=np.int64)
        #: Number of pods on all rows; at 0 the band is dropped.
        self.total = 0


class PriorityUsage:
    """Usage by band and row. Written by the node table only."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._bands: dict[Band, _Usage] = {}
        self._overflow: dict[Band, int] = {}
        #: (capacity,): number of pods in no band.
        self.unbanded: Int64Column = np.zeros(columns.capacity, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._bands)

    def account(self, signature: PodSignature, row: int, sign: int) -> None:
        """Add (`sign` 1) or remove (-1) a pod of `signature` on a row."""
        spec = signature.spec
        key = (spec.priority or 0, spec.scheduler_name)
        usage = self._bands.get(key)
        if usage is None:
            if key in self._overflow or len(self._bands) >= MAX_BANDS:
                add_count(self._overflow, key, sign)
                self.unbanded[row] += sign
                return
            usage = self._bands[key] = _Usage(self._columns.capacity)
        assigned = signature.assigned
        amounts = usage.amounts
        amounts[0, row] += sign * assigned.milli_cpu
        amounts[1, row] += sign * assigned.memory
        if assigned.ephemeral_storage:
            amounts[2, row] += sign * assigned.ephemeral_storage
        if assigned.scalars:
            usage.scalars.add_all(assigned.scalars, row, sign)
        usage.pods[row] += sign
        usage.total += sign
        if not usage.total:
            del self._bands[key]

    def total_of(self, victims: PotentialVictims) -> tuple[Int64Column, Int64Column]:
        """Sum up banded pods among `victims`: (amounts as `requested`, number of pods)."""
        columns = self._columns
        amounts = np.zeros_like(columns.requested)
        pods = np.zeros(columns.capacity, dtype=np.int64)
        for usage in self._included(victims):
            amounts += usage.amounts
            pods += usage.pods
        return amounts, pods

    def scalar_total_of(
        self, victims: PotentialVictims, name: str, index: slice | Rows
    ) -> Int64Column:
        """Sum up one scalar resource of banded pods among `victims`, on some rows."""
        total = np.zeros(self._columns.capacity, dtype=np.int64)[index]
        for usage in self._included(victims):
            if usage.scalars:
                total = total + usage.scalars.of(name, index)
        return total

    def below(self, priority: int) -> BoolColumn:
        """Return the rows with a pod of lower priority: bool[capacity].

        These include rows with pods in no band, whose priority may be lower.
        """
        found: BoolColumn = self.unbanded > 0
        for (own, _), usage in self._bands.items():
            if own < priority:
                found |= usage.pods > 0
        return found

    def others_below(self, priority: int, schedulers: Container[str]) -> dict[str, int]:
        """Count banded pods of lower priority by schedulerName, without those of `schedulers`."""
        found: dict[str, int] = {}
        for (own, scheduler), usage in self._bands.items():
            if own < priority and scheduler not in schedulers:
                add_count(found, scheduler, usage.total)
        return found

    def _included(self, victims: PotentialVictims) -> Iterator[_Usage]:
        return (usage for band, usage in self._bands.items() if victims.includes(*band))

    def validate(self, placed: Iterable[tuple[int, Pod]]) -> Iterable[str]:
        """Yield a sentence for every difference from a recount over (row, pod)."""
        recount: dict[Band, _Usage] = {}
        for row, pod in placed:
            key = (pod.priority, pod.spec.scheduler_name)
            if key not in recount:
                recount[key] = _Usage(self._columns.capacity)
            assigned, counted = pod.signature.assigned, recount[key]
            counted.pods[row] += 1
            counted.amounts[:, row] += (
                assigned.milli_cpu,
                assigned.memory,
                assigned.ephemeral_storage,
            )
            for name, amount in assigned.scalars:
                counted.scalars.add(name, row, amount)
        for key in {*recount, *self._bands} - self._overflow.keys():
            expected, usage = recount.get(key), self._bands.get(key)
            if expected is None or usage is None:
                yield f"priority usage: pods of {key} are placed or counted, not both"
            elif not (
                np.array_equal(expected.pods, usage.pods)
                and np.array_equal(expected.amounts, usage.amounts)
                and expected.scalars.nonzero() == usage.scalars.nonzero()
            ):
                yield f"priority usage of {key} differs from the pods placed"

    def grow(self) -> None:
        """Grow to the capacity of the node columns."""
        more = self._columns.capacity - len(self.unbanded)
        self.unbanded = np.pad(self.unbanded, (0, more))
        for usage in self._bands.values():
            usage.pods = np.pad(usage.pods, (0, more))
            usage.amounts = np.pad(usage.amounts, ((0, 0), (0, more)))
            usage.scalars.grow(self._columns.capacity)
