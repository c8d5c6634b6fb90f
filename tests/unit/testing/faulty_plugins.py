"""Plugins with one fault each, which the check must find."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from scheduler.api import Pod
from scheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Codes,
    Columns,
    CycleState,
    EventResource,
    Handle,
    NoArgs,
    NodeInfo,
    NodeTableView,
    QueueingHint,
    ReuseRule,
    Rows,
    Status,
    unschedulable,
)

TIER = "example.com/tier"


class TierFilter:
    """Accepts nodes of the pod's tier. Without fault."""

    name: ClassVar[str] = "example.com/TierFilter"

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        self._other = unschedulable("node(s) of another tier")

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        wanted = pod.metadata.labels.get(TIER)
        return None if node.labels.get(TIER) == wanted else self._other


def register(
    resource: EventResource, action: ActionType, hint: Any = None
) -> tuple[ClusterEventWithHint, ...]:
    return (ClusterEventWithHint(ClusterEvent(resource, action), hint),)


class SkippingHint(TierFilter):
    """Its hint denies that a node's labels matter."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        everything = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return register(EventResource.NODE, everything, self._after_node)

    def _after_node(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        return QueueingHint.QUEUE if old is None else QueueingHint.SKIP


class ForgottenEvent(TierFilter):
    """It registers no event about its own labels, only new nodes and their labels."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return register(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)


class ForgottenGate:
    """A gate that depends on labels of the pod, and registers no event about them."""

    name: ClassVar[str] = "example.com/ForgottenGate"

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None if pod.metadata.labels.get(TIER) == "a" else unschedulable("tier is not a")

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return register(EventResource.NODE, ActionType.ADD)


class Licences(TierFilter):
    """Reserves one of few licences, and gives it back. Without fault."""

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._holders: list[str] = []

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if len(self._holders) >= 20:
            return unschedulable("no licence is free")
        self._holders.append(pod.uid)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if pod.uid in self._holders:
            self._holders.remove(pod.uid)


class LeakingLicences(Licences):
    """Forgets to give a licence back."""

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass


class LastingReservation(Licences):
    """Rejects every node once something was reserved, although it was undone."""

    _touched = False

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return self._other if self._touched else super().filter(state, pod, node)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self._touched = True
        return None


class Labelling(TierFilter):
    """Writes to the pod."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        pod.metadata.labels["seen"] = node.name
        return super().filter(state, pod, node)


class Tainting(TierFilter):
    """Writes to the node."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        node.node.metadata.annotations["seen"] = pod.metadata.name
        return super().filter(state, pod, node)


class WrongReuse(TierFilter):
    """Declares that its codes depend on usage, and reads labels."""

    filter_reuse: ClassVar[ReuseRule | None] = ReuseRule(Columns.USAGE)

    def filter_rows(self, state: CycleState, pod: Pod, table: NodeTableView, rows: Rows) -> Codes:
        infos = (table.node_info(row) for row in rows.tolist())
        codes = [0 if self.filter(state, pod, info) is None else 1 for info in infos]
        return np.array(codes, dtype=np.int32)

    def filter_status(self, state: CycleState, pod: Pod, code: int) -> Status:
        return self._other


class Remembering(TierFilter):
    """Rejects whatever an earlier instance was asked about."""

    known: ClassVar[set[str]] = set()

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._before = frozenset(self.known)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        self.known.add(pod.key)
        return self._other if pod.key in self._before else None


class Counting(TierFilter):
    """Accepts every third node that any instance is asked about."""

    count: ClassVar[int] = 0

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        Counting.count += 1
        return self._other if Counting.count % 3 else None


class Asking:
    """Waits in PreFilter, as for a service. Without fault."""

    name: ClassVar[str] = "example.com/Asking"
    timeout: ClassVar[float] = 2.0
    seconds: ClassVar[float] = 1.0

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    async def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        await asyncio.sleep(self.seconds)
        return None


class Hanging(Asking):
    """Waits longer than its own timeout."""

    seconds: ClassVar[float] = 60.0


class Stubborn(Asking):
    """Goes on when it is cancelled."""

    async def pre_filter(self, state: CycleState, pod: Pod, table: NodeTableView) -> Status | None:
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            return unschedulable("cancelled")
        return None


class Raising(TierFilter):
    """Raises for pods that have a tier."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        raise LookupError("no such tier")
