"""Fragmentation: the GPU capacity that typical pods cannot use, and FGD, which keeps it low.

Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent (USENIX ATC 2023). A node's fragmentation is the mean, over the typical pods, of the units
that are free on it but useless for the pod: all of them if the pod does not fit there, otherwise
those of the devices with too little left for it.

Amounts are multiplied by the number of typical pods and thereby whole numbers: so equal nodes have
equal scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubestow.plugin import (
    CPU,
    BasePlugin,
    Columns,
    CycleState,
    Handle,
    Int64Column,
    NodeInfo,
    NodeTableView,
    Pod,
    ReuseRule,
    Rows,
    is_qualified_name,
)

from .devices import CHANGES, MAX_DEVICES, NO_GPU, WHOLE, Request
from .sharing import CHOICE, SharingArgs, devices_of, problems

MAX_TYPICAL_PODS: Final = 10_000
MAX_PODS: Final = 10**6

MAX_CELLS: Final = 1 << 22
"""Entries of the table of typical pods, of 8 bytes each."""

Integers = NDArray[np.int64]


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
        self._cpu = sorted_unique(each.cpu for each in using)
        self._gpus = sorted_unique(each.gpus for each in using)
        milli = sorted_unique(each.gpu_milli for each in using)
        #: By free units of a device, for how many of `milli` they are enough.
        self._enough = np.searchsorted(milli, np.arange(WHOLE + 1), side="right")
        #: The models that typical pods name, from 1; all others are 0.
        self._models = {model: 1 + index for index, model in enumerate(named_models(using))}
        weights = np.zeros((1 + len(self._models), *_cells(using)), dtype=np.int64)
        for each in using:
            index = (_place(self._cpu, each.cpu), _place(self._gpus, each.gpus),
                     _place(milli, each.gpu_milli))  # fmt: skip
            for model in map(self._models.get, each.models) if each.models else range(len(weights)):
                weights[(model, *index)] += each.pods
        for axis in (1, 2, 3):
            np.cumsum(weights, axis=axis, out=weights)
        self._strides = [stride // weights.itemsize for stride in weights.strides]
        #: [model, i, j, k], flat: the number of typical pods that may use the model and request one
        #: of the i smallest amounts of CPU, of the j smallest numbers of GPUs, and of the k
        #: smallest units.
        self._weights = weights.ravel()

    def kinds(self, models: Sequence[str]) -> Integers | None:
        """Return a number for each model; None if typical pods may use any."""
        if not self._models:
            return None
        return np.array([self._models.get(each, 0) for each in models], dtype=np.int64)

    def of(self, left: Integers, cpu: Integers, kinds: Integers | None) -> Integers:
        """Return the fragmentation of nodes, multiplied by `weight`.

        Args:
            left: (nodes, devices), free units, 0 for no device.
            cpu: (nodes,), free millicores.
            kinds: (nodes,), see `kinds`.

        >>> typical = TypicalPod(cpu=4000, gpu_milli=500, gpus=1, pods=1)
        >>> left = np.array([[200, 1000], [500, 700]])
        >>> Fragmentation([typical]).of(left, np.array([4000, 4000]), None).tolist()
        [200, 0]
        """
        left = np.sort(left, axis=1)
        devices = left.shape[1]
        # Requests that no smaller device has enough for can use this one and all larger ones.
        enough = self._enough[left]
        smaller = np.zeros(enough.shape, dtype=enough.dtype)
        smaller[:, 1:] = enough[:, :-1]
        usable = np.add.accumulate(left[:, ::-1], axis=1)[:, ::-1]
        gpus = np.searchsorted(self._gpus, np.arange(devices, 0, -1), side="right")
        by_model, by_cpu, by_gpus, _ = self._strides
        nodes = self._cpu.searchsorted(cpu, side="right") * by_cpu
        if kinds is not None:
            nodes += kinds * by_model
        first = nodes[:, None] + gpus * by_gpus
        weights = self._weights.take(first + enough) - self._weights.take(first + smaller)
        found: Integers = self.weight * usable[:, 0] - np.einsum("nd,nd->n", weights, usable)
        return found

    def score(self, decrease: Integers) -> Int64Column:
        """Return 0 to 100 for a decrease of `of`: 50 for none, more the greater it is."""
        exponent = decrease / (-WHOLE * max(self.weight, 1))
        np.minimum(np.maximum(exponent, -50.0, out=exponent), 50.0, out=exponent)
        return (100 / (1 + np.exp(exponent))).astype(np.int64)


def sorted_unique(amounts: Iterable[int]) -> Integers:
    """Return distinct amounts, ascending."""
    return np.array(sorted(set(amounts)), dtype=np.int64)


def named_models(typical: Iterable[TypicalPod]) -> list[str]:
    """Return the models that typical pods name, each once."""
    return sorted({model for each in typical for model in each.models})


def _place(amounts: Integers, amount: int) -> int:
    """Return how many of the amounts are at most this one."""
    return int(np.searchsorted(amounts, amount, side="right"))


def _cells(using: Sequence[TypicalPod]) -> tuple[int, int, int]:
    """Return how many amounts of CPU, GPUs and units there are, and none of them."""
    distinct = ({each.cpu for each in using}, {each.gpus for each in using},
                {each.gpu_milli for each in using})  # fmt: skip
    cpu, gpus, milli = (len(each) + 1 for each in distinct)
    return cpu, gpus, milli


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
        pods = args.typical_pods[:MAX_TYPICAL_PODS]
        cells = math.prod(_cells(pods)) * (1 + len(named_models(pods)))
        if cells > MAX_CELLS:
            text = f"{cells} combinations of distinct cpu, gpus, gpuMilli and models"
            yield "typicalPods", f"{text}, at most {MAX_CELLS} can be used; round the amounts"
        for index, each in enumerate(pods):
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
        left = np.sort(self._devices.left[rows], axis=1).astype(np.int64)
        cpu = table.allocatable[CPU][rows] - table.requested[CPU][rows]
        kinds = self._kinds(table, rows)
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
            np.concatenate([left[nodes], after]), free, None if kinds is None else kinds[both]
        )
        decrease = found[np.cumsum(is_first) - 1] - found[len(nodes) :]
        scores[nodes] = self._fragmentation.score(np.maximum.reduceat(decrease, begins))
        return scores

    def _kinds(self, table: NodeTableView, rows: Rows) -> Integers | None:
        # The id of a missing label is -1, which selects the appended last element.
        found = self._fragmentation.kinds([*table.label_values(self._label).values, ""])
        return None if found is None else found[table.label_column(self._label)[rows]]

    def _device(self, pod: Pod, node: NodeInfo, left: Sequence[int]) -> int:
        milli = (self._devices.request_of(pod) or NO_GPU).milli
        # Of devices with equally much left the first, since the result is the same.
        indexes = [left.index(free) for free in dict.fromkeys(left) if free >= milli]
        if len(indexes) == 1:
            return indexes[0]
        states = np.tile(np.array(left, dtype=np.int64), (len(indexes) + 1, 1))
        states[np.arange(len(indexes)), indexes] -= milli
        cpu = node.allocatable.milli_cpu - node.requested.milli_cpu  # The pod is on the node.
        free = np.full(len(states), cpu, dtype=np.int64)
        free[-1] += pod.signature.requests.milli_cpu
        kinds = self._fragmentation.kinds([node.labels.get(self._label, "")] * len(states))
        found = self._fragmentation.of(states, free, kinds)
        return indexes[int(self._fragmentation.score(found[-1] - found[:-1]).argmax())]


def _after(left: Integers, request: Request) -> tuple[NDArray[np.intp], Integers]:
    """Return the states in which a pod may leave nodes, and the index of the node of each.

    `left` has each node's devices in ascending order. Of devices with equally much left one is
    taken, since the result is the same.
    """
    enough = left >= request.milli
    if not request.is_share:
        index = np.flatnonzero(np.add.reduce(enough, axis=1) >= request.gpus)
        after = left[index]
        if request.gpus:
            after[:, -request.gpus :] = 0
        return index, after
    enough[:, 1:] &= left[:, 1:] != left[:, :-1]
    index, device = np.nonzero(enough)
    after = left[index]
    after[np.arange(len(index)), device] -= request.milli
    return index, after
