"""Throughput as upstream's scheduler_perf computes it, and what it leaves out.

Upstream samples once a second and drops the first productive tick
(`scheduler_perf/util.go: throughputCollector.run`). The plain rate beside it is the number of pods
divided by the time from the first creation to the last binding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Throughput:
    """Pods per second."""

    average: float
    p50: float
    p90: float
    p95: float
    p99: float
    samples: int


def sampled(bind_times: Sequence[float], start: float, interval: float = 1.0) -> Throughput | None:
    """Upstream's statistics from the sorted times at which bindings were seen.

    None when fewer than two ticks saw a binding: the run was too short for upstream's definition.
    """
    if not bind_times:
        return None
    rates: list[float] = []
    position = 0
    seen = False
    idle = 0
    tick = start + interval
    # The last tick is not whole, and upstream stops before it.
    while tick <= bind_times[-1]:
        before = position
        while position < len(bind_times) and bind_times[position] <= tick:
            position += 1
        count = position - before
        tick += interval
        if not count:
            idle += seen
        elif not seen:
            seen = True
        else:
            rates += [count / (interval * (idle + 1))] * (idle + 1)
            idle = 0
    if not rates:
        return None
    rates.sort()
    return Throughput(
        average=sum(rates) / len(rates),
        p50=nearest_rank(rates, 50),
        p90=nearest_rank(rates, 90),
        p95=nearest_rank(rates, 95),
        p99=nearest_rank(rates, 99),
        samples=len(rates),
    )


def nearest_rank(ordered: Sequence[float], percentile: float) -> float:
    """The nearest-rank percentile of an ascending, non-empty list.

    >>> nearest_rank([1.0, 2.0, 3.0, 4.0], 50)
    2.0
    """
    return ordered[max(0, math.ceil(len(ordered) * percentile / 100) - 1)]
