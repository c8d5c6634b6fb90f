"""Figures of a world: how full it is, how much of what is free is of no use, who waited how long.

Percentages are of 100, times virtual seconds. `meanings` says what each figure means.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean, stdev
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.pod import Pod
from scheduler.api.requests import Resources, incoming_requests
from scheduler.explain.records.wording import span
from scheduler.offline.editing import is_daemon
from scheduler.offline.records import Result
from scheduler.offline.trace import Arrival
from scheduler.offline.world import World

ZONE: Final = "topology.kubernetes.io/zone"
MAX_SIZES: Final = 64
"""Distinct requests, the commonest ones, that fragmentation is measured with."""
MAX_EXTENDED: Final = 8
"""Extended resources that have figures: those of most nodes."""

FIXED: Final[Mapping[str, str]] = {
    "placed": "pods that were placed",
    "waiting": "pods without a node at the end",
    "evicted": "pods that were evicted to make room",
    "finished": "pods whose duration was over",
    "nodes": "nodes at the end",
    "nodes_used": "nodes with pods at the end, apart from those of DaemonSets",
    "attempts": "scheduling attempts of the pods that were placed, on average",
    "wait_mean": "seconds from the arrival of a placed pod to its binding, on average",
    "wait_p50": "seconds that half of the placed pods waited at most",
    "wait_p90": "seconds that nine of ten placed pods waited at most",
    "wait_p99": "seconds that 99 of 100 placed pods waited at most",
    "wait_max": "seconds that the placed pod with the longest wait waited",
    "zone_skew": "pods of one owner in its fullest zone above those in its emptiest, on average",
    "waiting_max": "pods that waited when most did, as far as samples show",
    "time": "virtual second at the end",
}
"""The figures that every run has."""

TITLES: Final[Mapping[str, str]] = {
    "placed": "pods placed",
    "waiting": "pods without a node",
    "evicted": "pods evicted",
    "finished": "pods finished",
    "nodes": "nodes",
    "nodes_used": "nodes used",
    "attempts": "attempts a pod",
    "wait_mean": "mean wait",
    "wait_p50": "median wait",
    "wait_p90": "longest wait of nine in ten",
    "wait_p99": "longest wait of 99 in 100",
    "wait_max": "longest wait",
    "zone_skew": "zone skew",
    "waiting_max": "most pods waiting",
    "time": "virtual time",
}
"""The same figures in a few words, for people."""


def may_exist(name: str) -> bool:
    """Return whether a run may have a figure: a resource has its own once nodes offer it.

    >>> may_exist("wait_p90"), may_exist("nvidia_com_gpu_allocation_mean"), may_exist("wating")
    (True, True, False)
    """
    return name in FIXED or is_share(name)


def meanings(names: Iterable[str]) -> dict[str, str]:
    """Return what figures mean, by name."""
    found = dict(FIXED)
    for name in names:
        if name.endswith("_mean") and name not in found:
            found[name] = f"{name.removesuffix('_mean')}, on average over the time"
        elif name not in found:
            resource, _, kind = name.rpartition("_")
            found[name] = (
                f"per cent of allocatable {resource} that is requested"
                if kind == "allocation"
                else f"per cent of free {resource} where a random pod that requests it has no room"
            )
    return found


def title(name: str) -> str:
    """Return a figure in a few words.

    >>> title("wait_p50"), title("cpu_allocation"), title("nvidia_com_gpu_fragmentation_mean")
    ('median wait', 'cpu requested', 'free nvidia_com_gpu of no use, on average')
    """
    if name in TITLES:
        return TITLES[name]
    resource, _, kind = name.removesuffix("_mean").rpartition("_")
    words = f"{resource} requested" if kind == "allocation" else f"free {resource} of no use"
    return f"{words}, on average" if name.endswith("_mean") else words


def written(name: str, values: Sequence[float]) -> str:
    """Write a figure for people, with its unit; of several seeds the mean, see `spread`.

    >>> written("wait_mean", [269.2]), written("wait_mean", [0.25]), written("placed", [1045.0])
    ('4m29s', '0.25s', '1,045')
    >>> written("cpu_allocation", [35.812]), written("wait_max", [90.0, 150.0])
    ('35.8 %', '2m ± 42s')
    """
    if not values:
        return "-"
    write = _written_as(name)
    middle = write(mean(values))
    return middle if min(values) == max(values) else f"{middle} ± {write(stdev(values))}"


def _written_as(name: str) -> Callable[[float], str]:
    if name == "time" or name.startswith("wait_"):
        return lambda value: span(value) if value >= 10 else f"{value:.3g}s"
    if is_share(name):
        return lambda value: f"{value:.3g} %"
    return lambda value: f"{round(value, 2):,.12g}"


def is_share(name: str) -> bool:
    """Return whether a figure is in per cent."""
    return name.removesuffix("_mean").endswith(("_allocation", "_fragmentation"))


def in_order(names: Iterable[str]) -> list[str]:
    """Return figures in the order in which they are shown: that of `FIXED`, then by name."""
    order = {name: index for index, name in enumerate(FIXED)}
    return sorted(names, key=lambda each: (order.get(each, len(order)), each))


def spread(values: Sequence[float]) -> str:
    """Write a figure; of several seeds mean and standard deviation, unless all are equal.

    >>> spread([2.0]), spread([1.0, 2.0]), spread([3.0, 3.0]), spread([])
    ('2', '1.5 ± 0.71', '3', '-')
    """
    if not values:
        return "-"
    if min(values) == max(values):
        return f"{round(values[0], 2):.12g}"
    return f"{round(mean(values), 2):.12g} ± {round(stdev(values), 2):.12g}"


class Gauge:
    """Measures a world while it runs."""

    def __init__(
        self,
        world: World,
        arrivals: Sequence[Arrival] = (),
        sizes: Sequence[tuple[Resources, int]] = (),
    ) -> None:
        """Choose resources and pod sizes, which stay the same so that samples are comparable.

        `sizes` are requests and how many pods have them, in place of those that are known here.
        """
        self._world = world
        self._table = world._assembly.state.cache.table
        self._extended = sorted(self._table.scalar_allocatable.most_widespread(MAX_EXTENDED))
        sizes = sizes or _sizes(world, arrivals)
        self._names = ["cpu", "memory", *(_identifier(each) for each in self._extended)]
        self._sizes = np.array(
            [
                [size.milli_cpu, size.memory, *(size.scalar(each) for each in self._extended)]
                for size, _ in sizes
            ],
            dtype=np.int64,
        ).reshape(len(sizes), len(self._names))
        self._counts = np.array([count for _, count in sizes], dtype=np.float64)

    def sample(self) -> dict[str, float]:
        """Return what can be measured at any time: usage, fragmentation, queue and nodes."""
        table, rows = self._table, self._table.rows
        total = self._amounts(table.allocatable, table.scalar_allocatable, rows)
        free = np.maximum(total - self._amounts(table.requested, table.scalar_requested, rows), 0)
        room = table.pod_limit[rows] > table.pod_count[rows]
        queue = self._world._assembly.scheduling.queue.statistics()
        found = {
            "time": self._world.now,
            "waiting": float(queue.active + queue.backoff + queue.unschedulable + queue.gated),
            "nodes": float(len(rows)),
        }
        unusable = self._unusable(free, room)
        for index, name in enumerate(self._names):
            all_of_it, left = int(total[index].sum()), int(free[index].sum())
            found[f"{name}_allocation"] = _percent(all_of_it - left, all_of_it)
            found[f"{name}_fragmentation"] = _percent(unusable[index], left)
        pods = int(table.pod_limit[rows].sum())
        found["pods_allocation"] = _percent(int(table.pod_count[rows].sum()), pods)
        return found

    def _amounts(
        self, native: NDArray[np.int64], scalars: object, rows: NDArray[np.intp]
    ) -> NDArray[np.int64]:
        """Return the amounts (resources, nodes) of what is measured."""
        extended = [scalars.of(each, rows) for each in self._extended]  # type: ignore[attr-defined]
        return np.vstack([native[0][rows], native[1][rows], *extended])

    def _unusable(self, free: NDArray[np.int64], room: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return how much of each resource is free where a random pod that requests it is not."""
        lost = np.zeros(len(free), dtype=np.float64)
        weights = np.zeros(len(free), dtype=np.float64)
        for size, count in zip(self._sizes, self._counts, strict=True):
            fits = room & np.all(free >= size[:, None], axis=0)
            asked = size > 0
            weights[asked] += count
            lost[asked] += count * free[:, ~fits].sum(axis=1)[asked]
        return np.divide(lost, weights, out=np.zeros_like(lost), where=weights > 0)


