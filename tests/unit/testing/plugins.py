"""Plugins as authors write them, for the tests of the test kit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from scheduler.api import Pod
from scheduler.framework import (
    ActionType,
    BasePlugin,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    Handle,
    NoArgs,
    NodeInfo,
    Status,
    unresolvable,
)

AVOID = "example.com/avoid-racks"
RACK = "example.com/rack"


class RackFilter:
    """Keeps pods off the racks named in their annotation."""

    name: ClassVar[str] = "example.com/RackFilter"

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        self.handle = handle

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        avoided = pod.metadata.annotations.get(AVOID, "").split(",")
        rack = node.labels.get(RACK)
        if rack and rack in avoided:
            return unresolvable(f"node(s) in avoided rack {rack}")
        return None


class RankArgs(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Arguments of RankScore."""

    rank_label: str = "example.com/rank"


class RankScore:
    """Prefers nodes by the number in their label."""

    name: ClassVar[str] = "example.com/RankScore"
    args_type: ClassVar[type[RankArgs]] = RankArgs

    def __init__(self, args: RankArgs, handle: Handle) -> None:
        self.args = args

    @staticmethod
    def validate_args(args: RankArgs) -> Iterator[tuple[str, str]]:
        if not args.rank_label:
            yield "rankLabel", "is empty"

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return int(node.labels.get(self.args.rank_label, "0"))


class Gate:
    """Holds pods for an hour after the first look at them."""

    name: ClassVar[str] = "example.com/Gate"

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        self._handle = handle
        self._first: dict[str, float] = {}

    def pre_enqueue(self, pod: Pod) -> Status | None:
        now = self._handle.clock.now()
        left = self._first.setdefault(pod.uid, now) + 3600.0 - now
        self._handle.events.record(pod, "Normal", "Held", "Holding", f"{left:.0f} s left")
        return unresolvable("one hour", requeue_after=left) if left > 0 else None


class Broken:
    """Raises for every node."""

    name: ClassVar[str] = "example.com/Broken"

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        raise ValueError("no such rack")


class Misspelt:
    """Has a method that nobody calls."""

    name: ClassVar[str] = "example.com/Misspelt"

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def fliter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None


class ClosedRacks(BasePlugin):
    """Keeps pods off nodes in racks that are closed, which custom objects say."""

    name = "example.com/ClosedRacks"
    required_resources = ("example.com/v1/racks",)
    #: What wakes pods; a fault in one of the tests.
    events: ClassVar[Sequence[ClusterEventWithHint]] = [
        ClusterEventWithHint(
            ClusterEvent(
                "racks.v1.example.com", ActionType.ADD | ActionType.UPDATE | ActionType.DELETE
            )
        ),
        ClusterEventWithHint(
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        ),
    ]

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        self._listers = handle.listers

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        rack = self._listers["example.com/v1/racks"].get(node.labels.get("example.com/rack", ""))
        return unresolvable("closed") if rack is not None and rack.spec["closed"] else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return self.events


class Forgetful(ClosedRacks):
    """Registers no change of racks."""

    name = "example.com/Forgetful"
    events = ClosedRacks.events[1:]
