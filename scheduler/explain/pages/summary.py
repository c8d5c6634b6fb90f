"""The debug page `/debug/summary`: counts, rates, the fullest nodes and the oldest waiting pods.

It is built on the event loop between cycles, in slices of less than 5 ms (`python -m
benchmarks.pages`): waiting pods are searched in several slices, and the last one computes the rest
from counters and columns. Rates compare the counters with their values up to a minute ago, which a
timer samples.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.cache import Cache, NodeTable
from scheduler.explain.pages.query_numbers import number_in
from scheduler.explain.pages.slices import in_slices
from scheduler.explain.records import (
    Moment,
    NodeFill,
    Placement,
    PodView,
    Rates,
    ResourceUse,
    SummaryPage,
)
from scheduler.framework import Clock, Int64Column
from scheduler.metrics import SchedulerMetrics
from scheduler.queue import SchedulingQueue

SAMPLE_SECONDS: Final = 5.0
SAMPLES: Final = 12
"""Number of samples to keep, which makes rates averages over the last minute."""
MOMENT_SAMPLES: Final = 3
MOMENTS: Final = 120
"""Number of moments to keep, one for each `MOMENT_SAMPLES` samples: half an hour."""

DEFAULT_ROWS: Final = 10
MAX_ROWS: Final = 100
MAX_EXTENDED_RESOURCES: Final = 4

Placements = Callable[[int], Sequence[Placement]]
"""Return the latest placements, newest first, at most the given number."""

_NATIVE: Final = (("cpu", 1000.0), ("memory", 1.0), ("ephemeral-storage", 1.0))
_BUCKETS: Final = 11


class SummaryPages:
    """The page of one process. `start` its timer on the loop; a request needs none."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        metrics: SchedulerMetrics,
        *,
        clock: Clock,
        leading: Callable[[], bool],
        placements: Placements = lambda _: (),
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._metrics = metrics
        self._clock = clock
        self._leading = leading
        self._placements = placements
        self._started = clock.now()
        #: Monotonic time and attempts by result, the oldest first.
        self._samples: deque[tuple[float, dict[str, int]]] = deque(maxlen=SAMPLES)
        self._moments: deque[Moment] = deque(maxlen=MOMENTS)
        self._taken = 0
        #: Attempts by result at the last moment.
        self._before: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Take a sample now, and every few seconds until `stop`."""
        self._sample()
        self._timer = asyncio.get_running_loop().call_later(SAMPLE_SECONDS, self.start)

    def stop(self) -> None:
        """Take no more samples."""
        if self._timer is not None:
            self._timer.cancel()

    async def summary(self, query: Mapping[str, str]) -> SummaryPage:
        """Return the page; `?rows=` limits each of its lists.

        Raises:
            ValueError: `rows` is no number in range.
        """
        rows = number_in(query, "rows", DEFAULT_ROWS, 0, MAX_ROWS)
        oldest = await in_slices(self._queue.oldest(rows), self._clock)
        return self._page(rows, oldest)

    def _page(self, rows: int, oldest: list[PodView]) -> SummaryPage:
        cache, table = self._cache.statistics(), self._cache.table
        uses, shares = _uses(table)
        fill = np.max(shares, axis=0)
        buckets = np.bincount(np.minimum(fill // 10, _BUCKETS - 1), minlength=_BUCKETS)
        return SummaryPage(
            now=self._clock.now(),
            leading=self._leading(),
            started=self._started,
            queue=self._queue.statistics(),
            attempts=self._metrics.attempts_by_result(),
            rates=self._rates(),
            nodes=table.node_count,
            pods=cache.pods,
            assumed_pods=cache.assumed_pods,
            resources=[use for use in uses if use.allocatable or use.requested],
            fill=buckets.tolist(),
            fullest=_fullest(table, [use.resource for use in uses], shares, fill, rows),
            oldest=oldest,
            timeline=list(self._moments),
            placed=list(self._placements(rows)),
        )

    def _sample(self) -> None:
        attempts = self._metrics.attempts_by_result()
        self._samples.append((self._clock.monotonic(), attempts))
        if self._taken % MOMENT_SAMPLES == 0:
            self._moments.append(self._moment(attempts))
            self._before = attempts
        self._taken += 1

    def _moment(self, attempts: dict[str, int]) -> Moment:
        def since(*results: str) -> int:
            # A negative difference means that the counters were reset.
            return max(
                0, sum(attempts.get(each, 0) - self._before.get(each, 0) for each in results)
            )

        queue = self._queue.statistics()
        waiting = queue.active + queue.backoff + queue.unschedulable + queue.gated
        return Moment(
            time=self._clock.now(),
            waiting=waiting + queue.in_flight,
            placed=since("scheduled"),
            failed=since("unschedulable", "error"),
        )

    def _rates(self) -> Rates:
        now, counts = self._clock.monotonic(), self._metrics.attempts_by_result()
        then, before = self._samples[0] if self._samples else (now, {})
        seconds = now - then
        if seconds <= 0:
            return Rates(0.0, {})
        # A negative difference means that the counters were reset.
        grown = {result: max(0, count - before.get(result, 0)) for result, count in counts.items()}
        return Rates(seconds, {result: count / seconds for result, count in grown.items()})


def _uses(table: NodeTable) -> tuple[list[ResourceUse], Int64Column]:
    """Return sums by resource, `pods` included, and percentages of shape (resources, nodes)."""
    rows = table.rows
    extended = table.scalar_allocatable.most_widespread(MAX_EXTENDED_RESOURCES)
    names = [*(name for name, _ in _NATIVE), "pods", *extended]
    units = [*(unit for _, unit in _NATIVE), *(1.0 for _ in names[len(_NATIVE) :])]
    # As floats: amounts are whatever a node claims, and their sums may exceed 64 bits.
    requested, allocatable = (
        np.vstack([native[:, rows], pods[rows], *(scalars.of(name, rows) for name in extended)])
        .astype(np.float64)
        for native, pods, scalars in (
            (table.requested, table.pod_count, table.scalar_requested),
            (table.allocatable, table.pod_limit, table.scalar_allocatable),
        )
    )  # fmt: skip
    sums = zip(names, units, requested.sum(axis=1), allocatable.sum(axis=1), strict=True)
    uses = [ResourceUse(name, float(r) / unit, float(a) / unit) for name, unit, r, a in sums]
    return uses, _percentages(requested, allocatable)


def _percentages(requested: np.ndarray, allocatable: np.ndarray) -> Int64Column:
    """Return whole percentages, from 0 to 999; 100 where something is requested of nothing."""
    shares = np.where(requested > 0, 100.0, 0.0)
    np.divide(requested * 100.0, allocatable, out=shares, where=allocatable > 0)
    found: Int64Column = np.clip(shares, 0, 999).astype(np.int64)
    return found


def _fullest(
    table: NodeTable, resources: list[str], shares: Int64Column, fill: Int64Column, limit: int
) -> list[NodeFill]:
    order = np.argsort(-fill, kind="stable")[:limit]
    found = []
    for at in order.tolist():
        row = int(table.rows[at])
        found.append(
            NodeFill(
                node=table.names[row],
                percent=int(fill[at]),
                resource=resources[int(shares[:, at].argmax())],
                pods=int(table.pod_count[row]),
                unschedulable=bool(table.unschedulable[row]),
            )
        )
    return found
