"""Attempt: the record of one attempt to schedule a pod, from its cycle to the end of binding."""

from __future__ import annotations

import msgspec

from scheduler.api.pod import Pod
from scheduler.engine.failure import Failure
from scheduler.engine.runtime import Framework
from scheduler.engine.schedule_one import ScheduleResult, SchedulingAlgorithm
from scheduler.engine.waiting import WaitingPod
from scheduler.framework import CycleState, QueuedPodInfo


class Attempt(msgspec.Struct, eq=False):
    """One attempt to schedule a pod. At its end exactly one of `result` and `failure` is set."""

    info: QueuedPodInfo
    #: The framework of the pod's profile; the attempt keeps it if the configuration is reloaded.
    framework: Framework
    state: CycleState
    #: Monotonic time at which the cycle began.
    started: float
    #: The pod; once it is assumed, with its node name.
    pod: Pod
    result: ScheduleResult | None = None
    #: The node that the cycle chose. Unlike `result`, a later failure does not clear it.
    chosen: ScheduleResult | None = None
    failure: Failure | None = None
    waiting: WaitingPod | None = None
    #: `Cache.external_changes` when the chosen node was last found to fit.
    seen: int = 0
    #: Whether the attempt is part of the cycle of a pod group.
    member: bool = False
    #: Sequence number of the node table's change log when the cycle began.
    sequence: int = 0
    #: An unexpected exception, which is a bug of the engine or of a plugin.
    fault: BaseException | None = None
    #: CPU time of the cycle in seconds; 0 if it was too short to be measured.
    cost: float = 0.0
    #: The algorithm that runs `framework`.
    algorithm: SchedulingAlgorithm | None = None
    #: Seconds that the binding cycle has spent so far in Permit, PreBind and Bind.
    binding_seconds: dict[str, float] | None = None

    @property
    def node_name(self) -> str:
        """Return the name of the chosen node."""
        assert self.result is not None
        return self.result.node_name

    @property
    def ended_before_filter(self) -> bool:
        """Whether the cycle ended before Filter, or its end is unknown (no diagnosis)."""
        if self.chosen is not None:
            return False
        diagnosis = None if self.failure is None else self.failure.diagnosis
        return diagnosis is None or bool(diagnosis.pre_filter_message)
