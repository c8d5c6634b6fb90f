"""The files of the experiment: a node list, pod lists, orders of arrival, published curves.

A folder has `openb_node_list_*.csv`, `openb_pod_list_TRACE.csv`, `orders/TRACE.csv.gz`, and, if the
results are to be compared, `expected/alloc.csv.gz`, `frag_amount.csv.gz` and `frag_ratio.csv.gz`.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from simulator.offline import WorldError, openb

PODS: Final = "openb_pod_list_"
NODES: Final = "openb_node_list_*.csv"
SHARE_OF_TYPICAL: Final = 0.95
"""Typical pods are the most frequent ones that make up this part of all pods."""
CURVES: Final = {"alloc": "allocation", "frag_amount": "fragmentation", "frag_ratio": "ratio"}
"""Files with published curves, and the names of these curves here."""

Published = dict[tuple[str, str, int], dict[str, list[float]]]
"""Trace, policy and seed to the points of each curve."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The input of experiments; pods and nodes are in the order of their files."""

    nodes: tuple[openb.TraceNode, ...]
    pods: tuple[openb.TracePod, ...]
    orders: dict[int, openb.Order]


def trace_names(folder: Path) -> list[str]:
    """Return the names of the traces that have orders.

    Raises:
        WorldError: the folder lacks something; the text says what.
    """
    if not folder.is_dir():
        raise WorldError(f"{folder}: there is no such folder; give one with traces: TRACES=FOLDER")
    if len(list(folder.glob(NODES))) != 1:
        raise WorldError(f"{folder}: there must be exactly one file {NODES}")
    names = sorted(
        each.name.removesuffix(".csv.gz") for each in (folder / "orders").glob("*.csv.gz")
    )
    found = [each for each in names if (folder / f"{PODS}{each}.csv").is_file()]
    if not found:
        raise WorldError(
            f"{folder}: no trace has both a pod list, {PODS}TRACE.csv, and orders of arrival, "
            "orders/TRACE.csv.gz; docs/paper.md says how to draw orders"
        )
    return found


@lru_cache(maxsize=1)
def read(folder: Path, name: str) -> Trace:
    """Read a trace. Raises WorldError with every fault of a file."""
    nodes = openb.read_nodes(next(folder.glob(NODES)))
    pods = openb.read_pods(folder / f"{PODS}{name}.csv")
    path = folder / "orders" / f"{name}.csv.gz"
    return Trace(
        tuple(nodes), tuple(pods), openb.read_orders(path, pods=len(pods), nodes=len(nodes))
    )


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
    """Return the published curves; none if the folder has none. Raises WorldError."""
    found: Published = {}
    for file, curve in CURVES.items():
        path = folder / "expected" / f"{file}.csv.gz"
        if path.is_file():
            for key, points in _curves(path):
                found.setdefault(key, {})[curve] = points
    return found


def _curves(path: Path) -> Iterator[tuple[tuple[str, str, int], list[float]]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            if next(rows, [])[:3] != ["trace", "policy", "seed"]:
                raise WorldError(f"{path}:1: the first columns must be trace,policy,seed")
            for row in rows:
                try:
                    yield (row[0], row[1], int(row[2])), [float(each) for each in row[3:]]
                except (IndexError, ValueError) as error:
                    raise WorldError(f"{path}:{rows.line_num}: {error}") from error
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise WorldError(f"{path}: cannot be read: {error}") from error
