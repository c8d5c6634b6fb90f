"""Fragmentation: the GPU capacity that typical pods cannot use, and FGD, which keeps it low.

Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent (USENIX ATC 2023). A node's fragmentation is the mean, over the typical pods, of the units
that are free on it but useless for the pod: all of them if the pod does not fit there, otherwise
those of the devices with too little left for it.

Amounts are multiplied by the number of typical pods and thereby whole numbers, which float64 holds
exactly: so equal nodes have equal scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api import Pod, is_qualified_name
from scheduler.framework import (
    CPU,
    BasePlugin,
    Columns,
    CycleState,
    Handle,
    Int64Column,
    NodeInfo,
    NodeTableView,
    ReuseRule,
    Rows,
)

from .devices import CHANGES, MAX_DEVICES, NO_GPU, WHOLE, Request
from .sharing import CHOICE, SharingArgs, devices_of, problems

MAX_TYPICAL_PODS: Final = 1000
MAX_PODS: Final = 10**6

Floats = NDArray[np.float64]


class TypicalPod(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A kind of pod that the cluster's users submit often."""

    #: Millicores.
    cpu: int
    #: Units of each GPU, up to 1000.
    gpu_milli: int = 0
    #: Number of GPUs.
    gpus: int = 0
    #: GPU models on which it runs; none: all.
    models: tuple[str, ...] = ()
    #: Number of such pods: its weight.
    pods: int = 1


class FragmentationArgs(SharingArgs, kw_only=True):
    """Arguments of FGD."""

    #: What the free capacity is judged by.
    typical_pods: tuple[TypicalPod, ...]
    #: Key of the node label with the GPU model.
    model_label: str = "alibabacloud.com/gpu-card-model"


class Fragmentation:
    """Computes the fragmentation of nodes, real and hypothetical."""

    def __init__(self, typical: Sequence[TypicalPod]) -> None:
        #: All typical pods; amounts are multiplied by it.
        self.weight = sum(each.pods for each in typical)
        # Pods without GPUs never use any: to them the whole of a node's free units is lost.
        using = [each for each in typical if each.gpus and each.gpu_milli and each.pods]
        milli = np.array([each.gpu_milli for each in using], dtype=np.float64)
        self._thresholds, self._threshold_of = np.unique(milli, return_inverse=True)
        self._counts = np.array([each.gpus for each in using], dtype=np.int64)
        self._cpu = np.array([each.cpu for each in using], dtype=np.int64)
        self._pods = np.array([each.pods for each in using], dtype=np.float64)
        self._models = [frozenset(each.models) for each in using]
        self._named = any(self._models)
        self._allowed_by: dict[str, NDArray[np.bool_]] = {}

    def allowed(self, models: Sequence[str]) -> NDArray[np.bool_] | None:
        """Return (len(models), pods): whether a typical pod may use a model; None: any may."""
        if not self._named:
            return None
        for model in models:
            if model not in self._allowed_by:
                given = [not each or model in each for each in self._models]
                self._allowed_by[model] = np.array(given, dtype=np.bool_)
        return np.array([self._allowed_by[each] for each in models])

    def of(self, left: Floats, cpu: NDArray[np.int64], allowed: NDArray[np.bool_] | None) -> Floats:
        """Return the fragmentation of nodes, multiplied by `weight`.

        Args:
            left: (nodes, devices), free units, 0 for no device.
            cpu: (nodes,), free millicores.
            allowed: (nodes, pods), see `allowed`.

        >>> typical = TypicalPod(cpu=4000, gpu_milli=500, gpus=1, pods=1)
        >>> left = np.array([[200.0, 1000.0], [500.0, 700.0]])
        >>> Fragmentation([typical]).of(left, np.array([4000, 4000]), None).tolist()
        [200.0, 0.0]
        """
        enough = left[:, :, None] >= self._thresholds
        # At most `MAX_DEVICES` of them.
        counts = np.add.reduce(enough, axis=1, dtype=np.int8)
        usable = np.einsum("nd,ndt->nt", left, enough)
        fits = (counts[:, self._threshold_of] >= self._counts) & (cpu[:, None] >= self._cpu)
        if allowed is not None:
            fits &= allowed
        used = (fits * usable[:, self._threshold_of]) @ self._pods
        found: Floats = self.weight * left.sum(axis=1) - used
        return found

    def score(self, decrease: Floats) -> Int64Column:
        """Return 0 to 100 for a decrease of `of`: 50 for none, more the greater it is."""
        exponent = np.clip(decrease / (-WHOLE * max(self.weight, 1)), -50.0, 50.0)
        return (100 / (1 + np.exp(exponent))).astype(np.int64)


