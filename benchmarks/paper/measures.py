"""Measures: from the log of an experiment to the curves of the paper.

They are computed from arrivals, nodes and devices alone, apart from the plugins, and so check them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.traces import Trace, typical_pods
from examples.gpu_sharing.gpu_sharing.fragmentation import Fragmentation, TypicalPod

WHOLE: Final = 1000

Log = Sequence[tuple[int, tuple[int, ...]] | None]
"""For each arrival the node, by its number in the node list, and the devices; None: no node."""
Floats = NDArray[np.float64]


def curves(trace: Trace, arrivals: Sequence[int], log: Log) -> dict[str, list[float]]:
    """Return the curves of a run: a point for each per cent of GPU capacity that has arrived.

    `allocation` and `fragmentation` are in % of the cluster's GPUs, `ratio` is in % of those that
    are idle.
    """
    total = WHOLE * sum(each.gpus for each in trace.nodes)
    asked = np.array([trace.pods[each].gpu_milli * trace.pods[each].gpus for each in arrivals])
    placed = np.array([each is not None for each in log])
    arrived, used = np.cumsum(asked), np.cumsum(asked * placed)
    # Records of the artifact have two decimals.
    wasted = np.round(_wasted(trace, arrivals, log), 2)
    idle = total - used
    ratio = np.round(100 * wasted / np.maximum(idle, 1), 2)
    bins = np.rint(100 * arrived / total).astype(np.int64)  # Half to even.
    allocation = np.round(100 * used / total, 2)
    last = int(bins[-1]) if len(bins) else -1
    return {
        "allocation": _rounded(_points(bins, allocation, last)),
        "fragmentation": _rounded(100 * _points(bins, wasted, last) / total),
        "ratio": _points(bins, ratio, last).tolist(),
    }


def _points(bins: NDArray[np.int64], values: Floats, last: int) -> Floats:
    """Return the mean of each bin, of `bins` in order; of it and its neighbours if it is empty."""
    # The artifact's sums and rounding are NumPy's as well: many means end in 5.
    edges = np.searchsorted(bins, np.arange(last + 2))
    points = np.full(last + 1, np.nan)
    for each in range(last + 1):
        own = values[edges[each] : edges[each + 1]]
        if not len(own):
            own = values[edges[max(each - 1, 0)] : edges[min(each + 2, last + 1)]]
        if len(own):
            points[each] = own.mean()
    return points


def _rounded(points: Floats) -> list[float]:
    rounded: list[float] = np.round(points, 2).tolist()
    return rounded


def _wasted(trace: Trace, arrivals: Sequence[int], log: Log) -> Floats:
    """Return the fragmentation of the cluster after each arrival, in units of GPU."""
    nodes, width = trace.nodes, max(each.gpus for each in trace.nodes)
    left = np.zeros((len(nodes), width), dtype=np.int64)
    for row, each in enumerate(nodes):
        left[row, : each.gpus] = WHOLE
    cpu = np.array([each.cpu_milli for each in nodes])
    states, free = [left.copy()], [cpu.copy()]
    changed: list[int] = []
    #: The number of the state in which a node is.
    current = list(range(len(nodes)))
    before: list[int] = []
    for index, entry in zip(arrivals, log, strict=True):
        if entry is None:
            continue
        row, devices = entry
        pod = trace.pods[index]
        cpu[row] -= pod.cpu_milli
        left[row, list(devices)] -= pod.gpu_milli
        states.append(left[row : row + 1].copy())
        free.append(cpu[row : row + 1].copy())
        before.append(current[row])
        current[row] = len(nodes) + len(changed)
        changed.append(row)
    fragmentation = Fragmentation(_typical(trace))
    models = [each.model for each in nodes]
    models += [models[row] for row in changed]
    found = fragmentation.of(
        np.concatenate(states), np.concatenate(free), fragmentation.kinds(models)
    )
    steps = np.zeros(len(log))
    steps[[number for number, entry in enumerate(log) if entry is not None]] = (
        found[len(nodes) :] - found[before]
    )
    wasted: Floats = (found[: len(nodes)].sum() + np.cumsum(steps)) / fragmentation.weight
    return wasted


def _typical(trace: Trace) -> list[TypicalPod]:
    found: Any = msgspec.convert(typical_pods(trace.pods), list[TypicalPod])
    return list(found)
