"""The files of the experiment: a node list, pod lists, orders of arrival, published curves.

A folder has `openb_node_list_*.csv`, `openb_pod_list_TRACE.csv`, `orders/TRACE.csv.gz`, and, if the
results are to be compared, `expected/alloc.csv.gz`, `frag_amount.csv.gz` and `frag_ratio.csv.gz`.
Each of them may be compressed by gzip, or not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from scheduler.offline import WorldError, openb
from scheduler.offline.rows import Row, Rows

PODS: Final = "openb_pod_list_"
NODES: Final = "openb_node_list_"
GPU_NODES: Final = "gpu_node"
"""The end of the name of the node list that is read if there are several."""
MAX_GPUS: Final = 64
"""Of a node or a pod; see `MAX_DEVICES` of the example."""
SHARE_OF_TYPICAL: Final = 0.95
"""Typical pods are the most frequent ones that make up this part of all pods."""
CURVES: Final = {"alloc": "allocation", "frag_amount": "fragmentation", "frag_ratio": "ratio"}
"""Files with published curves, and the names of these curves here."""

Read = TypeVar("Read")
Published = dict[tuple[str, str, int], dict[str, list[float]]]
"""Trace, policy and seed to the points of each curve."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The input of experiments; pods and nodes are in the order of their files."""

    nodes: tuple[openb.TraceNode, ...]
    pods: tuple[openb.TracePod, ...]
    orders: dict[int, openb.Order]


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one trace."""

    nodes: Path
    pods: Path
    orders: Path


def files(folder: Path) -> tuple[dict[str, Files], dict[str, str]]:
    """Return the files of the traces that have orders, and why other traces are left out, by name.

    Raises:
        WorldError: the folder lacks something; the text says what.
    """
    if not folder.is_dir():
        raise WorldError(f"{folder}: there is no such folder; give one with traces: TRACES=FOLDER")
    nodes = _node_list(folder)
    lists = _named(folder, PODS)
    orders = _named(folder / "orders", "")
    found = {name: Files(nodes, lists[name], orders[name]) for name in lists if name in orders}
    if not found:
        raise WorldError(
            f"{folder}: no trace has both a pod list, {PODS}TRACE.csv, and orders of arrival, "
            "orders/TRACE.csv.gz; docs/paper.md says how to draw orders"
        )
    left_out = {name: f"there is no orders/{name}.csv.gz" for name in lists if name not in found}
    left_out |= {name: f"there is no {PODS}{name}.csv" for name in orders if name not in found}
    return found, left_out


def _node_list(folder: Path) -> Path:
    found = _named(folder, NODES)
    if len(found) == 1:
        return next(iter(found.values()))
    # The artifact's folder has a list of all nodes as well.
    if GPU_NODES in found:
        return found[GPU_NODES]
    raise WorldError(
        f"{folder}: there must be exactly one file {NODES}*.csv, or one {NODES}{GPU_NODES}.csv"
    )


def _named(folder: Path, prefix: str) -> dict[str, Path]:
    """Return the files `PREFIXNAME.csv` by name; they may be compressed. Raises WorldError."""
    found: dict[str, Path] = {}
    for each in sorted(folder.glob(f"{prefix}*.csv*")):
        name = each.name.removeprefix(prefix).removesuffix(".gz")
        if name.endswith(".csv") and each.is_file():
            other = found.setdefault(name.removesuffix(".csv"), each)
            if other != each:
                raise WorldError(f"{each}: {other.name} exists as well; give one of them")
    return found


def read(given: Files) -> Trace:
    """Read a trace.

    Raises:
        WorldError: every fault of its files.
    """
    faults: list[str] = []
    nodes = collected(faults, openb.read_nodes, given.nodes)
    pods = collected(faults, openb.read_pods, given.pods)
    orders = collected(
        faults,
        openb.read_orders,
        given.orders,
        pods=None if pods is None else len(pods),
        nodes=None if nodes is None else len(nodes),
    )
    for path, rows in ((given.nodes, nodes), (given.pods, pods)):
        large = [each for each in rows or () if each.gpus > MAX_GPUS]
        if large:
            faults.append(
                f"{path}: {len(large)} rows have more than {MAX_GPUS} GPUs, which the plugins "
                f"cannot tell apart, such as {large[0].name}"
            )
    if nodes is not None and not any(each.gpus for each in nodes):
        faults.append(f"{given.nodes}: no node has GPUs, of which the curves are per cent")
    if faults or nodes is None or pods is None or orders is None:
        raise WorldError("\n".join(faults))
    return Trace(tuple(nodes), tuple(pods), orders)


def collected(
    faults: list[str], reader: Callable[..., Read], *args: Any, **more: Any
) -> Read | None:
    """Return what a reader returns; None after adding the faults of its WorldError to `faults`."""
    try:
        return reader(*args, **more)
    except WorldError as error:
        faults += str(error).splitlines()
        return None


def typical_pods(pods: Sequence[openb.TracePod]) -> list[dict[str, object]]:
    """Return the typical pods of a trace, as the argument `typicalPods` of FGD.

    Pods that request the same, memory aside, are of one kind. The most frequent kinds come first;
    equally frequent ones are ordered by what they request, the larger first.
    """
    kinds = Counter((each.cpu_milli, each.gpu_milli, each.gpus, each.gpu_spec) for each in pods)
    found: list[dict[str, object]] = []
    taken = 0
    for (cpu, milli, gpus, spec), count in sorted(
        kinds.items(), key=lambda item: (item[1], item[0]), reverse=True
    ):
        if taken >= SHARE_OF_TYPICAL * len(pods):
            break
        models = spec.split("|") if spec else []
        found.append({"cpu": cpu, "gpuMilli": milli, "gpus": gpus, "models": models, "pods": count})
        taken += count
    return found


def published(folder: Path) -> Published:
    """Return the published curves; none if the folder has none.

    Raises:
        WorldError: every fault of their files.
    """
    found: Published = {}
    faults: list[str] = []
    there = _named(folder / "expected", "")
    for file, curve in CURVES.items():
        if file in there:
            for key, points in (collected(faults, _curves, there[file]) or {}).items():
                found.setdefault(key, {})[curve] = points
    if faults:
        raise WorldError("\n".join(faults))
    return found


def _curves(path: Path) -> dict[tuple[str, str, int], list[float]]:
    """Read curves: the columns `trace,policy,seed`, and one for each point from 0 on."""
    keys = ("trace", "policy", "seed")
    header = [each.strip() for each in Rows(path, keys, keys).columns]
    columns = [str(each) for each in range(max(len(header) - len(keys), 0))]
    rows = Rows(path, keys, (*keys, *columns))
    found: dict[tuple[str, str, int], list[float]] = {}
    for row in rows:
        if header[len(keys) :] != columns:
            rows.faults.add(1, f"after {','.join(keys)} give a column for each point: 0,1,2 ...")
            break
        key = row.text("trace"), row.text("policy"), row.whole("seed")
        if key in found:
            row.fault(f"there is another curve of {key[0]:.80}, {key[1]:.80}, seed {key[2]}")
        found[key] = [_point(row, each) for each in columns]
    rows.faults.report()
    return found


def _point(row: Row, column: str) -> float:
    """Return a point; one that is empty or `nan` is compared with nothing."""
    text = row.text(column) or "nan"
    with suppress(ValueError):
        if not math.isinf(number := float(text)):
            return number
    row.fault(f"{column} is {text!r:.40}; give a number")
    return math.nan