def figures(
    world: World, gauge: Gauge, result: Result, samples: Sequence[Mapping[str, float]]
) -> dict[str, float]:
    """Return the figures of a run at its end, by name, in the order of `FIXED`."""
    found = {
        "nodes_used": float(_nodes_used(world)),
        "zone_skew": _zone_skew(world),
        "waiting_max": max(each["waiting"] for each in samples),
    }
    measured = gauge.sample()
    means = {
        f"{name}_mean": sum(each[name] for each in samples) / len(samples)
        for name in measured
        if name.endswith(("_allocation", "_fragmentation"))
    }
    # The records count pods, the queue what waits in it.
    found = {**measured, **means, **found, **of_records(result)}
    return {name: found[name] for name in in_order(found)}


def of_records(result: Result) -> dict[str, float]:
    """Return the figures that need nothing but the records of a run."""
    waits = np.array([each.waited for each in result.placed] or [0.0])
    attempts = [each.attempts for each in result.placed]
    at = {each: float(np.percentile(waits, each, method="higher")) for each in (50, 90, 99)}
    return {
        "placed": float(len(result.placed)),
        "waiting": float(len(result.waiting)),
        "evicted": float(len(result.evicted)),
        "finished": float(result.finished),
        "attempts": sum(attempts) / len(attempts) if attempts else 0.0,
        "wait_mean": float(waits.mean()),
        **{f"wait_p{each}": value for each, value in at.items()},
        "wait_max": float(waits.max()),
        "time": result.ended,
    }


