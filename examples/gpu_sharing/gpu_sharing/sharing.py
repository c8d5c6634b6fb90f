"""GpuSharing: pods share GPUs, and none is oversold.

Filter asks for a device with enough units, Reserve chooses it, and the request that binds the pod
carries the choice as an annotation. The container learns it by the downward API: an environment
variable that is filled from the annotation when the container starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import msgspec
import numpy as np

from kubestow.plugin import (
    SKIP,
    ActionType,
    BasePlugin,
    ClusterEvent,
    ClusterEventWithHint,
    Codes,
    CycleState,
    EventResource,
    Handle,
    NodeInfo,
    NodeTableView,
    Pod,
    QueueingHint,
    ReuseRule,
    Rows,
    Status,
    is_qualified_name,
    unresolvable,
    unschedulable,
)

from .devices import CHANGES, NO_GPU, Choice, Devices, Request, select

CHOICE: Final = "example.com/GpuSharing/choice"
"""Key in the CycleState under which a policy may leave its `Choice`, in PreFilter."""

NO_DEVICE: Final = unschedulable("no GPU with enough free units")
MALFORMED: Final = "{units} units of {resource} requested: below 1000, or a multiple of 1000"
UNKNOWN: Final = "has a node but no valid annotation {annotation}: assumed to use the tightest GPUs"


class SharingArgs(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Arguments of all plugins of this example; give all of them the same."""

    #: The extended resource: 1000 units for each GPU of a node.
    resource: str = "alibabacloud.com/gpu-milli"
    #: Key of the annotation with the indexes of the GPUs of a pod, joined by `-`.
    annotation: str = "alibabacloud.com/gpu-index"


def problems(args: SharingArgs) -> Iterator[tuple[str, str]]:
    """Yield (path below `args`, message) for each problem."""
    for name in ("resource", "annotation"):
        value = getattr(args, name)
        if not is_qualified_name(value) or "/" not in value:
            yield name, f'"{value}" is no name; write one like example.com/gpu-milli'


def devices_of(args: SharingArgs, handle: Handle) -> Devices:
    """Return the devices, which all plugins and profiles share."""
    name = f"example.com/GpuSharing {args.resource} {args.annotation}"
    found: Devices = handle.shared(name, lambda: Devices(args.resource, args.annotation))
    return found


class GpuSharing(BasePlugin):
    """Gives each pod the GPUs, or the share of a GPU, that it requests."""

    name = "example.com/GpuSharing"
    args_type = SharingArgs
    #: The devices of a row change only when a pod comes or goes.
    filter_reuse: ClassVar[ReuseRule | None] = ReuseRule(CHANGES)
    pre_filter_reusable = True

    def __init__(self, args: SharingArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self._devices = devices_of(args, handle)
        handle.subscriptions.on_object("pods", self._pod_changed)

    @staticmethod
    def validate_args(args: SharingArgs) -> Iterator[tuple[str, str]]:
        """Yield (path below `args`, message) for each problem."""
        return problems(args)

    def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        """Skip Filter for a pod without GPUs, and reject a malformed request."""
        request = self._devices.request_of(pod)
        if request is None:
            resource = self._args.resource
            units = pod.signature.requests.scalar(resource)
            return unresolvable(MALFORMED.format(units=units, resource=resource))
        return None if request.gpus else SKIP

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Look for enough devices on a node, which may be hypothetical."""
        request = self._devices.request_of(pod) or NO_GPU
        left = self._devices.on_node(node, without=pod.metadata.uid).left
        return NO_DEVICE if select(left, request) is None else None

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        """Columnar form of `filter`."""
        devices = self._devices
        devices.refresh(table)
        request = devices.request_of(pod) or NO_GPU
        if request.is_share:
            short = devices.most[rows] < request.milli
        else:
            short = devices.free[rows] < request.gpus
        codes: Codes = short.astype(np.int32)
        return codes

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        """Return the rejection."""
        return NO_DEVICE

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Choose the devices, and have them written with the binding."""
        request = self._devices.request_of(pod) or NO_GPU
        table = self._handle.table
        row = table.row_of(node_name)
        if not request.gpus or row is None:
            return None if row is not None else NO_DEVICE
        node = table.node_info(row)
        others = self._devices.on_node(node, without=pod.metadata.uid)
        indexes = self._chosen(state, pod, node, others.left, request)
        if indexes is None:
            return NO_DEVICE
        self._devices.place(pod, request, indexes, table, row, others)
        state.annotate_binding({self._args.annotation: "-".join(map(str, indexes))})
        return None

    def _chosen(
        self, state: CycleState, pod: Pod, node: NodeInfo, left: Sequence[int], request: Request
    ) -> tuple[int, ...] | None:
        indexes = select(left, request)
        choice: Choice | None = state.get(CHOICE)
        if indexes is None or choice is None or not request.is_share:
            return indexes
        return (choice(pod, node, left),)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Take the devices back."""
        self._devices.release(pod.metadata.uid)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the end of a pod with GPUs, and changes of nodes."""
        ended = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
        nodes = ClusterEvent(
            EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        )
        return [
            ClusterEventWithHint(ended, self._after_pod, per_signature=True),
            ClusterEventWithHint(nodes, per_signature=True),
        ]

    def _after_pod(self, pod: Pod, old: Pod, new: object) -> QueueingHint:
        freed = self._devices.request_of(old)
        return QueueingHint.SKIP if freed == NO_GPU else QueueingHint.QUEUE

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        unknown = self._devices.pod_changed(old, new)
        # Said once, when the pod appears with a node.
        if unknown and new is not None and (old is None or not old.spec.node_name):
            text = UNKNOWN.format(annotation=self._args.annotation)
            self._handle.events.record(new, "Warning", "UnknownGpu", "Scheduling", text)
