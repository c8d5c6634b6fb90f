"""The openb format: nodes and pods of a production cluster with shared GPUs, as CSV files.

Alibaba published them with the artifact of the paper on fragmentation gradient descent (Weng et
al., "Beware of Fragmentation", USENIX ATC 2023), and its experiments read nothing else: a node
list, pod lists, and here also files with the order in which each experiment draws the pods.

Rows are records; a function makes a manifest of a row, so that another convention for GPUs needs
only another function. GPUs are counted in thousandths, "milli", of a device.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scheduler.offline import builders
from scheduler.offline.builders import JsonObject
from scheduler.offline.editing import WorldError
from scheduler.offline.rows import Row, Rows
from scheduler.offline.trace import Arrival

GPU_MILLI: Final = "alibabacloud.com/gpu-milli"
"""Extended resource: of a node 1000 for each device; of a pod the total of its devices. Below 1000
a pod shares one device."""
GPU_COUNT: Final = "alibabacloud.com/gpu-count"
"""Extended resource of a node: its devices. Pods do not request it."""
GPU_MODEL: Final = "alibabacloud.com/gpu-card-model"
"""Label of a node: the model of its devices."""
WHOLE_DEVICE: Final = 1000
MAX_DEVICES: Final = 1000
"""Of one node."""
MAX_INDEX: Final = 99_999_999
"""Of a row, in a file of orders."""
PODS_PER_NODE: Final = 1001
TUNING_RATIO: Final = 1.3
"""GPUs that arrive for each GPU of the cluster."""

NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS: Final = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
_REQUIRED_OF_PODS: Final = POD_COLUMNS[:5]
_LABEL: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class TraceNode:
    """A row of the node list."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    """Devices."""
    model: str
    """Of the devices; may be empty without any."""


@dataclass(frozen=True, slots=True)
class TracePod:
    """A row of a pod list."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    """Devices; 0: none."""
    gpu_milli: int
    """Of each device, 1000 unless it is a share of one."""
    gpu_spec: str = ""
    """Models that will do, joined by `|`; empty: any."""
    qos: str = ""
    phase: str = ""
    creation_time: float | None = None
    """Seconds from the start of the trace, as the two below; None where the file has none."""
    deletion_time: float | None = None
    scheduled_time: float | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """The models that will do; empty: any."""
        return tuple(self.gpu_spec.split("|")) if self.gpu_spec else ()

    @property
    def demand(self) -> tuple[int, int, int, int, str]:
        """Whatever tells pods apart: cpu, memory, devices, milli of each, models."""
        return self.cpu_milli, self.memory_mib, self.gpus, self.gpu_milli, self.gpu_spec


@dataclass(frozen=True, slots=True)
class Order:
    """The draws of one experiment."""

    arrivals: tuple[int, ...]
    """Indices of the pod list, from 0, in order of arrival; those of copies are repeated."""
    ranks: tuple[int, ...]
    """Of each node of the node list: its place when equal nodes are told apart by name."""


# -- files ---------------------------------------------------------------------------------------


def read_nodes(path: str | Path) -> list[TraceNode]:
    """Read a node list: the columns `sn,cpu_milli,memory_mib,gpu,model`, sorted by `sn`.

    Raises:
        WorldError: every fault of the file, each with its line and column.
    """
    rows = Rows(path, NODE_COLUMNS, NODE_COLUMNS)
    names = _Names("sn")
    nodes = []
    for row in rows:
        node = TraceNode(
            names.read(row),
            row.whole("cpu_milli"),
            row.whole("memory_mib"),
            row.whole("gpu", maximum=MAX_DEVICES),
            row.text("model"),
        )
        if (node.model or node.gpus) and not _LABEL.fullmatch(node.model):
            row.fault(f"model is {node.model!r:.80}; give the name of a GPU model")
        nodes.append(node)
    rows.faults.report()
    return nodes


def read_pods(path: str | Path) -> list[TracePod]:
    """Read a pod list, sorted by `name`; the columns after `gpu_milli` may be missing.

    Raises:
        WorldError: every fault of the file, each with its line and column.
    """
    rows = Rows(path, _REQUIRED_OF_PODS, POD_COLUMNS)
    names = _Names("name")
    pods = [_pod(row, names) for row in rows]
    rows.faults.report()
    return pods


def is_pod_list(path: str | Path) -> bool:
    """Return whether the header of a file is that of a pod list. Raises WorldError."""
    return {"num_gpu", "gpu_milli"} <= set(Rows(path, (), ()).columns)


class _Names:
    """Checks that names are unique and ascend, by text or by the numbers in them."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._lines: dict[str, int] = {}
        self._last = ""

    def read(self, row: Row) -> str:
        name = row.name(self._column)
        if not name:
            return name
        if name in self._lines:
            row.fault(f"{self._column} {name!r:.80} is that of line {self._lines[name]} as well")
        elif name < self._last and (len(name), name) < (len(self._last), self._last):
            row.fault(
                f"{self._column} {name!r:.80} comes after {self._last!r:.80}; sort the rows by name"
            )
        else:
            self._last = name
        self._lines.setdefault(name, row.line)
        return name


