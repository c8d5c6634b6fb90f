"""Attempt: the record of one attempt at one pod, from its cycle to the end of its binding."""

from __future__ import annotations

import msgspec

from scheduler.api.pod import Pod
from scheduler.engine.failure import Failure
from scheduler.engine.runtime import Framework
from scheduler.engine.schedule_one import ScheduleResult, SchedulingAlgorithm
from scheduler.engine.waiting import WaitingPod
from scheduler.framework import CycleState, QueuedPodInfo


class Attempt(msgspec.Struct, eq=False):
    """One attempt at one pod. Exactly one of `result` and `failure` is set."""

    info: QueuedPodInfo
    #: That of the profile when the attempt began, to its end.
    framework: Framework
    state: CycleState
    #: Monotonic time when the cycle began.
    started: float
    #: The pod with its node name, once assumed.
    pod: Pod
    result: ScheduleResult | None = None
    #: The node that the cycle chose, also after a failure that cleared `result`.
    chosen: ScheduleResult | None = None
    failure: Failure | None = None
    waiting: WaitingPod | None = None
    #: `Cache.external_changes` when the chosen node was last found to fit.
    seen: int = 0
    #: Whether it is a part of the cycle of a group.
    member: bool = False
    #: Where the change log of the node table was when the cycle began.
    sequence: int = 0
    #: An unexpected exception: a fault of the engine or of a plugin.
    fault: BaseException | None = None
    #: Seconds of CPU time that the cycle used; 0 where it was as cheap as cycles usually are.
    cost: float = 0.0
    #: That of `framework`.
    algorithm: SchedulingAlgorithm | None = None
    #: Seconds that the binding cycle has spent at Permit, PreBind and Bind so far.
    binding_seconds: dict[str, float] | None = None

    @property
    def node_name(self) -> str:
        """Return the name of the chosen node."""
        assert self.result is not None
        return self.result.node_name

    @property
    def ended_before_filter(self) -> bool:
        """Whether the cycle did not get as far as Filter, or it is not known how far it got."""
        if self.chosen is not None:
            return False
        diagnosis = None if self.failure is None else self.failure.diagnosis
        return diagnosis is None or bool(diagnosis.pre_filter_message)
