"""The other policies of the paper: BestFit, DotProd, GpuPacking, GpuClustering, and Random.

Formulas and constants are those of the paper's artifact. All are columnar, and a score depends on
the pod's template and on the state of its own row only.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kubestow.plugin import (
    CPU,
    BasePlugin,
    CycleState,
    Handle,
    Int64Column,
    NodeInfo,
    NodeTableView,
    Pod,
    ReuseRule,
    Rows,
)

from .devices import CHANGES, NO_GPU, WHOLE, Devices, Request
from .sharing import CHOICE, SharingArgs, devices_of, problems


class PolicyArgs(SharingArgs, kw_only=True):
    """Arguments of the policies."""

    #: Millicores of the largest node.
    max_cpu: int = 128_000
    #: GPUs of the largest node.
    max_gpus: int = 8


class Nodes(NamedTuple):
    """Some rows of the node table: `nodes.devices.total[nodes.rows]` is what is free on each."""

    devices: Devices
    rows: Rows
    cpu: Int64Column
    """Free millicores of each of `rows`."""


class Wanted(NamedTuple):
    """The request of a pod."""

    request: Request
    cpu: int
    """Millicores."""

    @property
    def gpu(self) -> int:
        """Units of GPU in all."""
        return self.request.milli * self.request.gpus


class Policy(BasePlugin):
    """The part that these policies have in common."""

    args_type = PolicyArgs
    score_reuse: ClassVar[ReuseRule | None] = ReuseRule(CHANGES)

    def __init__(self, args: PolicyArgs, handle: Handle) -> None:
        self._devices = devices_of(args, handle)
        self._max_cpu = args.max_cpu
        self._max_milli = args.max_gpus * WHOLE

    @staticmethod
    def validate_args(args: PolicyArgs) -> Iterator[tuple[str, str]]:
        """Yield (path below `args`, message) for each problem."""
        yield from problems(args)
        for name, value in (("maxCpu", args.max_cpu), ("maxGpus", args.max_gpus)):
            if value < 1:
                yield name, f"{value} is no size of a node; write 1 or more"

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Return 0 to 100 for each row."""
        devices = self._devices
        devices.refresh(table)
        wanted = Wanted(devices.request_of(pod) or NO_GPU, pod.signature.requests.milli_cpu)
        cpu = table.allocatable[CPU][rows] - table.requested[CPU][rows]
        truncated: Int64Column = self._scores(Nodes(devices, rows, cpu), wanted).astype(np.int64)
        return np.minimum(np.maximum(truncated, 0), 100)

    @abstractmethod
    def _scores(self, nodes: Nodes, wanted: Wanted) -> Any:
        """Return the scores of nodes as they are before the pod is placed."""


class BestFit(Policy):
    """Prefers the node on which least is left."""

    name = "example.com/BestFit"

    def _scores(self, nodes: Nodes, wanted: Wanted) -> Any:
        cpu, gpu = nodes.cpu - wanted.cpu, nodes.devices.total[nodes.rows] - wanted.gpu
        rest = 0.5 * cpu / self._max_cpu + 0.5 * gpu / self._max_milli
        return 100 * (1 - rest)


class DotProd(Policy):
    """Prefers the node whose free capacity is least like the request, as vectors."""

    name = "example.com/DotProd"

    def _scores(self, nodes: Nodes, wanted: Wanted) -> Any:
        cpu = nodes.cpu / self._max_cpu * (wanted.cpu / self._max_cpu)
        gpu = nodes.devices.total[nodes.rows] / self._max_milli * (wanted.gpu / self._max_milli)
        return 100 * (1 - (cpu + gpu) / 2)


class GpuPacking(Policy):
    """Prefers GPUs in use, then free GPUs of nodes in use, then nodes that are idle."""

    name = "example.com/GpuPacking"

    def _scores(self, nodes: Nodes, wanted: Wanted) -> Any:
        milli, gpus = wanted.request
        devices, rows = nodes.devices, nodes.rows
        if not gpus:
            return np.zeros(len(rows), dtype=np.int64)
        left, free = devices.left[rows], devices.free[rows]
        # The tightest device for a share; whole GPUs are taken from the free ones.
        tightest = np.where(left >= milli, left, WHOLE).min(axis=1)
        in_use = np.maximum(100 - tightest // 10 // 10, 50)
        scores = np.where(tightest < WHOLE, in_use, max(50 - gpus, 33))
        return np.where(free == devices.counts[rows], np.maximum(33 - free, free), scores)


class GpuClustering(Policy):
    """Prefers nodes that have pods of the same kind only."""

    name = "example.com/GpuClustering"

    def _scores(self, nodes: Nodes, wanted: Wanted) -> Any:
        devices, rows = nodes.devices, nodes.rows
        if not wanted.request.gpus:
            return np.zeros(len(rows), dtype=np.int64)
        base = 25 * (self._max_milli - devices.total[rows]) // self._max_milli
        kinds = devices.kinds[rows]
        different = np.bitwise_count(kinds)
        same = (kinds >> wanted.request.kind) & 1 == 1
        return base + np.where(
            same, np.where(different == 1, 75, 50), np.where(different == 0, 25, 0)
        )


class RandomDevice(BasePlugin):
    """Chooses among the devices that fit at random; nodes are chosen at random without Score."""

    name = "example.com/RandomDevice"
    args_type = SharingArgs
    pre_filter_reusable = True

    def __init__(self, args: SharingArgs, handle: Handle) -> None:
        self._devices = devices_of(args, handle)
        self._random = handle.random

    @staticmethod
    def validate_args(args: SharingArgs) -> Iterator[tuple[str, str]]:
        """Yield (path below `args`, message) for each problem."""
        return problems(args)

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> None:
        """Leave the choice of the device to `Reserve` of GpuSharing."""
        state.write(CHOICE, self._device)

    def _device(self, pod: Pod, node: NodeInfo, left: Sequence[int]) -> int:
        milli = (self._devices.request_of(pod) or NO_GPU).milli
        return self._random.choice([index for index, free in enumerate(left) if free >= milli])