def _check_gpus(row: Row, gpus: int, milli: int) -> None:
    if gpus == 0 and milli:
        row.fault(f"gpu_milli is {milli}, but num_gpu is 0; give 0 for both, or for neither")
    elif gpus and not milli:
        row.fault(f"gpu_milli is 0, but num_gpu is {gpus}; give 1 to {WHOLE_DEVICE}")
    elif gpus > 1 and milli != WHOLE_DEVICE:
        row.fault(f"gpu_milli is {milli}; several devices are whole ones, of {WHOLE_DEVICE} each")


def _check_times(
    row: Row, created: float | None, deleted: float | None, scheduled: float | None
) -> None:
    for column, late in (("deletion_time", deleted), ("scheduled_time", scheduled)):
        if late is not None and created is not None and late < created:
            row.fault(f"{column} is {late:.15g}, before creation_time, {created:.15g}")
    if deleted is not None and scheduled is not None and deleted < scheduled:
        row.fault(f"deletion_time is {deleted:.15g}, before scheduled_time, {scheduled:.15g}")


def _pod(row: Row, names: _Names) -> TracePod:
    gpus = row.whole("num_gpu", maximum=MAX_DEVICES)
    milli = row.whole("gpu_milli", maximum=WHOLE_DEVICE)
    if row.sound and row.has("num_gpu") and row.has("gpu_milli"):
        _check_gpus(row, gpus, milli)
    spec = row.text("gpu_spec")
    if spec and not all(map(_LABEL.fullmatch, spec.split("|"))):
        row.fault(f"gpu_spec is {spec!r:.80}; give GPU models joined by |")
    before = row.faults
    created, deleted, scheduled = (
        row.seconds(each) if row.has(each) else None for each in POD_COLUMNS[8:]
    )
    if row.faults == before:
        _check_times(row, created, deleted, scheduled)
    return TracePod(
        names.read(row), row.whole("cpu_milli"), row.whole("memory_mib"), gpus, milli, spec,
        row.text("qos"), row.text("pod_phase"), created, deleted, scheduled,
    )  # fmt: skip


def read_orders(path: str | Path, *, pods: int | None, nodes: int | None) -> dict[int, Order]:
    """Read the draws of experiments by seed: the columns `seed,kind,values`.

    Of each seed there is a row of kind `arrivals`, with indices of the pod list, and one of kind
    `nodes`, with the rank of each node. Values are separated by spaces.

    Args:
        path: of the file, which may be compressed by gzip.
        pods: rows of the pod list; None if they are unknown, because that list is malformed.
        nodes: rows of the node list; None as above.

    Raises:
        WorldError: every fault of the file, each with its line and column.
    """
    columns = ("seed", "kind", "values")
    rows = Rows(path, columns, columns)
    found: dict[tuple[int, str], tuple[int, ...]] = {}
    lines: dict[tuple[int, str], int] = {}
    for row in rows:
        seed, kind = row.whole("seed"), row.text("kind")
        if kind not in ("arrivals", "nodes"):
            row.fault(f"kind is {kind!r:.80}; give arrivals or nodes")
            continue
        if (seed, kind) in lines:
            row.fault(f"seed {seed} has {kind} in line {lines[seed, kind]} as well")
        lines[seed, kind] = row.line
        count = pods if kind == "arrivals" else nodes
        found[seed, kind] = indices = _indices(row, MAX_INDEX + 1 if count is None else count)
        if kind == "nodes" and row.sound:
            count = len(indices) if count is None else count
            if sorted(indices) != list(range(count)):
                row.fault(f"values: give each rank from 0 to {count - 1} once, for {count} nodes")
    for (seed, kind), line in lines.items():
        other = "nodes" if kind == "arrivals" else "arrivals"
        if (seed, other) not in lines:
            rows.faults.add(line, f"seed {seed} has {kind}, but no {other}")
    rows.faults.report()
    seeds = sorted({seed for seed, _ in found})
    return {each: Order(found[each, "arrivals"], found[each, "nodes"]) for each in seeds}


def _indices(row: Row, count: int) -> tuple[int, ...]:
    texts = row.text("values").split()
    if not texts:
        return ()
    joined = "".join(texts)
    whole = joined.isascii() and joined.isdigit() and max(map(len, texts)) <= len(str(MAX_INDEX))
    good = tuple(map(int, texts)) if whole else ()
    if not whole or max(good) >= count:
        row.fault(f"values: give whole numbers from 0 to {count - 1}, separated by spaces")
        return ()
    return good


# -- experiments ---------------------------------------------------------------------------------


def shuffled(count: int, seed: int) -> tuple[int, ...]:
    """Return the numbers below `count` in a random order."""
    found = list(range(count))
    random.Random(seed).shuffle(found)
    return tuple(found)