class Fgd(BasePlugin):
    """Prefers the node, and on it the device, where a pod increases fragmentation least."""

    name = "example.com/FGD"
    args_type = FragmentationArgs
    pre_filter_reusable = True
    score_reuse: ClassVar[ReuseRule | None] = ReuseRule(CHANGES | Columns.LABELS)

    def __init__(self, args: FragmentationArgs, handle: Handle) -> None:
        self._devices = devices_of(args, handle)
        self._fragmentation = Fragmentation(args.typical_pods)
        self._label = args.model_label

    @staticmethod
    def validate_args(args: FragmentationArgs) -> Iterator[tuple[str, str]]:
        """Yield (path below `args`, message) for each problem."""
        yield from problems(args)
        if not is_qualified_name(args.model_label):
            yield "modelLabel", f'"{args.model_label}" is no label key'
        if not 1 <= len(args.typical_pods) <= MAX_TYPICAL_PODS:
            yield "typicalPods", f"give 1 to {MAX_TYPICAL_PODS}"
        for index, each in enumerate(args.typical_pods[:MAX_TYPICAL_PODS]):
            good = (
                each.cpu >= 0
                and 0 <= each.gpu_milli <= WHOLE
                and 0 <= each.gpus <= MAX_DEVICES
                and 1 <= each.pods <= MAX_PODS
            )
            if not good:
                ranges = f"gpuMilli 0 to {WHOLE}, gpus 0 to {MAX_DEVICES}, pods 1 to {MAX_PODS}"
                yield f"typicalPods[{index}]", f"out of range: cpu from 0, {ranges}"

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> None:
        """Leave the choice of the device to `Reserve` of GpuSharing."""
        state.write(CHOICE, self._device)

    def score_rows(
        self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows
    ) -> Int64Column:
        """Return 50 where nothing changes, more where fragmentation decreases."""
        self._devices.refresh(table)
        request = self._devices.request_of(pod) or NO_GPU
        # The order of the devices does not matter here, and equal ones stand side by side in it.
        left = np.sort(self._devices.left[rows], axis=1).astype(np.float64)
        cpu = table.allocatable[CPU][rows] - table.requested[CPU][rows]
        allowed = self._allowed(table, rows)
        index, after = _after(left, request)
        scores: Int64Column = np.zeros(len(rows), dtype=np.int64)
        if not len(index):
            return scores
        # The first state of each node into which the pod may go; those of a node are in a row.
        is_first = np.ones(len(index), dtype=np.bool_)
        np.not_equal(index[1:], index[:-1], out=is_first[1:])
        begins = np.flatnonzero(is_first)
        nodes = index[begins]
        # Before and after together: NumPy takes long to begin, not to compute.
        both = np.concatenate([nodes, index])
        free = cpu[both]
        free[len(nodes) :] -= pod.signature.requests.milli_cpu
        found = self._fragmentation.of(
            np.concatenate([left[nodes], after]), free, None if allowed is None else allowed[both]
        )
        decrease = found[np.cumsum(is_first) - 1] - found[len(nodes) :]
        scores[nodes] = self._fragmentation.score(np.maximum.reduceat(decrease, begins))
        return scores

    def _allowed(self, table: NodeTableView, rows: Rows) -> Any:
        ids, values = table.label_column(self._label)[rows], table.label_values(self._label).values
        # The id of a missing label is -1, which selects the appended last element.
        found = self._fragmentation.allowed([*values, ""])
        return None if found is None else found[ids]

    def _device(self, pod: Pod, node: NodeInfo, left: Sequence[int]) -> int:
        milli = (self._devices.request_of(pod) or NO_GPU).milli
        # Of devices with equally much left the first, since the result is the same.
        indexes = [left.index(free) for free in dict.fromkeys(left) if free >= milli]
        if len(indexes) == 1:
            return indexes[0]
        states = np.tile(np.array(left, dtype=np.float64), (len(indexes) + 1, 1))
        states[np.arange(len(indexes)), indexes] -= milli
        cpu = node.allocatable.milli_cpu - node.requested.milli_cpu  # The pod is on the node.
        free = np.full(len(states), cpu, dtype=np.int64)
        free[-1] += pod.signature.requests.milli_cpu
        model = node.labels.get(self._label, "")
        allowed = self._fragmentation.allowed([model] * len(states))
        found = self._fragmentation.of(states, free, allowed)
        return indexes[int(self._fragmentation.score(found[-1] - found[:-1]).argmax())]


def _after(left: Floats, request: Request) -> tuple[NDArray[np.intp], Floats]:
    """Return the states in which a pod may leave nodes, and the index of the node of each.

    `left` has each node's devices in ascending order. Of devices with equally much left one is
    taken, since the result is the same.
    """
    enough = left >= request.milli
    if not request.is_share:
        index = np.flatnonzero(np.count_nonzero(enough, axis=1) >= request.gpus)
        after = left[index]
        if request.gpus:
            after[:, -request.gpus :] = 0
        return index, after
    enough[:, 1:] &= left[:, 1:] != left[:, :-1]
    index, device = np.nonzero(enough)
    after = left[index]
    after[np.arange(len(index)), device] -= request.milli
    return index, after