def _sizes(world: World, arrivals: Sequence[Arrival]) -> list[tuple[Resources, int]]:
    """Return the commonest requests of the pods that are there and that will come."""
    counts: Counter[Resources] = Counter()
    for pod in world._assembly.tables.stores["pods"].list():
        counts[pod.signature.requests] += 1
    templates: Counter[int] = Counter()
    by_id = {id(each.pod): each.pod for each in arrivals}
    for each in arrivals:
        templates[id(each.pod)] += each.count
    for key, count in templates.items():
        decoded: Pod = world._decoded(by_id[key])[1]
        counts[incoming_requests(decoded)] += count
    # Ties by amount, so that the order of the pods does not decide.
    order = sorted(counts.items(), key=lambda each: (-each[1], repr(each[0])))
    return order[:MAX_SIZES]


def _nodes_used(world: World) -> int:
    pods = world._assembly.tables.stores["pods"].list()
    return len({each.spec.node_name for each in pods if not is_daemon(each)} - {""})


def _zone_skew(world: World) -> float:
    """Return the mean difference between fullest and emptiest zone of the pods of one owner."""
    nodes = world._assembly.tables.stores["nodes"].list()
    zones = {each.metadata.name: each.metadata.labels.get(ZONE, "") for each in nodes}
    known = sorted({each for each in zones.values() if each})
    if len(known) < 2:
        return 0.0
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for pod in world._assembly.tables.stores["pods"].list():
        owner = next((each.name for each in pod.metadata.owner_references if each.controller), "")
        zone = zones.get(pod.spec.node_name, "")
        if owner and zone:
            counts[pod.metadata.namespace, owner][zone] += 1
    skews = [
        max(each.values()) - min(each[zone] for zone in known)
        for each in counts.values()
        if each.total() > 1
    ]
    return sum(skews) / len(skews) if skews else 0.0


def _identifier(resource: str) -> str:
    """Return the name of a resource as figures have it.

    >>> _identifier("nvidia.com/gpu")
    'nvidia_com_gpu'
    """
    return re.sub(r"\W", "_", resource, flags=re.ASCII)


def _percent(part: float, whole: float) -> float:
    return 100.0 * float(part) / whole if whole else 0.0