def draw(
    nodes: Sequence[TraceNode],
    pods: Sequence[TracePod],
    *,
    seed: int,
    ratio: float = TUNING_RATIO,
) -> Order:
    """Draw an experiment as the paper does: all pods, shuffled, then copies of random ones.

    Copies are drawn until the milli that arrive reach `ratio` times those of the cluster; of a
    trace that asks for more, random pods are left out instead. The generator is Python's, so that
    orders agree with the paper's in distribution only.

    Raises:
        ValueError: there are no nodes or no pods, or none of the pods has GPUs.
    """
    source = random.Random(f"draw {seed}")
    limit = ratio * sum(WHOLE_DEVICE * each.gpus for each in nodes)
    asked = [each.gpus * each.gpu_milli for each in pods]
    if not limit or not any(asked):
        raise ValueError("an experiment needs nodes with GPUs, and pods with GPUs")
    arrivals = list(shuffled(len(pods), seed))
    total = sum(asked)
    while total > limit:
        total -= asked[arrivals.pop(source.randrange(len(arrivals)))]
    if total == sum(asked):
        # The one that would exceed the limit ends the draws; milli count for one device here.
        # A pod without GPUs never does, whatever the last one with several devices has overshot.
        while not (milli := pods[index := source.randrange(len(pods))].gpu_milli) or (
            total + milli <= limit
        ):
            arrivals.append(index)
            total += asked[index]
    ranks = list(range(len(nodes)))
    source.shuffle(ranks)
    return Order(tuple(arrivals), tuple(ranks))


def node(row: TraceNode, rank: int | None = None, *, digits: int = 4) -> JsonObject:
    """Return a node of a row; with a rank it is named `RANK-NAME`, so that ranks order names.

    Every rank of a cluster must have the same number of digits.

    >>> node(TraceNode("n", 8000, 32768, 2, "T4"), 7)["metadata"]["name"]
    '0007-n'
    """
    name = row.name if rank is None else f"{rank:0{digits}}-{row.name}"
    gpus = {GPU_COUNT: row.gpus, GPU_MILLI: WHOLE_DEVICE * row.gpus} if row.gpus else {}
    return builders.node(
        name,
        cpu=f"{row.cpu_milli}m",
        memory=f"{row.memory_mib}Mi",
        pods=PODS_PER_NODE,
        labels={GPU_MODEL: row.model} if row.model else {},
        resources=gpus,
    )


def pod(row: TracePod) -> JsonObject:
    """Return a pending pod of a row: GPUs as the extended resource, models as node affinity.

    All of it is in the pod's spec, so that pods of one shape are scheduled alike.
    """
    spec: JsonObject = {}
    if row.models:
        expression = {"key": GPU_MODEL, "operator": "In", "values": list(row.models)}
        terms = [{"matchExpressions": [expression]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    total = row.gpus * row.gpu_milli
    return builders.pod(
        row.name,
        cpu=f"{row.cpu_milli}m",
        memory=f"{row.memory_mib}Mi",
        resources={GPU_MILLI: total} if total else {},
        spec=spec,
    )


class Templates:
    """Manifests of rows, one for all rows of a shape, so that each is decoded once."""

    def __init__(self, make: Callable[[TracePod], JsonObject] = pod) -> None:
        self._make = make
        self._known: dict[tuple[int, int, int, int, str], Mapping[str, Any]] = {}

    def of(self, row: TracePod) -> Mapping[str, Any]:
        """Return the manifest of the first row that had this shape."""
        known = self._known.get(row.demand)
        if known is None:
            known = self._known[row.demand] = self._make(row)
        return known


def in_order(
    pods: Sequence[TracePod],
    order: Order,
    *,
    interval: float = 1.0,
    make: Callable[[TracePod], JsonObject] = pod,
) -> list[Arrival]:
    """Return the arrivals of an experiment, `interval` seconds apart; pods run to the end."""
    templates = Templates(make)
    return [
        Arrival(place * interval, templates.of(pods[index]), name=pods[index].name)
        for place, index in enumerate(order.arrivals)
    ]


def as_recorded(
    pods: Sequence[TracePod], *, make: Callable[[TracePod], JsonObject] = pod
) -> list[Arrival]:
    """Return the arrivals at the times of the trace, the first at 0, by time and name.

    Pods run from the second when they are placed here for as long as they did in the trace: from
    `scheduled_time`, or else `creation_time`, to `deletion_time`; to the end where it is missing.

    Raises:
        WorldError: a pod has no creation_time.
    """
    templates = Templates(make)
    timeless = [each.name for each in pods if each.creation_time is None]
    if timeless:
        raise WorldError(
            f"{len(timeless)} pods have no creation_time, such as {timeless[0]}: this trace cannot "
            "be played at its times; draw an order"
        )
    start = min((each.creation_time or 0.0 for each in pods), default=0.0)
    found = []
    for each in pods:
        began = each.creation_time if each.scheduled_time is None else each.scheduled_time
        ended = each.deletion_time
        duration = None if ended is None or began is None else ended - began
        arrival = (each.creation_time or 0.0) - start
        found.append(Arrival(arrival, templates.of(each), duration, name=each.name))
    return sorted(found, key=lambda each: (each.time, each.name))
